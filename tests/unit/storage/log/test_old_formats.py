"""Logs of message formats v0 and v1 become batches when they are opened: every record, every codec, through crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage, KafkaStorageError
from ottla.records import BatchBuilder, RecordStream
from ottla.records.compression import Compression
from ottla.records.legacy import LegacyRecord, build_message_set
from ottla.storage.log import old_formats
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/orders-0")
NAME = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def on_disk(segments: dict[int, bytes]) -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    for base_offset, content in segments.items():
        files.replace_bytes(DIRECTORY / f"{base_offset:020d}.log", content)
    files.sync_directory(DIRECTORY)
    files.sync_directory(DIRECTORY.parent)
    return files


def opened(files: MemoryFiles, *, is_clean: bool = False) -> PartitionLog:
    return open_log(DIRECTORY, NAME, TopicSettings({}), files=files, now_ms=NOW_MS, is_clean=is_clean)


def rows(log: PartitionLog) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.timestamp_ms, record.key, record.value)
        for segment in log.segments
        for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes))
        for record in batch.records()
    ]


def messages(magic: int, first: int, count: int) -> list[LegacyRecord]:
    stamp = NOW_MS if magic else -1
    return [
        LegacyRecord(
            offset, stamp + offset if magic else -1, b"k%d" % offset, None if offset % 5 == 4 else b"v" * offset
        )
        for offset in range(first, first + count)
    ]


def as_rows(records: list[LegacyRecord]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(each.offset, each.timestamp_ms, each.key, each.value) for each in records]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("codec", CODECS, ids=lambda each: each.label)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_record_is_there_in_the_new_format(magic: int, codec: Compression, is_clean: bool) -> None:
    first, second = messages(magic, 0, 7), messages(magic, 7, 5)
    log = opened(
        on_disk({0: build_message_set(magic, first, codec), 7: build_message_set(magic, second, codec)}),
        is_clean=is_clean,
    )
    assert rows(log) == as_rows(first + second)
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (0, 12, [0, 7])
    found = log.read(8, 1 << 20, up_to="log_end")
    assert [each.last_offset for each in RecordStream(found.slice.read())][-1] == 11
    log.append_as_leader(_new_batch(), leader_epoch=1, now_ms=NOW_MS)
    assert log.log_end_offset == 13


def _new_batch() -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"new", b"new")
    return bytearray(builder.close())


def test_a_segment_that_changes_its_format_within_is_converted_to_its_end() -> None:
    builder = BatchBuilder(base_offset=9)
    builder.append_with_offset(9, NOW_MS, b"k9", b"newer")
    old = messages(0, 0, 3) + messages(1, 3, 6)
    content = build_message_set(0, old[:3]) + build_message_set(1, old[3:], Compression.GZIP) + bytes(builder.close())
    log = opened(on_disk({0: content}))
    assert rows(log) == [*as_rows(old), (9, NOW_MS, b"k9", b"newer")]


def test_append_times_stay_append_times() -> None:
    content = build_message_set(1, messages(1, 0, 3), Compression.LZ4, log_append_time_ms=NOW_MS + 77)
    log = opened(on_disk({0: content}))
    assert {row[1] for row in rows(log)} == {NOW_MS + 77}
    (segment,) = log.segments
    (batch,) = RecordStream(segment.records.file.read_at(0, segment.size_bytes))
    assert batch.timestamp_type.name == "LOG_APPEND_TIME"


def test_records_that_compaction_left_keep_their_gaps() -> None:
    kept = [each for each in messages(1, 0, 20) if each.offset in (0, 3, 4, 11, 19)]
    log = open_log(
        DIRECTORY,
        NAME,
        TopicSettings({"cleanup.policy": "compact"}),
        files=on_disk({0: build_message_set(1, kept)}),
        now_ms=NOW_MS,
        is_clean=False,
    )
    assert rows(log) == as_rows(kept)


def test_large_messages_and_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_formats, "CHUNK_BYTES", 300)
    monkeypatch.setattr(old_formats, "GROUP_BYTES", 200)
    old = [LegacyRecord(offset, NOW_MS, b"k", b"v" * (offset * 37 % 900)) for offset in range(40)]
    log = opened(on_disk({0: build_message_set(1, old)}))
    assert rows(log) == as_rows(old)


def test_a_damaged_end_is_cut_after_a_crash_and_refused_after_a_clean_stop() -> None:
    old = messages(1, 0, 6)
    content = build_message_set(1, old)
    files = on_disk({0: content[:-3]})
    with pytest.raises(CorruptMessage, match="cannot be converted"):
        opened(files, is_clean=True)
    assert files.read_bytes(DIRECTORY / f"{0:020d}.log") == content[:-3]
    assert rows(opened(files)) == as_rows(old[:-1])


@given(st.integers(0, 2**63 - 1), st.integers(0, 7))
def test_a_flipped_bit_never_makes_another_record(position: int, bit: int) -> None:
    """Offsets aside, which the sums of old messages do not cover."""
    old = messages(1, 0, 6)
    content = bytearray(build_message_set(1, old))
    content[position % len(content)] ^= 1 << bit
    try:
        found = rows(opened(on_disk({0: bytes(content)})))
    except CorruptMessage:
        return
    assert {row[1:] for row in found} <= {row[1:] for row in as_rows(old)}


@pytest.mark.parametrize("keep", ["any", "nothing", "everything"])
def test_a_crash_at_any_operation_loses_nothing(keep: str) -> None:
    first, second = messages(0, 0, 7), messages(1, 7, 5)
    content = {0: build_message_set(0, first), 7: build_message_set(1, second, Compression.GZIP)}
    files = on_disk(content)
    before = len(files.trace)
    opened(files)
    total = len(files.trace) - before
    assert total > 10
    for number in range(1, total + 1):
        files = on_disk(content)
        files.fail(number, for_ever=True)
        try:
            opened(files)
        except KafkaStorageError:
            pass
        files.crash(keep)
        assert rows(opened(files)) == as_rows(first + second), number
