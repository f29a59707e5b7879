"""A login that ends is repeated in time by the client, in the middle of its work: nothing fails, nobody notices."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from tests.patience import HANG_S, wait_until

import ottla
from ottla.client.admin.credentials import ScramMechanism, ScramUpsertion
from ottla.testing import KafkaBroker

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SESSION_MS = 3_000
COUNTERS = "kafka_server_socket_server_metrics_"


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "connections.max.reauth.ms": SESSION_MS,
    }
    with KafkaBroker(settings) as made:
        yield made


def user(broker: KafkaBroker, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": "secret",
    }


def counted(broker: KafkaBroker, name: str) -> int:
    lines = broker.call(lambda server: server.registry.text(0)).splitlines()
    return int(next(line for line in lines if line.startswith(f"{COUNTERS}{name}_total{{")).rpartition(" ")[2])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_our_producer_logs_in_again_while_it_writes(broker: KafkaBroker, mechanism: str) -> None:
    with ottla.Admin(**user(broker)) as admin:
        admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret", mechanism=ScramMechanism.SCRAM_SHA_256)])
    with ottla.Producer(**user(broker, mechanism)) as producer:

        def writes_until_it_logged_in_again() -> bool:
            producer.send("clicks", b"x").result(HANG_S)
            return counted(broker, "successful_reauthentication") >= 2

        wait_until(writes_until_it_logged_in_again, "a second login on the same connection")
    assert counted(broker, "failed_reauthentication") == 0


def test_another_client_logs_in_again_or_connects_anew_and_loses_nothing(broker: KafkaBroker) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "log_level": 0,
        }
    )
    logins = counted(broker, "successful_authentication")
    failed: list[object] = []

    def writes_until_it_logged_in_again() -> bool:
        producer.produce("clicks", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.flush(HANG_S)
        again = counted(broker, "successful_reauthentication")
        return again + counted(broker, "successful_authentication") > logins + 3

    wait_until(writes_until_it_logged_in_again, "another login")
    assert failed == []
