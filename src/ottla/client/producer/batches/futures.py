"""ManyFuture: one future for a list of records, as send_many() returns it.

Its result is a sequence of RecordMetadata in the order of the list, made one by one when they are asked for: ten
thousand records cost one object until somebody looks. The sizes of key and value are not kept (-1).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, overload

from ottla.client.deadline import Deadline
from ottla.client.producer.batches.append_choice import Delivery
from ottla.client.producer.batches.waiting import await_done, wait_until_done
from ottla.client.producer.values import FAILED_RECORDS_LIMIT, FailedRecord, RecordMetadata, SendFailed
from ottla.clock import SystemClock
from ottla.errors import OttlaError

Run = tuple[Delivery, int, int]  # where neighbours lie: delivery, first index there, count


class SentRecords(Sequence[RecordMetadata]):
    """The metadata of delivered records, in their order."""

    def __init__(self, runs: Sequence[Run], timestamp_ms: int | Sequence[int]) -> None:
        self._runs = runs
        self._timestamp_ms = timestamp_ms

    def __len__(self) -> int:
        return sum(count for _, _, count in self._runs)

    def __iter__(self) -> Iterator[RecordMetadata]:
        place = 0
        for delivery, first, count in self._runs:
            for index in range(first, first + count):
                yield self._metadata(delivery, index, place)
                place += 1

    @overload
    def __getitem__(self, index: int) -> RecordMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordMetadata]: ...
    def __getitem__(self, index: int | slice) -> RecordMetadata | list[RecordMetadata]:
        if isinstance(index, slice):
            return list(self)[index]
        place = wanted = index + len(self) if index < 0 else index
        for delivery, first, count in self._runs:
            if 0 <= wanted < count:
                return self._metadata(delivery, first + wanted, place)
            wanted -= count
        raise IndexError(f"{index} of {len(self)} records")

    def _metadata(self, delivery: Delivery, index: int, place: int) -> RecordMetadata:
        delivery, index = delivery.located(index)
        offset = delivery.base_offset + index if delivery.base_offset >= 0 else -1
        timestamp_ms = delivery.append_time_ms
        if timestamp_ms < 0:
            timestamp_ms = _time_at(self._timestamp_ms, place)
        return RecordMetadata(delivery.topic, delivery.partition, offset, timestamp_ms, -1, -1)


def _time_at(timestamp_ms: int | Sequence[int], place: int) -> int:
    return timestamp_ms if isinstance(timestamp_ms, int) else timestamp_ms[place]


class ManyFuture:
    """What becomes of a list of records."""

    def __init__(self, runs: Sequence[Run], timestamp_ms: int | Sequence[int]) -> None:
        self._runs = runs
        self._timestamp_ms = timestamp_ms

    def __len__(self) -> int:
        return sum(count for _, _, count in self._runs)

    def done(self) -> bool:
        """Whether the fate of every record is known."""
        return all(delivery.is_done_at(index) for delivery, index in self._places())

    def result(self, timeout: float | None = None) -> SentRecords:
        """Metadata of all records; SendFailed when one was not delivered, TimeoutError after `timeout` seconds."""
        # A thread that waits does so by the machine's time.
        deadline = None if timeout is None else Deadline(SystemClock(), timeout * 1000)
        for delivery, index in self._places():
            if not delivery.is_done_at(index):
                wait_until_done(delivery, index, None if deadline is None else deadline.left_s())
        return self._finished()

    get = result

    def exception(self, timeout: float | None = None) -> SendFailed | None:
        """SendFailed when one was not delivered, else None."""
        try:
            self.result(timeout)
        except SendFailed as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, SentRecords]:
        for delivery, index in self._places():
            if not delivery.is_done_at(index):
                yield from await_done(delivery, index)
        return self._finished()

    def _places(self) -> Iterator[tuple[Delivery, int]]:
        """One record of each batch is enough, unless a batch was split: then each has its own place."""
        for delivery, first, count in self._runs:
            if delivery.parts is None:
                yield delivery, first
            if delivery.parts is not None:  # also when it was split while somebody waited at its first record
                for index in range(first, first + count):
                    yield delivery, index

    def _finished(self) -> SentRecords:
        count = 0
        passed = 0
        failed: list[FailedRecord] = []
        for delivery, first, length in self._runs:
            passed += length
            if delivery.parts is None and delivery.error is None:
                continue
            for index in range(first, first + length):
                error: OttlaError | None = delivery.error_at(index)
                if error is not None:
                    delivery.tell(index)
                    count += 1
                    if len(failed) < FAILED_RECORDS_LIMIT:
                        name = delivery.topic, delivery.partition
                        time_ms = _time_at(self._timestamp_ms, passed - length + index - first)
                        failed.append(FailedRecord(*name, None, None, (), time_ms, error))
        if count:
            raise SendFailed(count, failed)
        return SentRecords(self._runs, self._timestamp_ms)

    def __repr__(self) -> str:
        return f"<ManyFuture of {len(self)} records {'done' if self.done() else 'waiting'}>"
