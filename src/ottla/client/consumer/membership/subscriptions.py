"""What classic members tell each other: bytes inside JoinGroup (subscription) and SyncGroup (assignment).

An int16 version, then the message of that version. Of a newer version than ours we read what we know: fields are only
ever added at the end. We write the newest version, as Kafka's consumer does; older readers skip what follows.

    subscription   topics, user data of the assignor; 1: owned partitions; 2: generation; 3: rack
    assignment     partitions, user data of the assignor
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeVar

from ottla.errors import MalformedMessage
from ottla.light_dataclasses import dataclass
from ottla.protocol.first_uses import decode_prefix, encode
from ottla.protocol.schema import Message
from ottla.protocol.stored.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ottla.protocol.stored.subscription import TopicPartition as OwnedTopic
from ottla.values import TopicPartition

LAST_VERSION: Final = 3
NO_GENERATION: Final = -1

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member as the leader's assignor sees it."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes | None = None
    group_instance_id: str | None = None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers per topic, both sorted."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        found[topic].append(partition)
    return found


def write_subscription(member: MemberSubscription) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=sorted(member.topics),
        user_data=member.user_data,
        owned_partitions=[OwnedTopic(topic=name, partitions=each) for name, each in by_topic(member.owned).items()],
        generation_id=member.generation,
        rack_id=member.rack,
    )
    return _write(message)


def read_subscription(data: bytes, group_instance_id: str | None = None) -> MemberSubscription:
    message = _read(ConsumerProtocolSubscription, data)
    return MemberSubscription(
        topics=frozenset(message.topics),
        owned=frozenset(
            TopicPartition(owned.topic, index) for owned in message.owned_partitions for index in owned.partitions
        ),
        generation=message.generation_id,
        rack=message.rack_id or None,
        user_data=None if message.user_data is None else bytes(message.user_data),
        group_instance_id=group_instance_id,
    )


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=each)
        for name, each in by_topic(partitions).items()
    ]
    return _write(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None))


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    message = _read(ConsumerProtocolAssignment, data)
    return frozenset(
        TopicPartition(each.topic, index) for each in message.assigned_partitions for index in each.partitions
    )


def _write(message: Message) -> bytes:
    return LAST_VERSION.to_bytes(2, "big") + b"".join(bytes(part) for part in encode(message, LAST_VERSION))


def _read(kind: type[M], data: bytes) -> M:
    view = memoryview(data)
    version = int.from_bytes(view[:2], "big", signed=True) if len(view) >= 2 else -1
    if version < 0:
        raise MalformedMessage(f"{kind.__name__} of {len(view)} bytes has no version; the group's leader is at fault")
    message, _ = decode_prefix(kind, min(version, LAST_VERSION), view[2:])
    return message
