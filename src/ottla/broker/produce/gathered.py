"""Simple requests of many connections for partitions that commit later: appended together, when that is needed.

    simple.py ─► add ─► … other connections … ─► append_all ─► for each partition one append and one place in line
                                                                                                        ─► answers

A request of one record costs a write to the log, a place in the line for the commit and its metrics. Where it waits for
a sync anyway, it is appended when the round of syncs begins that it will wait for (housekeeping/flusher.py), where it
waits for followers at the end of this turn of the loop; and shares all of that with those who came meanwhile, on
whichever connection (decision 0145).

1. Gathered is what is simple (simple.py), small, counted against no quota, and for a partition that does not commit at
   once. The connection has places for the answers from then on, as for all that are held back.
2. Nothing overtakes what is gathered: whoever handles a request in another way calls `append_all` first. So records
   come into the log in the order in which the requests were read, as if each had been appended at once.
3. What a partition does not take as one run it takes connection by connection, and what it does not take so goes the
   usual way (append.py). A refusal has one place.
4. `append_all` raises nothing: who calls it has a request of his own to serve. Connections whose requests cannot be
   answered because of a fault of ours are closed.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.network.held import HeldAnswers, HeldTimes
from ottla.broker.produce.append import Appending
from ottla.broker.produce.choice import write_appended, write_run
from ottla.broker.produce.committed import Uncommitted, count_refusal, count_unacknowledged
from ottla.broker.produce.frames import Produce, ProduceResult, SimpleProduce
from ottla.broker.produce.held import frames_of
from ottla.broker.produce.held_run import hold_run
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.context import RequestContext
from ottla.errors import BrokerError, RequestTimedOut
from ottla.light_tuples import NamedTuple
from ottla.records.checks import PlacedBatch

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SMALL_BYTES: Final = 4_096  # a larger request costs more for its bytes than for itself
AT_ONCE: Final = 256  # requests; the kernel writes no more than 1,024 pieces by one call

log = logging.getLogger(__name__)


class GatheredAnswers(HeldAnswers):
    """The answers to the requests of one connection, which are not even appended yet."""

    __slots__ = ("context", "frames", "records", "started_ms", "times")

    times: HeldTimes
    started_ms: float

    def __init__(self, frames: list[memoryview], records: list[memoryview], context: RequestContext) -> None:
        super().__init__(b"", list(map(len, frames)))
        self.frames = frames
        self.records = records
        self.context = context

    def timed(self, broker: Broker, times: HeldTimes, started_ms: float) -> None:
        self.times, self.started_ms = times, started_ms


class _Kind(NamedTuple):
    """What requests have in common that are appended together."""

    partition: Partition
    simple: SimpleProduce  # the first; of its records nothing is wanted
    version: int


class Gathered:
    """Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._kinds: dict[tuple[object, ...], tuple[_Kind, list[GatheredAnswers]]] = {}
        self._is_planned = False

    def takes(self, partition: Partition, simple: SimpleProduce, frame_bytes: int, context: RequestContext) -> bool:
        """Whether requests like these, the first of so many bytes, are gathered."""
        return (
            frame_bytes <= SMALL_BYTES
            and context.charges is None
            and partition.commits_later(simple.acks)
            and not self._broker.progress.commits.is_closed
        )

    def add(
        self, partition: Partition, simple: SimpleProduce, frames: list[memoryview], context: RequestContext
    ) -> GatheredAnswers:
        """The answers to the first of these frames, as many as `simple` has."""
        acks, timeout_ms, topic, index, records = simple
        member = GatheredAnswers(frames[: len(records)], records, context)
        key = (topic, index, acks, timeout_ms, context.api_version)
        found = self._kinds.get(key)
        if partition.is_durable:
            self._broker.progress.expect(partition)
        elif not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self.append_all)
        if found is None:
            self._kinds[key] = (_Kind(partition, simple, context.api_version), [member])
        else:
            found[1].append(member)
        return member

    def append_all(self) -> None:
        """Append what was gathered, if there is something."""
        if not self._kinds:
            return
        self._is_planned = False
        kinds, self._kinds = self._kinds, {}
        for kind, members in kinds.values():
            try:
                for at in range(0, len(members), AT_ONCE):
                    self._append(kind, members[at : at + AT_ONCE])
            except Exception as fault:
                log.exception("%s: requests cannot be answered", kind.partition.name)
                for member in members:
                    if member.context.connection is not None:
                        member.context.connection.end(fault)

    # -- one partition -------------------------------------------------------------------------------------------------

    def _append(self, kind: _Kind, members: list[GatheredAnswers]) -> None:
        broker, partition = self._broker, kind.partition
        if broker.progress.commits.is_closed:
            self._refuse(kind, members, RequestTimedOut())
            return
        batches = None
        if broker.replicas.get(partition.name) is partition:
            records = [each for member in members for each in member.records]
            try:
                batches = partition.append_run(records, acks=kind.simple.acks, now_ms=broker.clock.now_ms())
            except BrokerError as error:
                for each in records:
                    count_refusal(broker, partition.name.topic, error, len(each))
                self._refuse(kind, members, error)
                return
        if batches is not None:
            self._appended(kind, members, batches)
        elif len(members) > 1:
            for member in members:
                self._append(kind, [member])
        else:
            self._append_usually(kind, members[0])

    def _appended(self, kind: _Kind, members: list[GatheredAnswers], batches: list[PlacedBatch]) -> None:
        """Have the answers in line for the commit of what they say was appended."""
        broker, (partition, simple, version) = self._broker, kind
        broker.progress.appended(partition)
        next_offset = batches[-1].last_offset + 1
        size_bytes = sum([len(each) for member in members for each in member.records])
        record_count = next_offset - batches[0].base_offset
        broker.topic_metrics.produced(partition.name.topic, size_bytes, record_count, len(batches))
        log_start_offset = partition.end.log_start_offset
        frames = [frame for member in members for frame in member.frames]
        content = write_appended(version, frames, simple.topic, simple.partition, batches, log_start_offset)
        outcome = ProduceResult(simple.partition, log_start_offset=log_start_offset)
        uncommitted = Uncommitted(partition, next_offset, outcome, simple.acks == ACKS_ALL)
        _HeldTogether(broker, kind, members, content, uncommitted).hold()

    def _append_usually(self, kind: _Kind, member: GatheredAnswers) -> None:
        """Append the requests of one connection as those that are not simple are."""
        simple, frames = kind.simple, member.frames
        appending = Appending(self._broker, simple.acks, member.context)
        added = [
            appending.add(Produce(None, simple.acks, simple.timeout_ms, [(simple.topic, [(simple.partition, each)])]))
            for each in member.records
        ]
        appending.append()
        held = hold_run(self._broker, frames, added, kind.version, simple.timeout_ms)
        if held is None:
            self._answer_soon(member, write_run(kind.version, frames, [answers for answers, _ in added]))
        else:
            held.timed(self._broker, member.times, member.started_ms)
            held.leave = member.leave

    def _answer_soon(self, member: GatheredAnswers, content: bytes) -> None:
        # Not at once: an answer may let its connection be read again, and somebody is being served just now.
        self._broker.progress.next_turn.add(partial(self._answer, member, content))

    def _answer(self, member: GatheredAnswers, content: bytes) -> None:
        now_ms = self._broker.clock.monotonic_ms()
        member.times.waited(member.started_ms, now_ms, now_ms, len(member.request_bytes))
        member.leave(content)

    def _refuse(self, kind: _Kind, members: list[GatheredAnswers], error: BrokerError) -> None:
        refused = ProduceResult(kind.simple.partition, error=error)
        for member in members:
            answers = [[(kind.simple.topic, [refused])] for _ in member.frames]
            self._answer_soon(member, write_run(kind.version, member.frames, answers))


