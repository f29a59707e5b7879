"""The simple fetch of a follower, which nearly all are: from frame to answer with a few comparisons for each partition.

    scan_asked ─► is all as usual ─► how far it is ─► slices of files ─► write_fetched
    _frames.pyx   this file          replication      storage/log        _frames.pyx

1. Simple is: a session that goes on and names only partitions it has (frames.py says what its bytes are), no access
   rules, no quota, `min_bytes` 1 or less, few partitions.
2. As usual is, for every partition: led from here, in the epoch that the follower names, by a leader that counts it as
   in sync, and from an offset of our log that both logs agree about. Whatever is not so is seen before anything is
   touched; then the answer is None, and attempt.py handles the request from its beginning. Every refusal has one place.
3. What becomes unusual later (while the follower waits, or because a disk fails) goes on as an Attempt, which is told
   that the follower has been heard already.
4. The usual way gives the same answers and leaves the same state (test_simple_fetch.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.fetch.attempt import Attempt, divergence
from ottla.broker.fetch.frames import SentRow, SimpleAnswer, SimpleAsked
from ottla.broker.fetch.sessions import FetchKey, FetchPlan, FetchPosition, LastSent, Session
from ottla.broker.replication.partition import NO_EPOCH, Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.errors import BrokerError
from ottla.protocol.messages.fetch import FetchResponse
from ottla.storage.segment.records_file import FileSlice
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SIMPLE_PARTITIONS: Final = 16
NOTHING: Final = b""


def answer_follower(
    broker: Broker, asked: SimpleAsked, context: RequestContext
) -> SimpleAnswer | Work[SimpleAnswer | FetchResponse] | FetchResponse | None:
    """The answer to a follower, now or later; None when this is not simple, and nothing was touched."""
    if broker.access.is_on or context.charges is not None or asked.min_bytes > 1:
        return None
    session = broker.fetch_sessions.going_on(asked.session_id, asked.session_epoch)
    if session is None or len(session.wanted) > SIMPLE_PARTITIONS:
        return None
    named: dict[FetchKey, FetchPosition] = {}
    for topic_id, index, position in asked.rows:
        key = FetchKey(topic_id, session.names.get(topic_id, ""), index)
        if key not in session.wanted:
            return None
        named[key] = position
    fetch = SimpleFetch(broker, asked, context, session)
    if not fetch.is_usual(named):
        return None
    fetch.hear(named)
    return fetch.answer()


class SimpleFetch:
    """One fetch of a follower on its way to an answer."""

    __slots__ = ("_asked", "_broker", "_context", "_found", "_session")

    def __init__(self, broker: Broker, asked: SimpleAsked, context: RequestContext, session: Session) -> None:
        self._broker = broker
        self._asked = asked
        self._context = context
        self._session = session
        self._found: list[tuple[FetchKey, FetchPosition, Partition]] = []  # all that it wants

    def is_usual(self, named: dict[FetchKey, FetchPosition]) -> bool:
        """Whether every partition is as it nearly always is; positions in `named` are newer than the session's."""
        replica_id, replicas, found = self._asked[0], self._broker.replicas, self._found
        found.clear()
        for key, known in self._session.wanted.items():
            position = named.get(key, known)
            partition = replicas.get((key[1], key[2]))
            if partition is None or partition.in_sync is None or partition.offline is not None:
                return False
            end, in_sync, epoch = partition.end, partition.in_sync, partition.leader_epoch
            offset, max_bytes, leader_epoch, last_epoch, _ = position
            if (
                partition.topic_id != key[0]
                or leader_epoch != epoch
                or max_bytes < 0
                or not end.log_start_offset <= offset <= end.log_end_offset
                or replica_id not in in_sync.isr
                or replica_id not in in_sync.followers
            ):
                return False
            if last_epoch not in (NO_EPOCH, epoch) and not _agree(partition, position):
                return False
            found.append((key, position, partition))
        return True

    def hear(self, named: dict[FetchKey, FetchPosition]) -> None:
        """What the request says is true from now on: where the session is, and how far the follower."""
        broker, asked, last_sent = self._broker, self._asked, self._session.last_sent
        now_ms = broker.clock.monotonic_ms()
        broker.fetch_sessions.go_on_with(self._session, named, now_ms)
        followers = broker.link.replication
        for key, position, partition in self._found:
            if key not in named and self._is_idle(partition, position, last_sent.get(key), now_ms):
                continue
            followers.follower_fetched(
                partition,
                asked[0],
                position[0],
                log_start_offset=position[4],
                broker_epoch=asked[1],
            )

    def _is_idle(
        self, partition: Partition, position: FetchPosition, last_sent: LastSent | None, now_ms: float
    ) -> bool:
        """Whether nothing is new in a partition that the request does not name; it is noted as heard, then."""
        end, in_sync = partition.end, partition.in_sync
        assert in_sync is not None, "that was asked"
        progress = in_sync.followers[self._asked[0]]
        if progress.broker_epoch != self._asked[1]:
            return False  # its registration is new, and in-sync sets name it
        if (
            last_sent is None
            or last_sent.was_refused
            or not progress.log_end_offset == position[0] == end.log_end_offset
        ):
            return False
        if last_sent.high_watermark != end.high_watermark or last_sent.log_start_offset != end.log_start_offset:
            return False
        progress.caught_up_ms = progress.fetched_ms = now_ms
        return True

    def answer(self) -> SimpleAnswer | Work[SimpleAnswer | FetchResponse] | FetchResponse:
        asked = self._asked
        for _, position, partition in self._found:
            if position[0] < partition.end.log_end_offset:
                break
        else:
            if asked.max_wait_ms > 0 and min(asked.min_bytes, asked.max_bytes) > 0 and self._found:
                return self._wait()
        return self._fetched() or self._go_on()

    async def _wait(self) -> SimpleAnswer | FetchResponse:
        """One look when it wakes finds what all partitions have got in this turn, and how far they are committed."""
        deadline_ms = self._broker.clock.monotonic_ms() + self._asked.max_wait_ms
        waits_for = {partition.name: position for _, position, partition in self._found}
        purgatory = self._broker.progress.fetch_purgatory
        await purgatory.wait(
            partial(self._has_news, waits_for), waits_for, deadline_ms, partial(self._is_news, waits_for)
        )
        fetched = self._fetched() if self.is_usual({}) else None
        return await awaited(self._go_on()) if fetched is None else fetched

    def _has_news(self, waits_for: dict[TopicPartition, FetchPosition]) -> bool:
        return any(self._is_news(waits_for, name) for name in waits_for)

    def _is_news(self, waits_for: dict[TopicPartition, FetchPosition], name: Hashable) -> bool:
        """Whether there is something to fetch, or something to hear of; without reading."""
        assert isinstance(name, TopicPartition)
        partition, position = self._broker.replicas.get(name), waits_for[name]
        if partition is None or partition.in_sync is None or partition.offline is not None:
            return True
        if partition.leader_epoch != position[2]:
            return True
        if partition.end.log_end_offset <= position[0]:
            return False
        return not self._broker.link.replication.is_leader_throttled(partition, self._asked[0])

    def _fetched(self) -> SimpleAnswer | None:
        """What there is; None when a disk does not give it."""
        try:
            reads = self._read()
        except BrokerError:
            return None
        rows: list[SentRow] = []
        last_sent, size_bytes = self._session.last_sent, 0
        for (key, _, partition), records in zip(self._found, reads, strict=True):
            end = partition.end
            sent = LastSent(end.high_watermark, end.log_start_offset, -1, False)
            if records:
                self._session.wanted.move_to_end(key)
                size_bytes += records.size_bytes
            elif last_sent.get(key) == sent:
                continue
            last_sent[key] = sent
            rows.append((key[0], key[2], sent[0], end.last_stable_offset, sent[1], records or NOTHING))
        self._broker.topic_metrics.replicated_out.value += size_bytes
        return SimpleAnswer(self._session.id, rows)

    def _read(self) -> list[FileSlice | None]:
        """A slice of each partition that has more than the follower, as far as there is room in the answer."""
        reads: list[FileSlice | None] = []
        left_bytes, is_first = self._asked.max_bytes, True
        for _, position, partition in self._found:
            found: FileSlice | None = None
            if position[0] < partition.end.log_end_offset:
                limit_bytes = min(position[1], left_bytes)
                if limit_bytes > 0 or is_first:
                    found = partition.read(
                        position[0], limit_bytes, at_least_one_batch=is_first, is_follower=True
                    ).slice
                    if found.size_bytes:
                        left_bytes, is_first = max(0, left_bytes - found.size_bytes), False
            reads.append(found)
        return reads

    def _go_on(self) -> FetchResponse | Work[FetchResponse]:
        """The usual way from here."""
        plan = FetchPlan(list(self._session.wanted.items()), self._session, is_full=False)
        message = self._asked.message(self._context.api_version)
        return Attempt(self._broker, message, self._context, plan, is_heard=True).answer()


def _agree(partition: Partition, position: FetchPosition) -> bool:
    """Whether the follower's log did not go another way than ours."""
    try:
        return divergence(partition, position) is None
    except BrokerError:
        return False
