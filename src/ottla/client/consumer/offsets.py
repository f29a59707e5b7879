"""Committing and fetching the group's offsets: how each request is written and what each answer means; when to commit.

    commit:  request = commit_request(group, offsets)    -> read_commit(offsets, response)   -> CommitResult
    fetch:   request = fetch_request(group, partitions)  -> read_fetch(partitions, response) -> FetchResult

1. Both go to the group's coordinator. A result says what is done, what may be tried again (`retry`), whether the
   coordinator must be looked up first (`find_coordinator`), and otherwise the error for the application. The face
   tries again until its time-out, with a back-off.
2. A commit is one request for all partitions, and no partition is taken for committed unless the answer says so.
3. `membership_error` is what the membership must hear (commit_refused): the group has gone on without this member.
   The application gets CommitFailed, which explains it. During a rebalance it gets RebalanceInProgress: poll and try
   again.
4. Offsets are fetched with require_stable: a transaction that is just being committed may still move them.
5. AutoCommit says when; it commits what was handed to the application before the last poll, never more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ottla.client.consumer.membership.subscriptions import by_topic
from ottla.client.group_metadata import GroupMetadata
from ottla.errors import (
    NONE,
    BrokerError,
    FencedInstanceId,
    FencedMemberEpoch,
    IllegalGeneration,
    OttlaError,
    RebalanceInProgress,
    RequestTimedOut,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    broker_error,
)
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.values import OffsetAndMetadata, TopicPartition

COMMIT_VERSION_LIMIT: Final = 9
FETCH_VERSION_LIMIT: Final = 9
"""From version 10 on topics are named by id; we name them by name, which every broker understands."""
GROUPED_FETCH_VERSION: Final = 8
NO_OFFSET: Final = -1

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class CommitFailed(OttlaError):
    """The offsets were not committed, because the group has given this consumer's partitions to other members.
    Records since the last commit are read again by them. It happens when more than max.poll.interval.ms pass
    between polls: raise it, or work on fewer records between polls with a smaller max.poll.records."""


_NOT_A_MEMBER: Final = (UnknownMemberId, IllegalGeneration, FencedMemberEpoch)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of a commit. Done when `error` is None; `remaining` is what must be sent if it is tried again."""

    remaining: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    error: OttlaError | None = None
    retry: bool = False
    find_coordinator: bool = False
    membership_error: OttlaError | None = None


def commit_request(group: GroupMetadata, offsets: Offsets) -> OffsetCommitRequest:
    """At most version COMMIT_VERSION_LIMIT. A consumer outside a group's membership has generation -1, member id ''."""
    topics = [
        OffsetCommitRequestTopic(
            name=name, partitions=[_position(TopicPartition(name, index), offsets) for index in found]
        )
        for name, found in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=topics,
    )


def _position(partition: TopicPartition, offsets: Offsets) -> OffsetCommitRequestPartition:
    position = offsets[partition]
    return OffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=position.offset,
        committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
        committed_metadata=position.metadata,
    )


def read_commit(offsets: Offsets, response: OffsetCommitResponse) -> CommitResult:
    """What the answer means for all of `offsets`; the gravest error decides."""
    remaining = dict(offsets)
    forbidden: set[str] = set()
    again: CommitResult | None = None
    for topic in response.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code == NONE:
                remaining.pop(partition, None)
                continue
            error = broker_error(answer.error_code, str(partition))
            if isinstance(error, TopicAuthorizationFailed):
                forbidden.add(topic.name)
                continue
            result = _commit_error(remaining, error)
            if not result.retry:
                return result
            again = result if again is None or result.find_coordinator else again
    if forbidden:
        return CommitResult(remaining, TopicAuthorizationFailed(", ".join(sorted(forbidden))))
    if again is None and remaining:
        missing = ", ".join(str(partition) for partition in sorted(remaining))
        return CommitResult(remaining, CommitFailed(f"the coordinator did not answer for {missing}"))
    return again or CommitResult()


def commit_failed(offsets: Offsets, error: OttlaError) -> CommitResult:
    """There is no answer: the connection broke, or the coordinator was not found."""
    lookup = error.retriable
    return CommitResult(dict(offsets), error, retry=error.retriable, find_coordinator=lookup)


def _commit_error(remaining: dict[TopicPartition, OffsetAndMetadata], error: BrokerError) -> CommitResult:
    if isinstance(error, _NOT_A_MEMBER):
        return CommitResult(remaining, CommitFailed(str(error)), membership_error=error)
    if isinstance(error, RebalanceInProgress | FencedInstanceId):
        return CommitResult(remaining, error, membership_error=error)
    if isinstance(error, StaleMemberEpoch):
        # The epoch went up while the request was on its way; with the new one it is welcome.
        return CommitResult(remaining, error, retry=True)
    if error.refresh_coordinator or isinstance(error, RequestTimedOut):
        return CommitResult(remaining, error, retry=True, find_coordinator=True)
    return CommitResult(remaining, error, retry=error.retriable)


