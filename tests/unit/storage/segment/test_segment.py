"""A segment against a plain list of records; what Kafka 4.3.1 wrote for the same batches; failures on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import DiskFull, KafkaStorageError
from ottla.records import BatchBuilder, BatchInfo, Compression, RecordBatch, assign_offsets, scan
from ottla.records.layout import MAX_TIMESTAMP_AT
from ottla.storage.files import DiskFiles, Files
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.index.time_index import TimestampOffset
from ottla.storage.segment.names import DELETED_SUFFIX
from ottla.storage.segment.segment import CorruptIndex, FoundOffset, Segment, should_roll
from ottla.testing.files import MemoryFiles

DIRECTORY = Path("/orders-0")


@dataclass(frozen=True)
class Settings:
    segment_bytes: int = 1 << 20
    segment_ms: int = 1000
    segment_index_bytes: int = 4096
    index_interval_bytes: int = 200


SETTINGS = Settings()


def batch_of(
    base_offset: int, timestamps_ms: Sequence[int], value_bytes: int = 20, compression: Compression = Compression.NONE
) -> bytes:
    builder = BatchBuilder(compression=compression)
    for timestamp_ms in timestamps_ms:
        builder.append(timestamp_ms, b"k", bytes(value_bytes))
    content = bytearray(builder.close())
    assign_offsets(content, 0, base_offset, 7)
    return bytes(content)


def append(segment: Segment, *contents: bytes) -> int:
    batches = scan(b"".join(contents))
    return segment.append(batches[-1].last_offset, batches, contents)


def new_segment(files: Files | None = None, base_offset: int = 0, settings: Settings = SETTINGS) -> Segment:
    if files is None:
        files = MemoryFiles()
    files.make_directory(DIRECTORY)
    return Segment.create(files, DIRECTORY, base_offset, settings, now_ms=50)


def filled_segment(files: MemoryFiles | None = None, count: int = 30) -> Segment:
    """Batches of two records each, 97 bytes apart or so, one of them with an old timestamp."""
    segment = new_segment(files)
    for number in range(count):
        timestamp_ms = 10 if number == 7 else 1000 + 10 * number
        append(segment, batch_of(2 * number, [timestamp_ms - 1, timestamp_ms]))
    return segment


def reopened(segment: Segment, files: Files) -> Segment:
    return Segment.open(files, segment.directory, segment.base_offset, SETTINGS, now_ms=60)


def content_of(files: Files, segment: Segment) -> dict[str, bytes]:
    names = files.list_directory(segment.directory)
    return {name.partition(".")[2]: files.read_bytes(segment.directory / name) for name in names}


# --- what Kafka wrote ------------------------------------------------------------------------------------------------


def test_the_indexes_are_those_that_kafka_wrote_for_the_same_batches() -> None:
    """LogSegment of Apache Kafka 4.3.1 with index.interval.bytes=200, fed the same appends and closed."""
    files = MemoryFiles()
    segment = new_segment(files, base_offset=1000)
    offset = 1000
    for number in range(8):
        group = []
        for each in range(number % 3 + 1):
            timestamp_ms = 1_700_000_000_000 + 1000 * (2 * number + (number * 7 + each) % 5)
            group.append(batch_of(offset, [timestamp_ms] * (each + 1), value_bytes=30 * (number % 4)))
            offset += each + 1
        append(segment, *group)
    segment.close()
    found = content_of(files, segment)
    assert found["index"].hex() == KAFKA_INDEX
    assert found["timeindex"].hex() == KAFKA_TIME_INDEX


KAFKA_INDEX = "0000000400000131000000090000027a0000000a000003860000000d0000046c00000013000005a500000015000006d6"
KAFKA_TIME_INDEX = "0000018bcfe58740000000040000018bcfe596e00000000d0000018bcfe5ae5000000015"


# --- append ----------------------------------------------------------------------------------------------------------


def test_an_append_gives_the_position_of_its_first_batch() -> None:
    segment = new_segment()
    first, second, third = batch_of(0, [5]), batch_of(1, [6, 7]), batch_of(3, [8])
    assert append(segment, first) == 0
    assert append(segment, second, third) == len(first)
    assert segment.size_bytes == len(first + second + third)
    assert segment.records.file.read_at(0, 10_000) == first + second + third


def test_a_batch_gets_an_entry_when_more_than_the_interval_came_before_it() -> None:
    contents = [batch_of(number, [100]) for number in range(5)]
    size_bytes = len(contents[0])
    segment = new_segment(settings=replace(SETTINGS, index_interval_bytes=size_bytes))
    append(segment, *contents)
    assert [segment.indexes.offsets.lookup(offset).position for offset in range(5)] == [
        0,
        0,
        *[2 * size_bytes] * 2,
        4 * size_bytes,
    ]


def test_of_equal_times_the_first_is_the_latest() -> None:
    segment = new_segment()
    append(segment, batch_of(0, [900]), batch_of(1, [900]))
    assert segment.max_timestamp == TimestampOffset(900, 0)


def test_index_entries_are_written_while_the_segment_grows() -> None:
    files = MemoryFiles()
    filled_segment(files, count=600)
    for kind in ("index", "timeindex"):
        assert len(files.read_bytes(DIRECTORY / f"{0:020d}.{kind}").rstrip(b"\0")) > 8 * 64


def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    segment = new_segment(base_offset=10)
    content = batch_of(10, [5])
    batches = scan(content)
    for largest_offset in (9, 10 + 2**31):
        with pytest.raises(ValueError, match="roll the segment first"):
            segment.append(largest_offset, batches, [content])
    with pytest.raises(ValueError, match="differ by"):
        segment.append(10, batches, [content, b"more"])
    segment.records.size_bytes = 2**31 - len(content)
    with pytest.raises(ValueError, match="roll the segment first"):
        segment.append(10, batches, [content])
    assert segment.records.file.size() == 0


def test_an_append_that_fails_has_not_happened() -> None:
    for failing in range(1, 31):
        files = MemoryFiles()
        segment = filled_segment(files, count=300)  # enough entries for a write behind to come up
        reference = content_of(files, segment)["log"]
        size_bytes = segment.size_bytes
        files.fail(failing)
        offset, failed = 600, 0
        for _ in range(30):
            content = batch_of(offset, [9000])
            try:
                append(segment, content)
            except KafkaStorageError:
                failed += 1
                assert segment.size_bytes == size_bytes
                continue
            reference += content
            size_bytes += len(content)
            offset += 1
        assert failed <= 1
        segment.close()
        assert content_of(files, segment)["log"] == reference
        again = reopened(segment, files)
        assert again.next_offset() == offset
        again.sanity_check()


def test_a_full_disk_leaves_the_segment_as_it_was_and_more_room_lets_it_go_on() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    before = segment.size_bytes
    files.fill(free_bytes=40)
    with pytest.raises(DiskFull):
        append(segment, batch_of(60, [5000]))
    assert segment.size_bytes == before
    assert segment.translate(60) is None
    files.fill(free_bytes=100_000)
    assert append(segment, batch_of(60, [5000])) == before
    assert segment.next_offset() == 61


def test_a_full_index_lets_the_append_finish_and_asks_for_a_roll() -> None:
    tiny = replace(SETTINGS, segment_index_bytes=36, index_interval_bytes=0)
    segment = new_segment(settings=tiny)
    append(segment, *(batch_of(number, [1000 + number]) for number in range(10)))
    assert segment.should_roll(tiny, now_ms=0, incoming_bytes=1, incoming_timestamp_ms=1000, incoming_last_offset=10)
    assert [base_offset_at(segment, offset) for offset in range(10)] == list(range(10))
    segment.close()
    assert segment.indexes.times.last_entry == (1009, 9)


def base_offset_at(segment: Segment, offset: int) -> int | None:
    found = segment.translate(offset)
    return None if found is None else found.base_offset


# --- roll ------------------------------------------------------------------------------------------------------------

ROLL = {"size_bytes": 100, "incoming_bytes": 10, "waited_ms": 0, "jitter_ms": 0}


@pytest.mark.parametrize(
    ("facts", "rolls"),
    [
        ({}, False),
        ({"size_bytes": 990}, False),
        ({"size_bytes": 991}, True),
        ({"waited_ms": 1000}, False),
        ({"waited_ms": 1001}, True),
        ({"waited_ms": 1001, "size_bytes": 0}, False),
        ({"waited_ms": 901, "jitter_ms": 100}, True),
        ({"waited_ms": 900, "jitter_ms": 100}, False),
        ({"index_is_full": True}, True),
        ({"offset_fits": False}, True),
    ],
)
def test_a_segment_rolls_by_size_age_full_index_or_offset(facts: dict[str, int], rolls: bool) -> None:
    given_facts = {**ROLL, "index_is_full": False, "offset_fits": True, **facts}
    assert should_roll(replace(SETTINGS, segment_bytes=1000), **given_facts) is rolls  # type: ignore[arg-type]


def test_the_age_is_record_time_since_the_first_batch_or_else_time_since_it_was_made() -> None:
    segment = new_segment()
    assert segment.waited_ms(now_ms=80, incoming_timestamp_ms=10**9) == 30
    append(segment, batch_of(0, [400, 500]))
    append(segment, batch_of(2, [900]))
    assert segment.waited_ms(now_ms=80, incoming_timestamp_ms=1700) == 1200


def test_offsets_beyond_31_bits_ask_for_a_roll() -> None:
    segment = new_segment(base_offset=5)
    for last_offset, rolls in ((5 + 2**31 - 1, False), (5 + 2**31, True)):
        assert rolls is segment.should_roll(
            SETTINGS, now_ms=0, incoming_bytes=10, incoming_timestamp_ms=0, incoming_last_offset=last_offset
        )


# --- read ------------------------------------------------------------------------------------------------------------


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    segment = new_segment()
    contents = [batch_of(0, [1, 2]), batch_of(2, [3]), batch_of(10, [4])]
    append(segment, *contents)
    everything = b"".join(contents)
    for start_offset, skipped in ((0, 0), (1, 0), (2, 1), (3, 2), (10, 2)):
        found = segment.read(start_offset, 10**6)
        assert found is not None
        assert found.read() == everything[len(b"".join(contents[:skipped])) :]
        assert len(found) == found.size_bytes
    assert segment.read(11, 10**6) is None


def test_a_read_gives_the_first_batch_whole_and_cuts_at_its_limits() -> None:
    segment = new_segment()
    contents = [batch_of(0, [1, 2]), batch_of(2, [3]), batch_of(3, [4])]
    append(segment, *contents)
    sizes = [len(content) for content in contents]
    assert len(segment.read(0, 1) or b"") == sizes[0]
    assert len(segment.read(0, sizes[0] + 5) or b"") == sizes[0] + 5
    assert len(segment.read(0, 10**6, max_position=sizes[0] + sizes[1]) or b"") == sizes[0] + sizes[1]
    empty = segment.read(0, sizes[0] - 1, at_least_one_batch=False)
    assert empty is not None
    assert (empty.position, empty.size_bytes, empty.read()) == (0, 0, b"")
    assert len(segment.read(0, sizes[0], at_least_one_batch=False) or b"") == sizes[0]
    behind = segment.read(2, 100, max_position=0)
    assert behind is not None
    assert behind.size_bytes == 0
    with pytest.raises(ValueError, match="cannot read"):
        segment.read(0, -1)


def test_an_offset_lookup_reads_little_and_decodes_nothing() -> None:
    files = MemoryFiles()
    segment = filled_segment(files, count=300)
    files.trace.clear()
    for offset in range(600):
        assert base_offset_at(segment, offset) == offset // 2 * 2
    assert all(each.size_bytes <= SETTINGS.index_interval_bytes + 61 for each in files.trace)
    assert len(files.trace) <= 600 * 3


def test_opening_reads_nothing() -> None:
    files = MemoryFiles()
    filled_segment(files).close()
    files.trace.clear()
    segment = Segment.open(files, DIRECTORY, 0, SETTINGS, now_ms=0)
    assert [each.kind for each in files.trace] == ["open"]
    assert segment.next_offset() == 60
    assert sum(each.size_bytes for each in files.trace) < 1000


def test_the_upper_bound_of_a_read_is_not_below_what_it_holds() -> None:
    segment = filled_segment()
    for end_position in range(0, segment.size_bytes, 31):
        bound = segment.upper_bound_offset(end_position)
        assert bound is None or bound > last_offset_before(segment, end_position)
    assert segment.upper_bound_offset(segment.size_bytes) is None


# --- questions by time -----------------------------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time_is_found() -> None:
    segment = filled_segment()
    assert segment.find_offset_by_timestamp(0) == FoundOffset(999, 0, 7)
    assert segment.find_offset_by_timestamp(1000) == FoundOffset(1000, 1, 7)
    assert segment.find_offset_by_timestamp(1065) == FoundOffset(1079, 16, 7)
    assert segment.find_offset_by_timestamp(9, starting_offset=14) == FoundOffset(9, 14, 7)
    assert segment.find_offset_by_timestamp(1290) == FoundOffset(1290, 59, 7)
    assert segment.find_offset_by_timestamp(1291) is None


def test_the_latest_time_is_known_while_it_grows_and_after_a_clean_close() -> None:
    files = MemoryFiles()
    segment = new_segment(files)
    assert segment.max_timestamp == TimestampOffset(-1, 0)
    assert segment.find_latest_timestamp() is None
    append(segment, batch_of(0, [100, 900, 900]), batch_of(3, [300]))
    assert segment.max_timestamp == TimestampOffset(900, 2)
    assert segment.find_latest_timestamp() == FoundOffset(900, 1, 7)
    segment.close()
    again = reopened(segment, files)
    assert again.max_timestamp == TimestampOffset(900, 2)
    assert again.largest_timestamp_ms() == 900


def test_without_timestamps_retention_goes_by_the_file() -> None:
    files = MemoryFiles(now_ms=lambda: 777)
    segment = new_segment(files)
    append(segment, batch_of(0, [-1]))
    assert segment.largest_timestamp_ms() == 777


@pytest.mark.parametrize("rotten", [0, 5, 24])
def test_a_latest_timestamp_that_rotted_is_not_believed_when_the_segment_is_cut(rotten: int) -> None:
    """Seed 12561 of clusters under controllers: nothing could be appended any more, and each try left its bytes."""
    segment = filled_segment()
    positions = [batch.position for batch in scan(segment.records.file.read_at(0, segment.size_bytes))]
    segment.records.file.write_at(positions[rotten] + MAX_TIMESTAMP_AT, [b"\x02"])
    segment.truncate_to(50, now_ms=99)
    assert segment.max_timestamp.timestamp_ms < 1 << 40
    size_bytes = segment.size_bytes
    for number in range(25, 60):
        size_bytes += len(content := batch_of(2 * number, [10_000 + number] * 2))
        append(segment, content)
        assert segment.size_bytes == size_bytes
    assert segment.max_timestamp == (10_059, 119)


# --- truncate --------------------------------------------------------------------------------------------------------


def test_truncation_cuts_the_batch_that_holds_the_offset() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    segment.aborted_index.append(AbortedTransaction(1, 0, 10, 11))
    segment.aborted_index.append(AbortedTransaction(1, 12, 41, 42))
    position = segment.translate(41).position  # type: ignore[union-attr]
    size_bytes = segment.size_bytes
    assert segment.truncate_to(41, now_ms=99) == size_bytes - position
    assert segment.size_bytes == position
    assert segment.next_offset() == 40
    assert segment.max_timestamp == TimestampOffset(1190, 39)
    assert segment.aborted_index.transactions() == [AbortedTransaction(1, 0, 10, 11)]
    append(segment, batch_of(40, [5000]))
    segment.close()
    again = reopened(segment, files)
    again.sanity_check()
    assert again.next_offset() == 41


def test_truncation_to_the_start_makes_it_new() -> None:
    segment = filled_segment()
    size_bytes = segment.size_bytes
    assert segment.first_timestamp_ms == 1000
    assert segment.truncate_to(0, now_ms=99) == size_bytes
    assert (segment.size_bytes, segment.created_ms, segment.next_offset()) == (0, 99, 0)
    assert segment.waited_ms(now_ms=100, incoming_timestamp_ms=0) == 1
    assert segment.max_timestamp == TimestampOffset(-1, 0)


def test_truncation_behind_the_end_cuts_nothing() -> None:
    segment = filled_segment()
    assert segment.truncate_to(60, now_ms=99) == 0
    assert segment.next_offset() == 60


# --- indexes that lie ------------------------------------------------------------------------------------------------


def test_a_flipped_bit_in_the_offset_index_is_noticed_or_does_no_harm() -> None:
    files = MemoryFiles()
    filled_segment(files).close()
    path = DIRECTORY / f"{0:020d}.index"
    noticed = 0
    for bit in range(8 * files.size(path)):
        files.flip_bit(path, bit)
        segment = Segment.open(files, DIRECTORY, 0, SETTINGS, now_ms=0)
        for offset in range(60):
            try:
                assert base_offset_at(segment, offset) == offset // 2 * 2
            except CorruptIndex:
                noticed += 1
        for end_position in range(0, segment.size_bytes, 40):
            try:
                bound = segment.upper_bound_offset(end_position)
            except CorruptIndex:
                noticed += 1
            else:
                assert bound is None or bound > last_offset_before(segment, end_position)
        segment.abandon()
        files.flip_bit(path, bit)
    assert noticed


def last_offset_before(segment: Segment, end_position: int) -> int:
    """The last offset of which anything stands before a position."""
    return max(
        (batch.last_offset for position, batch in segment.records.headers() if position < end_position), default=-1
    )


def test_a_flipped_bit_in_the_time_index_is_noticed_or_does_no_harm() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    times = range(0, 1300, 7)
    expected = [segment.find_offset_by_timestamp(timestamp_ms) for timestamp_ms in times]
    segment.close()
    path = DIRECTORY / f"{0:020d}.timeindex"
    noticed = 0
    for bit in range(8 * files.size(path)):
        files.flip_bit(path, bit)
        segment = Segment.open(files, DIRECTORY, 0, SETTINGS, now_ms=0)
        for timestamp_ms, found in zip(times, expected, strict=True):
            try:
                assert segment.find_offset_by_timestamp(timestamp_ms) == found
            except CorruptIndex:
                noticed += 1
        segment.abandon()
        files.flip_bit(path, bit)
    assert noticed


def test_lying_indexes_are_built_anew_in_steps_from_the_headers() -> None:
    files = MemoryFiles()
    segment = filled_segment(files, count=2500)
    segment.close()
    sound = content_of(files, segment)
    files.replace_bytes(DIRECTORY / f"{0:020d}.index", b"\x7f" * 64)
    files.remove(DIRECTORY / f"{0:020d}.timeindex")
    again = reopened(segment, files)
    with pytest.raises(CorruptIndex):
        again.translate(5)
    with pytest.raises(CorruptIndex):
        again.sanity_check()
    assert len(list(again.rebuild_indexes())) == 2
    again.sanity_check()
    assert again.translate(4999) is not None
    again.close()
    assert content_of(files, again)["timeindex"] == sound["timeindex"]
    assert content_of(files, again)["index"] == sound["index"]


def test_an_index_that_points_beyond_the_records_is_corrupt() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    segment.records.truncate(300)
    with pytest.raises(CorruptIndex, match="points to"):
        segment.translate(59)
    with pytest.raises(CorruptIndex, match="beyond the end"):
        segment.sanity_check()


# --- the files -------------------------------------------------------------------------------------------------------


def test_all_files_are_renamed_and_deleted_together(tmp_path: Path) -> None:
    files = DiskFiles()
    segment = Segment.create(files, tmp_path, 42, SETTINGS, now_ms=0)
    append(segment, batch_of(42, [5]))
    segment.aborted_index.append(AbortedTransaction(1, 42, 43, 44))
    segment.rename(DELETED_SUFFIX)
    stem = "00000000000000000042"
    expected = [f"{stem}{kind}.deleted" for kind in (".index", ".log", ".timeindex", ".txnindex")]
    assert files.list_directory(tmp_path) == expected
    assert segment.path == tmp_path / f"{stem}.log.deleted"
    assert len(segment.read(42, 1) or b"") == segment.size_bytes  # a fetch on its way goes on
    segment.rename("")
    assert files.exists(tmp_path / f"{stem}.timeindex")
    segment.rename(DELETED_SUFFIX)
    segment.delete()
    segment.delete()
    assert files.list_directory(tmp_path) == []


def test_a_moved_directory_is_followed() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    gone = DIRECTORY.with_name("orders-0.delete")
    files.rename(DIRECTORY, gone)
    segment.moved(gone)
    segment.delete()
    assert files.list_directory(gone) == []


def test_a_flush_keeps_everything_names_included() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    segment.aborted_index.append(AbortedTransaction(1, 0, 10, 11))
    files.sync_directory(Path("/"))
    segment.flush()
    files.crash("nothing")
    again = reopened(segment, files)
    assert again.next_offset() == 60
    assert len(again.indexes.offsets) == len(segment.indexes.offsets) > 5
    assert again.aborted_index.transactions() == [AbortedTransaction(1, 0, 10, 11)]


def test_rolling_trims_the_indexes_and_closing_a_segment_that_was_only_read_writes_nothing() -> None:
    files = MemoryFiles()
    segment = filled_segment(files)
    assert files.size(DIRECTORY / f"{0:020d}.index") == 4096
    segment.on_roll()
    rolled = content_of(files, segment)
    assert len(rolled["index"]) == segment.indexes.offsets.size_bytes
    assert len(rolled["timeindex"]) == segment.indexes.times.size_bytes
    segment.close()
    again = reopened(segment, files)
    files.trace.clear()
    assert again.find_offset_by_timestamp(1100) is not None
    again.close()
    assert {each.kind for each in files.trace} <= {"open", "read", "close"}
    assert content_of(files, again) == rolled


def test_an_empty_segment_closes_with_empty_indexes() -> None:
    files = MemoryFiles()
    segment = new_segment(files)
    segment.close()
    assert content_of(files, segment) == {"log": b"", "index": b"", "timeindex": b""}


# --- against a plain list --------------------------------------------------------------------------------------------

groups = st.lists(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 400), min_size=1, max_size=4),
            st.integers(0, 3),
            st.sampled_from([0, 30, 250]),
            st.sampled_from([Compression.NONE, Compression.GZIP]),
        ),
        min_size=1,
        max_size=3,
    ),
    max_size=10,
)


def written(segment: Segment, program: list[list[tuple[list[int], int, int, Compression]]]) -> list[RecordBatch]:
    offset, batches = segment.base_offset, []
    for group in program:
        contents = []
        for timestamps_ms, gap, value_bytes, compression in group:
            content = batch_of(offset + gap, timestamps_ms, value_bytes, compression)
            contents.append(content)
            batches.append(RecordBatch(content))
            offset = batches[-1].next_offset
        append(segment, *contents)
    return batches


@settings(deadline=None, max_examples=100)
@given(groups, st.sampled_from([0, 60, 200, 100_000]), st.booleans(), st.data())
def test_it_answers_as_a_plain_list_does(
    program: list[list[tuple[list[int], int, int, Compression]]], interval: int, reopen: bool, data: st.DataObject
) -> None:
    files = MemoryFiles()
    segment = new_segment(files, 500, replace(SETTINGS, index_interval_bytes=interval))
    batches = written(segment, program)
    if data.draw(st.booleans(), label="truncate"):
        cut = data.draw(st.integers(500, batches[-1].next_offset if batches else 500), label="cut")
        segment.truncate_to(cut, now_ms=0)
        batches = [batch for batch in batches if batch.last_offset < cut]
    if reopen:
        segment.close()
        segment = reopened(segment, files)
        segment.sanity_check()
    records = [record for batch in batches for record in batch]
    assert segment.next_offset() == (batches[-1].next_offset if batches else 500)
    assert segment.max_timestamp.timestamp_ms == max((record.timestamp_ms for record in records), default=-1)
    for offset in range(500, segment.next_offset() + 2):
        expected = next((batch for batch in batches if batch.last_offset >= offset), None)
        assert base_offset_at(segment, offset) == (expected.base_offset if expected else None)
    start = data.draw(st.integers(500, segment.next_offset()), label="start")
    for timestamp_ms in range(0, 402, 3):
        found = segment.find_offset_by_timestamp(timestamp_ms, start)
        matching = (each for each in records if each.timestamp_ms >= timestamp_ms and each.offset >= start)
        first = next(matching, None)
        assert found == (None if first is None else FoundOffset(first.timestamp_ms, first.offset, 7))


def test_a_batch_info_read_after_offsets_were_assigned_is_enough() -> None:
    segment = new_segment(base_offset=30)
    content = bytearray(batch_of(0, [1, 2, 3]))
    assign_offsets(content, 0, 30, 9)
    info = BatchInfo(content)
    assert segment.append(info.last_offset, [info], [content]) == 0
    assert segment.next_offset() == 33
