"""What a seed draws before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from ottla.light_dataclasses import dataclass, replace
from ottla.simulation.fault import BIT_ROT, CONTROLLER_KINDS, KINDS, LATER_KINDS, Fault, draw_faults, later_kinds
from ottla.simulation.swarm import drawn_values
from ottla.simulation.workloads import share_groups
from ottla.simulation.workloads.names import ALL_LOADS, ALWAYS, LOADS, UPGRADE, later_loads
from ottla.simulation.workloads.tempo import Tempo
from ottla.simulation.workloads.zombies import CLIENT_KINDS, draw_client_faults

UPGRADED: Final = 0.2  # of all clusters under controllers
ROTS: Final = 6  # in a run, on average
# A pass over all records begins so often that rot is found within the run; what is below a recovery point may rot.
ROT_PERIODS: Final[Mapping[str, int]] = {
    "ottla.verify.interval.ms": 500,
    "log.flush.offset.checkpoint.interval.ms": 200,
}


@dataclass(frozen=True)
class Plan:
    """The size of the cluster, what clients do and for how long, and which kinds of faults come how often. Runs with
    few kinds of faults find what runs with all of them hide."""

    seed: int
    brokers: int
    partitions: int
    durability: str
    kinds: tuple[str, ...]
    work_s: float
    fault_pause_s: float
    send_pause_s: float
    loads: tuple[str, ...] = ("numbers", "follow")
    client_kinds: tuple[str, ...] = ()
    fault_scale: float = 1.0  # how long faults last, compared with LONGEST_S of fault.py and zombies.py
    after_s: float = 3.0  # everybody works on for so long when all is healed
    session_s: float = 6.0  # a broker that is not heard of for so long is gone
    lag_s: float = 5.0  # a copy that is behind for so long is not in sync any more
    turns: float = Tempo.turns
    distance: float = 1.0  # how many times longer bytes are under way than on a fast network
    pace: float = Tempo.pace  # how many times slower everything else is: delays, intervals, limits

    # How patient everybody is, and how hard clients work: workloads/tempo.py.
    request_s: float = Tempo.request_s
    member_s: float = Tempo.member_s
    transaction_s: float = Tempo.transaction_s
    watch_s: float = Tempo.watch_s
    move_s: float = Tempo.move_s
    burst: int = Tempo.burst
    batch_bytes: int = Tempo.batch_bytes
    segment_bytes: int = Tempo.segment_bytes
    fetch_bytes: int = 0  # so much does a follower take at once, one batch at least; 0: the default
    aim: float = 0.0  # this part of all faults hits somebody who leads
    chains: float = 0.0  # this part of all faults is one of several that follow each other
    client_aim: float = 0.0  # this part of the clients' faults hits somebody in the middle of something
    controllers: int = 0  # so many keep a metadata log as the brokers' truth; 0: the brokers' own, or ZooKeeper
    combined: bool = False  # the first brokers are the controllers

    @classmethod
    def drawn(cls, seed: int, brokers: int | None = None) -> Plan:
        """See swarm.py."""
        return cls(**drawn_values(seed, brokers)).with_kinds(later_kinds(seed))

    @classmethod
    def short(cls, seed: int, brokers: int | None = None) -> Plan:
        """A history of a few seconds, for who has many seeds to run: `make test` does. Three of four have one
        broker, each has one kind of work beside the numbers, and up to three kinds of faults. Faults are short, and
        so are the times after which brokers give each other up: faults still last longer than those."""
        random = Random(f"short plan {seed}")
        drawn = random.choice((1, 1, 1, 3))
        count = brokers or drawn
        others = random.choice(LOADS), *later_loads(seed)
        return cls(
            seed,
            count,
            partitions=random.randint(1, 2),
            durability=random.choice(("durable", "replicated")) if count > 1 else "durable",
            kinds=tuple(random.sample(KINDS, random.randint(0, 3))),
            work_s=random.uniform(0.7, 2.0),
            fault_pause_s=random.choice((0.2, 0.4, 0.8)),
            send_pause_s=random.choice((0.2, 0.4)),
            loads=tuple(name for name in ALL_LOADS if name in (*ALWAYS, others[-1])),
            client_kinds=tuple(kind for kind in CLIENT_KINDS if random.random() < 0.1),
            fault_scale=0.2,
            after_s=0.5,
            session_s=1.5,
            lag_s=1.5,
        ).with_kinds(later_kinds(seed))

    def under_controllers(self, brokers: int | None = None) -> Plan:
        """The same with brokers under controllers, or with brokers that are controllers, too; most of these plans have
        faults of those."""
        random = Random(f"controllers {self.seed}")
        drawn, controllers, combined = random.choice((1, 3, 3)), random.choice((1, 3)), random.random() < 0.5
        kinds = tuple(random.sample(CONTROLLER_KINDS, random.randint(0, 3)))
        loads = (*self.loads, UPGRADE) if random.random() < UPGRADED else self.loads
        durability = self.durability if self.brokers > 1 else random.choice(("durable", "replicated"))
        count = brokers or drawn
        return replace(
            self,
            brokers=count,
            controllers=min(controllers, count) if combined else controllers,
            combined=combined,
            loads=loads,
            kinds=(*self.kinds, *kinds),
            durability=durability if count > 1 else "durable",
        )

    def faults(self) -> list[Fault]:
        """The faults of this seed: of brokers, and of clients."""
        of_brokers = draw_faults(
            Random(f"faults {self.seed}"),
            kinds=[kind for kind in self.kinds if kind not in LATER_KINDS],
            brokers=self.brokers,
            work_s=self.work_s,
            pause_s=self.fault_pause_s,
            scale=self.fault_scale,
            aim=self.aim,
            chains=self.chains,
            session_s=self.session_s,
        )
        return (
            of_brokers
            + self._rots()
            + draw_client_faults(
                Random(f"clients {self.seed}"),
                self.client_kinds,
                self.work_s,
                self.fault_scale,
                aim=self.client_aim,
                member_s=self.member_s,
            )
        )

    def _rots(self) -> list[Fault]:
        """Drawn apart: the other faults of a seed are the same with and without."""
        kinds = [kind for kind in self.kinds if kind == BIT_ROT]
        began_s = self.work_s / 4  # nothing can rot before something is synced
        rots = draw_faults(
            Random(f"bit rot {self.seed}"),
            kinds=kinds,
            brokers=self.brokers,
            work_s=self.work_s - began_s,
            pause_s=self.work_s / ROTS,
            scale=self.fault_scale,
        )
        return [replace(fault, at_s=round(fault.at_s + began_s, 6)) for fault in rots]

    def _rot_settings(self) -> dict[str, object]:
        """Of brokers whose disks rot: they look often, have several segments, and entries in their indexes."""
        settings: dict[str, object] = {name: int(value * self.pace) for name, value in ROT_PERIODS.items()}
        if self.segment_bytes:
            settings["log.index.interval.bytes"] = self.segment_bytes // 4
        return settings

    def _log_settings(self) -> dict[str, object]:
        """Of brokers that follow a metadata log: half of them make snapshots of it all the time."""
        between = Random(f"snapshots {self.seed}").choice((1_000, 20_971_520))
        return {"metadata.log.max.record.bytes.between.snapshots": between, "metadata.max.retention.bytes": between}

    def with_kinds(self, kinds: Sequence[str]) -> Plan:
        """The same with these kinds of faults, too."""
        changed = replace(self, kinds=tuple(dict.fromkeys((*self.kinds, *kinds))))
        if BIT_ROT in kinds and not self.segment_bytes:
            segment_bytes = Random(f"segments that rot {self.seed}").choice((0, 300, 1_000))
            changed = replace(changed, segment_bytes=segment_bytes)
        return changed

    def tempo(self) -> Tempo:
        """How patient everybody is, and how hard clients work."""
        return Tempo(**{name: getattr(self, name) for name in Tempo.__annotations__})

    def broker_settings(self) -> dict[str, object]:
        """Settings of brokers that the seed decides."""
        lag_ms = int(self.lag_s * 1_000)
        settings: dict[str, object] = {
            "ottla.durability": self.durability,
            "replica.lag.time.max.ms": lag_ms,
            "replica.fetch.wait.max.ms": min(int(2_000 * self.pace), lag_ms // 2),
        }
        if BIT_ROT in self.kinds:
            settings |= self._rot_settings()
        if self.fetch_bytes:
            names = ("replica.fetch.max.bytes", "replica.fetch.response.max.bytes")
            settings.update(dict.fromkeys(names, self.fetch_bytes))
        if self.controllers:
            settings |= self._log_settings()
        if share_groups.GROUP in self.loads:
            settings |= share_groups.broker_settings(self.brokers, self.member_s, self.pace)
        return {**settings, **self.tempo().broker()}
