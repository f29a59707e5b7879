"""One ShareFetch on its way to an answer: acquire what there is, or wait until there is something.

1. Partitions are asked in turn. One that cannot be served (it is led elsewhere, its state cannot be read) is named with
   its error at once; one whose state is being read is waited for like one without records.
2. Nothing is acquired before it is sent: with min_bytes above 1 first only sizes are read, until there is enough or the
   time is over.
3. The answer has slices of files, in whole batches, and says which of their records were acquired.
4. max_bytes is divided: every partition that has something gets an equal share. Only the first of them answers with a
   whole batch that is larger than that; without it a large batch would never be read. max_bytes 0 asks for nothing.
5. max_records is for all partitions together. A batch that has begun is acquired to its end, unless the member asked
   for not one more (share_acquire_mode 1).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.share_state.state import ShareKey
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import next_turn
from ottla.broker.sharing.batches import part_of, read_batches
from ottla.broker.sharing.leaders import Led
from ottla.broker.sharing.requests import partition_led_here
from ottla.broker.sharing.sessions import Place
from ottla.broker.sharing.share_partition import Acquired, Wanted
from ottla.errors import BrokerError, UnsupportedForMessageFormat
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.storage.log.read import ReadResult
from ottla.storage.segment.records_file import FileSlice

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

RECORD_LIMIT_MODE: Final = 1
TRIES: Final = 16
"""So often in a row a partition is read that has only records of aborted transactions, before others are served."""


@dataclass(slots=True)
class Found:
    """What one partition has for the answer."""

    place: Place
    error: BrokerError | None = None
    records: FileSlice | None = None
    acquired: list[Acquired] = field(default_factory=list)


class ShareFetching:
    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        context: RequestContext,
        places: Sequence[Place],
        refused: frozenset[bytes] = frozenset(),
    ) -> None:
        """`refused` are topics that whoever asks may not read."""
        self._broker = broker
        self._request = request
        self._places = places
        self._refused = refused
        self._leaders = broker.sharing.leaders
        self._group_id = request.group_id or ""
        self._member_id = request.member_id or ""
        self._settings = self._leaders.settings_of(self._group_id)
        self._limits = self._leaders.limits_of(self._group_id)
        self._led: dict[Place, Led] = {}
        self._errors: dict[Place, BrokerError] = {}
        self._max_bytes = max(min(request.max_bytes, broker.settings.fetch_max_bytes), 0)
        charges = context.charges
        if charges is not None and charges.fetch_max_bytes is not None and not charges.is_exempt:
            self._max_bytes = int(min(self._max_bytes, charges.fetch_max_bytes))

    async def found(self) -> list[Found]:
        """What is acquired of every partition that has something to say."""
        deadline_ms = self._broker.clock.monotonic_ms() + max(self._request.max_wait_ms, 0)
        while True:
            self._find_all()
            if not self._errors and not self._has_enough():
                if not self._led or not await self._wait(deadline_ms):
                    return [*self._acquire_all(), *self._failed()]
                continue
            acquired = self._acquire_all()
            if acquired or self._errors or self._broker.clock.monotonic_ms() >= deadline_ms:
                return [*acquired, *self._failed()]
            await next_turn()  # only aborted records so far; others go first

    def _failed(self) -> list[Found]:
        return [Found(place, error=error) for place, error in self._errors.items()]

    # -- who can be asked --------------------------------------------------------------------------------------------

    def _find_all(self) -> None:
        """The share partitions; those that are not loaded begin to be."""
        before, self._led, self._errors = self._led, {}, {}
        for place in self._places:
            try:
                if place in before and (dropped_by := before[place].error) is not None:
                    raise dropped_by
                led = self._leaders.get(
                    ShareKey(self._group_id, *place), partition_led_here(self._broker, place, self._refused)
                )
                if led.machine is None:
                    loading = self._leaders.loaded(led)
                    if loading.done():
                        loading.result()
                self._led[place] = led
            except BrokerError as error:
                self._errors[place] = error

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def _wait(self, deadline_ms: float) -> bool:
        keys: list[Hashable] = []
        for led in self._led.values():
            keys += [led.key, led.partition.name]
        return await self._broker.progress.fetch_purgatory.wait(self._has_news, keys, deadline_ms)

    def _has_news(self) -> bool:
        return any(led.is_dropped or not led.partition.is_leader for led in self._led.values()) or self._has_enough()

    def _has_enough(self) -> bool:
        if self._request.min_bytes <= 1:
            return any(self._next_offset(led) is not None for led in self._led.values())
        sizes = 0
        for led in self._led.values():
            offset = self._next_offset(led)
            sizes += 0 if offset is None else len(self._read(led.partition, offset, self._max_bytes).slice)
        return sizes >= min(self._request.min_bytes, self._max_bytes)

    def _next_offset(self, led: Led) -> int | None:
        """Where there is something to read; None when there is nothing now."""
        if led.machine is None:
            return None
        led.machine.log_starts_at(led.partition.end.log_start_offset)
        offset = led.machine.next_fetch_offset(self._limits.max_locks)
        return offset if offset is not None and offset < self._end(led.partition) else None

    def _end(self, partition: Partition) -> int:
        return partition.end.last_stable_offset if self._settings.is_read_committed else partition.end.high_watermark

    # -- acquiring ---------------------------------------------------------------------------------------------------

    def _acquire_all(self) -> list[Found]:
        found: list[Found] = []
        left = self._request.max_records
        ready = [(place, led) for place, led in self._led.items() if self._next_offset(led) is not None]
        for place, led in ready:
            if left <= 0:
                break
            try:
                one = self._acquire(place, led, left, self._max_bytes // len(ready), at_least_one_batch=not found)
            except BrokerError as error:
                self._errors[place] = error
                continue
            if one is not None and one.records is not None:
                found.append(one)
                left -= sum([each.last - each.first + 1 for each in one.acquired])
        return found

    def _acquire(
        self, place: Place, led: Led, max_records: int, max_bytes: int, *, at_least_one_batch: bool
    ) -> Found | None:
        request, machine = self._request, led.machine
        is_strict = request.share_acquire_mode == RECORD_LIMIT_MODE
        wanted = Wanted(max_records, request.batch_size, is_strict)
        for _ in range(TRIES):
            offset = self._next_offset(led)
            if offset is None or machine is None:
                return None
            read = self._read(led.partition, offset, max_bytes, at_least_one_batch=at_least_one_batch)
            if not len(read.slice) and not at_least_one_batch:
                return None  # its next batch is larger than its share, and others have something
            batches = read_batches(read.slice, read.aborted, machine.last_wanted(offset, max_records))
            acquired = machine.acquire(
                self._member_id,
                [(each.first, each.last) for each in batches],
                wanted,
                self._limits,
                int(self._broker.clock.monotonic_ms()),
                [(each.first, each.last) for each in batches if each.is_aborted],
            )
            self._leaders.watch_locks(led)
            if acquired:
                part = part_of(read.slice, batches, acquired[0].first, acquired[-1].last)
                return Found(place, records=part, acquired=acquired)
            if not batches:
                raise UnsupportedForMessageFormat(f"{led.partition.name} has records of an old format at {offset}")
        return None

    def _read(
        self, partition: Partition, offset: int, max_bytes: int, *, at_least_one_batch: bool = True
    ) -> ReadResult:
        return partition.read(
            offset,
            max_bytes,
            read_committed=self._settings.is_read_committed,
            at_least_one_batch=at_least_one_batch,
        )
