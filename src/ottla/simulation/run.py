"""One seed, from the first step to the verdict.

    result = run_seed(7)
    print(result.summary())

A run: brokers start, a topic is made, clients work while faults come and go, everything is healed, all copies must come
into sync within HEAL_S, a fresh client reads everything, and the checker says what it finds. Errors that brokers and
clients log with a trace, and what nobody caught, count as anomalies too: none of that is meant to happen.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from random import Random
from typing import Final

from ottla.broker.server import World
from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.topics import NewTopic
from ottla.errors import OttlaError, TopicAlreadyExists
from ottla.light_dataclasses import dataclass, field
from ottla.simulation.checker import Anomaly, check
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.faults import KINDS, Faults
from ottla.simulation.history import History
from ottla.simulation.loop import SimulationLoop, SimulationStuck, new_loop
from ottla.simulation.workload import TOPIC, FinalRead, Follower, Member, Numbers, Workload

HEAL_S: Final = 120.0
RUN_LIMIT_S: Final = 1_000.0
FIRST_NUMBERS: Final = 1_000_000  # of each producer


@dataclass(frozen=True)
class Plan:
    """What a seed draws before anything runs."""

    seed: int
    brokers: int
    partitions: int
    durability: str
    kinds: tuple[str, ...]
    work_s: float
    fault_pause_s: float
    send_pause_s: float

    @classmethod
    def drawn(cls, seed: int, brokers: int | None = None) -> Plan:
        random = Random(f"plan {seed}")
        count = brokers or random.choice((1, 3))
        return cls(
            seed,
            count,
            partitions=random.randint(1, 3),
            durability="durable" if count == 1 else random.choice(("durable", "replicated")),
            kinds=tuple(kind for kind in KINDS if random.random() < 0.4),
            work_s=random.uniform(15.0, 60.0),
            fault_pause_s=random.choice((1.0, 3.0, 8.0)),
            send_pause_s=random.choice((0.2, 0.5, 2.0)),
        )


@dataclass
class Result:
    """What came of it."""

    plan: Plan
    anomalies: list[Anomaly] = field(default_factory=list)
    history: History = field(default_factory=History)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    steps: int = 0
    digest: int = 0

    @property
    def acknowledged(self) -> int:
        return sum(event.action == "send" and event.kind == "ok" for event in self.history.events)

    @property
    def repeat_command(self) -> str:
        return f"python -m ottla.simulation --seed {self.plan.seed} --brokers {self.plan.brokers}"

    def summary(self) -> str:
        plan = self.plan
        return (
            f"seed {plan.seed}: {plan.brokers} broker(s), {plan.durability}, faults {', '.join(plan.kinds) or 'none'}; "
            f"{self.acknowledged} records acknowledged in {self.virtual_s:.0f} s, {self.steps} steps, "
            f"{self.cpu_s:.2f} s of CPU, digest {self.digest:08x}: "
            f"{'no anomaly' if not self.anomalies else f'{len(self.anomalies)} ANOMALIES'}"
        )


def run_seed(seed: int, brokers: int | None = None) -> Result:
    """Run one seed."""
    return run_plan(Plan.drawn(seed, brokers))


def run_plan(plan: Plan) -> Result:
    loop = new_loop(Random(f"loop {plan.seed}"))
    result = Result(plan, history=History(loop.time))
    errors = _Errors()
    logger = logging.getLogger("ottla")
    was_collecting = gc.isenabled()
    gc.disable()  # what it collects, and when, is not decided by the seed
    logger.addHandler(errors)
    began_s = time.process_time()
    try:
        loop.run(_Run(loop, plan, result).main(), limit_s=RUN_LIMIT_S)
    except SimulationStuck as error:
        result.anomalies.append(Anomaly("stuck", str(error)))
    finally:
        result.cpu_s = time.process_time() - began_s
        result.virtual_s, result.steps, result.digest = loop.time(), loop.steps, loop.digest
        logger.removeHandler(errors)
        result.anomalies += [Anomaly("unhandled-error", line) for line in (*errors.lines, *loop.failures)]
        loop.close()
        if was_collecting:
            gc.enable()
    return result


class _Errors(logging.Handler):
    """Keeps what is logged with a trace."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.lines.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


class _Run:
    """The steps of a run, outside of all processes."""

    def __init__(self, loop: SimulationLoop, plan: Plan, result: Result) -> None:
        self._loop = loop
        self._plan = plan
        self._result = result
        self._history = result.history
        settings = {"ottla.durability": plan.durability}
        self._cluster = SimulatedCluster(loop, Random(f"cluster {plan.seed}"), brokers=plan.brokers, settings=settings)

    async def main(self) -> None:
        self._cluster.start()
        await self._cluster.ready()
        await self._make_topic()
        loads = self._start_loads()
        await self._faults().run(self._plan.work_s)
        if not await self._healed():
            return
        for load in loads:
            await load.stop()
        await FinalRead(self._cluster, self._history, "reader", self._plan.partitions).task
        await self._cluster.in_sync(TOPIC, self._plan.partitions, is_quiet=True)
        names = {f"{TOPIC}-{number}": number for number in range(self._plan.partitions)}
        copies = {name: self._cluster.committed_bytes(TOPIC, number) for name, number in names.items()}
        self._result.anomalies += check(self._history.events, replicas=copies)

    async def _make_topic(self) -> None:
        machine = self._cluster.client_machine()
        process = machine.boot("admin")
        copies = min(3, self._plan.brokers)

        async def make() -> None:
            async with self._admin(machine.world()) as admin:
                while True:
                    try:
                        await admin.create_topics([NewTopic(TOPIC, self._plan.partitions, copies)])
                        return
                    except TopicAlreadyExists:
                        return  # the answer to the first try was lost
                    except OttlaError:
                        await asyncio.sleep(0.5)

        await self._loop.start(process, make(), "admin")

    def _admin(self, world: World) -> AsyncAdmin:
        return AsyncAdmin(
            bootstrap_servers=self._cluster.bootstrap_servers,
            client_id="admin",
            transport=world.transport,
            clock=world.clock,
            random=world.random,
            random_bytes=world.random.randbytes,
        )

    def _start_loads(self) -> list[Workload]:
        plan, cluster, history = self._plan, self._cluster, self._history
        loads: list[Workload] = [
            Numbers(
                cluster,
                history,
                f"producer {number}",
                plan.partitions,
                first=number * FIRST_NUMBERS,
                pause_s=plan.send_pause_s,
            )
            for number in (1, 2)
        ]
        return [
            *loads,
            Follower(cluster, history, "follower", plan.partitions),
            Member(cluster, history, "member", plan.partitions),
        ]

    def _faults(self) -> Faults:
        plan = self._plan

        def power_may_fail() -> bool:
            return plan.durability == "durable" or self._cluster.is_in_sync(TOPIC, plan.partitions)

        return Faults(
            self._cluster,
            self._history,
            Random(f"faults {plan.seed}"),
            kinds=plan.kinds,
            pause_s=plan.fault_pause_s,
            power_may_fail=power_may_fail,
        )

    async def _healed(self) -> bool:
        """Whether all copies came into sync in time; an anomaly when not."""
        began_s = self._loop.time()
        try:
            async with asyncio.timeout(HEAL_S):
                await self._cluster.in_sync(TOPIC, self._plan.partitions)
        except TimeoutError:
            self._result.anomalies.append(
                Anomaly("not-healed", f"copies are not in sync {HEAL_S:g} s after the faults")
            )
            return False
        self._history.note("faults", "healed", after_s=round(self._loop.time() - began_s, 3))
        return True
