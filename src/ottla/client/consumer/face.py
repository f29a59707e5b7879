"""What the sync and the asyncio consumer have in common: everything that does not wait.

What waits is one text too (async_calls.py). Both faces are thin: they hold a ConsumerCore, wait in their own way
(../task_waits.py, ../thread_waits.py), and carry out in their caller's turn what only the caller may do (rebalance
listeners, callbacks of commits).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.client.arguments import (
    by_partition,
    offset_of,
    partition_of,
    partitions_of,
    pattern_of,
    seconds_of,
    time_ms_of,
    topics_of,
    whole_number,
)
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.listeners import Listener
from ottla.client.consumer.membership.decisions import Assigned, Change
from ottla.client.consumer.metrics import lag_of
from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.subscription import Mode, NotSubscribed
from ottla.client.consumer.tracing import ConsumerTracing
from ottla.client.group_metadata import GroupMetadata
from ottla.client.loop import ClientClosed
from ottla.errors import InvalidGroupId, OttlaError
from ottla.metrics import MetricKey
from ottla.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.group import Group

CLOSE_TIMEOUT_S: Final = 30.0
ITERATION_WAIT_S: Final = 1.0
LONGEST_TURN_MS: Final = 60_000.0
"""A poll that waits looks around after this time at the latest; a member of a group may have to do so sooner."""
TABLE_ROWS: Final = 32_768
GROUP_ADVICE: Final = "set group_id to subscribe and to commit, or read chosen partitions with assign()"
"""How many rows poll_arrow() aims at when it is not told: enough that its own cost does not count."""

Offsets = Mapping[TopicPartition, "OffsetAndMetadata | int"]


class WokenUp(OttlaError):
    """wakeup() was called while this consumer was polling."""


class ConcurrentUse(OttlaError):
    """Two threads poll the same consumer. Give each thread a consumer of its own, or take turns."""


class ConsumerFace:
    """The calls that never wait."""

    _core: ConsumerCore
    _settings: ConsumerSettings
    _interceptors: Interceptors
    _tracing: ConsumerTracing | None
    _listener: Listener
    _closed: bool
    _commits_by_itself: bool
    # Records that an iterator has and has not given yet: they are not consumed.
    _left: list[ConsumerRecord]
    _left_at: int

    def _prepare(self, arguments: tuple[str | Mapping[str, object], ...], settings: Mapping[str, Any]) -> list[str]:
        """Settings from the arguments of a constructor; returns the topics among them."""
        for each in arguments:
            if not isinstance(each, str | Mapping):
                raise TypeError(f"topics as text and one mapping of settings are taken, not {each!r}")
        config = next((each for each in arguments if isinstance(each, Mapping)), {})
        if len([each for each in arguments if isinstance(each, Mapping)]) > 1:
            raise TypeError("one mapping of settings is enough")
        topics = [each for each in arguments if isinstance(each, str)]
        self._settings = ConsumerSettings(config, **settings).named("consumer")
        if topics and self._settings.group_id is None:
            raise InvalidGroupId(f"Consumer({topics[0]!r}) without a group.id; {GROUP_ADVICE}")
        self._interceptors = Interceptors(self._settings.interceptor_classes)
        self._tracing = None
        if self._settings.ottla_tracing_enable:
            self._tracing = ConsumerTracing.enabled(
                client_id=self._settings.client_id, group_id=self._settings.group_id
            )
        self._listener = Listener(None)
        self._closed = False
        self._commits_by_itself = self._settings.commits_by_itself
        self._left, self._left_at = [], 0
        return topics

    def __repr__(self) -> str:
        group = f", group {self._settings.group_id!r}" if self._settings.group_id else ""
        return f"<{type(self).__name__} {self._settings.client_id}{group}{', closed' if self._closed else ''}>"

    def _check_usable(self) -> None:
        if self._closed:
            raise ClientClosed(f"{self._settings.client_id}")

    def _turn_ms(self) -> float:
        """How long a poll may wait before it says again that it is there."""
        group = self._core.group
        if group is None:
            return LONGEST_TURN_MS
        return min(LONGEST_TURN_MS, group.poll_turn_ms(self._core.network.clock.monotonic_ms()))

    # --- looking ---

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        with self._core.lock:
            return self._core.subscription.assigned()

    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed to, or that the pattern matches now."""
        subscribed = self._core.subscription
        return subscribed.topics if subscribed.is_group_managed else frozenset()

    def paused(self) -> frozenset[TopicPartition]:
        with self._core.lock:
            return self._core.subscription.paused()

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets are left to the end, as the last fetch saw it; None before the first."""
        name = partition_of(partition)
        with self._core.lock:
            state = self._core.subscription.state(name)
            return lag_of(state, self._settings.isolation_level == "read_committed")

    def metrics(self) -> dict[MetricKey, float]:
        """Every number under its Java name."""
        committed_only = self._settings.isolation_level == "read_committed"
        with self._core.lock:
            states = list(self._core.subscription)
        return self._core.metrics.snapshot(states, committed_only, self._core.network.clock.monotonic_ms())

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for a producer's send_offsets_to_transaction()."""
        return self._group.group_metadata()

    @property
    def _group(self) -> Group:
        if self._core.group is None:
            raise InvalidGroupId(f"this consumer has no group.id; {GROUP_ADVICE}")
        return self._core.group

    # --- steering ---

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """The next poll gives the record at `offset`."""
        self._check_usable()
        name, wanted = partition_of(partition), offset_of(offset)
        self._core.seek(name, wanted.offset, wanted.leader_epoch)
        self._forget_left({name})

    def pause(self, *partitions: TopicPartition) -> None:
        """Polls give nothing of these until resume(). They stay assigned, and their buffered records are kept."""
        self._check_usable()
        self._core.pause(checked_partitions(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self._check_usable()
        self._core.resume(checked_partitions(partitions))

    def _forget_left(self, partitions: Collection[TopicPartition]) -> None:
        if self._left_at < len(self._left):
            rest = self._left[self._left_at :]
            self._left = [each for each in rest if (each.topic, each.partition) not in partitions]
        else:
            self._left = []
        self._left_at = 0

    def _pop_left(self, limit: int) -> list[ConsumerRecord]:
        """What an iterator left behind goes first."""
        found = self._left[self._left_at : self._left_at + limit]
        self._left_at += len(found)
        return found

    # --- parts of subscribe, poll and commit ---

    def _subscribe(
        self, topics: Iterable[str] | str | None, pattern: str | re.Pattern[str] | None, listener: object
    ) -> None:
        if (topics is None) == (pattern is None):
            raise TypeError("subscribe() wants topics or a pattern, one of them")
        _ = self._group
        checked = Listener(listener)
        subscription = self._core.subscription
        if topics is not None:
            names = topics_of(topics)
            with self._core.lock:
                subscription.subscribe(names)
        else:
            is_remote = self._settings.group_protocol == "consumer" and isinstance(pattern, str)
            wanted = str(pattern) if is_remote else pattern_of(pattern)
            with self._core.lock:
                subscription.subscribe_pattern(wanted)
        self._listener = checked

    def _check_subscribed(self) -> None:
        if self._core.subscription.mode is Mode.NONE:
            raise NotSubscribed()

    def _carry_out(self, change: Change) -> None:
        """The plain part of a change that the group asked for."""
        if isinstance(change, Assigned):
            self._core.set_group_assignment(change.partitions)
        else:
            kept = self.assignment() - change.partitions
            self._core.set_group_assignment(kept)
            self._forget_left(change.partitions)

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit without arguments commits: everything that polls gave, less what an iterator still holds."""
        with self._core.lock:
            found = self._core.subscription.consumed()
        for record in reversed(self._left[self._left_at :]):
            found[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(
                record.offset, "", record.leader_epoch
            )
        return found

    def _offsets(self, offsets: Offsets | ConsumerRecord | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._consumed()
        if isinstance(offsets, Mapping):
            return by_partition(offsets, offset_of)
        if isinstance(offsets, ConsumerRecord):
            name = TopicPartition(offsets.topic, offsets.partition)
            return {name: OffsetAndMetadata(offsets.offset + 1, "", offsets.leader_epoch)}
        raise TypeError("commit() takes offsets by partition, a record, or nothing")

    def _delivered(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self._core.metrics.records_returned(len(records), self._core.network.clock.monotonic_ms())
        if self._tracing is not None:
            self._tracing.received(records)
        return self._interceptors.on_consume(records) if self._interceptors else records

    def _partitions_or_all(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return checked_partitions(partitions) or list(self.assignment())

    def _held_position(self, partition: TopicPartition) -> int | None:
        """The first record that an iterator still holds of a partition."""
        checked_partitions((partition,))
        for record in self._left[self._left_at :]:
            if (record.topic, record.partition) == tuple(partition):
                return record.offset
        return None

    @staticmethod
    def _checked_times(times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return by_partition(times_ms, time_ms_of)

    def _timeout_ms(self, timeout: float | None) -> float:
        return self._settings.call_timeout_ms if timeout is None else seconds_of(timeout) * 1000


def seconds(timeout: float | None, timeout_ms: float | None, default: float) -> float:
    """One of two ways to say how long."""
    if timeout is not None and timeout_ms is not None:
        raise TypeError("give timeout (seconds) or timeout_ms, not both")
    if timeout_ms is not None:
        return seconds_of(timeout_ms) / 1000
    return default if timeout is None else seconds_of(timeout)


def checked_limit(records: int) -> int:
    """How many records a poll may give."""
    if whole_number(records, "max_records") < 1:
        raise ValueError(f"max_records must be at least 1, not {records}")
    return records


def checked_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions of a call; a list among them, or a topic's name, is refused with how to write it."""
    found = list(partitions)
    for each in found:
        if not isinstance(each, tuple):
            raise TypeError(f"give each partition as TopicPartition(topic, partition), a list as *list; not {each!r}")
    return partitions_of(found)
