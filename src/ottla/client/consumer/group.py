"""A consumer in its group: carries out what the membership decides, and commits. On the loop.

The deciding is elsewhere: membership/ (joining, heartbeats, who has what) and offsets.py (what an answer to a commit
means). Here requests are sent and tried again, and what only the caller may do is put into the core's `attention`.

1. Heartbeats go on while the application works on its records. How it keeps pace is known from `polled`, which the
   caller's thread calls: it leaves a number behind and wakes the loop only when the membership waits for a poll. A
   poll that waits for records calls it again and again, often only while the membership waits for it.
2. Commits keep their order: each waits for the one before it. Without that an old position could overtake a new one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.client.consumer.callbacks import CallbackDue, CommitCallback
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.membership.decisions import (
    Ask,
    Assigned,
    Change,
    Decision,
    Fail,
    ForgetCoordinator,
    GroupView,
    LearnTopics,
    Leaving,
    Lost,
    MemberSettings,
    Membership,
    Revoke,
    TopicView,
    WakeAt,
    Warn,
)
from ottla.client.consumer.membership.decisions import Subscription as ColumnSet
from ottla.client.consumer.offsets import (
    COMMIT_VERSION_LIMIT,
    FETCH_VERSION_LIMIT,
    AutoCommit,
    CommitFailed,
    CommitResult,
    FetchResult,
    commit_failed,
    commit_request,
    fetch_failed,
    fetch_request,
    read_commit,
    read_fetch,
)
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.group_metadata import GroupMetadata
from ottla.client.network import VersionedRequest
from ottla.errors import NetworkException, OttlaError, RequestTimedOut
from ottla.protocol.api import api_of
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.values import ZERO_UUID, OffsetAndMetadata, TopicPartition, random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.client.consumer.core import ConsumerCore

log = logging.getLogger(__name__)

Positions = Mapping[TopicPartition, OffsetAndMetadata]

POLL_TURN_MS: Final = 200.0
POLLS_IN_INTERVAL: Final = 8  # so often, at least, a poll that waits says so within max.poll.interval.ms


class Group:
    """The group side of one consumer."""

    def __init__(self, core: ConsumerCore, group_id: str) -> None:
        settings = core.settings
        self._core = core
        self._settings = settings
        self.group_id = group_id
        self._is_consumer_protocol = settings.group_protocol == "consumer"
        self._membership = membership_of(settings, group_id, core.random_bytes)
        self._auto_commit = AutoCommit(
            enabled=settings.commits_by_itself,
            interval_ms=settings.auto_commit_interval_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self._polled_ms: float | None = None
        self._reported_poll_ms: float | None = None
        self._waits_for_poll = True
        self.also_wanted: frozenset[str] = frozenset()
        self._committing = asyncio.Lock()
        self._left = asyncio.Event()

    # --- from the caller's thread ---

    def polled(self, now_ms: float) -> bool:
        """The application polls; True when it is time to commit what it was given before."""
        self._polled_ms = now_ms
        if self._waits_for_poll:
            self._core.wake_from_caller()
        return self._auto_commit.enabled and self._auto_commit.should_commit(now_ms)

    def poll_turn_ms(self, now_ms: float) -> float:
        """After this time a poll that still waits should call `polled` again."""
        if self._waits_for_poll:
            return POLL_TURN_MS
        paced_ms = self._settings.max_poll_interval_ms / POLLS_IN_INTERVAL
        return max(POLL_TURN_MS, min(paced_ms, self._auto_commit.due_ms(now_ms) - now_ms))

    def group_metadata(self) -> GroupMetadata:
        return self._membership.group_metadata()

    # --- on the loop: membership ---

    def step(self) -> float:
        """Carry out what is due; returns the time to look again."""
        now_ms = self._now_ms()
        if self._polled_ms is not None and self._polled_ms != self._reported_poll_ms:
            self._reported_poll_ms = self._polled_ms
            self._membership.polled(self._polled_ms)
        wake_ms = float("inf")
        for decision in self._membership.plan(now_ms):
            if isinstance(decision, WakeAt):
                wake_ms = decision.ms
            else:
                self._carry_out(decision)
        waited, self._waits_for_poll = (
            self._waits_for_poll,
            self._membership.is_rebalancing or not self._membership.is_member,
        )
        if self._waits_for_poll and not waited:
            self._core.stir()
        if self._membership.has_left:
            self._left.set()
        return wake_ms

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Ask():
                self._core.spawn(self._ask(decision))
            case ForgetCoordinator():
                log.info("group %s: looking for the coordinator again: %s", self.group_id, decision.reason)
                self._core.network.coordinator_gone("group", self.group_id)
            case LearnTopics():
                self._learn(decision)
            case Revoke() | Lost() | Assigned():
                log.info("group %s: %s", self.group_id, _change_text(decision))
                self._core.attend(decision)
            case Warn():
                log.warning("%s", decision.message)
            case Fail():
                self._core.fail(decision.error)

    async def _ask(self, ask: Ask) -> None:
        network = self._core.network
        timeout_ms = network.request_timeout_ms if ask.timeout_ms is None else ask.timeout_ms
        begun_ms = self._now_ms()
        try:
            node = await network.coordinator("group", self.group_id, timeout_ms=timeout_ms)
            response = await network.send(node, ask.request, timeout_ms=timeout_ms)
        except OttlaError as error:
            if isinstance(error, NetworkException | RequestTimedOut):
                network.coordinator_gone("group", self.group_id)
            self._membership.failed(ask, error, self._now_ms())
        else:
            now_ms = self._now_ms()
            if isinstance(ask.request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
                self._core.metrics.heartbeat(now_ms - begun_ms, now_ms)
            self._membership.answered(ask, response, now_ms)
        self._core.wake()

    def _learn(self, wanted: LearnTopics) -> None:
        """Topics that others in the group read, which we may have to assign, or whose names we do not know."""
        self.also_wanted |= wanted.names
        network = self._core.network
        network.metadata.want(*wanted.names, now_ms=self._now_ms())
        if wanted.ids:
            network.metadata.request_update()
        network.wake()

    async def subscription_changed(self) -> None:
        """The user subscribed to something else."""
        self._update_subscription()
        self._update_view()
        self._left.clear()
        self._core.wake()

    def metadata_changed(self, *, subscription_changed: bool) -> None:
        if not self._core.subscription.is_group_managed:
            return
        if subscription_changed:
            self._update_subscription()
        self._update_view()

    def _update_subscription(self) -> None:
        subscription = self._core.subscription
        pattern = subscription.pattern if isinstance(subscription.pattern, str) else None
        self._membership.subscription_changed(ColumnSet(subscription.topics, pattern), self._now_ms())

    def _update_view(self) -> None:
        metadata = self._core.network.metadata
        view: dict[str, TopicView] = {topic: TopicView(()) for topic in metadata.topic_errors()}
        for topic in metadata.topics():
            partitions = metadata.partitions_of(topic) or ()
            racks = tuple(self._racks(info.replicas) for info in partitions)
            view[topic] = TopicView(racks, metadata.topic_id(topic) or ZERO_UUID)
        shared: GroupView = view
        self._membership.metadata_changed(shared, self._now_ms())

    def _racks(self, replicas: Collection[int]) -> frozenset[str]:
        if not self._settings.client_rack:
            return frozenset()
        nodes = (self._core.network.metadata.node(replica) for replica in replicas)
        return frozenset(node.rack for node in nodes if node is not None and node.rack)

    def carried_out(self, change: Change) -> None:
        now_ms = self._now_ms()
        if isinstance(change, Assigned):
            self._auto_commit.assigned(now_ms)
            self._core.metrics.rebalanced(now_ms)
        self._membership.carried_out(change, now_ms)
        self._core.wake()

    def rejoin(self, reason: str) -> None:
        self._membership.rejoin(reason or "the application asked for it", self._now_ms())
        self._core.wake()

    async def leave(self, timeout_ms: float, how: Leaving = Leaving.DEFAULT) -> None:
        """Leave the group; the partitions are given back by the caller meanwhile."""
        self._membership.leave(self._now_ms(), how=how)
        self._core.wake()
        try:
            async with self._core.clock.timeout(timeout_ms):
                await self._left.wait()
        except TimeoutError:
            log.warning("group %s was not told within %.0f ms that this consumer leaves", self.group_id, timeout_ms)

    # --- on the loop: offsets ---

    async def commit(self, offsets: Positions, timeout_ms: float) -> Positions:
        """Commit, trying again until the time is over; returns what was committed."""
        async with self._committing:
            deadline_ms = self._now_ms() + timeout_ms
            remaining = dict(offsets)
            attempt = 0
            while remaining:
                result = await self._commit_once(remaining, deadline_ms - self._now_ms())
                remaining = result.remaining
                if result.error is not None:
                    await self._before_retry(result, attempt, deadline_ms)
                    attempt += 1
            return offsets

    async def _commit_once(self, offsets: Positions, timeout_ms: float) -> CommitResult:
        network = self._core.network
        identity = self._identity()
        if self._core.subscription.is_group_managed and identity.generation_id < 0:
            raise CommitFailed(f"this consumer is not a member of {self.group_id!r} now")
        begun_ms = self._now_ms()
        try:
            node = await network.coordinator("group", self.group_id, timeout_ms=timeout_ms)
            left_ms = timeout_ms - (self._now_ms() - begun_ms)
            response = await network.send(
                node,
                commit_request(identity, offsets),
                at_most=COMMIT_VERSION_LIMIT,
                timeout_ms=min(left_ms, network.request_timeout_ms),
            )
            result = read_commit(offsets, response)
        except OttlaError as error:
            result = commit_failed(offsets, error)
        now_ms = self._now_ms()
        self._core.metrics.committed(now_ms - begun_ms, now_ms)
        if result.membership_error is not None:
            self._membership.commit_refused(result.membership_error, now_ms)
            self._core.wake()
        return result

    def _identity(self) -> GroupMetadata:
        if self._core.subscription.is_group_managed:
            return self._membership.group_metadata()
        return GroupMetadata(self.group_id)

    async def _before_retry(self, result: CommitResult | FetchResult, attempt: int, deadline_ms: float) -> None:
        """Wait a little, or raise what cannot be tried again."""
        assert result.error is not None, "asked only after an error"
        network = self._core.network
        if result.find_coordinator:
            network.coordinator_gone("group", self.group_id)
        wait_ms = network.backoff.delay_ms(attempt)
        if not result.retry or self._now_ms() + wait_ms >= deadline_ms:
            raise result.error
        await network.clock.sleep(wait_ms)

    async def commit_before_revoke(self, offsets: Positions, timeout_ms: float | None = None) -> None:
        """Auto commit before partitions go. If it fails their next reader begins a little earlier, that is all."""
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            await self.commit(offsets, limit_ms)
        except OttlaError as error:
            log.warning("group %s: the offsets were not committed before partitions went: %s", self.group_id, error)

    def commit_soon(self, offsets: Positions) -> None:
        """Auto commit: once, in the background; the next interval comes anyway."""
        self._core.spawn(self._commit_by_itself(offsets))

    async def _commit_by_itself(self, offsets: Positions) -> None:
        retry_soon = False
        try:
            if offsets:
                await self.commit(offsets, self._settings.request_timeout_ms)
        except OttlaError as error:
            retry_soon = error.retriable
            log.warning("group %s: auto commit failed: %s", self.group_id, error)
        finally:
            self._auto_commit.finished(self._now_ms(), retry_soon=retry_soon)
            self._core.stir()  # the next one has a time now

    def commit_in_background(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: CommitCallback | None, seen_by: Interceptors
    ) -> asyncio.Task[Any]:
        """commit_async: its callback is called by a later poll."""
        return self._core.spawn(self._commit_and_notify(offsets, callback, seen_by))

    async def _commit_and_notify(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: CommitCallback | None, seen_by: Interceptors
    ) -> None:
        failure: OttlaError | None = None
        try:
            await self.commit(offsets, self._settings.call_timeout_ms)
            seen_by.on_commit(offsets)
        except OttlaError as error:
            failure = error
        if callback is not None:
            self._core.attend(CallbackDue(callback, offsets, failure))
        elif failure is not None:
            log.warning("group %s: an offset commit failed: %s", self.group_id, failure)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing is."""
        deadline_ms = self._now_ms() + timeout_ms
        attempt = 0
        while True:
            result = await self._fetch_once(partitions, deadline_ms - self._now_ms())
            if result.error is None:
                return {name: result.offsets.get(name) for name in partitions}
            await self._before_retry(result, attempt, deadline_ms)
            attempt += 1

    async def committed_for_start(
        self, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return await self.committed(partitions, self._settings.call_timeout_ms)

    async def _fetch_once(self, partitions: Collection[TopicPartition], timeout_ms: float) -> FetchResult:
        network = self._core.network
        request = VersionedRequest(
            api_of(OffsetFetchRequest),
            lambda version: fetch_request(
                self._identity(),
                partitions,
                version=version,
                is_consumer_protocol=self._is_consumer_protocol and self._membership.is_member,
            ),
        )
        begun_ms = self._now_ms()
        try:
            node = await network.coordinator("group", self.group_id, timeout_ms=timeout_ms)
            left_ms = timeout_ms - (self._now_ms() - begun_ms)
            response = await network.send(
                node, request, at_most=FETCH_VERSION_LIMIT, timeout_ms=min(left_ms, network.request_timeout_ms)
            )
            result = read_fetch(partitions, response)
        except OttlaError as error:
            result = fetch_failed(error)
        if result.membership_error is not None:
            self._membership.commit_refused(result.membership_error, self._now_ms())
            self._core.wake()
        return result

    def _now_ms(self) -> float:
        return self._core.network.clock.monotonic_ms()


def membership_of(
    settings: ConsumerSettings, group_id: str, random_bytes: Callable[[int], bytes] = os.urandom
) -> Membership:
    """The machine for the protocol that was chosen."""
    strategies = settings.partition_assignment_strategy
    member = MemberSettings(
        group_id=group_id,
        group_instance_id=settings.group_instance_id,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
        rack=settings.client_rack or None,
        assignors=tuple(each if isinstance(each, str) else each.name for each in strategies),
        remote_assignor=settings.group_remote_assignor,
        custom_assignors={each.name: each for each in strategies if not isinstance(each, str)},
    )
    if settings.group_protocol == "consumer":
        from ottla.client.consumer.membership.consumer import ConsumerMembership

        return ConsumerMembership(member, uuid_to_text(random_uuid(random_bytes)))
    from ottla.client.consumer.membership.classic import ClassicMembership

    return ClassicMembership(member)


def _change_text(change: Change) -> str:
    kind = type(change).__name__.lower()
    partitions = change.added if isinstance(change, Assigned) else change.partitions
    return f"{kind} {', '.join(map(str, sorted(partitions))) or 'nothing new'}"
