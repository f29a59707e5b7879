"""A log that is read from start to end: what cannot be read is named, and everything around it is found."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.log.test_partition_log import append, opened, settings
from tests.unit.storage.log.test_partition_log import files as files

from ottla.records.layout import LENGTH_AT
from ottla.storage.log import whole_log
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.whole_log import Rotten, read_whole

NOW_MS = 1_700_000_000_000
BATCHES = 40


@pytest.fixture
def log(files: Any) -> PartitionLog:
    """Three segments of batches with two records each."""
    made = opened(files, settings(internal_segment_bytes=2_000, index_interval_bytes=300))
    for number in range(BATCHES):
        append(made, b"%d" % number * 20, b"more")
    assert len(made.segments) >= 3
    return made


def offsets(log: PartitionLog) -> list[int | Rotten]:
    """The base offset of every batch, and what cannot be read."""
    return [each if isinstance(each, Rotten) else each.base_offset for each in read_whole(lambda: log)]


def batches(log: PartitionLog) -> list[tuple[Path, int, int, int]]:
    """File, position, size and base offset."""
    return [
        (segment.path, position, info.size_bytes, info.base_offset)
        for segment in log.segments
        for position, info in segment.records.headers()
    ]


def damage(log: PartitionLog, number: int, at: int, flip: int = 0x01) -> tuple[Path, int, int, int]:
    """Change a byte of a batch."""
    found = batches(log)[number]
    segment = log.segments.floor(found[3])
    assert segment is not None
    file = segment.records.file
    byte = file.read_at(found[1] + at, 1)[0] ^ flip
    file.write_at(found[1] + at, [bytes([byte])])
    return found


@pytest.mark.parametrize("chunk_bytes", [1, 200, 333, 1_000, 1 << 20])
def test_every_batch_comes_once_and_in_order(
    log: PartitionLog, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_log, "CHUNK_BYTES", max(61, chunk_bytes))
    assert offsets(log) == list(range(0, 2 * BATCHES, 2))


@pytest.mark.parametrize("number", [0, 7, 13, BATCHES - 1])
def test_a_rotten_byte_in_a_record_costs_its_batch_alone(log: PartitionLog, number: int) -> None:
    path, position, _, base = damage(log, number, at=70)
    found = offsets(log)
    rotten = [each for each in found if isinstance(each, Rotten)]
    assert [each[:4] for each in rotten] == [(path, position, base, base + 2)]
    assert "CRC" in rotten[0].error
    assert [each for each in found if not isinstance(each, Rotten)] == [
        each for each in range(0, 2 * BATCHES, 2) if each != base
    ]


@pytest.mark.parametrize("flip", [0x40, 0x04])
def test_behind_a_rotten_length_reading_goes_on_where_a_batch_is_known_to_begin(log: PartitionLog, flip: int) -> None:
    _, _, _, base = damage(log, 5, at=LENGTH_AT + 3 if flip == 0x04 else LENGTH_AT, flip=flip)
    found = offsets(log)
    rotten = [each for each in found if isinstance(each, Rotten)]
    assert len(rotten) == 1
    assert rotten[0].offset == base
    assert base < rotten[0].next_offset < base + 12, "the next index entry, not the next segment"
    left = [each for each in found if not isinstance(each, Rotten)]
    assert left == [each for each in range(0, 2 * BATCHES, 2) if not base <= each < rotten[0].next_offset]


@pytest.mark.parametrize("at", [0, 6, 7])
def test_a_base_offset_that_rotted_hides_nothing_behind_it(log: PartitionLog, at: int) -> None:
    """The CRC does not cover it."""
    damage(log, 9, at=at, flip=0x10)
    found = offsets(log)
    assert any(isinstance(each, Rotten) for each in found)
    left = [each for each in found if not isinstance(each, Rotten)]
    assert left == sorted(left)
    assert set(range(60, 2 * BATCHES, 2)) <= set(left)


def test_what_is_appended_while_it_is_read_is_read_too(log: PartitionLog) -> None:
    found = []
    for batch in read_whole(lambda: log):
        assert not isinstance(batch, Rotten)
        found.append(batch.base_offset)
        if len(found) in (1, BATCHES):
            append(log, b"new")
    assert found == [*range(0, 2 * BATCHES, 2), 2 * BATCHES, 2 * BATCHES + 1]


@pytest.mark.parametrize("at", [1, 10, 30])
def test_a_log_whose_start_moves_or_whose_end_rolls_is_read_on(log: PartitionLog, at: int) -> None:
    found = []
    for batch in read_whole(lambda: log):
        assert not isinstance(batch, Rotten)
        found.append(batch.base_offset)
        if len(found) == at:
            log.update_high_watermark(log.log_end_offset)
            log.advance_log_start(71)
            log.delete_segments(log.segments_below_log_start(), "test", NOW_MS)
            log.roll(NOW_MS)
    assert found == sorted(set(found))
    assert found[-5:] == list(range(70, 80, 2))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_rots_reading_ends_and_returns_only_what_was_written(files: Any, seed: int) -> None:
    chance = random.Random(seed)
    log = opened(files, settings(internal_segment_bytes=2_000, index_interval_bytes=chance.choice((1, 300, 5_000))))
    for number in range(BATCHES):
        append(log, b"%d" % number * 20, b"more")
    written = {each.base_offset: bytes(each.record_bytes()) for each in whole(log)}
    for _ in range(chance.randint(1, 4)):
        number = chance.randrange(BATCHES)
        try:
            _flip_any(log, chance, number)
        except IndexError:
            break
    found = list(read_whole(lambda: log))
    assert any(isinstance(each, Rotten) for each in found)
    for each in found:
        if not isinstance(each, Rotten) and each.base_offset in written:
            assert bytes(each.record_bytes()) == written[each.base_offset]
    read = [each.base_offset for each in found if not isinstance(each, Rotten)]
    assert read == sorted(set(read))


def whole(log: PartitionLog) -> list[Any]:
    return list(read_whole(lambda: log))


def _flip_any(log: PartitionLog, chance: random.Random, number: int) -> None:
    segment = chance.choice(list(log.segments))
    position = chance.randrange(segment.size_bytes)
    byte = segment.records.file.read_at(position, 1)[0]
    segment.records.file.write_at(position, [bytes([byte ^ (1 << chance.randrange(8))])])


def test_a_file_that_is_shorter_than_it_was_ends_the_reading(log: PartitionLog) -> None:
    first = log.segments.first
    assert first is not None
    first.records.file.truncate(first.size_bytes - 500)
    found = offsets(log)
    assert any(isinstance(each, Rotten) for each in found)
    assert found[-1] == 2 * BATCHES - 2


def test_a_length_that_claims_too_much_is_not_believed(log: PartitionLog) -> None:
    segment = log.segments.first
    assert segment is not None
    segment.records.file.write_at(LENGTH_AT, [struct.pack(">i", 0x7FFFFFFF)])
    found = offsets(log)
    assert isinstance(found[0], Rotten)
    assert found[0].offset == 0
    assert len(found) > BATCHES / 2
