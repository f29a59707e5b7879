"""Telemetry of clients through a broker: configured by client-metrics resources, asked for, pushed, shown, bounded."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.observe.state_metrics import StateMetrics
from ottla.broker.telemetry import telemetry
from ottla.cluster.model import ResourceType
from ottla.errors import name_of_code
from ottla.metrics import Registry
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.protocol.otlp.points import Counts, Point
from ottla.protocol.otlp.writing import write_points
from ottla.records.compression import Compression, compress
from ottla.values import ZERO_UUID, uuid_to_text

INTERVAL_MS = 1_000


class Network:
    """The acceptor, as far as metrics know it."""

    connections, opened, closed, waiting_bytes = (), {}, {}, (0, -1)


def subscribe(broker, name="all", **settings):
    values = {"metrics": "*", "interval.ms": str(INTERVAL_MS), **{k.replace("_", "."): v for k, v in settings.items()}}
    resource = AlterConfigsResource(
        resource_type=ResourceType.CLIENT_METRICS,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
            for key, value in values.items()
        ],
    )
    answer = broker.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    return name_of_code(answer.responses[0].error_code)


def ask(broker, instance_id=ZERO_UUID, **who):
    return broker.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), **who)


def push(broker, asked, points=(), *, codec=Compression.NONE, ends=False, content=None, of=None, **who):
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=asked.subscription_id if of is None else of,
        terminating=ends,
        compression_type=codec,
        metrics=compress(codec, write_points(points)) if content is None else content,
    )
    return name_of_code(broker.ask(request, **who).error_code)


def shown(broker):
    registry = Registry()
    state = StateMetrics(registry, broker.broker, Network(), broker.clock, 0)

    async def read():
        list(state.update())
        state.loop.stop()

    asyncio.run(read())
    lines = [line for line in registry.text(0).splitlines() if "client" in line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_client_gets_an_id_and_what_it_is_asked_for(broker):
    assert subscribe(broker, match="client_id=ord.*") == "NONE"
    asked = ask(broker, client_id="orders")
    assert (asked.error_code, asked.requested_metrics, asked.push_interval_ms) == (0, ["*"], INTERVAL_MS)
    assert asked.client_instance_id != ZERO_UUID
    assert asked.delta_temporality
    assert asked.accepted_compression_types == [4, 3, 1, 2]
    assert asked.telemetry_max_bytes == 1_048_576
    assert ask(broker, client_id="other").requested_metrics == []


def test_resources_are_listed_and_gone_when_everything_of_them_is(broker):
    subscribe(broker, "mine")
    listed = broker.ask(ListConfigResourcesRequest(), 0).config_resources
    assert [each.resource_name for each in listed] == ["mine"]
    subscribe(broker, "mine", metrics=None, interval_ms=None)
    assert broker.ask(ListConfigResourcesRequest(), 0).config_resources == []
    assert ask(broker).requested_metrics == []


@pytest.mark.parametrize("match", ["client_id", "name=x", "client_id=(", "client_id=(?=x)y"])
def test_what_cannot_be_matched_is_refused_when_it_is_set(broker, match):
    assert subscribe(broker, match=match) == "INVALID_CONFIG"


@pytest.mark.parametrize("codec", list(Compression))
def test_what_is_pushed_is_shown_in_every_compression(broker, codec):
    subscribe(broker)
    asked = ask(broker, client_id="orders")
    about = (("topic", "t"), ("node", "1"))
    points = [Point("org.x.sent", tuple(sorted(about)), 5.0, Counts.SINCE_LAST_PUSH), Point("org.x.size", (), 2.5)]
    assert push(broker, asked, points, codec=codec, client_id="orders") == "NONE"
    found = shown(broker)
    name = uuid_to_text(asked.client_instance_id)
    sent = f'client_instance_id="{name}",client_id="orders",metric="org.x.sent",attributes="node=1,topic=t"'
    assert found[f"ottla_client_metric{{{sent}}}"] == 5.0
    assert found["kafka_server_client_metrics_instance_count"] == 1
    assert found[f'kafka_server_client_metrics_plugin_export_count{{client_instance_id="{name}"}}'] == 1


def test_a_client_that_ends_is_not_shown_any_more(broker):
    subscribe(broker)
    asked = ask(broker)
    push(broker, asked, [Point("a", (), 1.0)])
    assert push(broker, asked, [Point("a", (), 1.0)], ends=True) == "NONE"
    found = shown(broker)
    assert found["kafka_server_client_metrics_instance_count"] == 0
    assert not any(name.startswith("ottla_client_metric{") for name in found)


def test_a_silent_client_is_forgotten_after_a_minute(broker):
    subscribe(broker)
    push(broker, ask(broker), [Point("a", (), 1.0)])
    broker.later(59_000)
    assert shown(broker)["kafka_server_client_metrics_instance_count"] == 1
    broker.later(2_000)
    assert shown(broker)["kafka_server_client_metrics_instance_count"] == 0


def test_pushes_follow_the_interval_and_the_subscription(broker):
    subscribe(broker)
    asked = ask(broker)
    assert push(broker, asked) == "NONE"
    assert push(broker, asked) == "THROTTLING_QUOTA_EXCEEDED"
    broker.later(INTERVAL_MS)
    assert push(broker, asked) == "NONE"
    subscribe(broker, metrics="org.a.")
    assert push(broker, asked) == "UNKNOWN_SUBSCRIPTION_ID"
    again = ask(broker, asked.client_instance_id)
    assert (again.error_code, again.requested_metrics) == (0, ["org.a."])
    broker.later(INTERVAL_MS)
    assert push(broker, again) == "NONE"
    assert shown(broker)["kafka_server_client_metrics_unknown_subscription_request_count"] == 1


def test_settings_of_topics_disturb_no_client(broker):
    subscribe(broker)
    asked = ask(broker)
    broker.create_topic("orders", retention_ms="1000")
    assert push(broker, asked) == "NONE"
    assert push(broker, asked) == "THROTTLING_QUOTA_EXCEEDED"


def test_what_is_too_large_packed_or_unpacked_is_refused(make_broker):
    broker = make_broker(**{"telemetry.max.bytes": "1000"})
    subscribe(broker)
    asked = ask(broker)
    assert asked.telemetry_max_bytes == 1_000
    assert push(broker, asked, content=b"x" * 1_001) == "TELEMETRY_TOO_LARGE"
    broker.later(INTERVAL_MS)
    packed = compress(Compression.ZSTD, b"\0" * 100_000)
    assert len(packed) < 1_000
    assert push(broker, asked, content=packed, codec=Compression.ZSTD) == "INVALID_RECORD"


def test_what_is_no_metrics_is_refused_and_counted(broker):
    subscribe(broker)
    asked = ask(broker)
    assert push(broker, asked, content=b"\x0a\xff") == "INVALID_RECORD"
    name = uuid_to_text(asked.client_instance_id)
    assert shown(broker)[f'kafka_server_client_metrics_plugin_error_count{{client_instance_id="{name}"}}'] == 1


def test_who_has_no_id_cannot_push(broker):
    subscribe(broker)
    asked = ask(broker)
    asked.client_instance_id = ZERO_UUID
    assert push(broker, asked) == "INVALID_REQUEST"


def test_clients_and_their_numbers_are_bounded(broker, monkeypatch):
    monkeypatch.setattr(telemetry, "INSTANCES_LIMIT", 2)
    monkeypatch.setattr(telemetry, "TOTAL_SERIES", 3)
    subscribe(broker)
    for _ in range(3):
        push(broker, ask(broker), [Point("a", (), 1.0), Point("b", (), 1.0)])
    found = shown(broker)
    assert found["kafka_server_client_metrics_instance_count"] == 2
    assert sum(name.startswith("ottla_client_metric{") for name in found) == 3
    assert found["ottla_client_metrics_left_out_total"] == 1
