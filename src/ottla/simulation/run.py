"""One seed, from the first step to the verdict.

    result = run_seed(7)
    print(result.summary())

A run: brokers start, topics are made, clients work while faults come and go, everything is healed, all copies must come
into sync within HEAL_S, a fresh client reads everything, and the checker says what it finds. Errors that brokers and
clients log with a trace, and what nobody caught, count as anomalies too: none of that is meant to happen.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final

from ottla.cluster.image import ClusterImage
from ottla.cluster.model import METADATA_VERSION
from ottla.light_dataclasses import dataclass, field
from ottla.simulation.checker import Anomaly, check
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.controllers import NEW_LEVEL
from ottla.simulation.fault import LATER_KINDS, Fault
from ottla.simulation.faults import Faults
from ottla.simulation.history import History
from ottla.simulation.loop import SimulationStuck, new_loop
from ottla.simulation.network import Weather
from ottla.simulation.observer import Observer
from ottla.simulation.plan import Plan
from ottla.simulation.process import PROCESS
from ottla.simulation.timeline import Timeline
from ottla.simulation.workloads.base import name_of
from ottla.simulation.workloads.churn import TOPIC as CHURNED
from ottla.simulation.workloads.cleaning import broker_settings
from ottla.simulation.workloads.drawn import COPIES, SUNK, TOPIC, TRANSFERS, Work
from ottla.simulation.workloads.names import CLEANED, UPGRADE
from ottla.simulation.workloads.zombies import CLIENT_KINDS, ClientFaults

HEAL_S: Final = 120.0
RUN_LIMIT_S: Final = 1_000.0
SAID_LIMIT: Final = 10_000
FARTHEST: Final = 100.0  # bytes take up to 0.1 s then


@dataclass
class Result:
    """What came of it."""

    plan: Plan
    anomalies: list[Anomaly] = field(default_factory=list)
    history: History = field(default_factory=History)
    timeline: Timeline = field(default_factory=Timeline)
    faults: list[Fault] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    steps: int = 0
    digest: int = 0

    @property
    def acknowledged(self) -> int:
        return sum(event.action == "send" and event.kind == "ok" for event in self.history.events)

    @property
    def repeat_command(self) -> str:
        seed, brokers = self.plan.seed, self.plan.brokers
        if self.faults == self.plan.faults():
            for words, drawn in (("", Plan.drawn(seed, brokers)), ("--short ", Plan.short(seed, brokers))):
                if self.plan == drawn.under_controllers(brokers):
                    return f"ottla simulate {words}--seed {seed} --brokers {brokers} --controllers"
                if self.plan == drawn:
                    return f"ottla simulate {words}--seed {seed} --brokers {brokers}"
                if self.plan == drawn.with_kinds(LATER_KINDS):
                    return f"ottla simulate {words}--seed {seed} --brokers {brokers} --faults {','.join(LATER_KINDS)}"
        return "ottla simulate --run FILE, with what --save wrote"

    def plain(self, shown: int = 10) -> dict[str, object]:
        """As values for JSON."""
        return {
            "seed": self.plan.seed,
            "brokers": self.plan.brokers,
            "loads": list(self.plan.loads),
            "faults": len(self.faults),
            "acknowledged": self.acknowledged,
            "virtual_s": round(self.virtual_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "digest": f"{self.digest:08x}",
            "anomalies": [list(each) for each in self.anomalies[:shown]],
            "repeat": self.repeat_command,
        }

    def summary(self) -> str:
        plan = self.plan
        kinds = ", ".join(plan.kinds + plan.client_kinds) or "none"
        return (
            f"seed {plan.seed}: {plan.brokers} broker(s), {plan.durability}, {', '.join(plan.loads)}; faults {kinds}; "
            f"{self.acknowledged} records acknowledged in {self.virtual_s:.0f} s, {self.steps} steps, "
            f"{self.cpu_s:.2f} s of CPU, digest {self.digest:08x}: "
            f"{'no anomaly' if not self.anomalies else f'{len(self.anomalies)} ANOMALIES'}"
        )


def run_seed(seed: int, brokers: int | None = None, faults: Sequence[Fault] | None = None) -> Result:
    """Run one seed, with the faults that it draws or with these."""
    return run_plan(Plan.drawn(seed, brokers), faults)


def run_plan(plan: Plan, faults: Sequence[Fault] | None = None, *, is_watched: bool = False) -> Result:
    """Run a plan, with the faults that its seed draws or with these; the timeline of one that is watched has what
    brokers did."""
    with _collecting_at_the_end():
        return Simulation(plan, faults, is_watched=is_watched).run()


@contextmanager
def _collecting_at_the_end() -> Iterator[None]:
    """Python's cyclic collector is off: what it collects, and when, is not decided by the seed. When the loop closes it
    searches what was made since then; all that was there before is left out, which is most of the work."""
    was_collecting = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_collecting:
            gc.enable()


class _Errors(logging.Handler):
    """Keeps what is logged with a trace."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get(None)
        if process is not None and process.is_dead:
            return  # it was killed in this very step
        if record.exc_info and record.exc_info[1] is not None:
            self.lines.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


