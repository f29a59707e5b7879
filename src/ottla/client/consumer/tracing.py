"""OpenTelemetry spans for polls, when `ottla.tracing.enable` is true and opentelemetry-api is installed.

A poll that gave records makes one span per topic, "poll <topic>", which links to the spans of the producers that sent
them (their context travels in the headers). An empty poll makes none. `context_of(record)` gives the context of one
record, to begin a span for working on it. Attribute names are those of OpenTelemetry's conventions for messaging.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.errors import InvalidSetting

LINKS_LIMIT: Final = 128
"""What OpenTelemetry keeps of a span's links unless it is told otherwise; the others would be made for nothing."""


def context_of(record: ConsumerRecord) -> Any:
    """The context that the record's producer put into its headers: the parent of a span for working on the record.

    with tracer.start_as_current_span("bill", context=context_of(record)): ...
    """
    return _context_of(record, importlib.import_module("opentelemetry.propagate"))


def _context_of(record: ConsumerRecord, propagate: Any) -> Any:
    carrier = {name: value.decode("ascii", "replace") for name, value in record.headers if value is not None}
    return propagate.extract(carrier)


class ConsumerTracing:
    """Makes spans with whatever provider the program has set up."""

    def __init__(self, trace: Any, propagate: Any, *, client_id: str, group_id: str | None) -> None:
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("ottla")
        self._attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "receive",
            "messaging.operation.name": "poll",
            "messaging.client.id": client_id,
        }
        if group_id is not None:
            self._attributes["messaging.consumer.group.name"] = group_id

    @classmethod
    def enabled(cls, *, client_id: str, group_id: str | None) -> ConsumerTracing:
        try:
            trace = importlib.import_module("opentelemetry.trace")
            propagate = importlib.import_module("opentelemetry.propagate")
        except ImportError:
            raise InvalidSetting(
                "ottla.tracing.enable=true needs opentelemetry-api: pip install 'ottla[otel]', or set it to false"
            ) from None
        return cls(trace, propagate, client_id=client_id, group_id=group_id)

    def received(self, records: list[ConsumerRecord]) -> None:
        """A poll gave these."""
        by_topic: dict[str, list[ConsumerRecord]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, found in by_topic.items():
            attributes = {
                **self._attributes,
                "messaging.destination.name": topic,
                "messaging.batch.message_count": len(found),
            }
            links = self._links(found)
            kind = self._trace.SpanKind.CLIENT
            self._tracer.start_span(f"poll {topic}", kind=kind, attributes=attributes, links=links).end()

    def context_of(self, record: ConsumerRecord) -> Any:
        """The context that the record's producer put into its headers."""
        return _context_of(record, self._propagate)

    def _links(self, records: list[ConsumerRecord]) -> list[Any]:
        links: list[Any] = []
        for record in records[:LINKS_LIMIT]:
            if record.headers:
                context = self._trace.get_current_span(self.context_of(record)).get_span_context()
                if context.is_valid:
                    links.append(self._trace.Link(context))
        return links
