"""What clients want appended to a partition, in the order in which it was read: gathered, and appended together.

    partition.queued.append(write)                    # its place in the order is certain from now on
    appended = partition.append_queued(now_ms)        # each write says by its results what became of its batches

Whoever waits for a sync or for followers anyway waits here with others, and shares one write to the file with them
(produce/writer.py says when the queue is appended).

1. What was queued first is first in the log. Whoever appends past the queue (markers of transactions, coordinators)
   has it appended before: `Partition.append` does that.
2. Plain batches of any number of clients are appended by one write of the log (`append_run` of storage/log/append.py).
   What the log does not take as one run goes client by client, and what it does not take so batch by batch. So does
   what is not plain: compressed batches, those of transactions, batches that were checked before.
3. What goes wrong with one batch is said in its result and concerns no other.

No clock, no loop, nobody is called: values go in and out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.errors import BrokerError
from ottla.light_tuples import NamedTuple
from ottla.records.checks import PlacedBatch, RecordsCheck
from ottla.storage.producers.check import VerificationGuard

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition

AT_ONCE: Final = 256  # batches; the kernel writes no more than 1,024 pieces by one call


class ProduceResult:
    """What became of one batch; changes until it is answered."""

    __slots__ = ("base_offset", "error", "index", "log_append_time_ms", "log_start_offset")

    def __init__(
        self,
        index: int,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        error: BrokerError | None = None,
    ) -> None:
        self.index = index
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.error = error

    def refuse(self, error: BrokerError) -> None:
        """What was appended is not acknowledged after all."""
        self.base_offset = -1
        self.error = error


class Requests(Protocol):
    """Whose writes they are: requests of one connection."""

    def write_ended(self) -> None:
        """All batches of a write are committed, or refused."""


class Write:
    """Batches of one client for one partition, of requests that came together."""

    __slots__ = (
        "acks",
        "batches",
        "checked",
        "guard",
        "has_ended",
        "has_errors",
        "is_plain",
        "next_offset",
        "requests",
        "results",
        "timeout_ms",
        "zstd_allowed",
    )

    def __init__(
        self,
        requests: Requests,
        acks: int,
        timeout_ms: int,
        *,
        is_plain: bool,
        zstd_allowed: bool = True,
        guard: VerificationGuard | None = None,
        checked: RecordsCheck | None = None,
    ) -> None:
        """`checked` is what was found in its only batch before."""
        self.requests = requests
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.is_plain = is_plain
        self.zstd_allowed = zstd_allowed
        self.guard = guard
        self.checked = checked
        self.batches: list[memoryview] = []
        self.results: list[ProduceResult] = []
        self.next_offset = -1  # behind the last batch that was appended; -1 where none was
        self.has_errors = False
        self.has_ended = False

    def add(self, batch: memoryview, result: ProduceResult) -> None:
        self.batches.append(batch)
        self.results.append(result)

    def refuse(self, error: BrokerError) -> None:
        """Whatever became of its batches so far."""
        self.has_errors = True
        for result in self.results:
            if result.error is None:
                result.refuse(error)

    def end(self) -> None:
        """Its batches are committed, or refused; its requests hear of that once."""
        if not self.has_ended:
            self.has_ended = True
            self.requests.write_ended()


class Appended(NamedTuple):
    """What became of a queue."""

    writes: list[Write]
    batch_count: int
    record_count: int
    size_bytes: int


def append_all(partition: Partition, writes: list[Write], now_ms: int) -> Appended:
    """Append these, in their order."""
    if len(writes) == 1:
        return Appended(writes, *_append_together(partition, writes, now_ms))
    batches = records = size_bytes = first = 0
    while first < len(writes):
        behind = _end_of_run(writes, first)
        appended = _append_together(partition, writes[first:behind], now_ms)
        batches, records, size_bytes = batches + appended[0], records + appended[1], size_bytes + appended[2]
        first = behind
    return Appended(writes, batches, records, size_bytes)


def _end_of_run(writes: list[Write], first: int) -> int:
    """Behind the last one that can be tried together with the first."""
    write, behind = writes[first], first + 1
    if not write.is_plain:
        return behind
    count = len(write.batches)
    while behind < len(writes):
        following = writes[behind]
        count += len(following.batches)
        if not following.is_plain or following.acks != write.acks or count > AT_ONCE:
            break
        behind += 1
    return behind


def _append_together(partition: Partition, writes: list[Write], now_ms: int) -> tuple[int, int, int]:
    """How many batches were appended, records, and bytes."""
    first = writes[0]
    if first.is_plain:
        batches = first.batches if len(writes) == 1 else [batch for write in writes for batch in write.batches]
        try:
            places = partition.append_run(batches, acks=first.acks, now_ms=now_ms)
        except BrokerError as error:
            for write in writes:
                write.refuse(error)
            return 0, 0, 0
        if places is not None:
            _place(writes, places, partition.end.log_start_offset)
            return len(places), places[-1][1] + 1 - places[0][0], sum(map(len, batches))
        if len(writes) > 1:
            batch_counts, record_counts, sizes = zip(
                *(_append_together(partition, [write], now_ms) for write in writes), strict=True
            )
            return sum(batch_counts), sum(record_counts), sum(sizes)
    return _append_batches(partition, first, now_ms)


def _place(writes: list[Write], places: Sequence[PlacedBatch], log_start_offset: int) -> None:
    at = 0
    for write in writes:
        for result in write.results:
            result.base_offset = places[at][0]
            result.log_start_offset = log_start_offset
            at += 1
        write.next_offset = places[at - 1][1] + 1


def _append_batches(partition: Partition, write: Write, now_ms: int) -> tuple[int, int, int]:
    """One by one."""
    batches = records = size_bytes = 0
    for batch, result in zip(write.batches, write.results, strict=True):
        try:
            place = partition.append_batch(
                batch,
                acks=write.acks,
                now_ms=now_ms,
                zstd_allowed=write.zstd_allowed,
                guard=write.guard,
                checked=write.checked,
            )
        except BrokerError as error:
            result.refuse(error)
            write.has_errors = True
            continue
        result.base_offset = place.first_offset
        result.log_append_time_ms = place.log_append_time_ms
        result.log_start_offset = place.log_start_offset
        write.next_offset = max(write.next_offset, place.last_offset + 1)
        batches, size_bytes = batches + 1, size_bytes + len(batch)
        records += place.last_offset - place.first_offset + 1
    return batches, records, size_bytes