class _Said(logging.Handler):
    """What was logged as an error, for who must have said something."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.lines) < SAID_LIMIT:
            self.lines.append(record.getMessage())


def _shielded(loads: Sequence[str]) -> frozenset[str]:
    """Topics whose only copy does not rot: with a marker or a decision gone, or a record that somebody must read before
    he ends, its clients wait for good, rightly (decisions 0150, 0165)."""
    shielded = {"__transaction_state", TRANSFERS, COPIES, SUNK, CHURNED}
    shielded |= {TOPIC} if "share-group" in loads else set()
    shielded |= {TOPIC, "__consumer_offsets"} if "copy" in loads or "spark-sink" in loads else set()
    return frozenset(shielded)


def _differences(one: ClusterImage, other: ClusterImage) -> str:
    """The names of what is not the same in two images; who leads the log is no record of it."""
    names = (name for name in ClusterImage.__slots__ if name not in ("controller_id", "controller_epoch"))
    return ", ".join(name for name in names if getattr(one, name) != getattr(other, name))


class Simulation:
    """One run: made from a plan and a list of faults, run once, by `run_plan`."""

    def __init__(self, plan: Plan, faults: Sequence[Fault] | None = None, *, is_watched: bool = False) -> None:
        self.plan = plan
        self.faults = plan.faults() if faults is None else list(faults)
        self.loop = new_loop(Random(f"loop {plan.seed}"))
        self.history = History(self.loop.time)
        self.timeline = Timeline(self.loop.time)
        settings = {**broker_settings(plan.pace), **plan.broker_settings()}
        self.cluster = SimulatedCluster(
            self.loop,
            Random(f"cluster {plan.seed}"),
            brokers=plan.brokers,
            controllers=plan.controllers,
            combined=plan.combined,
            is_old=UPGRADE in plan.loads,
            settings=settings,
            timeline=self.timeline,
            session_s=plan.session_s,
            weather=Weather().slower(min(plan.pace * plan.distance, FARTHEST)),
        )
        self.work = Work(
            self.cluster,
            self.history,
            plan.loads,
            partitions=plan.partitions,
            pause_s=plan.send_pause_s,
            tempo=plan.tempo(),
        )
        if plan.brokers == 1:
            self.cluster.rots.shielded = _shielded(plan.loads)
        self._said = _Said()
        if is_watched:
            Observer(self.cluster, frozenset(topic.name for topic in self.work.topics())).attach()
        self.result = Result(plan, history=self.history, timeline=self.timeline, faults=self.faults)

    def run(self) -> Result:
        loop, result, errors = self.loop, self.result, _Errors()
        logger = logging.getLogger("ottla")
        logger.addHandler(errors)
        logger.addHandler(self._said)
        began_s = time.process_time()
        try:
            loop.run(self.main(), limit_s=RUN_LIMIT_S * self.plan.pace)
        except SimulationStuck as error:
            result.anomalies.append(Anomaly("stuck", str(error)))
        except Exception as error:
            result.anomalies.append(Anomaly("client-error", f"{type(error).__name__}: {error}"))
        finally:
            result.cpu_s = time.process_time() - began_s
            result.virtual_s, result.steps, result.digest = loop.time(), loop.steps, loop.digest
            logger.removeHandler(errors)
            logger.removeHandler(self._said)
            result.anomalies += [Anomaly("unhandled-error", line) for line in (*errors.lines, *loop.failures)]
            self._let_go()
            loop.close()
        return result

    def _let_go(self) -> None:
        """Nobody needs the cluster any more: one search for rubbish finds all of it."""
        self.history.close()
        self.timeline.close()
        del self.cluster, self.work

    async def main(self) -> None:
        self.cluster.start()
        await self.cluster.ready()
        await self.work.make_topics()
        self.work.start()
        await self._let_faults_happen()
        await self.work.stop_moves()
        if not await self._healed():
            return
        await self._wait_for_repairs()
        await asyncio.sleep(self.plan.after_s)
        await self.work.stop()
        await self.work.read_everything()
        await self._in_sync(is_quiet=True)
        await self._same_metadata()
        names = [each for each in self.work.partitions() if each.topic not in CLEANED]
        # The only copy is like itself, and what rotted of it cannot be read.
        copies = {name_of(each): self.cluster.committed_bytes(*each) for each in names if self.plan.brokers > 1}
        self.result.anomalies += check(
            self.history.events, replicas=copies, hits=self.cluster.rots.hits(), forgets=self.cluster.rots.forgets()
        )
        self.result.anomalies += self.cluster.rots.unsaid(self._said.lines)

    async def _let_faults_happen(self) -> None:
        of_clients = [fault for fault in self.faults if fault.kind in CLIENT_KINDS]
        of_brokers = [fault for fault in self.faults if fault.kind not in CLIENT_KINDS]
        clients = asyncio.ensure_future(ClientFaults(self.work.clients(), self.history, of_clients).run())
        brokers = Faults(
            self.cluster,
            self.history,
            of_brokers,
            is_durable=self.plan.durability == "durable",
            is_in_sync=self._is_in_sync,
        )
        await brokers.run(self.plan.work_s)
        await clients

    def _is_in_sync(self) -> bool:
        return all(self.cluster.is_in_sync(each.name, each.num_partitions or 1) for each in self.work.topics())

    async def _in_sync(self, *, is_quiet: bool = False) -> None:
        for topic in self.work.topics():
            await self.cluster.in_sync(topic.name, topic.num_partitions or 1, is_quiet=is_quiet)

    async def _wait_for_repairs(self) -> None:
        """Until everything that rotted is repaired; on the only copy until it was all found. Anomalies when not."""
        rots, limit_s = self.cluster.rots, HEAL_S * self.plan.pace
        try:
            async with asyncio.timeout(limit_s):
                while not rots.is_nothing_left():  # noqa: ASYNC110, virtual time
                    await asyncio.sleep(0.1)
        except TimeoutError:
            name = "not-repaired" if self.plan.brokers > 1 else "not-found"
            self.result.anomalies += [Anomaly(name, f"broker {rot.broker}: {rot}") for rot in rots.unrepaired()]

    async def _same_metadata(self) -> None:
        """Until all nodes have read the metadata log to the same end, where they must know the same; anomalies when
        not."""
        began_s, images = self.loop.time(), self.cluster.images()
        while len({image.change_number for image in images.values()}) > 1:
            if self.loop.time() - began_s > HEAL_S * self.plan.pace:
                ends = {name: image.change_number for name, image in images.items()}
                self.result.anomalies.append(Anomaly("metadata-behind", f"the metadata log was read up to {ends}"))
                return
            await asyncio.sleep(0.01)
            images = self.cluster.images()
        for name, image in images.items():
            if image.feature(METADATA_VERSION) != NEW_LEVEL:
                self.result.anomalies.append(Anomaly("not-upgraded", f"{name} has not the newest metadata.version"))
            if different := _differences(image, next(iter(images.values()))):
                story = f"{name} and {next(iter(images))} have different {different} at {image.change_number}"
                self.result.anomalies.append(Anomaly("metadata-differs", story))

    async def _healed(self) -> bool:
        """Whether all copies came into sync in time; an anomaly when not."""
        began_s, limit_s = self.loop.time(), HEAL_S * self.plan.pace
        try:
            async with asyncio.timeout(limit_s):
                await self._in_sync()
                await self.cluster.coordinators_in_sync()
        except TimeoutError:
            self.result.anomalies.append(
                Anomaly("not-healed", f"copies are not in sync {limit_s:g} s after the faults")
            )
            return False
        self.history.note("faults", "healed", after_s=round(self.loop.time() - began_s, 3))
        return True
