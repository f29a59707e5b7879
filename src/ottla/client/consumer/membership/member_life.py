"""What members of both protocols have in common: who they are, what they hold, and what they have still to say.

1. One change of partitions at a time is being carried out (`_waiting_for`); nothing else is given up meanwhile.
2. Without a valid generation partitions are Lost, with one they are Revoked.
3. Decisions collect in the outbox, in order, until the next plan().
"""

from __future__ import annotations

from typing import Final

from ottla.client.consumer.membership.decisions import (
    Change,
    Decision,
    GroupView,
    Leaving,
    Lost,
    MemberSettings,
    PollIntervalExceeded,
    Revoke,
    Subscription,
    Warn,
)
from ottla.client.group_metadata import UNKNOWN_GENERATION, GroupMetadata
from ottla.values import TopicPartition

ATTEMPTS_LIMIT: Final = 20
"""Waits double no further; retry.backoff.max.ms is reached long before."""


class MemberLife:
    """The part of a membership that does not depend on its protocol."""

    def __init__(self, settings: MemberSettings, member_id: str) -> None:
        self._settings = settings
        self.member_id = member_id
        self.generation = UNKNOWN_GENERATION
        self.assignment: frozenset[TopicPartition] = frozenset()
        self._subscription = Subscription()
        self._view: GroupView = {}
        self._waiting_for: Change | None = None
        self._outbox: list[Decision] = []
        self._ticket = 0
        self._attempts = 0
        self._last_poll_ms: float | None = None
        self._leaving = Leaving.DEFAULT

    @property
    def _is_static(self) -> bool:
        return self._settings.group_instance_id is not None

    def group_metadata(self) -> GroupMetadata:
        settings = self._settings
        return GroupMetadata(settings.group_id, self.generation, self.member_id, settings.group_instance_id)

    def metadata_changed(self, view: GroupView, now_ms: float) -> None:
        """Topics that were looked up and do not exist belong in the view, with no partitions: then nobody waits."""
        self._view = view

    def _give_up(self, partitions: frozenset[TopicPartition], reason: str) -> bool:
        """True: something is being given up, come back when it is carried out."""
        if self._waiting_for is not None:
            return True
        if not partitions:
            return False
        is_lost = self.generation == UNKNOWN_GENERATION
        self._waiting_for = Lost(partitions, reason) if is_lost else Revoke(partitions)
        self._outbox.append(self._waiting_for)
        return True

    def _overslept_ms(self, now_ms: float) -> float | None:
        """How long the application has not polled, if that is too long; the warning says what to do about it."""
        if self._last_poll_ms is None or now_ms - self._last_poll_ms < self._settings.max_poll_interval_ms:
            return None
        return now_ms - self._last_poll_ms

    def _warn_of_oversleeping(self, silent_ms: float) -> None:
        late = f"group {self._settings.group_id!r}, {silent_ms:.0f} ms since the last poll"
        self._outbox.append(Warn(str(PollIntervalExceeded(late))))

    def _next_wait_ms(self) -> float:
        """The back-off after one more failure in a row."""
        wait_ms = min(self._settings.retry_backoff_ms * (1 << self._attempts), self._settings.retry_backoff_max_ms)
        self._attempts = min(self._attempts + 1, ATTEMPTS_LIMIT)
        return wait_ms

    def _new_ticket(self) -> int:
        self._ticket += 1
        return self._ticket
