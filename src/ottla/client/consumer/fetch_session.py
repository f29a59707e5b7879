"""Our half of a fetch session (KIP-227): requests name only what changed, answers only what is new.

The broker's half is told in its own file; what it remembers of us, we remember too. A request has (session id, epoch):

    (0, 0)     a full request that would like a session; the answer names its id, or 0 for none
    (N, E)     an incremental one: partitions that are new or moved, partitions to forget; E grows by 1, after 2^31 - 1
               comes 1
    (N, 0)     a full one that replaces session N
    (N, -1)    goodbye

1. A session has one request on its way at a time: `build`, then `answered` or `failed`.
2. An answer must fit the request: a full one names exactly what was asked, an incremental one nothing else. If it does
   not, or if it is an error, or if none comes, nobody knows what the broker remembers: the next request is full.
3. A topic that was deleted and made again has another id. In a session by id it is forgotten and added again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic
from ottla.values import ZERO_UUID, TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSION_ERRORS: Final = (FetchSessionIdNotFound.code, InvalidFetchSessionEpoch.code, FetchSessionTopicIdError.code)


class RequestedPartition(NamedTuple):
    """What we want of one partition."""

    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    leader_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What to write into the next FetchRequest."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    by_id: bool  # every topic has an id; otherwise the version must be one that asks by name


@dataclass(slots=True)
class FetchSession:
    """The session with one broker."""

    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    partitions: dict[TopicPartition, RequestedPartition] = field(default_factory=dict)
    by_id: bool = True

    @property
    def is_full(self) -> bool:
        """Whether the next request names everything."""
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def build(self, wanted: Mapping[TopicPartition, RequestedPartition]) -> SessionRequest:
        """The request for exactly these partitions."""
        by_id = all(asked.topic_id != ZERO_UUID for asked in wanted.values())
        if not self.is_full and by_id != self.by_id and wanted:
            self.epoch = INITIAL_EPOCH  # a session is by id or by name for all its life
        if self.is_full:
            self.by_id, self.partitions = by_id, dict(wanted)
            return SessionRequest(self.session_id, self.epoch, _topics(wanted), [], by_id)
        return self._incremental(wanted)

    def _incremental(self, wanted: Mapping[TopicPartition, RequestedPartition]) -> SessionRequest:
        changed: dict[TopicPartition, RequestedPartition] = {}
        forgotten: dict[TopicPartition, bytes] = {}
        for name, asked in wanted.items():
            before = self.partitions.get(name)
            if before == asked:
                continue
            if before is not None and before.topic_id != asked.topic_id and self.by_id:
                forgotten[name] = before.topic_id
            changed[name] = asked
        for name, before in self.partitions.items():
            if name not in wanted:
                forgotten[name] = before.topic_id
        self.partitions = dict(wanted)
        return SessionRequest(self.session_id, self.epoch, _topics(changed), _forgotten(forgotten), self.by_id)

    def close(self) -> SessionRequest | None:
        """A goodbye, if there is a session; the broker forgets it by itself if none comes."""
        if self.session_id == NO_SESSION:
            return None
        goodbye = SessionRequest(self.session_id, FINAL_EPOCH, [], [], self.by_id)
        self.session_id, self.epoch, self.partitions = NO_SESSION, INITIAL_EPOCH, {}
        return goodbye

    def answered(self, response: FetchResponse) -> bool:
        """Whether the answer can be used; afterwards the next request can be built."""
        if response.error_code:
            # Only "not found" says that there is nothing to close.
            self.epoch = INITIAL_EPOCH
            if response.error_code == FetchSessionIdNotFound.code:
                self.session_id = NO_SESSION
            return False
        named = self._named(response)
        return self._full_answered(response, named) if self.is_full else self._incremental_answered(response, named)

    def _full_answered(self, response: FetchResponse, named: set[TopicPartition] | None) -> bool:
        # A broker that throttles answers with nothing at all; that is no damage, but there is nothing in it either.
        fits = named is not None and named == self.partitions.keys()
        self.session_id = response.session_id if fits else NO_SESSION
        self.epoch = INITIAL_EPOCH if self.session_id == NO_SESSION else 1
        return fits

    def _incremental_answered(self, response: FetchResponse, named: set[TopicPartition] | None) -> bool:
        if named is None or not named <= self.partitions.keys():
            self.epoch = INITIAL_EPOCH
            return False
        if response.session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return True

    def failed(self) -> None:
        """No answer came."""
        self.epoch = INITIAL_EPOCH

    def _named(self, response: FetchResponse) -> set[TopicPartition] | None:
        """The partitions in an answer; None when one of them has an id that we did not ask for."""
        names = {asked.topic_id: name.topic for name, asked in self.partitions.items() if asked.topic_id != ZERO_UUID}
        found: set[TopicPartition] = set()
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if name is None:
                return None
            found.update(TopicPartition(name, partition.partition_index) for partition in topic.partitions)
        return found


def _topics(wanted: Mapping[TopicPartition, RequestedPartition]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for name, asked in wanted.items():
        topic = topics.get((name.topic, asked.topic_id))
        if topic is None:
            topic = FetchTopic(topic=name.topic, topic_id=asked.topic_id, partitions=[])
            topics[name.topic, asked.topic_id] = topic
        topic.partitions.append(
            FetchPartition(
                partition=name.partition,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.fetch_offset,
                partition_max_bytes=asked.max_bytes,
                log_start_offset=asked.log_start_offset,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Mapping[TopicPartition, bytes]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for name, topic_id in partitions.items():
        topic = topics.get((name.topic, topic_id))
        if topic is None:
            topic = ForgottenTopic(topic=name.topic, topic_id=topic_id, partitions=[])
            topics[name.topic, topic_id] = topic
        topic.partitions.append(name.partition)
    return list(topics.values())
