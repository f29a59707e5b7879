"""The files of Apache Kafka's logs, one by one: every kind is read as Kafka's own tool reads it.

What the directories hold and how they were made is told in tests/golden/logs/README.md. Nothing here opens a log as a
whole: that is test_golden_logs.py.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.golden.logs.reading import ARCHIVES, SETTINGS, ExpectedPartition, GoldenLogs, unpack

from ottla.records import BatchInfo, RecordBatch
from ottla.storage.directory.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    take_clean_shutdown,
    write_meta_properties,
    write_topic_id,
)
from ottla.storage.files import DiskFiles
from ottla.storage.log.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from ottla.storage.producers.entry import ProducerEntry, read_producer_batches
from ottla.storage.producers.snapshot import decode_snapshot, encode_snapshot, snapshot_path
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.segment import Segment

FILES = DiskFiles()
NOW_MS = 1_800_000_000_000
NEVER_MS = 2**62


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenLogs:
    """One archive, unpacked once; tests that write take a copy."""
    return unpack(request.param, tmp_path_factory.mktemp("golden"))


def segments_of(partition: ExpectedPartition, directory: Path | None = None) -> list[Segment]:
    where = directory or partition.directory
    return [Segment.open(FILES, where, base, SETTINGS, now_ms=NOW_MS) for base in partition.rows_of(".log")]


def batches_of(segment: Segment) -> list[tuple[int, RecordBatch]]:
    return [
        (position, segment.records.batch(position, info.size_bytes)) for position, info in segment.records.headers()
    ]


def described(position: int, batch: BatchInfo) -> dict[str, Any]:
    """A header in the words of DumpLogSegments."""
    time_name = "LogAppendTime" if batch.timestamp_type else "CreateTime"
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.base_timestamp_ms if batch.has_delete_horizon else None,
        "position": position,
        time_name: batch.max_timestamp_ms,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": batch.compression.name.lower(),
        "crc": batch.crc,
        "isvalid": True,
    }


def test_the_archives_have_what_they_are_kept_for(logs: GoldenLogs) -> None:
    codecs = {batch["compresscodec"] for batch in logs.partitions["codecs-0"].batches}
    assert codecs == {"none", "gzip", "snappy", "lz4", "zstd"}
    compacted = logs.partitions["compacted-0"]
    assert len(compacted.records) < compacted.high_watermark / 2
    assert any(row.value is None for row in compacted.records)
    assert any(batch["deleteHorizonMs"] for batch in logs.partitions["forgotten-0"].batches)
    assert any(batch["count"] == 0 for batch in logs.partitions["forgotten-0"].batches)
    assert logs.partitions["trimmed-0"].log_start_offset == 137
    open_ = logs.partitions["open-0"]
    assert open_.last_stable_offset < open_.high_watermark
    assert len(logs.partitions["transactions-0"].rows_of(".txnindex")) > 2
    assert {batch["partitionLeaderEpoch"] for batch in logs.partitions["epochs-0"].batches} >= {0, 2}


def test_every_batch_header_is_read_as_kafka_reads_it(logs: GoldenLogs) -> None:
    for partition in logs.partitions.values():
        for segment, rows in zip(segments_of(partition), partition.rows_of(".log").values(), strict=True):
            assert [described(*found) for found in batches_of(segment)] == rows


def test_every_index_entry_is_read_as_kafka_reads_it(logs: GoldenLogs) -> None:
    for partition in logs.partitions.values():
        offsets, times, aborted = (partition.rows_of(kind) for kind in (".index", ".timeindex", ".txnindex"))
        for segment in segments_of(partition):
            base, indexes = segment.base_offset, segment.indexes
            segment.sanity_check()
            assert entries(indexes.offsets) == dumped(offsets[base], "offset", "position", padding=(base, 0))
            assert entries(indexes.times) == dumped(times[base], "timestamp", "offset", padding=(0, base))
            assert [("version", 0, *each) for each in segment.aborted_index.transactions()] == [
                ("version", *row.values()) for row in aborted.get(base, ())
            ]


def dumped(rows: list[dict[str, Any]], first: str, second: str, padding: tuple[int, int]) -> list[tuple[int, int]]:
    """The tool takes the padding of an index that has no entry yet for one."""
    found = [(row[first], row[second]) for row in rows]
    return [] if found == [padding] else found


def entries(index: Any) -> list[tuple[int, int]]:
    index.load()
    base = index.base_offset
    if index.entry_bytes == 8:
        return [(base + key, value) for key, value in zip(index._keys, index._values, strict=True)]
    return [(key, base + value) for key, value in zip(index._keys, index._values, strict=True)]


def test_a_lookup_by_offset_agrees_with_a_full_scan(logs: GoldenLogs) -> None:
    for partition in logs.partitions.values():
        for segment in segments_of(partition):
            scanned = batches_of(segment)
            for offset in range(segment.base_offset, scanned[-1][1].next_offset + 1 if scanned else 0):
                wanted = next((found for found in scanned if found[1].last_offset >= offset), None)
                found = segment.translate(offset)
                assert (found and (found.position, found.base_offset)) == (
                    wanted and (wanted[0], wanted[1].base_offset)
                )


def test_a_lookup_by_time_agrees_with_a_full_scan(logs: GoldenLogs) -> None:
    for partition in logs.partitions.values():
        for segment in segments_of(partition):
            records = [record for _, batch in batches_of(segment) for record in batch.records()]
            for asked in {record.timestamp_ms + step for record in records[::7] for step in (-1, 0, 1)}:
                wanted = next(
                    ((each.timestamp_ms, each.offset) for each in records if each.timestamp_ms >= asked), None
                )
                found = segment.find_offset_by_timestamp(asked)
                assert (found and found[:2]) == wanted, (segment.path, asked)


def test_recovery_keeps_every_byte_and_agrees_with_kafka_about_the_indexes(logs: GoldenLogs, tmp_path: Path) -> None:
    for partition in logs.partitions.values():
        directory = tmp_path / partition.directory.name
        shutil.copytree(partition.directory, directory)
        for segment, before in zip(segments_of(partition, directory), segments_of(partition), strict=True):
            recovery = segment.recover()
            assert sum(map(len, recovery)) == len(batches_of(before))
            assert (recovery.torn, recovery.truncated_bytes) == (None, 0)
            for offset in range(segment.base_offset, segment.next_offset() + 1):
                assert segment.translate(offset) == before.translate(offset)
            assert segment.max_timestamp.timestamp_ms == max(
                (batch.max_timestamp_ms for _, batch in batches_of(before)), default=-1
            )


# --- producers -------------------------------------------------------------------------------------------------------


def snapshot_row(entry: ProducerEntry) -> dict[str, Any]:
    """An entry in the words of DumpLogSegments."""
    row: dict[str, Any] = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": entry.transaction_first_offset,
        "lastTimestamp": entry.last_timestamp_ms,
    }
    if entry.batches:
        last = entry.batches[-1]
        row |= {
            "firstSequence": last.first_sequence,
            "lastSequence": last.last_sequence,
            "lastOffset": last.last_offset,
            "offsetDelta": last.offset_delta,
            "timestamp": last.timestamp_ms,
        }
    return row


def test_every_snapshot_is_read_as_kafka_reads_it_and_written_back_byte_for_byte(logs: GoldenLogs) -> None:
    for partition in logs.partitions.values():
        for offset, rows in partition.rows_of(".snapshot").items():
            content = snapshot_path(partition.directory, offset).read_bytes()
            entries = decode_snapshot(content)
            assert [snapshot_row(entry) for entry in entries] == rows
            assert encode_snapshot(entries) == content


def replayed(partition: ExpectedPartition, start: list[ProducerEntry], first: int, end: int) -> list[dict[str, Any]]:
    """The producers after the records of [first, end) went over what was known before."""
    state = ProducerState(id_expiration_ms=NEVER_MS)
    state.reload(start, first, NOW_MS)
    for segment in segments_of(partition):
        for position, batch in batches_of(segment):
            if first <= batch.base_offset < end:
                content = segment.records.file.read_at(position, batch.size_bytes)
                state.replay(read_producer_batches(content, [RecordBatch(content)]), batch.next_offset)
    # A snapshot has one time for a producer and its last batch, so compare what is left after writing one.
    left = decode_snapshot(encode_snapshot(state.entries.values()))
    return sorted(map(snapshot_row, left), key=lambda row: row["producerId"])


def test_a_replay_gives_the_producers_of_the_next_snapshot(logs: GoldenLogs) -> None:
    """From snapshot to snapshot; compaction takes away what would have to be replayed."""
    for name in ("codecs-0", "times-0", "transactions-0", "open-0", "epochs-0", "epochs-1", "__consumer_offsets-1"):
        partition = logs.partitions[name]
        before: tuple[int, list[ProducerEntry]] = (0, [])
        for offset, rows in partition.rows_of(".snapshot").items():
            found = replayed(partition, before[1], before[0], offset)
            assert found == sorted(rows, key=lambda row: row["producerId"]), (name, offset)
            before = (offset, decode_snapshot(snapshot_path(partition.directory, offset).read_bytes()))


# --- small files -----------------------------------------------------------------------------------------------------


def test_leader_epochs_are_read_and_agree_with_the_batches(logs: GoldenLogs, tmp_path: Path) -> None:
    for partition in logs.partitions.values():
        epochs = LeaderEpochs.load(FILES, partition.directory)
        for batch in partition.batches:
            if batch["baseOffset"] >= partition.log_start_offset:
                assert epochs.epoch_for_offset(batch["baseOffset"]) == batch["partitionLeaderEpoch"]
        epochs.save(FILES, tmp_path)
        assert (tmp_path / LEADER_EPOCHS).read_bytes() == (partition.directory / LEADER_EPOCHS).read_bytes()


def test_checkpoints_are_read(logs: GoldenLogs) -> None:
    known = [each for each in logs.partitions.values() if each.has_consumers]
    recovery_points, high_watermarks, log_starts, cleaner = (
        read_offsets(FILES, logs.data / name)
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)
    )
    assert {each.name for each in known} <= recovery_points.keys() & high_watermarks.keys()
    assert {name.topic for name in cleaner} == {"compacted", "forgotten"}
    for partition in known:
        name = partition.name
        assert high_watermarks[name] == partition.high_watermark
        assert recovery_points[name] <= partition.high_watermark
        assert log_starts.get(name, 0) == partition.log_start_offset
        assert not logs.is_clean or recovery_points[name] == partition.high_watermark


def test_the_directory_says_whose_it_is_and_how_it_was_left(logs: GoldenLogs, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(logs.data, data)
    properties = read_meta_properties(FILES, data)
    assert properties is not None
    assert (properties.version, properties.node_id) == (1, 1)
    write_meta_properties(FILES, tmp_path, properties)
    assert lines_of(tmp_path) == lines_of(data)
    left = take_clean_shutdown(FILES, data)
    assert (left is not None) == logs.is_clean
    assert left is None or (left.broker_epoch or 0) > 0


def lines_of(directory: Path) -> set[str]:
    """Without the comments: Java puts the time into one."""
    return {line for line in (directory / "meta.properties").read_text().splitlines() if not line.startswith("#")}


def test_partition_metadata_is_written_as_kafka_writes_it(logs: GoldenLogs, tmp_path: Path) -> None:
    for partition in logs.partitions.values():
        topic_id = read_topic_id(FILES, partition.directory)
        assert topic_id is not None
        write_topic_id(FILES, tmp_path, topic_id)
        assert (tmp_path / "partition.metadata").read_bytes() == (
            partition.directory / "partition.metadata"
        ).read_bytes()
