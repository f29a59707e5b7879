"""What a broker does by itself: here, forgetting producers that were silent too long."""

import time

import confluent_kafka
from tests.patience import HANG_S

from ottla.testing.broker import KafkaBroker


def test_a_producer_that_was_silent_too_long_is_forgotten() -> None:
    settings = {"producer.id.expiration.ms": 50, "producer.id.expiration.check.interval.ms": 20}
    with KafkaBroker(settings) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        producer.produce("t", b"x")
        assert producer.flush(HANG_S) == 0

        def known() -> int:
            return broker.call(lambda server: sum(len(p.log.producers.entries) for p in server.broker.replicas))

        end_s = time.monotonic() + HANG_S
        while known() and time.monotonic() < end_s:
            time.sleep(0.02)
        assert known() == 0
