"""The metrics of a service, filled from what its pipelines reported last. Each is declared here, with its sentence.

1. Counters are those of the process that runs the pipeline: they begin anew with it, as Prometheus expects.
2. Lag in seconds is not here: it needs a look into the topics (`ottla pipeline status`); lag in records is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.metrics import Counter, Family, Gauge, Registry
from ottla.spark.pipelines.serving.children import Child
from ottla.spark.pipelines.statuses import FlowStatus, RunStatus

GROUP: Final = "pipelines"
PREFIX: Final = "ottla_pipeline_"
_PIPELINE: Final = ("pipeline",)
_FLOW: Final = ("pipeline", "flow")
_RULE: Final = ("pipeline", "dataset", "rule", "action")
GAUGES: Final = {
    "up": (_PIPELINE, "1 when the pipeline runs, 0 when it starts, waits to be started again, or stopped."),
    "flow_behind_records": (_FLOW, "Offsets that the topics were ahead of the flow after its last batch."),
    "flow_rows_per_second": (_FLOW, "Rows that the flow read, per second of the last minute."),
    "flow_state_rows": (_FLOW, "Rows of state: open windows, joins, keys seen."),
    "flow_state_bytes": (_FLOW, "Memory of that state, as Spark says."),
    "flow_last_batch_timestamp_seconds": (_FLOW, "When the flow's last batch was done."),
}
COUNTERS: Final = {
    "restarts_total": (_PIPELINE, "Times the pipeline's process ended and was started again."),
    "flow_rows_in_total": (_FLOW, "Rows read by the flow."),
    "flow_rows_out_total": (_FLOW, "Rows written by the flow."),
    "flow_late_rows_total": (_FLOW, "Rows left out because their window was over."),
    "flow_batches_total": (_FLOW, "Batches done by the flow."),
    "rule_rows_total": (_RULE, "Rows that the rule judged."),
    "rule_broken_rows_total": (_RULE, "Rows that broke the rule."),
}


class Figures:
    """The registry of a service."""

    def __init__(self) -> None:
        self._registry = Registry()
        self._gauges: dict[str, Family[Gauge]] = {
            name: self._registry.gauge(GROUP, name, text, tags, exposed=PREFIX + name)
            for name, (tags, text) in GAUGES.items()
        }
        self._counters: dict[str, Family[Counter]] = {
            name: self._registry.counter(GROUP, name, text, tags, exposed=PREFIX + name)
            for name, (tags, text) in COUNTERS.items()
        }

    def pieces(self, children: Iterable[Child], now_ms: float) -> Iterator[str]:
        """The text that Prometheus reads."""
        for child in children:
            self._gauges["up"].of(child.name).value = int(child.trouble() is None)
            self._counters["restarts_total"].of(child.name).value = child.supervision.restarts
            status = child.status()
            if status is not None:
                self._take(child.name, status)
        return self._registry.pieces(now_ms)

    def _take(self, name: str, status: RunStatus) -> None:
        for flow in status.flows:
            self._take_flow((name, flow.flow), flow)
        for rule in status.rules:
            labels = (name, rule.dataset, rule.rule, rule.action)
            self._counters["rule_rows_total"].of(*labels).value = rule.rows
            self._counters["rule_broken_rows_total"].of(*labels).value = rule.broken

    def _take_flow(self, labels: tuple[str, str], flow: FlowStatus) -> None:
        self._counters["flow_rows_in_total"].of(*labels).value = flow.rows_in
        self._counters["flow_rows_out_total"].of(*labels).value = flow.rows_out
        self._counters["flow_late_rows_total"].of(*labels).value = flow.late
        self._counters["flow_batches_total"].of(*labels).value = flow.batches
        self._gauges["flow_rows_per_second"].of(*labels).value = flow.rows_per_s
        self._gauges["flow_state_rows"].of(*labels).value = flow.state_rows
        self._gauges["flow_state_bytes"].of(*labels).value = flow.state_bytes
        if flow.behind is not None:
            self._gauges["flow_behind_records"].of(*labels).value = flow.behind
        if flow.last_batch_ms is not None:
            self._gauges["flow_last_batch_timestamp_seconds"].of(*labels).value = flow.last_batch_ms / 1000
