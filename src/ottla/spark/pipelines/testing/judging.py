"""One test from what is given to the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.testing.cases import DEAD_LETTERS, Case, Expected
from ottla.spark.pipelines.testing.comparing import Difference, compare
from ottla.spark.pipelines.testing.trying import Outcome, try_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.graph import Graph


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is not as the test says; nothing when it passes."""

    case: Case
    differences: Sequence[Difference] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None

    def text(self) -> str:
        """What is not as it should be, in lines."""
        lines = [f"{self.case.name}:", *([f"    {self.error}"] if self.error is not None else [])]
        for difference in self.differences:
            lines.append(f"    {difference.summary}")
            for expected, written in difference.pairs:
                lines += [f"    {sign} {row}" for sign, row in (("-", expected), ("+", written)) if row is not None]
        return "\n".join(lines)


def run_case(spark: SparkSession, plan: Plan, graph: Graph, case: Case) -> Verdict:
    """Run a test and judge it."""
    wanted = set(case.expect) if case.fails is None else {*case.expect, *graph.pipeline.sinks}
    return judged(case, try_plan(spark, plan, graph, case.batches, wanted))


def judged(case: Case, outcome: Outcome) -> Verdict:
    """What was written beside what the test says."""
    if outcome.error is not None:
        if case.fails is None:
            return Verdict(case, error=outcome.error)
        if case.fails not in outcome.error:
            return Verdict(case, error=f"it should fail with {case.fails!r}, and failed with: {outcome.error}")
    elif case.fails is not None:
        return Verdict(case, error=f"it should fail with {case.fails!r}, and did not fail")
    return Verdict(case, list(_differences(case, outcome)))


def _differences(case: Case, outcome: Outcome) -> Iterable[Difference]:
    expect = dict(case.expect)
    if case.fails is None:
        expect.setdefault(DEAD_LETTERS, Expected(()))
    for dataset, expected in expect.items():
        difference = compare(dataset, expected, outcome.rows.get(dataset, ()))
        if difference is not None:
            yield difference
