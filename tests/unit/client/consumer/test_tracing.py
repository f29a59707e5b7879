"""Spans of polls: one per topic, linked to the producers' spans; OpenTelemetry itself is played by a small fake."""

from types import SimpleNamespace

import pytest

from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.consumer.tracing import LINKS_LIMIT, ConsumerTracing
from ottla.errors import InvalidSetting


@pytest.fixture
def spans():
    return []


@pytest.fixture
def tracing(spans):
    def start_span(name, *, kind, attributes, links):
        spans.append((name, kind, attributes, links))
        return SimpleNamespace(end=lambda: spans.append("ended"))

    def current_span(context):
        return SimpleNamespace(get_span_context=lambda: SimpleNamespace(is_valid=bool(context), name=context))

    trace = SimpleNamespace(
        get_tracer=lambda name: SimpleNamespace(start_span=start_span),
        get_current_span=current_span,
        SpanKind=SimpleNamespace(CLIENT="client"),
        Link=lambda context: context.name,
    )
    propagate = SimpleNamespace(extract=lambda carrier: carrier.get("traceparent"))
    return ConsumerTracing(trace, propagate, client_id="c", group_id="g")


def test_a_poll_makes_one_span_per_topic_with_links_to_the_senders(tracing, spans):
    tracing.received(
        [
            ConsumerRecord("a", 0, 0, None, b"", [("traceparent", b"one")]),
            ConsumerRecord("b", 0, 0, None, b""),
            ConsumerRecord("a", 0, 1, None, b"", [("other", None)]),
        ]
    )
    (name, kind, attributes, links), ended, (second, *_), _ = spans
    assert (name, kind, ended, second, links) == ("poll a", "client", "ended", "poll b", ["one"])
    assert attributes == {
        "messaging.system": "kafka",
        "messaging.operation.type": "receive",
        "messaging.operation.name": "poll",
        "messaging.client.id": "c",
        "messaging.consumer.group.name": "g",
        "messaging.destination.name": "a",
        "messaging.batch.message_count": 2,
    }


def test_links_have_a_limit(tracing, spans):
    tracing.received([ConsumerRecord("a", 0, 0, None, b"", [("traceparent", b"x")])] * (LINKS_LIMIT + 5))
    assert len(spans[0][3]) == LINKS_LIMIT


def test_without_the_package_the_setting_is_refused(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.trace", None)
    with pytest.raises(InvalidSetting, match="opentelemetry-api"):
        ConsumerTracing.enabled(client_id="c", group_id=None)
