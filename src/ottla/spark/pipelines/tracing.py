"""Traces of OpenTelemetry, from the records that a pipeline reads to the rows that it writes (`traces: true`).

    producer: span "send clicks"  ──header traceparent──►  source: column _traceparent ──► ... ──► header traceparent
                    ▲                                                                              of a sink's record
                    └────────── link ──── span "process counts": a batch of a flow

1. A source keeps the context that a record's producer put into its headers in the column `_traceparent`, as far as the
   steps keep that column. A sink hands it on with `headers: {traceparent: _traceparent}`, so whoever consumes what the
   pipeline wrote goes on with the same trace. Rows of an aggregate have no one trace, and no such column.
2. A batch of a flow is a span. It links to traces of records that it read: at most LINKS of them, chosen by their ids,
   because an aggregate over millions of records must stay small. Only traces that are recorded (sampled) count.
3. Spans are made in the process that runs the pipeline, by whatever provider it has: `opentelemetry-instrument` sets
   one up from the environment.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from ottla.errors import OttlaError

LINKS: Final = 16
TRACEPARENT: Final = "_traceparent"
TRACES: Final = "ottla_traces__"
CONTEXT: Final = "get(filter(headers, header -> header.key = 'traceparent'), 0).value"
_IS_SAMPLED: Final = f"right({TRACEPARENT}, 1) IN ('1', '3', '5', '7', '9', 'b', 'd', 'f')"


class TracingMissing(OttlaError):
    """`traces: true` needs OpenTelemetry. pip install 'ottla[otel]', or leave it out."""

    invalid_configuration = True


def samples() -> list[str]:
    """SQL: aggregates that each keep one of the traces."""
    chosen = f"{_IS_SAMPLED} AND pmod(crc32({TRACEPARENT}), {LINKS}) ="
    return [f"min(IF({chosen} {number}, {TRACEPARENT}, NULL)) AS `{number}`" for number in range(LINKS)]


class BatchSpans:
    """Makes the spans of a run."""

    def __init__(self, pipeline: str) -> None:
        try:
            self._trace = importlib.import_module("opentelemetry.trace")
            self._propagate = importlib.import_module("opentelemetry.propagate")
        except ImportError:
            raise TracingMissing from None
        self._pipeline = pipeline
        self._tracer = self._trace.get_tracer("ottla")

    def note(self, progress: Mapping[str, Any]) -> None:
        """One progress report of Spark, as JSON: a batch that read something is a span."""
        if not progress.get("numInputRows"):
            return
        flow = str(progress.get("name"))
        durations = progress.get("durationMs") or {}
        begin_ns = int(datetime.fromisoformat(str(progress["timestamp"])).timestamp() * 1_000_000) * 1_000
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.batch.message_count": int(progress["numInputRows"]),
            "ottla.pipeline": self._pipeline,
            "ottla.flow": flow,
            "ottla.batch": int(progress.get("batchId", -1)),
            **{f"ottla.spark.{name}_ms": int(value) for name, value in durations.items()},
        }
        links = list(self._links(progress.get("observedMetrics") or {}))
        kind = self._trace.SpanKind.CONSUMER
        span = self._tracer.start_span(
            f"process {flow}", kind=kind, attributes=attributes, links=links, start_time=begin_ns
        )
        span.end(begin_ns + int(durations.get("triggerExecution", 0)) * 1_000_000)

    def _links(self, metrics: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
        for name, row in metrics.items():
            for traceparent in row.values() if name.startswith(TRACES) else ():
                if traceparent is not None:
                    context = self._propagate.extract({"traceparent": str(traceparent)})
                    found = self._trace.get_current_span(context).get_span_context()
                    if found.is_valid:
                        yield self._trace.Link(found)
