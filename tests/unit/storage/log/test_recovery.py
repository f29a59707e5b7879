"""Start-up of a log whose files were cut, filled with zeros or garbage, flipped, lost or left half done."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest

from ottla.errors import CorruptMessage
from ottla.records import BatchBuilder, Compression, RecordStream, scan
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.records.layout import LEADER_EPOCH_AT, MAGIC_AT
from ottla.storage.directory.checkpoints import MalformedCheckpoint
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
SETTINGS = TopicSettings({"internal.segment.bytes": 700, "segment.index.bytes": 240, "index.interval.bytes": 100})
COMPACTED = SETTINGS.for_topic({"cleanup.policy": "compact"})
NOW_MS = 1_000_000
TAILS = ("cut", "zeros", "garbage")

Content = dict[str, bytes]
Facts = tuple[int, tuple[object, ...], list[object], dict[int, object]]


def opened(files: MemoryFiles, settings: TopicSettings = SETTINGS, **given: object) -> PartitionLog:
    options = {"is_clean": False, "now_ms": NOW_MS, "verification_required": False, **given}
    return open_log(DIRECTORY, TopicPartition("t", 0), settings, files=files, **options)  # type: ignore[arg-type]


def on_disk(content: Content) -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    for name, data in content.items():
        file = files.open(DIRECTORY / name, create=True)
        file.write_at(0, [data])
        file.close()
    return files


def content_of(files: MemoryFiles) -> Content:
    return {name: files.read_bytes(DIRECTORY / name) for name in files.list_directory(DIRECTORY)}


def batch(value: bytes, *, producer: int = -1, sequence: int = -1, **rest: object) -> bytes:
    epoch = -1 if producer < 0 else 0
    builder = BatchBuilder(producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **rest)  # type: ignore[arg-type]
    builder.append(NOW_MS, b"key", value)
    return builder.close()


@cache
def small_log() -> Content:
    """Three segments, closed cleanly: five codecs, two leaders, transactions that were committed and aborted."""
    files = MemoryFiles()
    log = opened(files)
    log.assign_topic_id(bytes(range(16)))
    for number in range(9):
        epoch = number // 5
        codec = list(Compression)[number % 5]
        content = batch(
            b"%d" % number * 90, producer=7 + number % 2, sequence=number // 2, transactional=True, compression=codec
        )
        log.append_as_leader(content, leader_epoch=epoch, now_ms=NOW_MS)
        if number % 3 == 2:
            marker = EndTransactionMarker(commit=number == 5, coordinator_epoch=0)
            for producer in (7, 8):
                ended = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
                log.append_as_leader(
                    ended,
                    leader_epoch=epoch,
                    now_ms=NOW_MS,
                    origin=AppendOrigin.COORDINATOR,
                    transaction_version=1,
                )
    assert len(log.segments) == 3
    log.close()
    return content_of(files)


def stream_of(content: Content) -> bytes:
    return b"".join(content[name] for name in sorted(content) if name.endswith(".log"))


def facts_of(log: PartitionLog) -> Facts:
    producers = {
        key: (each.epoch, each.last_sequence, each.transaction_first_offset)
        for key, each in log.producers.entries.items()
    }
    aborted = log.aborted_transactions(0, log.log_end_offset)
    return log.log_end_offset, log.epochs.entries, list(aborted), producers


@cache
def facts_at(end_offset: int) -> Facts:
    """What a log knows that has only the batches of the small log before `end_offset`."""
    follower = opened(MemoryFiles())
    kept = b"".join(
        stream_of(small_log())[each.position : each.position + each.size_bytes]
        for each in RecordStream(stream_of(small_log()))
        if each.base_offset < end_offset
    )
    follower.append_as_follower(bytearray(kept), leader_epoch=1, now_ms=NOW_MS)
    return facts_of(follower)


def damaged(data: bytes, cut: int, tail: str, random: Random) -> bytes:
    lost = len(data) - cut
    return data[:cut] + {"cut": b"", "zeros": bytes(lost), "garbage": random.randbytes(lost)}[tail]


def bytes_kept(log: PartitionLog) -> bytes:
    return b"".join(segment.records.file.read_at(0, segment.size_bytes) for segment in log.segments)


def check_recovered(content: Content, least_bytes: int) -> None:
    """The recovered log is the longest sound prefix, knows what belongs to it, and recovering again changes nothing."""
    files = on_disk(content)
    log = opened(files)
    kept = bytes_kept(log)
    assert stream_of(small_log()).startswith(kept)
    assert len(kept) >= least_bytes
    assert facts_of(log) == facts_at(log.log_end_offset)
    log.close(is_clean=False)
    before = content_of(files)
    again = opened(files)
    again.close(is_clean=False)
    assert content_of(files) == before


def cuts(name: str) -> Iterator[tuple[int, str]]:
    for cut in range(len(small_log()[name]) + 1):
        for tail in TAILS:
            yield cut, tail


def sound_bytes(name: str, cut: int) -> int:
    """The bytes of whole batches before the cut, with all segments before."""
    content = small_log()
    before = sum(len(data) for other, data in content.items() if other.endswith(".log") and other < name)
    whole = 0
    for each in RecordStream(content[name]):
        if each.position + each.size_bytes > cut:
            break
        whole = each.position + each.size_bytes
    return before + whole


def cut_and_recover(name: str, cut: int, tail: str) -> None:
    content = dict(small_log())
    content[name] = damaged(content[name], cut, tail, Random(cut))
    if name == "partition.metadata":
        check_metadata(content)
    elif name.endswith(".log"):
        check_recovered(content, sound_bytes(name, cut))
    else:
        check_recovered(content, len(stream_of(content)))


def check_metadata(content: Content) -> None:
    """Nobody but the cluster knows a topic's id: one that cannot be read is refused, and no record is touched."""
    files = on_disk(content)
    try:
        log = opened(files)
    except MalformedCheckpoint:
        assert stream_of(content_of(files)) == stream_of(small_log())
    else:
        assert bytes_kept(log) == stream_of(small_log())


