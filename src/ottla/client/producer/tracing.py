"""OpenTelemetry spans for records, when `ottla.tracing.enable` is true and opentelemetry-api is installed.

A span named "send <topic>" of kind PRODUCER begins with send() and ends with the delivery; the record carries its
context in the headers, so that whoever consumes it can go on with the trace. Attribute names are those of
OpenTelemetry's conventions for messaging.
"""

from __future__ import annotations

import importlib
from typing import Any

from ottla.client.producer.values import ProducerRecord, RecordMetadata
from ottla.errors import InvalidSetting, OttlaError
from ottla.light_dataclasses import replace


class Span:
    """The span of one record."""

    def __init__(self, span: Any, status: Any) -> None:
        self._span = span
        self._status = status

    def ended(self, metadata: RecordMetadata | None, error: OttlaError | None) -> None:
        if error is not None:
            self._span.record_exception(error)
            self._span.set_status(self._status.ERROR, str(error))
        elif metadata is not None:
            self._span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            self._span.set_attribute("messaging.kafka.offset", metadata.offset)
        self._span.end()


class Tracing:
    """Makes spans with whatever provider the program has set up."""

    def __init__(self, trace: Any, propagate: Any) -> None:
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("ottla")

    @classmethod
    def enabled(cls) -> Tracing:
        try:
            trace = importlib.import_module("opentelemetry.trace")
            propagate = importlib.import_module("opentelemetry.propagate")
        except ImportError:
            raise InvalidSetting(
                "ottla.tracing.enable=true needs opentelemetry-api: pip install 'ottla[otel]', or set it to false"
            ) from None
        return cls(trace, propagate)

    def begin(self, record: ProducerRecord) -> tuple[ProducerRecord, Span]:
        """The record with the context in its headers, and its span."""
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": record.topic,
        }
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        span = self._tracer.start_span(
            f"send {record.topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
        )
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, context=self._trace.set_span_in_context(span))
        items = record.headers.items() if isinstance(record.headers, dict) else record.headers
        headers = [*items, *((name, value.encode()) for name, value in carrier.items())]
        return replace(record, headers=headers), Span(span, self._trace.StatusCode)
