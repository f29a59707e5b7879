"""What tests of programs that speak Kafka need, and the twins of the world for tests of Ottla itself.

    from ottla.testing import KafkaBroker

    with KafkaBroker() as broker:
        producer = AnyClient(bootstrap_servers=broker.bootstrap_servers)

1. `KafkaBroker` (broker.py) is a real broker in this process, in memory or on disk. The pytest plugin (plugin.py) has
   it as the fixtures kafka_broker, kafka_broker_session and kafka_broker_fresh, with unique_topic and unique_group.
2. `FakeBroker` (fake/) is a small cluster that misbehaves on request: errors, time-outs, hang-ups, moved leaders,
   nonsense.
3. clock.py, files.py and network.py are the doors to the world, made for tests: time that is moved by hand, disks that
   fail, a network in memory. strategies.py gives Hypothesis messages and records.

Nothing is loaded before it is used: pytest imports this for everybody who has Ottla installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.testing.broker import KafkaBroker
    from ottla.testing.cluster import KafkaCluster
    from ottla.testing.fake import FakeBroker

__all__ = ["FakeBroker", "KafkaBroker", "KafkaCluster"]

_HOMES: Final = {
    "FakeBroker": "ottla.testing.fake",
    "KafkaBroker": "ottla.testing.broker",
    "KafkaCluster": "ottla.testing.cluster",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
