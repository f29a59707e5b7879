"""One partition as one share group sees it: which records are whose, and what of that must be kept.

It is plain code: the log, the clock and the share coordinator are outside. A record is acquired by a member for the
time of a lock; the member accepts, releases, rejects or renews it; a lock that ends makes it available again.

1. A change that others must be able to rely on (acknowledged, released, expired, archived) counts when it is kept:
   `next_write` says what to write, `written` and `write_failed` what became of it. Until then the record is neither
   available nor done, and nobody gets it. So what was answered is never handed out again, and a delivery count that
   somebody saw never goes back.
2. One write at a time; what changes meanwhile goes into the next one. So writes come in order, and the start offset of
   a write includes what that write itself completes.
3. A write that failed may have been kept all the same. Its changes are undone here, and the next write has the whole
   state, whatever the coordinator believes.
4. Everything before the start offset is done. Acknowledgements of it are accepted and change nothing.
5. An acquired record is not written: after a crash it is available, with the count it had before.
6. At most `max_locks` records are in flight, but for the rest of a batch that has begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.sharing.ranges import NO_TICKET, OffsetRanges, Range
from ottla.broker.sharing.states import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    STATE_AFTER,
    TERMINAL,
    AcknowledgeType,
    RecordState,
)
from ottla.errors import InvalidRecordState, InvalidRequest
from ottla.light_tuples import NamedTuple

RETRY_MS = 1_000
"""After this long a lock is ended once more whose end could not be kept."""


class Limits(NamedTuple):
    """What the settings of the group say now."""

    lock_ms: int
    delivery_count: int
    max_locks: int


class Acquired(NamedTuple):
    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """What a member says about offsets `first` to `last`: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StateBatch(NamedTuple):
    """Offsets with their state, as they are kept."""

    first: int
    last: int
    state: int
    deliveries: int


class StateWrite(NamedTuple):
    """What must be kept; `ticket` is the newest change in it."""

    ticket: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


class Wanted(NamedTuple):
    """How much a member takes at once."""

    max_records: int
    batch_size: int
    is_strict: bool = False  # not one record more than that, though a batch is cut by it


