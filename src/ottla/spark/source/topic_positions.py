"""The driver's questions to the cluster: which partitions there are, where they begin and end, what a time means.

1. Every answer is from now; only the list of partitions may be as old as partition.metadata.cache.ttl.ms allows.
2. A question that fails for a moment is asked again, fetchOffset.numRetries times after fetchOffset.retryIntervalMs;
   a question that no broker answered within default.api.timeout.ms is not: time is up. So every call ends. A topic that
   is deleted between two questions is TopicsChanged: the list is to be asked for again.
3. `latest` is the end that the isolation level lets a reader see: with read_committed the last stable offset.
4. The connection is made by the first question and kept. An object of this class stays in its process: it is made
   again, not pickled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.client.admin.admin import Admin
from ottla.client.admin.offsets import OffsetSpec, Place
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.topics import TopicDescription
from ottla.errors import OttlaError, RequestTimedOut, UnknownTopicOrPartition
from ottla.light_dataclasses import dataclass
from ottla.spark.source.options import IsolationLevel, SourceOptions
from ottla.values import OffsetAndMetadata, TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from ottla.values import OffsetAndTimestamp

T = TypeVar("T")


class TopicsChanged(OttlaError):
    """Topics were deleted while they were asked about. Look again at what there is."""

    retriable = True


class NothingToRead(OttlaError):
    """There is no topic to read. Make the topic first, or name another."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The partitions that the query reads, with the ids of their topics; None where brokers have no ids."""

    topic_ids: Mapping[str, str | None]
    partitions: frozenset[TopicPartition]
    missing: frozenset[str] = frozenset()
    """Topics that were named and are not there."""

    def known_ids(self) -> dict[str, str]:
        return {topic: each for topic, each in self.topic_ids.items() if each is not None}


class TopicPositions:
    """Asks one cluster about the topics of one query."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        make_admin: Callable[[Mapping[str, object]], Any] = Admin,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._make_admin = make_admin
        self._sleep = sleep
        self._monotonic = monotonic
        self._admin: Any = None
        self._listed: tuple[float, Listed] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it is worth keeping: it has a connection."""
        return self._admin is not None

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def log_in_anew(self, options: SourceOptions) -> None:
        """Connect with the login of these options at the next question."""
        self.close()
        self._options = options

    # --- partitions ---

    def listed(self) -> Listed:
        """What there is to read now."""
        if self._listed is not None and self._monotonic() < self._listed[0]:
            return self._listed[1]
        found = self._ask(self._list)
        if self._options.partition_cache_ms > 0:
            self._listed = (self._monotonic() + self._options.partition_cache_ms / 1000, found)
        return found

    def wait_to_ask_again(self) -> None:
        """The list was not as expected: wait a moment, and believe no list that was kept."""
        self._listed = None
        self._sleep(self._options.retry_interval_ms / 1000)

    def _list(self, admin: Admin) -> Listed:
        topics = self._options.topics
        names: Collection[str] = topics.names
        if topics.pattern is not None:
            names = [name for name in admin.list_topics() if topics.matches(name)]
        described, missing = _described(admin, names)
        partitions = {TopicPartition(each.name, part.partition) for each in described for part in each.partitions}
        if topics.assigned is not None:
            partitions &= set(topics.assigned)
        ids = {each.name: None if each.topic_id is None else uuid_to_text(each.topic_id) for each in described}
        # A topic that matched a moment ago and is gone now was deleted in between: it just does not match any more.
        gone = frozenset() if topics.pattern is not None else frozenset(missing)
        return Listed(ids, frozenset(partitions), gone)

    # --- offsets ---

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that a reader can see."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record, whether a reader can see it or not."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), "read_uncommitted")

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset of a record that is as late, None where there is none."""
        return {each: None if offset < 0 else offset for each, offset in self._offsets(times_ms).items()}

    def _offsets(
        self, places: Mapping[TopicPartition, Place], isolation_level: str | None = None
    ) -> dict[TopicPartition, int]:
        if not places:
            return {}
        level = cast(IsolationLevel, isolation_level or self._options.isolation_level)

        def ask(admin: Admin) -> Mapping[TopicPartition, OffsetAndTimestamp]:
            return admin.list_offsets(places, isolation_level=level)

        try:
            return {partition: found.offset for partition, found in self._ask(ask).items()}
        except OttlaError as error:
            if _is_about_gone(error):
                raise TopicsChanged(str(error)) from None
            raise

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What a group has committed; partitions without a commit are left out."""
        wanted = list(partitions)
        found = self._ask(lambda admin: admin.list_consumer_group_offsets(group_id, wanted))
        return {partition: each.offset for partition, each in found.items() if each is not None}

    def commit(self, group_id: str, positions: Mapping[TopicPartition, int], note: str, timeout_s: float) -> None:
        """Commit these for a group that has no members. It is not asked again: the next batch commits more."""
        offsets = {name: OffsetAndMetadata(offset, note) for name, offset in positions.items()}
        self._connected().alter_consumer_group_offsets(group_id, offsets, timeout=timeout_s)

    # --- asking ---

    def _ask(self, question: Callable[[Admin], T]) -> T:
        for _ in range(self._options.retry_limit):
            try:
                return question(self._connected())
            except OttlaError as error:
                if not _may_pass(error):
                    raise
            self._sleep(self._options.retry_interval_ms / 1000)
        return question(self._connected())

    def _connected(self) -> Any:
        if self._admin is None:
            self._admin = self._make_admin(self._options.client_settings("admin"))
        return self._admin


def _may_pass(error: OttlaError) -> bool:
    if isinstance(error, PartlyFailed):
        return all(_may_pass(each) for each in error.failed.values())
    return error.retriable and not isinstance(error, RequestTimedOut | UnknownTopicOrPartition)


def _is_about_gone(error: OttlaError) -> bool:
    """Whether nothing else is wrong than that a topic or partition is not there."""
    if isinstance(error, PartlyFailed):
        return all(_is_about_gone(each) for each in error.failed.values())
    return isinstance(error, UnknownTopicOrPartition)


def _described(admin: Admin, names: Collection[str]) -> tuple[list[TopicDescription], set[str]]:
    """What is known of these topics, and which of them are not there."""
    if not names:
        return [], set()
    try:
        return list(admin.describe_topics(names).values()), set()
    except UnknownTopicOrPartition:
        if len(names) == 1:
            return [], set(names)
        raise
    except PartlyFailed as partly:
        others = [each for each in partly.failed.values() if not isinstance(each, UnknownTopicOrPartition)]
        if others:
            raise others[0] from None
        return list(partly.succeeded.values()), set(partly.failed)
