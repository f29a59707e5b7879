"""What a seed draws before anything runs."""

from __future__ import annotations

from random import Random

from ottla.light_dataclasses import dataclass
from ottla.simulation.fault import KINDS, Fault, draw_faults
from ottla.simulation.workloads.names import ALWAYS, LOADS, drawn_loads
from ottla.simulation.workloads.zombies import CLIENT_KINDS, draw_client_faults


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
    fault_scale: float = 1.0  # how long faults last, compared with fault.py's LONGEST_S

    @classmethod
    def drawn(cls, seed: int, brokers: int | None = None) -> Plan:
        random = Random(f"plan {seed}")
        drawn = random.choice((1, 3))  # also when it is said: the rest must not depend on that
        count = brokers or drawn
        return cls(
            seed,
            count,
            partitions=random.randint(1, 3),
            durability=random.choice(("durable", "replicated")) if count > 1 else "durable",
            kinds=tuple(random.sample(KINDS, random.choice((0, 1, 1, 2, 2, 3, 4, 6, 10)))),
            work_s=random.uniform(15.0, 60.0),
            fault_pause_s=random.choice((1.0, 3.0, 8.0)),
            send_pause_s=random.choice((0.2, 0.5, 2.0)),
            loads=drawn_loads(Random(f"loads {seed}")),
            client_kinds=tuple(kind for kind in CLIENT_KINDS if random.random() < 0.3),
        )

    @classmethod
    def short(cls, seed: int) -> Plan:
        """A history of a few seconds, for who has many seeds to run: `make test` does. Three of four have one
        broker, each has one kind of work beside the numbers, and up to three kinds of faults, which are short."""
        random = Random(f"short plan {seed}")
        count = random.choice((1, 1, 1, 3))
        other = random.choice(LOADS)
        return cls(
            seed,
            count,
            partitions=random.randint(1, 2),
            durability=random.choice(("durable", "replicated")) if count > 1 else "durable",
            kinds=tuple(random.sample(KINDS, random.randint(0, 3))),
            work_s=random.uniform(0.7, 2.0),
            fault_pause_s=random.choice((0.2, 0.4, 0.8)),
            send_pause_s=random.choice((0.2, 0.4)),
            loads=tuple(name for name in LOADS if name in (*ALWAYS, other)),
            client_kinds=tuple(kind for kind in CLIENT_KINDS if random.random() < 0.1),
            fault_scale=0.2,
        )

    def faults(self) -> list[Fault]:
        """The faults of this seed: of brokers, and of clients."""
        of_brokers = draw_faults(
            Random(f"faults {self.seed}"),
            kinds=self.kinds,
            brokers=self.brokers,
            work_s=self.work_s,
            pause_s=self.fault_pause_s,
            scale=self.fault_scale,
        )
        return of_brokers + draw_client_faults(Random(f"clients {self.seed}"), self.client_kinds, self.work_s)