class SharePartition:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """As the share coordinator has it; what lies between the batches was never delivered."""
        self._ranges = OffsetRanges(start_offset)
        for batch in batches:
            if batch.last >= start_offset:
                self._ranges.extend(batch.first)
                self._ranges.extend(batch.last + 1, RecordState(batch.state), batch.deliveries)
        self._newest_ticket = NO_TICKET
        self._writing: int | None = None  # the newest ticket of the write that is on its way
        self._written_ticket = NO_TICKET
        self._must_write_all = False
        self._advance()

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._ranges.start

    @property
    def end_offset(self) -> int:
        """The first offset that was never handed out."""
        return self._ranges.end

    @property
    def in_flight_count(self) -> int:
        return sum([len(each) for each in self._ranges if not each.is_terminal])

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(self._ranges)

    def next_fetch_offset(self, max_locks: int) -> int | None:
        """Where there may be something to acquire; None when too much is in flight."""
        for each in self._ranges:
            if each.is_available:
                return each.first
        return self.end_offset if self.in_flight_count < max_locks else None

    def last_wanted(self, first: int, max_records: int) -> int:
        """The last offset that somebody gets who takes so many records from `first` on: nothing behind the batch of it
        needs to be read. Offsets that the log does not have count as records."""
        left = max_records
        for each in self._ranges.overlapping(first, self.end_offset):
            if each.is_available:
                left -= each.last - max(each.first, first) + 1
                if left <= 0:
                    return each.last + left
        return max(self.end_offset, first) + left - 1

    def next_expiry_ms(self) -> int | None:
        """When the first lock ends."""
        return min(
            (each.lock_until_ms for each in self._ranges if each.state is ACQUIRED and each.next_state is None),
            default=None,
        )

    # -- acquiring ---------------------------------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        batches: Sequence[tuple[int, int]],
        wanted: Wanted,
        limits: Limits,
        now_ms: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[Acquired]:
        """Lock what is available of the offsets of these batches (first, last), which were read from
        `next_fetch_offset` on. `aborted` are those that nobody may see."""
        if not batches or wanted.max_records <= 0:
            return []
        self._archive_missing(batches[0][0])
        self._admit(batches, limits.max_locks, wanted)
        for first, last in aborted:
            self._archive_available(max(first, self.start_offset), last)
        acquired = self._lock(member_id, batches, wanted, limits, now_ms)
        self._advance()
        return acquired

    def _archive_missing(self, first: int) -> None:
        """Available offsets before the first batch that could be read are not in the log any more."""
        self._ranges.extend(first, ARCHIVED)
        self._archive_available(self.start_offset, first - 1)

    def _archive_available(self, first: int, last: int) -> None:
        """These offsets hold nothing for anybody. Not written: whoever reads the log again finds it again."""
        for each in self._ranges.cut(first, last):
            if each.is_available:
                each.state = ARCHIVED
        self._ranges.join(first, last)

    def _admit(self, batches: Sequence[tuple[int, int]], max_locks: int, wanted: Wanted) -> None:
        """Give new offsets a state, as far as there is room."""
        end, last = self.end_offset, batches[-1][1]
        if last < end:
            return
        room = min(max_locks - self.in_flight_count, wanted.max_records)
        if room > 0:
            limit = min(end + room - 1, last)
            self._ranges.extend((limit if wanted.is_strict else _end_of_batch(batches, limit)) + 1)

    def _lock(
        self, member_id: str, batches: Sequence[tuple[int, int]], wanted: Wanted, limits: Limits, now_ms: int
    ) -> list[Acquired]:
        acquired: list[Acquired] = []
        locked, lock_until_ms = 0, now_ms + limits.lock_ms
        first, last = batches[0][0], batches[-1][1]
        for each in self._ranges.overlapping(first, last):
            if locked >= wanted.max_records or not each.is_available:
                continue
            limit = min(max(each.first, first) + wanted.max_records - locked - 1, each.last, last)
            if not wanted.is_strict:
                limit = min(_end_of_batch(batches, limit), each.last)
            for part in self._ranges.cut(max(each.first, first), limit):
                if part.deliveries >= limits.delivery_count:
                    part.state = ARCHIVED  # the limit is lower than it was
                    continue
                part.state, part.member_id, part.lock_until_ms = ACQUIRED, member_id, lock_until_ms
                part.deliveries += 1
                locked += len(part)
                acquired += _in_batches(part, batches, wanted.batch_size)
        self._ranges.join(first, last)
        return acquired

    # -- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], limits: Limits, now_ms: int
    ) -> int | None:
        """All of it or, with InvalidRecordState, nothing; InvalidRequest is for what was never delivered. Returns the
        ticket that must be kept before this counts, None when there is nothing to keep."""
        pieces = [piece for each in acknowledgements for piece in _runs(each, self.start_offset)]
        for first, last, _ in pieces:
            self._check_owner(member_id, first, last)
        ticket = None
        for first, last, kind in pieces:
            for each in self._ranges.cut(first, last):
                if kind is AcknowledgeType.RENEW:
                    each.lock_until_ms = now_ms + limits.lock_ms
                else:
                    ticket = ticket or self._new_ticket()
                    self._change(each, STATE_AFTER[kind], ticket, limits)
            self._ranges.join(first, last)
        return ticket

    def _check_owner(self, member_id: str, first: int, last: int) -> None:
        if last >= self.end_offset:
            raise InvalidRequest(f"offset {last} was never delivered")
        for each in self._ranges.overlapping(first, last):
            if each.state is not ACQUIRED or each.next_state is not None:
                raise InvalidRecordState(f"the record at offset {max(each.first, first)} is not acquired")
            if each.member_id != member_id:
                raise InvalidRecordState(f"the record at offset {max(each.first, first)} is acquired by another member")

    def _change(self, each: Range, state: RecordState, ticket: int, limits: Limits) -> None:
        is_too_often = state is AVAILABLE and each.deliveries >= limits.delivery_count
        each.next_state = ARCHIVED if is_too_often else state
        each.ticket = ticket

    def release(self, member_id: str, limits: Limits) -> int | None:
        """The member is gone: what it had acquired is available again. Returns the ticket, as `acknowledge` does."""
        return self._end_locks([each for each in self._acquired() if each.member_id == member_id], limits)

    def expire(self, now_ms: int, limits: Limits) -> int | None:
        """End the locks whose time is over. Returns the ticket, as `acknowledge` does."""
        return self._end_locks([each for each in self._acquired() if each.lock_until_ms <= now_ms], limits)

    def _acquired(self) -> list[Range]:
        return [each for each in self._ranges if each.state is ACQUIRED and each.next_state is None]

    def _end_locks(self, ended: Sequence[Range], limits: Limits) -> int | None:
        if not ended:
            return None
        ticket = self._new_ticket()
        for each in ended:
            self._change(each, AVAILABLE, ticket, limits)
        self._ranges.join_all()
        return ticket

    def _new_ticket(self) -> int:
        self._newest_ticket += 1
        return self._newest_ticket

    # -- keeping -----------------------------------------------------------------------------------------------------

    def next_write(self) -> StateWrite | None:
        """What to write now; None when a write is on its way, or there is nothing."""
        if self._writing is not None or self._newest_ticket == self._written_ticket:
            return None
        ticket = self._writing = self._newest_ticket
        start = self._start_after(ticket)
        batches = [batch for each in self._ranges if (batch := self._batch(each, ticket, start)) is not None]
        complete = sum([batch.last - batch.first + 1 for batch in self._completed(ticket, start)])
        return StateWrite(ticket, start, complete, tuple(batches))

    def rewrite(self) -> None:
        """Have the whole state written, though nothing changed: the first one that knows where it begins does."""
        self._must_write_all = True
        self._new_ticket()

    def _start_after(self, ticket: int) -> int:
        """The start offset once the changes up to `ticket` are kept."""
        for each in self._ranges:
            if _state_after(each, ticket) not in TERMINAL:
                return each.first
        return self.end_offset

    def _completed(self, ticket: int, start: int) -> list[StateBatch]:
        return [
            StateBatch(each.first, each.last, state, each.deliveries)
            for each in self._ranges
            if each.first >= start and (state := _state_after(each, ticket)) in TERMINAL
        ]

    def _batch(self, each: Range, ticket: int, start: int) -> StateBatch | None:
        if each.first < start or not (self._must_write_all or each.next_state is not None):
            return None
        state = _state_after(each, ticket)
        if state is ACQUIRED:
            # To whoever reads it, it was never delivered this time.
            return StateBatch(each.first, each.last, AVAILABLE, each.deliveries - 1) if self._must_write_all else None
        return StateBatch(each.first, each.last, state, each.deliveries)

    def written(self) -> int:
        """The write is kept. Returns the newest ticket that counts now."""
        ticket = self._end_write()
        self._must_write_all = False
        for each in self._ranges:
            if each.next_state is not None and each.ticket <= ticket:
                each.state, each.next_state, each.ticket = each.next_state, None, NO_TICKET
                each.member_id, each.lock_until_ms = "", 0
        self._ranges.join_all()
        self._advance()
        return ticket

    def write_failed(self, now_ms: int) -> int:
        """It is not known to be kept: its changes are undone. Returns the newest ticket that failed."""
        ticket = self._end_write()
        self._must_write_all = True
        for each in self._ranges:
            if each.next_state is not None and each.ticket <= ticket:
                each.next_state, each.ticket = None, NO_TICKET
                each.lock_until_ms = max(each.lock_until_ms, now_ms + RETRY_MS)
        self._ranges.join_all()
        return ticket

    def _end_write(self) -> int:
        assert self._writing is not None, "there is a write on its way"
        ticket = self._written_ticket = self._writing
        self._writing = None
        return ticket

    # -- the start ---------------------------------------------------------------------------------------------------

    def log_starts_at(self, offset: int) -> None:
        """The log has nothing before this offset any more."""
        if offset > self.start_offset:
            self._ranges.drop_before(offset)

    def _advance(self) -> None:
        start = next((each.first for each in self._ranges if not each.is_terminal), self.end_offset)
        if start > self.start_offset:
            self._ranges.drop_before(start)


