"""A failing run made smaller: fewer faults, workloads, brokers and seconds, while the same anomaly is still found.

    smaller = shrink(result, tries=60)
    print(smaller.result.summary(), len(smaller.result.faults))

1. Another list of faults or workloads is another history, so a try may not fail although the bug is there; then the
   part stays. The result is small, not the smallest.
2. What counts is that one of the anomalies' names comes again.
3. At most `tries` runs, and not longer than `limit_s` seconds of CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.light_dataclasses import dataclass, replace
from ottla.simulation.fault import Fault
from ottla.simulation.plan import Plan
from ottla.simulation.run import Result, run_plan

TRIES: Final = 60
LIMIT_S: Final = 300.0
SHORTEST_S: Final = 3.0

Runner = Callable[[Plan, Sequence[Fault]], Result]


@dataclass
class Shrunk:
    """The smallest run that was found, and how many were tried."""

    result: Result
    tries: int = 0
    cpu_s: float = 0.0


def shrink(result: Result, *, tries: int = TRIES, limit_s: float = LIMIT_S, run: Runner = run_plan) -> Shrunk:
    """See the module; the same result when there is nothing to shrink."""
    return _Shrinker(result, tries, limit_s, run).shrunk() if result.anomalies else Shrunk(result)


class _Shrinker:
    def __init__(self, result: Result, tries: int, limit_s: float, run: Runner) -> None:
        self._best = Shrunk(result)
        self._names = {anomaly.name for anomaly in result.anomalies}
        self._tries = tries
        self._limit_s = limit_s
        self._run = run

    def shrunk(self) -> Shrunk:
        before = None
        while before is not self._best.result and not self._is_over:
            before = self._best.result
            self._shrink_work()
            self._drop_loads()
            self._drop_faults()
            self._shrink_cluster()
        return self._best

    @property
    def _is_over(self) -> bool:
        return self._best.tries >= self._tries or self._best.cpu_s >= self._limit_s

    def _try(self, plan: Plan, faults: Sequence[Fault]) -> bool:
        if self._is_over:
            return False
        result = self._run(plan, faults)
        self._best.tries += 1
        self._best.cpu_s += result.cpu_s
        if not self._names & {anomaly.name for anomaly in result.anomalies}:
            return False
        self._best.result = result
        return True

    def _shrink_work(self) -> None:
        """Half as long, again and again."""
        while True:
            plan, faults = self._best.result.plan, self._best.result.faults
            work_s = plan.work_s / 2
            early = [fault for fault in faults if fault.at_s < work_s]
            if work_s < SHORTEST_S or not self._try(replace(plan, work_s=work_s), early):
                return

    def _drop_loads(self) -> None:
        for name in self._best.result.plan.loads:
            plan = self._best.result.plan
            left = tuple(each for each in plan.loads if each != name)
            if left:
                self._try(replace(plan, loads=left), self._best.result.faults)

    def _drop_faults(self) -> None:
        """Large pieces first, then one by one."""
        size = len(self._best.result.faults)
        while size >= 1:
            for piece in list(_pieces(self._best.result.faults, size)):
                left = [fault for fault in self._best.result.faults if fault not in piece]
                if len(left) < len(self._best.result.faults):
                    self._try(self._best.result.plan, left)
            size //= 2

    def _shrink_cluster(self) -> None:
        plan, faults = self._best.result.plan, self._best.result.faults
        if plan.partitions > 1:
            self._try(replace(plan, partitions=1), faults)
        plan, faults = self._best.result.plan, self._best.result.faults
        if plan.brokers > 1:
            alone = [fault for fault in faults if fault.broker <= 0]
            self._try(replace(plan, brokers=1, durability="durable"), alone)


def _pieces(faults: Sequence[Fault], size: int) -> Iterator[Sequence[Fault]]:
    return (faults[at : at + size] for at in range(0, len(faults), size))