def test_the_small_log_has_every_kind_of_file() -> None:
    kinds = {name.rsplit(".", 1)[-1] for name in small_log()}
    small = {"snapshot", "leader-epoch-checkpoint", "metadata", "ottla-checksums"}
    assert kinds == {"log", "index", "timeindex", "txnindex"} | small


@pytest.mark.parametrize("name", sorted(small_log()))
def test_a_file_cut_anywhere_costs_no_more_than_what_was_cut(name: str) -> None:
    sample = list(cuts(name))
    for cut, tail in sample[:: max(1, len(sample) // 60)]:
        cut_and_recover(name, cut, tail)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(small_log()))
def test_a_file_cut_at_every_byte_costs_no_more_than_what_was_cut(name: str) -> None:
    for cut, tail in cuts(name):
        cut_and_recover(name, cut, tail)


# --- single bits -----------------------------------------------------------------------------------------------------


def flip_bits(step: int, name: str) -> Iterator[tuple[int, bytes]]:
    data = small_log()[name]
    outside = {
        byte for each in RecordStream(data) for byte in range(each.position + LEADER_EPOCH_AT, each.position + MAGIC_AT)
    }
    for bit in range(0, len(data) * 8, step):
        # The format has no sum over the leader epoch: a flip there is another leader's record and cannot be told.
        if bit // 8 not in outside:
            yield bit // 8, data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def check_flip(name: str, byte: int, data: bytes) -> None:
    content = {**small_log(), name: data}
    log = opened(on_disk(content))
    assert bytes_kept(log) == stream_of(small_log())[: sound_bytes(name, byte)]
    unscanned = opened(on_disk(content), is_clean=True, recovery_point=15)
    with pytest.raises(CorruptMessage):
        read_and_check(unscanned)


def read_and_check(log: PartitionLog) -> None:
    """What a consumer does: read, prove every batch, expect offsets without a gap."""
    offset = 0
    while offset < log.log_end_offset:
        content = log.read(offset, 10_000, up_to="log_end").slice.read()
        if not content:
            raise CorruptMessage(f"nothing at {offset}")
        for each in scan(content):
            if each.base_offset != offset:
                raise CorruptMessage(f"{each} instead of offset {offset}")
            offset = each.next_offset


@pytest.mark.parametrize("name", [name for name in sorted(small_log()) if name.endswith(".log")])
def test_a_flipped_bit_is_found_by_recovery_and_by_readers(name: str) -> None:
    for byte, data in flip_bits(41, name):
        check_flip(name, byte, data)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in sorted(small_log()) if name.endswith(".log")])
