"""A trace from the producer through the broker to the consumer, as OpenTelemetry's own SDK sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, ParentBased, Sampler, SamplingResult
from tests.patience import HANG_S

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.tracing import context_of
from ottla.client.producer.producer import Producer
from ottla.errors import OttlaError
from ottla.testing.broker import KafkaBroker

EXPORTED = InMemorySpanExporter()


class Switch(Sampler):
    """Samples while it is on."""

    def __init__(self) -> None:
        self.is_on = True

    def should_sample(self, *arguments: object, **more: object) -> SamplingResult:
        return (ALWAYS_ON if self.is_on else ALWAYS_OFF).should_sample(*arguments, **more)  # type: ignore[arg-type]

    def get_description(self) -> str:
        return f"switch, {Decision.__name__}"


SWITCH = Switch()


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):  # a process has one
        provider = TracerProvider(sampler=ParentBased(SWITCH))
        provider.add_span_processor(SimpleSpanProcessor(EXPORTED))
        trace.set_tracer_provider(provider)
    with KafkaBroker({"ottla.tracing.enable": "true", "num.partitions": 1}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def clean() -> None:
    EXPORTED.clear()
    SWITCH.is_on = True


@pytest.fixture
def producer(broker: KafkaBroker) -> Iterator[Producer]:
    settings = {"ottla.tracing.enable": True, "compression.type": "gzip", "linger.ms": 20, "acks": "all"}
    with Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "till", **settings}) as producer:
        yield producer


def spans(name: str) -> list[ReadableSpan]:
    return [each for each in EXPORTED.get_finished_spans() if each.name == name]


def test_the_broker_and_the_consumer_go_on_with_the_producers_trace(broker: KafkaBroker, producer: Producer) -> None:
    sent = producer.send("orders", b"one").result(HANG_S)
    (send,), (append,) = spans("send orders"), spans("append orders")
    assert append.parent is not None
    assert append.context is not None
    assert send.context is not None
    assert (append.parent.span_id, append.context.trace_id) == (send.context.span_id, send.context.trace_id)
    assert append.kind is trace.SpanKind.SERVER
    assert dict(append.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "append",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "till",
        "messaging.kafka.offset": sent.offset,
    }
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "ottla.tracing.enable": True}
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as consumer:
        consumer.subscribe(["orders"])
        (record,) = consumer.poll(HANG_S)
    (poll,) = spans("poll orders")
    assert [link.context.span_id for link in poll.links] == [send.context.span_id]
    with trace.get_tracer("test").start_as_current_span("bill", context=context_of(record)) as bill:
        assert bill.get_span_context().trace_id == send.context.trace_id


def test_records_of_one_batch_are_one_span_with_links(producer: Producer) -> None:
    futures = [producer.send("batched", b"%d" % number) for number in range(3)]
    for each in futures:
        each.result(HANG_S)
    appended = spans("append batched")
    linked = {link.context.span_id for each in appended for link in each.links}
    parents = {each.parent.span_id for each in appended if each.parent is not None}
    assert linked | parents == {each.context.span_id for each in spans("send batched") if each.context is not None}
    assert len(linked) + len(appended) == 3


def test_what_is_not_sampled_leaves_no_span_at_the_broker(producer: Producer) -> None:
    SWITCH.is_on = False
    producer.send("quiet", b"one").result(HANG_S)
    assert EXPORTED.get_finished_spans() == ()


def test_a_refusal_is_an_error_of_the_span(producer: Producer) -> None:
    with pytest.raises(OttlaError):
        producer.send("__consumer_offsets", b"one", headers=[("other", b"\xff")]).result(HANG_S)
    for each in spans("append __consumer_offsets"):
        assert not each.status.is_ok


def test_headers_that_are_wrong_harm_nothing(broker: KafkaBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
        for value in (b"\xff\xfe", b"", b"00-zz-yy-01", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"):
            plain.send("odd", b"one", headers=[("traceparent", value)]).result(HANG_S)
    assert spans("append odd") == []


def test_without_the_setting_opentelemetry_is_not_even_loaded() -> None:
    program = (
        "import sys, ottla\n"
        "from ottla.testing.broker import KafkaBroker\n"
        "with KafkaBroker() as broker, ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:\n"
        "    producer.send('orders', b'one').result(60)\n"
        "print(sorted(name for name in sys.modules if 'telemetry' in name and 'opent' in name or 'e.tracing' in name))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "[]\n", done.stderr
