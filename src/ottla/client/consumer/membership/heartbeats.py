"""What a ConsumerGroupHeartbeat says: everything when joining, afterwards only what changed.

The coordinator remembers what it was told, so a member repeats nothing. When an answer was lost or was an error, nobody
knows what it remembers: `forget` makes the next heartbeat say everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.client.consumer.membership.decisions import GroupView, MemberSettings, Subscription
from ottla.client.consumer.membership.subscriptions import by_topic
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.values import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member goes away for a while; its partitions wait for it."""


class HeartbeatFields:
    """Remembers what the coordinator was told."""

    def __init__(self, settings: MemberSettings, member_id: str) -> None:
        self._settings = settings
        self._member_id = member_id
        self._sent_fields: dict[str, Any] = {}
        self._had_pattern = False

    def forget(self) -> None:
        self._sent_fields = {}

    def repeat_owned(self) -> None:
        """The next heartbeat says what we have, whether it changed or not."""
        self._sent_fields.pop("topic_partitions", None)

    def joining(self, subscription: Subscription) -> ConsumerGroupHeartbeatRequest:
        self.forget()
        return self.staying(JOIN_EPOCH, subscription, [])

    def staying(
        self, epoch: int, subscription: Subscription | None, owned: list[TopicPartitions] | None
    ) -> ConsumerGroupHeartbeatRequest:
        """None: do not speak of it, it is just changing."""
        now: dict[str, Any] = {
            "rebalance_timeout_ms": self._settings.max_poll_interval_ms,
            "rack_id": self._settings.rack,
            "server_assignor": self._settings.remote_assignor,
        }
        if subscription is not None:
            now["subscribed_topic_names"] = sorted(subscription.topics)
            self._had_pattern = self._had_pattern or subscription.pattern is not None
            if self._had_pattern:
                # An empty text takes the pattern back; not speaking of it would keep it.
                now["subscribed_topic_regex"] = subscription.pattern or ""
        if owned is not None:
            now["topic_partitions"] = owned
        news = {
            name: value
            for name, value in now.items()
            if name not in self._sent_fields or self._sent_fields[name] != value
        }
        self._sent_fields |= now
        return self._request(epoch, news)

    def leaving(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        self.forget()
        return self._request(epoch, {})

    def _request(self, epoch: int, news: Mapping[str, Any]) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._settings.group_instance_id,
            **news,
        )


def by_topic_id(partitions: frozenset[TopicPartition], ids: Mapping[str, bytes]) -> list[TopicPartitions]:
    """Partitions as the wire has them; `ids` has the topics we were ever assigned."""
    return [TopicPartitions(topic_id=ids[name], partitions=found) for name, found in by_topic(partitions).items()]


def by_name(
    assignment: list[TopicPartitions], view: GroupView
) -> tuple[frozenset[TopicPartition], dict[str, bytes], frozenset[bytes]]:
    """Partitions by name, the ids of their topics, and the ids whose names the view does not know."""
    names = {topic.topic_id: name for name, topic in view.items()}
    known = [each for each in assignment if each.topic_id in names]
    partitions = frozenset(TopicPartition(names[each.topic_id], index) for each in known for index in each.partitions)
    unknown = frozenset(each.topic_id for each in assignment) - names.keys()
    return partitions, {names[each.topic_id]: each.topic_id for each in known}, unknown
