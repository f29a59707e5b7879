"""Our clients push their numbers to a broker that asks for them, and say when they end."""

from __future__ import annotations

import time

import pytest
from tests.patience import HANG_S

import ottla
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.telemetry import machine, push
from ottla.testing.broker import KafkaBroker

METRIC = "org.apache.kafka.producer.record.send.total"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(push, "FIRST_ASK_MS", 1.0)
    monkeypatch.setattr(push, "END_LIMIT_MS", HANG_S * 1000.0)
    # Whoever asks in its first millisecond may hear that its bootstrap connection was closed, and asks again then.
    monkeypatch.setattr(machine, "SILENCE_MS", 100.0)
    with KafkaBroker() as started:
        with ottla.Admin(bootstrap_servers=started.bootstrap_servers) as admin:
            subscription = ConfigResource(ConfigResourceType.CLIENT_METRICS, "all")
            changes = [AlterConfig("metrics", "*"), AlterConfig("interval.ms", "100")]
            admin.incremental_alter_configs({subscription: changes})
            admin.create_topics([ottla.NewTopic("orders", 1, 1)])
        yield started


def clients_of(broker: KafkaBroker) -> dict[str, dict[str, float]]:
    """What is known of every client that did not end, by its name."""

    def read(server):
        telemetry = server.broker.telemetry
        return {
            client.facts.client_id: {name: value for name, _, value in client.received.series()}
            for client in telemetry.clients()
        }

    return broker.call(read)


def wait_for(broker: KafkaBroker, is_there) -> dict[str, dict[str, float]]:
    deadline_s = time.monotonic() + HANG_S
    while not is_there(found := clients_of(broker)):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.02)
    return found


def test_a_producer_and_a_consumer_push_and_end(broker: KafkaBroker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap_servers}
    with ottla.Producer(**settings, client_id="writer") as producer:
        for number in range(5):
            producer.send("orders", value=str(number).encode())
        producer.flush()
        with ottla.Consumer(
            "orders", **settings, client_id="reader", group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.poll(timeout=0.1)
            found = wait_for(broker, lambda known: known.get("writer", {}).get(METRIC) == 5 and known.get("reader"))
            assert any(name.startswith("org.apache.kafka.consumer.") for name in found["reader"])
    wait_for(broker, lambda known: not known.keys() & {"writer", "reader"})


def test_a_client_that_does_not_want_to_pushes_nothing(broker: KafkaBroker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap_servers}
    with (
        ottla.Producer(**settings, client_id="quiet", enable_metrics_push=False) as quiet,
        ottla.Producer(**settings, client_id="loud") as loud,
    ):
        quiet.send("orders", value=b"1").result()
        loud.send("orders", value=b"1").result()
        found = wait_for(broker, lambda known: known.get("loud"))
        assert "quiet" not in found
