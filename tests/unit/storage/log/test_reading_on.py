"""Who reads on where he stopped is not looked up in the index; he must get what the index would have given him."""

from __future__ import annotations

import contextlib
import random

import pytest
from tests.unit.storage.log.test_partition_log import append, opened, settings
from tests.unit.storage.log.test_partition_log import files as files
from tests.unit.storage.log.test_partition_log import log as log

from ottla.errors import CorruptMessage
from ottla.records import RecordStream
from ottla.storage.log.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000


def read(log: PartitionLog, offset: int, max_bytes: int, up_to: str) -> tuple[bytes, int, int]:
    found = log.read(offset, max_bytes, up_to=up_to)  # type: ignore[arg-type]
    return found.slice.read(), found.high_watermark, found.log_start_offset


def read_by_index(log: PartitionLog, offset: int, max_bytes: int, up_to: str) -> tuple[bytes, int, int]:
    log.end.segments.forget_positions()
    return read(log, offset, max_bytes, up_to)


def test_the_next_read_begins_where_the_last_one_came_to_the_end(log: PartitionLog) -> None:
    append(log, b"a")
    read(log, 0, 10_000, "log_end")
    append(log, b"b")
    assert log.end.segments.tail_at(1) is not None
    assert read(log, 1, 10_000, "log_end") == read_by_index(log, 1, 10_000, "log_end")


def test_a_cut_forgets_where_readers_were(log: PartitionLog) -> None:
    append(log, b"a")
    append(log, b"b")
    read(log, 0, 10_000, "log_end")
    log.truncate_to(1, NOW_MS)
    assert log.end.segments.tail_at(2) is None


@pytest.mark.parametrize("seed", range(30))
def test_reading_on_gives_what_the_index_gives(files: object, seed: int) -> None:
    chance = random.Random(seed)
    log = opened(files, settings(internal_segment_bytes=1_000, index_interval_bytes=100))  # type: ignore[arg-type]
    readers = [0, 0, 0]
    for _ in range(120):
        step = chance.randrange(10)
        if step < 5:
            append(log, *[b"x" * chance.randrange(60) for _ in range(chance.randrange(1, 4))])
        elif step == 5:
            log.end.update_high_watermark(chance.randint(log.high_watermark, log.log_end_offset))
        elif step == 6 and log.log_end_offset > log.high_watermark:
            log.truncate_to(chance.randint(log.high_watermark, log.log_end_offset), NOW_MS)
            readers = [min(each, log.log_end_offset) for each in readers]
        number = chance.randrange(3)
        up_to = ("log_end", "high_watermark", "last_stable")[number]
        max_bytes = chance.choice((0, 70, 150, 10_000))
        tails = dict(log.end.segments._tails)
        content = read(log, readers[number], max_bytes, up_to)
        log.end.segments._tails.clear()
        assert read(log, readers[number], max_bytes, up_to) == content
        log.end.segments._tails.update(tails)
        read(log, readers[number], max_bytes, up_to)
        for each in _batches(content[0]):
            readers[number] = each
    log.close()


def _batches(content: bytes) -> list[int]:
    """Where the batches end; the last one may be cut off."""
    found = []
    with contextlib.suppress(CorruptMessage):
        for each in RecordStream(content):
            found.append(each.next_offset)
    return found