def test_every_flipped_bit_is_found_by_recovery_and_by_readers(name: str) -> None:
    for byte, data in flip_bits(1, name):
        check_flip(name, byte, data)


# --- what is read and what is not ------------------------------------------------------------------------------------


def segment_names() -> list[str]:
    return [name for name in sorted(small_log()) if name.endswith(".log")]


def base_offset_of(name: str) -> int:
    return int(name.split(".")[0])


def test_segments_before_the_recovery_point_are_not_read() -> None:
    files = on_disk(small_log())
    last = segment_names()[-1]
    log = opened(files, recovery_point=base_offset_of(last))
    read = {each.path.name for each in files.trace if each.kind == "read" and each.path.suffix == ".log"}
    assert read == {last}
    assert facts_of(log) == facts_at(log.log_end_offset)


def test_damage_before_the_recovery_point_is_not_cut() -> None:
    first, _, last = segment_names()
    content = dict(small_log())
    content[first] = content[first][:-1] + bytes([content[first][-1] ^ 1])
    log = opened(on_disk(content), recovery_point=base_offset_of(last))
    assert bytes_kept(log) == stream_of(content)


def test_segments_behind_a_cut_are_gone_with_their_snapshots() -> None:
    content = dict(small_log())
    second = segment_names()[1]
    content[second] = content[second][:50]
    files = on_disk(content)
    log = opened(files)
    assert log.log_end_offset == base_offset_of(second)
    names = files.list_directory(DIRECTORY)
    assert [name for name in names if name.endswith(".log")] == segment_names()[:2]
    assert all(base_offset_of(name) <= log.log_end_offset for name in names if name.endswith(".snapshot"))


def test_a_lost_end_before_a_kept_segment_ends_the_log_there() -> None:
    content = dict(small_log())
    first = segment_names()[0]
    last = list(RecordStream(content[first]))[-1]
    content[first] = content[first][: last.position]
    log = opened(on_disk(content))
    assert log.log_end_offset == last.base_offset
    assert bytes_kept(log) == content[first]


@pytest.mark.parametrize("how", ["compacted topic", "compacted once"])
def test_a_gap_that_compaction_made_is_kept(how: str) -> None:
    content = dict(small_log())
    first = segment_names()[0]
    last = list(RecordStream(content[first]))[-1]
    content[first] = content[first][: last.position]
    files = on_disk(content)
    if how == "compacted topic":
        log = opened(files, COMPACTED)
    else:
        log = opened(files, compacted_up_to=base_offset_of(segment_names()[1]))
    assert bytes_kept(log) == stream_of(content)


def test_an_empty_segment_left_inside_another_is_dropped() -> None:
    content = {**small_log(), f"{1:020d}.log": b""}
    log = opened(on_disk(content))
    assert log.segments.base_offsets[:1] == [0]
    assert log.log_end_offset == base_offset_of(segment_names()[1])


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_missing_index_is_built_anew(kind: str, is_clean: bool) -> None:
    content = {name: data for name, data in small_log().items() if not name.endswith("." + kind)}
    files = on_disk(content)
    log = opened(files, is_clean=is_clean, recovery_point=15)
    log.close()
    assert {name: data for name, data in content_of(files).items() if name.endswith(kind)} == {
        name: data for name, data in small_log().items() if name.endswith(kind)
    }


def test_a_clean_start_without_snapshots_reads_the_producers_from_the_log() -> None:
    content = {name: data for name, data in small_log().items() if not name.endswith(".snapshot")}
    log = opened(on_disk(content), is_clean=True, recovery_point=15)
    assert facts_of(log) == facts_at(15)


def test_damaged_leader_epochs_are_read_from_the_log() -> None:
    content = {**small_log(), "leader-epoch-checkpoint": b"0\n7\n"}
    for given in ({"is_clean": True, "recovery_point": 15}, {"recovery_point": 11}, {}):
        log = opened(on_disk(content), **given)
        assert log.epochs.entries == facts_at(15)[1]