# --- fetching --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Committed offsets; partitions without one are not in it. `error` None: complete."""

    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    error: OttlaError | None = None
    retry: bool = False
    find_coordinator: bool = False
    membership_error: OttlaError | None = None


def fetch_request(
    group: GroupMetadata, partitions: Collection[TopicPartition], *, version: int, is_consumer_protocol: bool = False
) -> OffsetFetchRequest:
    """`version` is the one it will be sent with: version 8 changed its shape. Members of consumer groups show their
    epoch, so that a member that was fenced learns of it."""
    topics = by_topic(sorted(partitions))
    if version < GROUPED_FETCH_VERSION:
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in topics.items()]
        return OffsetFetchRequest(group_id=group.group_id, topics=old, require_stable=version >= 7)
    wanted = OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id if is_consumer_protocol else None,
        member_epoch=group.generation_id if is_consumer_protocol else -1,
        topics=[OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in topics.items()],
    )
    return OffsetFetchRequest(groups=[wanted], require_stable=True)


def read_fetch(partitions: Collection[TopicPartition], response: OffsetFetchResponse) -> FetchResult:
    group: Any = response.groups[0] if response.groups else response
    if group.error_code != NONE:
        return fetch_failed(broker_error(group.error_code))
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    forbidden: set[str] = set()
    unstable: OttlaError | None = None
    for topic in group.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code != NONE:
                error = broker_error(answer.error_code, str(partition))
                if isinstance(error, TopicAuthorizationFailed):
                    forbidden.add(topic.name)
                elif isinstance(error, UnstableOffsetCommit):
                    unstable = error
                else:
                    return _fetch_error(error)
            elif answer.committed_offset > NO_OFFSET:  # what is less means the same to Java's consumer
                epoch = None if answer.committed_leader_epoch < 0 else answer.committed_leader_epoch
                found[partition] = OffsetAndMetadata(answer.committed_offset, answer.metadata or "", epoch)
    if forbidden:
        return FetchResult(error=TopicAuthorizationFailed(", ".join(sorted(forbidden))))
    if unstable is not None:
        return FetchResult(error=unstable, retry=True)
    return FetchResult({partition: found[partition] for partition in partitions if partition in found})


def fetch_failed(error: OttlaError) -> FetchResult:
    """The group's error, or there is no answer at all."""
    if isinstance(error, UnknownMemberId | FencedMemberEpoch):
        return FetchResult(error=error, membership_error=error)
    if isinstance(error, StaleMemberEpoch):
        return FetchResult(error=error, retry=True)
    lookup = (
        error.refresh_coordinator or (error.retriable and error.refresh_metadata) or isinstance(error, RequestTimedOut)
    )
    return FetchResult(error=error, retry=error.retriable, find_coordinator=lookup)


def _fetch_error(error: BrokerError) -> FetchResult:
    if isinstance(error, UnknownTopicOrPartition):
        return FetchResult(error=error)  # it was deleted; asking again would not bring it back
    return fetch_failed(error)


# --- auto commit -----------------------------------------------------------------------------------------------------


class AutoCommit:
    """When to commit by itself: at each interval, and sooner after a failure that passes."""

    def __init__(self, *, enabled: bool, interval_ms: float, retry_backoff_ms: float = 100.0) -> None:
        self.enabled = enabled
        self._interval_ms = interval_ms
        self._backoff_ms = retry_backoff_ms
        self._due_ms: float | None = None
        self._is_on_its_way = False

    def due_ms(self, now_ms: float) -> float:
        """When to look again; infinity when it is off or a commit is on its way."""
        if not self.enabled or self._is_on_its_way:
            return float("inf")
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        return self._due_ms

    def should_commit(self, now_ms: float) -> bool:
        """Asked at each poll: everything handed out before is done now. True: commit, then tell `finished`."""
        if now_ms < self.due_ms(now_ms):
            return False
        self._is_on_its_way = True
        return True

    def finished(self, now_ms: float, *, retry_soon: bool = False) -> None:
        """`retry_soon`: it failed for a reason that passes."""
        self._is_on_its_way = False
        self._due_ms = now_ms + (min(self._backoff_ms, self._interval_ms) if retry_soon else self._interval_ms)

    def assigned(self, now_ms: float) -> None:
        """A new assignment starts a new interval: there is nothing to commit yet."""
        self._due_ms = now_ms + self._interval_ms
