"""A little of everything that a broker counts: records in and out, groups, transactions, failures, quotas.

It runs on any Kafka: the same work is done on Apache Kafka to see which metrics that has (test_jmx_names.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.patience import HANG_S

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.errors import OttlaError

TOPIC, COMPACTED, GROUP, NEW_GROUP = "orders", "prices", "readers", "new-readers"
LIMITED = {"user": "ANONYMOUS", "client-id": "limited"}
QUOTAS = {
    "producer_byte_rate": 10_000_000.0,
    "consumer_byte_rate": 50_000_000.0,
    "request_percentage": 500.0,
    "controller_mutation_rate": 500.0,
}
RECORDS, COMMITTED, PARTITIONS = 200, 120, 2


@contextlib.contextmanager
def worked(bootstrap: str, *, replicas: int = 1) -> Iterator[None]:
    """All of it is done, and the members of both groups are still there."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_client_quotas([(LIMITED, QUOTAS)])
    with Admin(bootstrap_servers=bootstrap, client_id="limited") as admin:
        compact = {"cleanup.policy": "compact"}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas), NewTopic(COMPACTED, 1, replicas, compact)])
    _produce(bootstrap)
    _fail(bootstrap)
    with _member(bootstrap, GROUP, "classic"), _member(bootstrap, NEW_GROUP, "consumer"):
        yield


def _produce(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, client_id="limited", acks="all") as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, str(number).encode(), partition=number % PARTITIONS)
            producer.send(COMPACTED, b"price", key=b"%d" % (number % 3))
        producer.flush(HANG_S)
    with Producer(bootstrap_servers=bootstrap, transactional_id="payments") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(TOPIC, b"in a transaction", partition=0)


@contextlib.contextmanager
def _member(bootstrap: str, group: str, protocol: str) -> Iterator[Consumer]:
    """A consumer that has read and committed a part."""
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol=protocol,
        client_id="limited",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=COMMITTED,
    ) as consumer:
        consumer.subscribe([TOPIC])
        seen = 0
        while seen < COMMITTED:
            seen += len(consumer.poll(1.0))
        consumer.commit()
        yield consumer


def _fail(bootstrap: str) -> None:
    large = Producer(bootstrap_servers=bootstrap, max_request_size=3_000_000, linger_ms=0)
    with large as producer, contextlib.suppress(OttlaError):
        producer.send(TOPIC, bytes(2_000_000)).result(HANG_S)
