"""A follower's fetch requests: the fetcher's half of a fetch session (KIP-227).

The leader remembers what we fetch, so a request names only partitions that are new or whose position changed, and those
that are to be forgotten. The broker's half is fetch_sessions.py, whose table of (session id, epoch) holds here too.

1. A request is whole (epoch 0) until the leader gave us a session; then it is a difference to the one before.
2. Whatever goes wrong (no answer, an answer about sessions, an answer that has no session any more) makes the next
   request whole, and closes the session that we had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.broker.fetch.frames import TOPIC_IDS_SINCE, Terms
from ottla.broker.replication.copy_question import CopyQuestion
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.values import TopicPartition

REPLICA_STATE_SINCE: Final = 15
TRUNCATING_SINCE: Final = 12
INT32_MAX: Final = (1 << 31) - 1


class FetchSettings(NamedTuple):
    """How a follower fetches."""

    broker_id: int
    wait_max_ms: int
    min_bytes: int
    response_max_bytes: int
    partition_max_bytes: int
    backoff_ms: int
    version: int  # the newest that leaders of this cluster are sure to speak

    @property
    def truncates_on_fetch(self) -> bool:
        return self.version >= TRUNCATING_SINCE


class Position(NamedTuple):
    """What a follower wants of one partition."""

    topic_id: bytes
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FollowerSession:
    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._terms = Terms(
            settings.broker_id,
            settings.wait_max_ms,
            settings.min_bytes,
            settings.response_max_bytes,
            settings.partition_max_bytes,
        )
        self._id = 0
        self._epoch = 0
        self._known: dict[TopicPartition, Position] = {}

    def question(self, wanted: dict[TopicPartition, Position], broker_epoch: int) -> FetchRequest | CopyQuestion:
        """What asks for exactly these partitions: nearly always as flat values, else as a message."""
        if self._epoch == 0 or self._settings.version < TOPIC_IDS_SINCE:
            return self.request(wanted, broker_epoch)
        known = self._known
        kept = 0
        topics: dict[bytes, list[tuple[int, tuple[bytes, int, int, int, int]]]] = {}
        for name, at in wanted.items():
            before = known.get(name)
            if before is not None and before[0] == at[0]:
                kept += 1
                if before is at or before == at:
                    continue
            named = topics.get(at[0])
            if named is None:
                topics[at[0]] = [(name[1], at)]
            else:
                named.append((name[1], at))
        if kept != len(known):
            return self.request(wanted, broker_epoch)  # something is to be forgotten
        self._known = wanted
        return CopyQuestion(self._settings.version, self._terms, broker_epoch, self._id, self._epoch, topics)

    def request(self, wanted: Mapping[TopicPartition, Position], broker_epoch: int) -> FetchRequest:
        """The same as a message, whatever it has to say."""
        is_whole = self._epoch == 0
        known = {} if is_whole else self._known
        changed = {name: at for name, at in wanted.items() if known.get(name) != at}
        # A topic that was made again is another one: its old id is forgotten first.
        gone = {name: at for name, at in known.items() if name not in wanted or wanted[name].topic_id != at.topic_id}
        self._known = dict(wanted)
        settings, is_recent = self._settings, self._settings.version >= REPLICA_STATE_SINCE
        return FetchRequest(
            replica_id=-1 if is_recent else settings.broker_id,
            replica_state=ReplicaState(replica_id=settings.broker_id, replica_epoch=broker_epoch)
            if is_recent
            else ReplicaState(),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=self._topics(changed),
            forgotten_topics_data=_forgotten(gone),
        )

    def _topics(self, positions: Mapping[TopicPartition, Position]) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        for name, at in positions.items():
            topic = topics.get(name.topic)
            if topic is None:
                topic = topics[name.topic] = FetchTopic(topic=name.topic, topic_id=at.topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=name.partition,
                    current_leader_epoch=at.leader_epoch,
                    fetch_offset=at.offset,
                    last_fetched_epoch=at.last_fetched_epoch,
                    log_start_offset=at.log_start_offset,
                    partition_max_bytes=self._settings.partition_max_bytes,
                )
            )
        return list(topics.values())

    def answered(self, session_id: int, error_code: int) -> None:
        """The answer to the last request is here."""
        if error_code or (self._epoch and session_id != self._id):
            self.failed()
        elif session_id == 0:
            self._id = self._epoch = 0  # the leader has no room for sessions
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch in (0, INT32_MAX) and session_id else self._epoch + 1

    def failed(self) -> None:
        """There was no answer, or none that goes on with our session."""
        self._epoch = 0
        self._known = {}


def _forgotten(positions: Mapping[TopicPartition, Position]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for name, at in positions.items():
        made = ForgottenTopic(topic=name.topic, topic_id=at.topic_id, partitions=[])
        topics.setdefault(at.topic_id + name.topic.encode(), made).partitions.append(name.partition)
    return list(topics.values())
