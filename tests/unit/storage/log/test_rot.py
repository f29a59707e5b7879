"""Records that rotted after they were synced: told from a torn end, fenced off, and everything around them served."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ottla.errors import CorruptMessage
from ottla.records import BatchBuilder, RecordStream, scan
from ottla.records.layout import LENGTH_AT, MAGIC_AT
from ottla.storage.log.leader_epochs import LEADER_EPOCHS
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
ONE_SEGMENT = TopicSettings({"index.interval.bytes": 100})
WITHOUT_ENTRIES = TopicSettings({})
NOW_MS = 1_000_000
COUNT = 12


def opened(
    files: MemoryFiles, settings: TopicSettings = ONE_SEGMENT, *, recovery_point: int = 0, is_clean: bool = False
) -> PartitionLog:
    name = TopicPartition("t", 0)
    return open_log(
        DIRECTORY, name, settings, files=files, now_ms=NOW_MS, is_clean=is_clean, recovery_point=recovery_point
    )


def append(log: PartitionLog, number: int, leader_epoch: int = 0) -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"key", b"value %d " % number * 10)
    log.append_as_leader(bytearray(builder.close()), leader_epoch=leader_epoch, now_ms=NOW_MS)


def written(settings: TopicSettings = ONE_SEGMENT) -> MemoryFiles:
    """A log of batches with one record each, closed in order."""
    files = MemoryFiles()
    log = opened(files, settings)
    log.assign_topic_id(bytes(range(16)))
    for number in range(COUNT):
        append(log, number)
    log.close()
    return files


def segment_paths(files: MemoryFiles) -> list[Path]:
    return [DIRECTORY / name for name in sorted(files.list_directory(DIRECTORY)) if name.endswith(".log")]


@cache
def positions() -> dict[int, int]:
    """Where the batches of a log with one segment stand."""
    files = written()
    content = files.read_bytes(segment_paths(files)[0])
    return {batch.base_offset: batch.position for batch in scan(content, 0, len(content))}


def rot(files: MemoryFiles, path: Path, offset: int, at: int) -> None:
    """Flip a bit of the batch that holds an offset, so many bytes behind its beginning."""
    files.flip_bit(path, 8 * (positions()[offset] + at) + 3)


def readable(log: PartitionLog) -> tuple[set[int], set[int]]:
    """The offsets that can be read, and those whose read is refused."""
    log.update_high_watermark(log.log_end_offset)
    found, refused = set(), set()
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            content = log.read(offset, 1).slice.read()
            for batch in RecordStream(content):
                batch.check()
                found |= {record.offset for record in batch}
        except CorruptMessage:
            refused.add(offset)
    return found, refused


FRAME, CRC_COVERED, BASE_OFFSET = LENGTH_AT + 2, 70, 5


@pytest.mark.parametrize("at", [FRAME, CRC_COVERED, BASE_OFFSET], ids=["length", "records", "base offset"])
def test_rot_below_the_recovery_point_costs_only_what_rotted(at: int) -> None:
    files = written()
    rot(files, segment_paths(files)[0], 5, at)
    log = opened(files, recovery_point=10)
    found, refused = readable(log)
    assert log.log_end_offset == COUNT
    assert 5 in refused
    assert found | refused == set(range(COUNT))
    assert not found & refused
    assert refused == {5}


@pytest.mark.parametrize("at", [FRAME, CRC_COVERED], ids=["length", "records"])
@pytest.mark.parametrize("count", [6, COUNT], ids=["last", "followed"])
def test_the_epoch_that_began_with_a_rotten_batch_is_known(at: int, count: int) -> None:
    """A leader that had forgotten it had its followers cut the good copies of what rotted here (short seed 1097)."""
    files = MemoryFiles()
    log = opened(files)
    for number in range(count):
        append(log, number, leader_epoch=1 if number < 5 else 3)
    entries = log.epochs.entries
    log.close()
    rot(files, segment_paths(files)[0], 5, at)
    log = opened(files, recovery_point=count)
    assert log.log_end_offset == count
    assert log.epochs.entries == entries == ((1, 0), (3, 5))


@pytest.mark.parametrize("settings", [ONE_SEGMENT, WITHOUT_ENTRIES], ids=["indexed", "not indexed"])
def test_what_stands_behind_a_rotten_length_stays_also_beyond_the_recovery_point(settings: TopicSettings) -> None:
    """Records that were acknowledged since the last checkpoint went with it, and their offsets were given out again."""
    files = written(settings)
    rot(files, segment_paths(files)[0], 5, FRAME)
    log = opened(files, settings, recovery_point=8)
    assert log.log_end_offset == COUNT
    assert readable(log) == (set(range(COUNT)) - {5}, {5})


@pytest.mark.parametrize("settings", [ONE_SEGMENT, WITHOUT_ENTRIES], ids=["indexed", "not indexed"])
def test_what_stands_behind_a_sector_of_zeros_stays(settings: TopicSettings) -> None:
    """Entries of the index that point into the zeros lead nowhere; those behind them, or a search, do."""
    files = written(settings)
    begin, end = positions()[5] + 30, positions()[8]
    files.rot(segment_paths(files)[0], begin, bytes(end - begin))
    log = opened(files, settings, recovery_point=8)
    assert log.log_end_offset == COUNT
    assert readable(log) == (set(range(COUNT)) - {5, 6, 7}, {5, 6, 7})


def test_a_batch_inside_of_a_record_is_not_taken_for_one_of_the_log() -> None:
    files = MemoryFiles()
    log = opened(files, WITHOUT_ENTRIES)
    append(log, 0)
    inner, outer = BatchBuilder(), BatchBuilder()
    inner.append(NOW_MS, b"key", b"forged")
    forged = bytearray(inner.close())
    forged[:8] = (2).to_bytes(8, "big")
    outer.append(NOW_MS, b"key", bytes(forged))
    log.append_as_leader(bytearray(outer.close()), leader_epoch=0, now_ms=NOW_MS)
    begin = log.active.size_bytes
    append(log, 2)
    append(log, 3)
    log.close()
    path = segment_paths(files)[0]
    second = scan(files.read_bytes(path), 0, begin)[1]
    files.flip_bit(path, 8 * (second.position + FRAME) + 3)
    log = opened(files, WITHOUT_ENTRIES, recovery_point=4)
    assert readable(log) == ({0, 2, 3}, {1})
    assert b"forged" not in log.read(2, 1).slice.read()


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("byte", range(12))
def test_a_log_is_cut_whatever_rotted_in_its_indexes(kind: str, byte: int) -> None:
    """A follower that has to cut its log could not, and never followed again."""
    files = written()
    files.flip_bit(segment_paths(files)[0].with_suffix(f".{kind}"), 8 * byte + 5)
    log = opened(files, is_clean=True, recovery_point=COUNT)
    log.truncate_to(7, NOW_MS)
    assert log.log_end_offset == 7
    assert readable(log) == (set(range(7)), set())


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("byte", range(1, 13))
@pytest.mark.parametrize("bit", [0, 6])
def test_a_log_is_appended_to_whatever_rotted_at_the_end_of_its_indexes(kind: str, byte: int, bit: int) -> None:
    """Records were written and then refused, again and again, because their entry could not follow the rotten one."""
    files = written()
    path = segment_paths(files)[0].with_suffix(f".{kind}")
    files.flip_bit(path, 8 * (files.size(path) - min(byte, files.size(path))) + bit)
    log = opened(files, is_clean=True, recovery_point=COUNT)
    for number in range(COUNT, 2 * COUNT):
        append(log, number)
    assert readable(log) == (set(range(2 * COUNT)), set())


@pytest.mark.parametrize("magic", [0, 1])
def test_a_magic_that_rotted_is_no_old_format(magic: int) -> None:
    """The segment was taken for messages of an old format, converted, and cut at their first byte."""
    files = written()
    files.rot(segment_paths(files)[0], MAGIC_AT, bytes([magic]))
    files.remove(DIRECTORY / LEADER_EPOCHS)
    log = opened(files, recovery_point=COUNT)
    assert readable(log) == (set(range(1, COUNT)), {0})


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_log_with_rotten_records_and_indexes_is_appended_to(kind: str) -> None:
    files = written()
    path = segment_paths(files)[0]
    files.flip_bit(path.with_suffix(f".{kind}"), 8 * (files.size(path.with_suffix(f".{kind}")) - 3))
    rot(files, path, 0, 25)  # the header of the first batch claims offsets that are not there
    log = opened(files, is_clean=True, recovery_point=COUNT)
    for number in range(COUNT, 2 * COUNT):
        append(log, number)
    assert log.log_end_offset == 2 * COUNT


def test_a_torn_end_is_still_cut() -> None:
    files = written()
    rot(files, segment_paths(files)[0], 10, CRC_COVERED)
    log = opened(files, recovery_point=10)
    assert log.log_end_offset == 10
    assert readable(log) == (set(range(10)), set())


def test_rot_and_a_torn_end_of_one_segment_are_told_apart() -> None:
    files = written()
    rot(files, segment_paths(files)[0], 3, CRC_COVERED)
    rot(files, segment_paths(files)[0], 10, CRC_COVERED)
    log = opened(files, recovery_point=9)
    assert log.log_end_offset == 10
    assert readable(log) == (set(range(10)) - {3}, {3})


def test_offsets_of_records_that_rotted_at_the_end_are_not_given_out_again() -> None:
    files = written()
    rot(files, segment_paths(files)[0], COUNT - 1, FRAME)
    log = opened(files, recovery_point=COUNT)
    assert log.log_end_offset == COUNT
    append(log, COUNT)
    assert readable(log) == (set(range(COUNT - 1)) | {COUNT}, {COUNT - 1})


def test_what_was_appended_behind_rot_is_there_after_the_next_starts() -> None:
    files = written()
    rot(files, segment_paths(files)[0], COUNT - 1, FRAME)
    log = opened(files, recovery_point=COUNT)
    append(log, COUNT)
    log.close()
    for is_clean in (True, False):
        log = opened(files, recovery_point=COUNT + 1, is_clean=is_clean)
        assert log.log_end_offset == COUNT + 1
        assert COUNT in readable(log)[0]
        log.close()


def test_a_second_recovery_changes_nothing_more() -> None:
    files = written()
    rot(files, segment_paths(files)[0], COUNT - 1, CRC_COVERED)
    for _ in range(2):
        log = opened(files, recovery_point=COUNT)
        assert log.log_end_offset == COUNT
        assert readable(log) == (set(range(COUNT - 1)), {COUNT - 1})
        log.close(is_clean=False)


def test_the_rotten_segment_and_its_offsets_are_named(caplog: pytest.LogCaptureFixture) -> None:
    files = written()
    path = segment_paths(files)[0]
    rot(files, path, 5, CRC_COVERED)
    log = opened(files, recovery_point=10)
    assert [(damage.first_offset, damage.next_offset) for damage in log.active.damages] == [(5, 6)]
    assert f"t-0 has rotten records in {path}: offsets 5 to 5" in caplog.text


# --- verification ----------------------------------------------------------------------------------------------------


def verified(files: MemoryFiles) -> list[tuple[int, int]]:
    log = opened(files, is_clean=True, recovery_point=COUNT)
    verification = log.active.verification(end_offset=log.log_end_offset, has_gaps=False)
    for _ in verification:
        pass
    return [(damage.first_offset, damage.next_offset) for damage in verification.damages]


def test_a_sound_segment_verifies_without_damage() -> None:
    assert verified(written()) == []


@pytest.mark.parametrize("bit", range(0, 8 * 61, 7))
def test_a_bit_of_a_header_that_rotted_is_found_by_verification(bit: int) -> None:
    files = written()
    path = segment_paths(files)[0]
    leader_epoch = range(12 * 8, 16 * 8)  # not under the CRC; the history of epochs knows it
    files.flip_bit(path, 8 * positions()[5] + bit)
    found = verified(files)
    if bit in leader_epoch:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0][0] <= 5 < found[0][1]


def test_verification_goes_on_behind_every_damage() -> None:
    files = written()
    for offset, at in ((2, CRC_COVERED), (6, BASE_OFFSET), (9, CRC_COVERED)):
        rot(files, segment_paths(files)[0], offset, at)
    assert verified(files) == [(2, 3), (6, 7), (9, 10)]


# --- starts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [FRAME, CRC_COVERED, BASE_OFFSET], ids=["length", "records", "base offset"])
@pytest.mark.parametrize("offset", [0, 5, COUNT - 1])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", [(), ("snapshot",), ("snapshot", "index", "timeindex"), ("leader-epoch-checkpoint",)])
def test_a_log_with_rotten_records_opens(at: int, offset: int, is_clean: bool, lost: tuple[str, ...]) -> None:
    files = written()
    rot(files, segment_paths(files)[0], offset, at)
    for name in files.list_directory(DIRECTORY):
        if name.endswith(tuple(lost)) and lost:
            files.remove(DIRECTORY / name)
    log = opened(files, is_clean=is_clean, recovery_point=COUNT)
    assert log.log_end_offset >= COUNT
    append(log, COUNT)
