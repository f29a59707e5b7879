"""Ottla: Apache Kafka for Python people.

    import ottla

    with ottla.Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("clicks", b"value", key=b"user-7")

    with ottla.Consumer("clicks", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            print(record.offset, record.value)

`ottla.aio` has the same classes for asyncio, `ottla.errors` every error, `ottla.testing` a broker for tests. Classes
are loaded when they are first used: `import ottla` itself costs next to nothing.
Their types stand in __init__.pyi, because this file is imported from below and must not import what is above.
"""

from __future__ import annotations

from typing import Any, Final

from ottla._lazy import load

__version__ = "0.1.0"

__all__ = [
    "AcknowledgeType",
    "Admin",
    "AsyncShareConsumer",
    "Consumer",
    "ConsumerRecord",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "ShareConsumer",
    "ShareRecord",
    "TopicPartition",
    "__version__",
    "read_properties",
    "read_topic",
]

_HOMES: Final = {
    "AcknowledgeType": "ottla.client.share.in_flight",
    "Admin": "ottla.client.admin.admin",
    "AsyncShareConsumer": "ottla.client.share.async_share_consumer",
    "Consumer": "ottla.client.consumer.consumer",
    "ConsumerRecord": "ottla.client.consumer.record_choice",
    "NewTopic": "ottla.client.admin.topics",
    "OffsetAndMetadata": "ottla.values",
    "Producer": "ottla.client.producer.producer",
    "ProducerRecord": "ottla.client.producer.values",
    "RecordMetadata": "ottla.client.producer.values",
    "ShareConsumer": "ottla.client.share.share_consumer",
    "ShareRecord": "ottla.client.share.records",
    "TopicPartition": "ottla.values",
    "read_properties": "ottla.properties",
    "read_topic": "ottla.client.topic_table",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return load(_HOMES[name], name)
    if name in ("aio", "errors", "testing"):
        return load(f"ottla.{name}")
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
