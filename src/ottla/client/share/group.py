"""A share consumer in its group: carries out what the membership decides. On the loop.

Heartbeats go on while the application works on its records. How it keeps pace is known from `polled`, which the
caller's thread calls: it leaves a number behind and wakes the loop only when the membership waits for a poll.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.consumer.membership.decisions import Ask, Decision, Fail, ForgetCoordinator, LearnTopics, WakeAt, Warn
from ottla.client.share.membership import ShareMemberSettings, ShareMembership
from ottla.errors import NetworkException, OttlaError, RequestTimedOut
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.share.core import ShareCore

log = logging.getLogger(__name__)


class ShareGroup:
    """The group side of one share consumer."""

    def __init__(self, core: ShareCore, group_id: str, member_id: str) -> None:
        settings = core.settings
        self._core = core
        self.group_id = group_id
        self.topics: frozenset[str] = frozenset()
        self._membership = ShareMembership(
            ShareMemberSettings(
                group_id=group_id,
                max_poll_interval_ms=settings.max_poll_interval_ms,
                retry_backoff_ms=settings.retry_backoff_ms,
                retry_backoff_max_ms=settings.retry_backoff_max_ms,
                rack=settings.client_rack or None,
            ),
            member_id,
        )
        self._polled_ms: float | None = None
        self._reported_ms: float | None = None
        self._seen_version = -1

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._membership.assignment

    @property
    def has_left(self) -> bool:
        return self._membership.has_left

    def polled(self, now_ms: float) -> None:
        """From the caller's thread."""
        self._polled_ms = now_ms
        if self._membership.waits_for_poll:
            self._core.wake_from_caller()

    def subscribe(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self._membership.subscribed(topics)

    def leave(self) -> None:
        self.topics = frozenset()
        self._membership.leave()

    def step(self) -> float:
        """Carry out what is due; returns the time to look again."""
        metadata = self._core.network.metadata
        if metadata.version != self._seen_version:
            self._seen_version = metadata.version
            ids = {name: metadata.topic_id(name) for name in metadata.topics()}
            self._membership.topics_known({topic_id: name for name, topic_id in ids.items() if topic_id is not None})
        if self._polled_ms is not None and self._polled_ms != self._reported_ms:
            self._reported_ms = self._polled_ms
            self._membership.polled(self._polled_ms)
        wake_ms = float("inf")
        for decision in self._membership.plan(self._core.clock.monotonic_ms()):
            if isinstance(decision, WakeAt):
                wake_ms = decision.ms
            else:
                self._carry_out(decision)
        return wake_ms

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Ask():
                self._core.spawn(self._ask(decision))
            case ForgetCoordinator():
                log.info("share group %s: looking for the coordinator again: %s", self.group_id, decision.reason)
                self._core.network.coordinator_gone("group", self.group_id)
            case LearnTopics():
                self._core.network.metadata.request_update()
                self._core.network.wake()
            case Warn():
                log.warning("%s", decision.message)
            case Fail():
                self._core.fail(decision.error)

    async def _ask(self, ask: Ask) -> None:
        network, clock = self._core.network, self._core.clock
        begun_ms = clock.monotonic_ms()
        try:
            node = await network.coordinator("group", self.group_id)
            response = await network.send(node, ask.request)
        except OttlaError as error:
            if isinstance(error, NetworkException | RequestTimedOut):
                network.coordinator_gone("group", self.group_id)
            self._membership.failed(ask, error, clock.monotonic_ms())
        else:
            now_ms = clock.monotonic_ms()
            self._core.metrics.heartbeat(now_ms - begun_ms, now_ms)
            self._membership.answered(ask, response, now_ms)
        self._core.note_answer()
