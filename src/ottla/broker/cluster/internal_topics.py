"""How the topics of the coordinators are made: their partitions, replicas and settings.

1. A broker on its own says that committed offsets are durable whatever its default is. In a cluster the controller may
   be Apache Kafka's, which refuses names that it does not know; there the copies keep them.
2. Where there are fewer brokers than copies are asked for, they are made when there are enough, as in Kafka. With
   ottla.internal.topics.fewer.copies they are made at once, with a copy on each broker, and whoever adds the next
   broker gives them more (cli/quorum/copies.py).
"""

from __future__ import annotations

import sys
from typing import Final

from ottla.broker.settings import BrokerSettings
from ottla.cluster.topic_names import SCHEMAS, SHARE_GROUP_STATE
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

ALL: Final = sys.maxsize


def internal_topic_request(name: str, settings: BrokerSettings, *, is_alone: bool, brokers: int) -> CreatableTopic:
    """`brokers` is how many live."""
    most = max(brokers, 1) if settings.ottla_internal_topics_fewer_copies else ALL
    if name == "__consumer_offsets":
        return _topic(
            name,
            settings.offsets_topic_num_partitions,
            min(settings.offsets_topic_replication_factor, most),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
                **({"ottla.durability": "auto"} if is_alone else {}),
            },
        )
    if name == "__transaction_state":
        return _topic(
            name,
            settings.transaction_state_log_num_partitions,
            min(settings.transaction_state_log_replication_factor, most),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(_enough(settings.transaction_state_log_min_isr, most)),
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            },
        )
    if name == SCHEMAS:
        copies = min(settings.offsets_topic_replication_factor, most)
        return _topic(name, 1, copies, {"cleanup.policy": "compact"})
    if name == SHARE_GROUP_STATE:
        return _topic(
            name,
            settings.share_coordinator_state_topic_num_partitions,
            min(settings.share_coordinator_state_topic_replication_factor, most),
            {
                # Updates of a key all count; the coordinator cuts the log itself.
                "cleanup.policy": "delete",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(_enough(settings.share_coordinator_state_topic_min_isr, most)),
                "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
                "retention.ms": "-1",
                **({"ottla.durability": "auto"} if is_alone else {}),
            },
        )
    raise ValueError(f"{name} is no internal topic that is made here")


def _enough(wanted: int, most: int) -> int:
    """How many copies must be in sync, so that with fewer than wanted one may still be missing."""
    return min(wanted, max(most - 1, 1))


def _topic(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
