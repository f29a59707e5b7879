"""The leader's part of a classic rebalance: it knows every member's subscription and hands out the partitions.

The leader may not know topics that only others read: it waits until its view has them (with no partitions if they do
not exist), but not longer than LEARN_LIMIT_MS, because the group waits for it. Afterwards it watches the topics of the
whole group: when one of them grows or moves to other racks, only the leader notices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.client.consumer.membership.assignors import Assignor
from ottla.client.consumer.membership.decisions import GroupView
from ottla.client.consumer.membership.subscriptions import MemberSubscription, read_subscription, write_assignment

LEARN_LIMIT_MS: Final = 10_000


class Leadership:
    """One generation that this member leads."""

    def __init__(self, members: Iterable[Any], now_ms: float) -> None:
        """`members` as JoinGroup answers them; MalformedMessage when one is not readable."""
        self.members: dict[str, MemberSubscription] = {
            member.member_id: read_subscription(member.metadata, member.group_instance_id) for member in members
        }
        self.topics = frozenset(topic for member in self.members.values() for topic in member.topics)
        self.learn_until_ms = now_ms + LEARN_LIMIT_MS
        self._seen: dict[str, Any] | None = None

    def knows_enough(self, view: GroupView, now_ms: float) -> bool:
        return self.topics <= view.keys() or now_ms >= self.learn_until_ms

    def remember(self, view: GroupView) -> None:
        """This is what the assignment is based on."""
        self._seen = self._relevant(view)

    def is_outdated(self, view: GroupView) -> bool:
        return self._seen is not None and self._relevant(view) != self._seen

    def assign(self, assignor: Assignor, view: GroupView) -> dict[str, bytes]:
        self.remember(view)
        shares = assignor.assign(view, self.members)
        return {name: write_assignment(found) for name, found in shares.items()}

    def _relevant(self, view: GroupView) -> dict[str, Any]:
        # A topic without partitions is as good as one that is not known.
        known = ((topic, view[topic].partition_racks) for topic in self.topics if topic in view)
        return {topic: racks for topic, racks in known if racks}
