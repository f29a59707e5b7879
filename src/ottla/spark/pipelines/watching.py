"""What a run has done so far: rows in and out, rates, lag, and the rules that were broken.

1. The figures come from Spark's progress reports, one per micro-batch and flow; `note` takes them from any thread.
2. Rows that are read twice because two flows read the same topic are counted for each of them: a flow is a query.
3. Rows that came too late for their window are reported by Spark, which counts them after it has grouped them.
4. A rule is counted where it is judged. Several flows may judge the same dataset; the figures of the flow that judged
   most of its rows are shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from ottla.light_dataclasses import dataclass, field
from ottla.spark.pipelines.frames import OUT, RULES
from ottla.spark.pipelines.operations import Count, Flow
from ottla.spark.pipelines.plan import Plan
from ottla.values import TopicPartition

ROWS = ".rows"
Positions: TypeAlias = Mapping[TopicPartition, int]
NOWHERE: Positions = MappingProxyType({})


@dataclass(slots=True)
class FlowFigures:
    """One flow so far."""

    flow: Flow
    state: str = "waiting"
    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    busy_s: float = 0.0
    behind: int | None = None
    late: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    last_batch_ms: int | None = None
    error: str | None = None
    rules: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def rows_per_s(self) -> float:
        return self.rows_in / self.busy_s if self.busy_s else 0.0


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """How often a rule of a dataset was broken, out of so many rows."""

    dataset: str
    rule: str
    action: str
    broken: int
    rows: int


class Watch:
    """All flows of one run."""

    def __init__(self, plan: Plan, actions: Mapping[tuple[str, str], str]) -> None:
        self._lock = threading.Condition()
        self._ended: set[str] = set()
        self._actions = actions
        self._datasets = {
            each.dataset: (*each.rules, *each.noted)
            for view in plan.views
            for each in view.operations
            if isinstance(each, Count)
        }
        self._on_positions: Callable[[str, Positions], None] = lambda flow, positions: None
        self.flows = {flow.name: FlowFigures(flow) for flow in plan.flows}

    def on_positions(self, call: Callable[[str, Positions], None]) -> None:
        """From now on this is called with where each flow is in its topics."""
        self._on_positions = call

    def note_state(self, flow: str, state: str) -> None:
        """A flow has moved on."""
        with self._lock:
            if flow in self.flows:
                self.flows[flow].state = state.lower()

    def note(self, progress: Mapping[str, Any], behind: int | None, positions: Positions = NOWHERE) -> None:
        """One progress report of Spark, as JSON; `positions` are those in its topics."""
        self._on_positions(str(progress.get("name")), positions)
        with self._lock:
            figures = self.flows.get(str(progress.get("name")))
            if figures is None:
                return
            figures.rows_in += int(progress.get("numInputRows") or 0)
            figures.busy_s += (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1000
            figures.batches += 1
            operators = progress.get("stateOperators") or ()
            figures.late += _total(operators, "numRowsDroppedByWatermark")
            figures.state_rows = _total(operators, "numRowsTotal")
            figures.state_bytes = _total(operators, "memoryUsedBytes")
            figures.last_batch_ms = _ended_ms(progress)
            figures.behind = behind if behind is not None else figures.behind
            for name, row in (progress.get("observedMetrics") or {}).items():
                _count(figures, name, row)

    def note_error(self, flow: str, error: str) -> None:
        """A flow has failed; it may be tried again."""
        with self._lock:
            if flow in self.flows:
                self.flows[flow].error = error

    def note_end(self, query_id: str) -> None:
        """A query has ended; all its reports have come before."""
        with self._lock:
            self._ended.add(query_id)
            self._lock.notify_all()

    def wait_for_ends(self, limit_s: float) -> None:
        """Until every flow's last report has come: they arrive later than the end of the run."""
        with self._lock:
            self._lock.wait_for(lambda: len(self._ended) >= len(self.flows), limit_s)

    def rules(self) -> list[RuleFigures]:
        """Every rule, in the order of the file."""
        with self._lock:
            found = []
            for dataset, rules in self._datasets.items():
                counted = [each.rules[dataset] for each in self.flows.values() if dataset in each.rules]
                best: Mapping[str, int] = max(counted, key=lambda counts: counts.get(ROWS, 0), default={})
                for rule in rules:
                    action = self._actions.get((dataset, rule), "")
                    found.append(RuleFigures(dataset, rule, action, best.get(rule, 0), best.get(ROWS, 0)))
            return found

    def total(self, name: str) -> int:
        """The sum of one figure over all flows."""
        with self._lock:
            return sum(int(getattr(figures, name) or 0) for figures in self.flows.values())

    def states(self) -> str:
        """The states in a few words: "2 running, 1 completed"."""
        with self._lock:
            return _counted(figures.state for figures in self.flows.values())


def _total(operators: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(int(operator.get(name) or 0) for operator in operators)


def _ended_ms(progress: Mapping[str, Any]) -> int | None:
    """When the batch was done, by Spark's clock."""
    begun = progress.get("timestamp")
    if not begun:
        return None
    busy_ms = (progress.get("durationMs") or {}).get("triggerExecution", 0)
    return int(datetime.fromisoformat(str(begun)).timestamp() * 1000) + int(busy_ms)


def _count(figures: FlowFigures, name: str, row: Mapping[str, Any]) -> None:
    if name == OUT:
        figures.rows_out += int(row.get("rows") or 0)
    elif name.startswith(RULES):
        counts = figures.rules.setdefault(name.removeprefix(RULES), {})
        for rule, count in row.items():
            counts[rule] = counts.get(rule, 0) + int(count or 0)


def _counted(words: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())