def _state_after(each: Range, ticket: int) -> RecordState:
    """The state once the changes up to `ticket` are kept."""
    return each.next_state if each.next_state is not None and each.ticket <= ticket else each.state


def _end_of_batch(batches: Sequence[tuple[int, int]], offset: int) -> int:
    """The last offset of the batch that holds `offset`."""
    for first, last in batches:
        if first <= offset <= last:
            return last
    return offset


def _in_batches(part: Range, batches: Sequence[tuple[int, int]], batch_size: int) -> list[Acquired]:
    """An acquired range, cut where batches of the log end, into pieces of about `batch_size` records."""
    if len(part) <= batch_size or batch_size <= 0:
        return [Acquired(part.first, part.last, part.deliveries)]
    found: list[Acquired] = []
    first = part.first
    for _, last in batches:
        if last < part.last and last - first + 1 >= batch_size:
            found.append(Acquired(first, last, part.deliveries))
            first = last + 1
    return [*found, Acquired(first, part.last, part.deliveries)]


def _runs(acknowledgement: Acknowledgement, start: int) -> list[tuple[int, int, AcknowledgeType]]:
    """Offsets in a row of the same type; what is before the start offset is left out."""
    first, last, types = acknowledgement
    if last < start:
        return []
    if len(types) == 1:
        return [(max(first, start), last, AcknowledgeType(types[0]))]
    found: list[tuple[int, int, AcknowledgeType]] = []
    for offset, kind in enumerate(types, first):
        if offset < start:
            continue
        if found and found[-1][2] == kind:
            found[-1] = (found[-1][0], offset, found[-1][2])
        else:
            found.append((offset, offset, AcknowledgeType(kind)))
    return found
