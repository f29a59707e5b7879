"""How a run is doing, as values: what it writes into its storage, and what commands, metrics and the console show.

1. Figures of a flow are those of this run; `rows_per_s` is that of the last RECENT_S.
2. The JSON has a version; one of another version is not read (read_status gives ValueError).
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.watching import Watch

VERSION: Final = 1
RECENT_S: Final = 60.0
RUNNING: Final = "running"


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow."""

    flow: str
    state: str
    rows_in: int
    rows_out: int
    late: int
    batches: int
    rows_per_s: float
    behind: int | None
    state_rows: int
    state_bytes: int
    last_batch_ms: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """One rule."""

    dataset: str
    rule: str
    action: str
    broken: int
    rows: int


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run of a pipeline, as it was at `updated_ms`."""

    pipeline: str
    state: str
    pid: int
    host: str
    begun_ms: int
    updated_ms: int
    error: str | None
    flows: tuple[FlowStatus, ...]
    rules: tuple[RuleStatus, ...]

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, **dataclasses.asdict(self)}

    @property
    def behind(self) -> int:
        return sum(flow.behind or 0 for flow in self.flows)


def read_status(found: Any) -> RunStatus:
    """A status out of its JSON; ValueError when it is none of ours."""
    if not isinstance(found, Mapping) or found.get("version") != VERSION:
        raise ValueError("this is no status of a pipeline")
    try:
        fields = {name: value for name, value in found.items() if name != "version"}
        fields["flows"] = tuple(FlowStatus(**each) for each in fields["flows"])
        fields["rules"] = tuple(RuleStatus(**each) for each in fields["rules"])
        return RunStatus(**fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no status of a pipeline: {error}") from None


class Reporter:
    """Makes statuses of a watch; asked now and then, it knows the rates of the last while."""

    def __init__(self, pipeline: str, watch: Watch, *, pid: int, host: str, begun_ms: int) -> None:
        self._pipeline = pipeline
        self._watch = watch
        self._pid = pid
        self._host = host
        self._begun_ms = begun_ms
        self._history: dict[str, deque[tuple[int, int]]] = {}

    def status(self, now_ms: int, state: str, error: str | None = None) -> RunStatus:
        """As it is now."""
        flows = tuple(
            FlowStatus(
                flow=name,
                state=figures.state,
                rows_in=figures.rows_in,
                rows_out=figures.rows_out,
                late=figures.late,
                batches=figures.batches,
                rows_per_s=self._rate(name, now_ms, figures.rows_in),
                behind=figures.behind,
                state_rows=figures.state_rows,
                state_bytes=figures.state_bytes,
                last_batch_ms=figures.last_batch_ms,
                error=figures.error,
            )
            for name, figures in self._watch.flows.items()
        )
        rules = tuple(
            RuleStatus(each.dataset, each.rule, each.action, each.broken, each.rows) for each in self._watch.rules()
        )
        return RunStatus(self._pipeline, state, self._pid, self._host, self._begun_ms, now_ms, error, flows, rules)

    def _rate(self, flow: str, now_ms: int, rows: int) -> float:
        """Rows a second since the oldest report that is not older than RECENT_S."""
        history = self._history.setdefault(flow, deque([(self._begun_ms, 0)]))
        history.append((now_ms, rows))
        while len(history) > 2 and history[1][0] <= now_ms - RECENT_S * 1000:
            history.popleft()
        since_ms, before = history[0]
        return (rows - before) * 1000 / (now_ms - since_ms) if now_ms > since_ms else 0.0