def test_a_log_that_ends_before_its_start_is_begun_anew() -> None:
    files = on_disk(small_log())
    log = opened(files, is_clean=True, recovery_point=15, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (100, 100, [100])
    assert (log.epochs.entries, dict(log.producers.entries)) == ((), {})


def test_a_log_starts_at_its_first_segment_or_where_records_were_deleted() -> None:
    content = {name: data for name, data in small_log().items() if not name.startswith("0" * 20)}
    second = base_offset_of(segment_names()[1])
    assert opened(on_disk(content), log_start_offset=0).log_start_offset == second
    log = opened(on_disk(content), log_start_offset=second + 1)
    assert log.log_start_offset == second + 1
    assert log.epochs.earliest is not None
    assert log.epochs.earliest.start_offset >= second + 1


def test_a_new_log_begins_at_the_start_it_is_given() -> None:
    log = opened(MemoryFiles(), log_start_offset=42)
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (42, 42, [42])


# --- leftovers -------------------------------------------------------------------------------------------------------


def renamed(content: Content, base_offset: int, suffix: str) -> Content:
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    return {
        name + suffix if name.startswith(f"{base_offset:020d}") and name.endswith(kinds) else name: data
        for name, data in content.items()
    }


def test_deleted_and_temporary_files_are_removed() -> None:
    extra = {f"{3:020d}.log.deleted": b"x", f"{3:020d}.snapshot.deleted": b"x", "leader-epoch-checkpoint.tmp": b"x"}
    files = on_disk({**small_log(), **extra})
    log = opened(files, is_clean=True, recovery_point=15)
    assert facts_of(log) == facts_at(15)
    assert set(files.list_directory(DIRECTORY)) == set(small_log())


def test_a_half_cleaned_segment_is_undone() -> None:
    first = segment_names()[0]
    extra = {f"{first}.cleaned": b"half", f"{first}.swap": small_log()[first]}
    files = on_disk({**small_log(), **extra})
    assert bytes_kept(opened(files)) == stream_of(small_log())
    assert set(files.list_directory(DIRECTORY)) == set(small_log())


def test_a_swap_is_completed_and_what_it_covers_is_removed() -> None:
    first, second, _ = segment_names()
    both = small_log()[first] + small_log()[second]
    content = {**small_log(), f"{first}.swap": both, f"{0:020d}.index.swap": b"", f"{0:020d}.timeindex.swap": b""}
    files = on_disk(content)
    log = opened(files, COMPACTED, recovery_point=base_offset_of(segment_names()[2]))
    assert log.segments.base_offsets == [0, base_offset_of(segment_names()[2])]
    assert bytes_kept(log) == stream_of(small_log())
    assert not [name for name in files.list_directory(DIRECTORY) if name.endswith(".swap")]


def test_a_swap_whose_records_have_their_name_is_completed() -> None:
    content = renamed(small_log(), 0, ".swap")
    content[f"{0:020d}.log"] = content.pop(f"{0:020d}.log.swap")
    files = on_disk(content)
    log = opened(files, is_clean=True, recovery_point=15)
    assert facts_of(log) == facts_at(15)
    assert set(files.list_directory(DIRECTORY)) == set(small_log())


def test_indexes_without_records_are_removed() -> None:
    files = on_disk({**small_log(), f"{99:020d}.index": bytes(8), f"{99:020d}.txnindex": b"x"})
    opened(files)
    assert not [name for name in files.list_directory(DIRECTORY) if name.startswith(f"{99:020d}")]


def test_strange_files_are_left_alone() -> None:
    files = on_disk({**small_log(), "notes.txt": b"mine", "123.log": b"not twenty digits"})
    opened(files)
    assert {"notes.txt", "123.log"} <= set(files.list_directory(DIRECTORY))


def test_a_log_that_was_begun_anew_can_be_flushed() -> None:
    log = opened(on_disk(small_log()), log_start_offset=100)
    log.append_as_leader(batch(b"new"), leader_epoch=3, now_ms=NOW_MS)
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)
    assert log.flushed_offset == 101
