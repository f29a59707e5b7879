"""Recovery keeps the longest sound prefix, whatever was done to the file, and says so twice the same way."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptMessage, UnsupportedForMessageFormat
from ottla.records import BatchBuilder, BatchInfo, RecordBatch, assign_offsets, scan
from ottla.records.control import EndTransactionMarker, end_transaction_batch, read_marker
from ottla.records.legacy import LegacyRecord, build_message_set
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.segment import records_file
from ottla.storage.segment.recovery import SegmentRecovery
from ottla.storage.segment.segment import Segment
from ottla.testing.files import MemoryFiles

DIRECTORY = Path("/orders-0")
BASE = 40


@dataclass(frozen=True)
class Settings:
    segment_bytes: int = 1 << 20
    segment_ms: int = 1000
    segment_index_bytes: int = 2400
    index_interval_bytes: int = 100


SETTINGS = Settings()


def batch_of(base_offset: int, count: int = 1, value: bytes = b"v" * 9, timestamp_ms: int = 5000) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(timestamp_ms + number, b"k", value)
    content = bytearray(builder.close())
    assign_offsets(content, 0, base_offset, 3)
    return bytes(content)


def batches() -> list[bytes]:
    contents, offset = [], BASE
    for number in range(7):
        contents.append(batch_of(offset, number % 3 + 1, bytes([number]) * 11, timestamp_ms=5000 + 40 * number))
        offset += number % 3 + 1
    return contents


def files_with(log: bytes, **others: bytes) -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    for kind, content in {"log": log, **others}.items():
        files.replace_bytes(DIRECTORY / f"{BASE:020d}.{kind}", content)
    return files


def opened(files: MemoryFiles) -> Segment:
    return Segment.open(files, DIRECTORY, BASE, SETTINGS, now_ms=0)


def recovered(files: MemoryFiles) -> tuple[SegmentRecovery, list[BatchInfo]]:
    segment = opened(files)
    recovery = segment.recover()
    found = [batch for chunk in recovery for batch in chunk]
    segment.close()
    return recovery, found


def content_of(files: MemoryFiles) -> dict[str, bytes]:
    names = files.list_directory(DIRECTORY)
    return {name.partition(".")[2]: files.read_bytes(DIRECTORY / name) for name in names}


def as_appended(contents: list[bytes]) -> dict[str, bytes]:
    """The files of a segment that only ever had these batches and was closed."""
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    segment = Segment.create(files, DIRECTORY, BASE, SETTINGS, now_ms=0)
    for content in contents:
        infos = scan(content)
        segment.append(infos[-1].last_offset, infos, [content])
    segment.close()
    return content_of(files)


def test_a_sound_segment_is_kept_and_its_batches_are_handed_up() -> None:
    files = files_with(b"".join(batches()))
    recovery, found = recovered(files)
    assert (recovery.truncated_bytes, recovery.torn) == (0, None)
    assert recovery.next_offset == found[-1].next_offset == BASE + 13
    assert [batch.base_offset for batch in found] == [scan(content)[0].base_offset for content in batches()]
    assert content_of(files) == as_appended(batches())


@pytest.mark.parametrize("chunk_bytes", [100, 250, 1 << 20])
@pytest.mark.parametrize("tail", ["cut", "zeros", "garbage"])
def test_every_byte_cut_keeps_the_longest_sound_prefix(
    tail: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_file, "CHUNK_BYTES", chunk_bytes)
    contents = batches()
    whole = b"".join(contents)
    expected = [as_appended(contents[:count]) for count in range(len(contents) + 1)]
    random = Random(4)
    for cut in range(len(whole) + 1):
        lost = len(whole) - cut
        damaged = whole[:cut] + {"cut": b"", "zeros": bytes(lost), "garbage": random.randbytes(lost)}[tail]
        files = files_with(damaged, index=b"\x01" * 11, timeindex=b"\xff" * 24)
        recovery, found = recovered(files)
        # Zeros may happen to be what was there.
        kept = next(each for each in range(len(contents), -1, -1) if damaged.startswith(b"".join(contents[:each])))
        assert content_of(files) == expected[kept]
        assert len(found) == kept
        assert recovery.truncated_bytes == len(damaged) - len(expected[kept]["log"])
        assert (recovery.torn is None) == (recovery.truncated_bytes == 0)


def test_every_flipped_bit_under_the_crc_ends_the_prefix_there() -> None:
    contents = batches()[:4]
    whole = b"".join(contents)
    starts = [len(b"".join(contents[:number])) for number in range(len(contents))]
    for bit in range(8 * len(whole)):
        files = files_with(whole)
        files.flip_bit(DIRECTORY / f"{BASE:020d}.log", bit)
        _, found = recovered(files)
        number = max(each for each in range(len(starts)) if starts[each] <= bit // 8)
        at = bit // 8 - starts[number]
        if at >= 16 or 8 <= at < 12:
            assert len(found) == number
            assert content_of(files) == as_appended(contents[:number])
        elif at < 8:  # the base offset: not under the CRC, but offsets must grow and fit
            offsets = [offset for batch in found for offset in (batch.base_offset, batch.last_offset)]
            assert number <= len(found)
            assert offsets == sorted(offsets)
            assert all(BASE <= offset < BASE + 2**31 for offset in offsets)
        else:  # the leader epoch, which nothing in the file can prove
            assert len(found) == len(contents)


def test_a_second_recovery_changes_nothing() -> None:
    files = files_with(b"".join(batches())[:-5])
    recovered(files)
    first = content_of(files)
    files.trace.clear()
    recovery, _ = recovered(files)
    assert recovery.truncated_bytes == 0
    assert content_of(files) == first
    assert not [each for each in files.trace if each.path.suffix == ".log" and each.kind in ("write", "truncate")]


def test_a_batch_bigger_than_a_chunk_is_summed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_file, "CHUNK_BYTES", 128)
    contents = [batch_of(BASE), batch_of(BASE + 1, value=b"x" * 1000), batch_of(BASE + 2)]
    files = files_with(b"".join(contents))
    files.trace.clear()
    assert len(recovered(files)[1]) == 3
    assert max(each.size_bytes for each in files.trace if each.kind == "read") <= 128
    files.flip_bit(DIRECTORY / f"{BASE:020d}.log", 8 * (len(contents[0]) + 900))
    recovery, found = recovered(files)
    assert len(found) == 1
    assert recovery.torn == f"the batch at position {len(contents[0])} fails its CRC"


def test_a_size_that_cannot_be_takes_no_memory() -> None:
    header = bytearray(batch_of(BASE))
    header[8:12] = (2**31 - 1).to_bytes(4, "big")
    files = files_with(bytes(header))
    recovery, found = recovered(files)
    assert found == []
    assert "claims" in (recovery.torn or "")


@pytest.mark.parametrize("offsets", [(BASE, BASE), (BASE + 5, BASE), (BASE - 1, BASE), (BASE, BASE + 2**31)])
def test_offsets_that_go_back_or_leave_the_segment_end_the_prefix(offsets: tuple[int, int]) -> None:
    files = files_with(b"".join(map(batch_of, offsets)))
    recovery, found = recovered(files)
    assert len(found) == (0 if offsets[0] < BASE else 1)
    assert "cannot follow" in (recovery.torn or "")


def test_gaps_between_offsets_are_fine() -> None:
    files = files_with(batch_of(BASE + 10) + batch_of(BASE + 2**31 - 1))
    recovery, found = recovered(files)
    assert len(found) == 2
    assert recovery.torn is None


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_refused_by_name_and_not_cut_off(magic: int) -> None:
    old = build_message_set(magic, [LegacyRecord(BASE + 1, 7, b"key", b"a value of somebody")])
    for log in (old, batch_of(BASE) + old):
        files = files_with(log)
        segment = opened(files)
        with pytest.raises(UnsupportedForMessageFormat, match=f"format v{magic}"):
            list(segment.recover())
        assert content_of(files)["log"] == log
        with pytest.raises(UnsupportedForMessageFormat):
            list(segment.rebuild_indexes())


def test_control_batches_come_with_their_marker() -> None:
    marker = EndTransactionMarker(commit=False, coordinator_epoch=2)
    ended = end_transaction_batch(marker, producer_id=9, producer_epoch=1, timestamp_ms=5, base_offset=BASE + 1)
    files = files_with(batch_of(BASE) + ended)
    _, found = recovered(files)
    assert not isinstance(found[0], RecordBatch)
    assert isinstance(found[1], RecordBatch)
    (record,) = found[1].records()
    assert read_marker(record.key, record.value) == marker


def test_the_aborted_index_is_emptied_for_the_replay() -> None:
    files = files_with(b"".join(batches()), txnindex=b"\0" * 33)
    segment = opened(files)
    for _ in segment.recover():
        segment.aborted_index.append(AbortedTransaction(1, BASE, BASE + 2, BASE + 3))
    assert segment.aborted_index.transactions() == [AbortedTransaction(1, BASE, BASE + 2, BASE + 3)]


def test_a_walk_over_damage_is_an_error_and_never_an_answer() -> None:
    whole = b"".join(batches())
    segment = opened(files_with(whole[:-3]))
    with pytest.raises(CorruptMessage, match="no whole batch"):
        list(segment.records.headers())


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(["append", "append", "flush", "roll"]), max_size=25))
def test_after_a_crash_recovery_gives_a_prefix_that_holds_all_that_was_flushed(seed: int, program: list[str]) -> None:
    files = MemoryFiles(seed=seed)
    files.make_directory(DIRECTORY)
    segment = Segment.create(files, DIRECTORY, BASE, SETTINGS, now_ms=0)
    segment.flush()
    files.sync_directory(Path("/"))
    contents: list[bytes] = []
    flushed = 0
    for step in program:
        if step == "append":
            contents.append(batch_of(BASE + len(contents), value=bytes([len(contents)]) * 50))
            infos = scan(contents[-1])
            segment.append(infos[0].last_offset, infos, [contents[-1]])
        elif step == "flush":
            segment.flush()
            flushed = len(contents)
        else:
            segment.on_roll()
    files.crash()
    _, found = recovered(files)
    assert flushed <= len(found) <= len(contents)
    assert content_of(files) == as_appended(contents[: len(found)])
