"""The disk fails under a running broker: nothing is acknowledged that is not there, and the broker says so."""

import time
from typing import Any

import confluent_kafka
from tests.patience import HANG_S

from ottla.broker.server import Server
from ottla.testing.broker import KafkaBroker
from ottla.testing.files import MemoryFiles


def break_syncs(server: Server) -> None:
    files = server.broker_files
    assert isinstance(files, MemoryFiles)
    files.fail(lambda operation: operation.kind == "sync", for_ever=True)


def test_a_failed_sync_is_never_acknowledged_and_stops_a_broker_without_another_directory() -> None:
    with KafkaBroker({"ottla.durability": "durable"}) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 3000})
        outcomes: list[Any] = []
        producer.produce("t", b"kept", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(HANG_S)
        broker.call(break_syncs)
        producer.produce("t", b"lost", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(HANG_S)
        assert outcomes[0] is None
        assert outcomes[1] is not None
        end_s = time.monotonic() + HANG_S
        while not broker.call(lambda server: server.failed.is_set()) and time.monotonic() < end_s:
            time.sleep(0.05)
        assert broker.call(lambda server: server.failure) is not None