class _HeldTogether:
    """The answers to requests that were appended together; resolved as a future would be."""

    __slots__ = ("_appended_ms", "_broker", "_content", "_is_done", "_kind", "_members", "_uncommitted")

    def __init__(
        self,
        broker: Broker,
        kind: _Kind,
        members: list[GatheredAnswers],
        content: bytes,
        uncommitted: Uncommitted,
    ) -> None:
        self._broker = broker
        self._kind = kind
        self._members = members
        self._content = content
        self._uncommitted = uncommitted
        self._appended_ms = broker.clock.monotonic_ms()
        self._is_done = False
        for member in members:  # the memory of their requests is wanted for what comes next
            member.frames, member.records = [], []

    def hold(self) -> None:
        """Until it is known what becomes of them."""
        if self._uncommitted.is_over():
            self.set_result(True)
        else:
            deadline_ms = self._appended_ms + self._kind.simple.timeout_ms
            self._broker.progress.commits.hold(self._uncommitted, deadline_ms, self)

    def done(self) -> bool:
        return self._is_done

    def set_result(self, is_over: bool) -> None:
        """It is committed or cannot be any more; False when the time is over."""
        self._is_done = True
        if not is_over:
            self._uncommitted.outcome.refuse(RequestTimedOut())
        self._broker.progress.next_turn.add(self._let_go)

    def _let_go(self) -> None:
        members, content = self._members, self._content
        count = sum([len(member.request_bytes) for member in members])
        if self._uncommitted.outcome.error is not None:
            content = self._refusals(self._uncommitted.outcome.error)
        self._count(count)
        answer_bytes, position = len(content) // count, 0  # they say the same of the same partition: all are as long
        for member in members:
            end = position + answer_bytes * len(member.request_bytes)
            member.leave(content[position:end])
            position = end

    def _count(self, count: int) -> None:
        """One record for all: they began in the same turn, or while the same sync ran. The sum of times is exact."""
        started_ms = sum([member.started_ms * len(member.request_bytes) for member in self._members]) / count
        now_ms = self._broker.clock.monotonic_ms()
        self._members[0].times.waited(started_ms, self._appended_ms, now_ms, count)

    def _refusals(self, error: BrokerError) -> bytes:
        frames = frames_of(self._content)
        for _ in frames:
            count_unacknowledged(self._broker, self._kind.partition.name.topic, error)
        topic, outcome = self._kind.simple.topic, self._uncommitted.outcome
        return write_run(self._kind.version, frames, [[(topic, [outcome])] for _ in frames])
