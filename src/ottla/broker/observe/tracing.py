"""OpenTelemetry spans of the broker, when `ottla.tracing.enable` is true: one for each batch of records that is traced.

    producer: send orders ──► broker: append orders ──► consumer: poll orders (a link)

1. A producer that traces puts its context into the headers of its records (W3C traceparent). A batch with a record that
   is sampled gets a span "append <topic>", a child of that record's; other sampled records of the batch are links. It
   ends when the request is answered, so with acks=all it says how long followers took.
2. Without `ottla.tracing.enable` this module is not loaded, and nothing is asked. With it produce requests go the usual
   way one by one, and their records are looked into, RECORDS_LIMIT of a batch.
3. Spans go to the provider that the process has: `opentelemetry-instrument ottla broker start` sets one up.
4. What a client writes into a header can be wrong, but never harms a request.
"""

from __future__ import annotations

import importlib
import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from ottla.broker.observe.log_limit import LineLimit
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, is_coroutine
from ottla.errors import InvalidSetting, OttlaError
from ottla.records import RecordBatch

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.produce.frames import Produce, ProduceResults

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

RECORDS_LIMIT: Final = 128
UNPACKED_LIMIT_BYTES: Final = 1 << 20
TRACE_PARENT: Final = "traceparent"

H = TypeVar("H", bound=Callable[..., object])


class Span(Protocol):
    """What is used of OpenTelemetry's."""

    def set_attribute(self, key: str, value: str | int) -> None: ...
    def set_status(self, status: object, description: str) -> None: ...
    def end(self) -> None: ...


Spans = dict[tuple[object, int], Span]


class BrokerTracing:
    """Makes spans with whatever provider the process has set up."""

    def __init__(self, trace: ModuleType, propagate: ModuleType) -> None:
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("ottla")

    @classmethod
    def enabled(cls) -> BrokerTracing:
        try:
            trace = importlib.import_module("opentelemetry.trace")
            propagate = importlib.import_module("opentelemetry.propagate")
        except ImportError:
            raise InvalidSetting("ottla.tracing.enable=true needs OpenTelemetry: pip install 'ottla[otel]'") from None
        return cls(trace, propagate)

    def around(self, handler: H) -> H:
        """The handler of produce requests, with spans for those that are traced."""

        def handle(broker: Broker, request: Produce, context: RequestContext) -> object:
            spans = self._begin(broker, request, context)
            if not spans:
                return handler(broker, request, context)
            try:
                answered = handler(broker, request, context)
            except Exception as error:
                self._fail(spans, error)
                raise
            if is_coroutine(answered):
                return self._finish(cast("Work[ProduceResults | None]", answered), spans)
            self._end(spans, cast("ProduceResults | None", answered))
            return answered

        return cast(H, handle)

    # -- beginning ---------------------------------------------------------------------------------------------------

    def _begin(self, broker: Broker, request: Produce, context: RequestContext) -> Spans:
        spans: Spans = {}
        for topic, partitions in request.topics:
            for index, records in partitions:
                if records is None:
                    continue
                contexts = list(self._sampled(records))
                if contexts:
                    name = topic if isinstance(topic, str) else broker.image.topic_name(topic) or "unknown"
                    spans[topic, index] = self._start(name, index, context.client_id, contexts)
        return spans

    def _start(self, topic: str, index: int, client_id: str, contexts: Sequence[object]) -> Span:
        parent, *others = contexts
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": "append",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(index),
            "messaging.client.id": client_id,
        }
        links = [self._trace.Link(self._trace.get_current_span(each).get_span_context()) for each in others]
        kind = self._trace.SpanKind.SERVER
        made: Span = self._tracer.start_span(
            f"append {topic}", context=parent, kind=kind, attributes=attributes, links=links
        )
        return made

    def _sampled(self, records: memoryview) -> Iterator[object]:
        """The contexts of the records of a batch that are traced."""
        try:
            for _, _, _, _, headers in RecordBatch(records).tuples(UNPACKED_LIMIT_BYTES)[:RECORDS_LIMIT]:
                carrier = {name: value.decode("ascii") for name, value in headers if value is not None}
                if TRACE_PARENT not in carrier:
                    continue
                context = self._propagate.extract(carrier)
                found = self._trace.get_current_span(context).get_span_context()
                if found.is_valid and found.trace_flags.sampled:
                    yield context
        except (OttlaError, ValueError, IndexError, struct.error) as error:
            log.debug("records cannot be traced: %s", error)  # whether they are right is the handler's business

    # -- ending ------------------------------------------------------------------------------------------------------

    async def _finish(self, work: Work[ProduceResults | None], spans: Spans) -> ProduceResults | None:
        try:
            answered = await work
        except BaseException as error:
            self._fail(spans, error)
            raise
        self._end(spans, answered)
        return answered

    def _end(self, spans: Spans, answered: ProduceResults | None) -> None:
        for topic, outcomes in answered or ():
            for outcome in outcomes:
                span = spans.pop((topic, outcome.index), None)
                if span is None:
                    continue
                if outcome.error is not None:
                    self._mark(span, outcome.error.name)
                else:
                    span.set_attribute("messaging.kafka.offset", outcome.base_offset)
                span.end()
        for span in spans.values():  # with acks=0 nobody says what became of them
            span.end()

    def _fail(self, spans: Spans, error: BaseException) -> None:
        for span in spans.values():
            self._mark(span, type(error).__name__)
            span.end()

    def _mark(self, span: Span, error: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(self._trace.StatusCode.ERROR, error)
