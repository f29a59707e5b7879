"""Logs that Apache Kafka wrote, opened as ours: the same records, offsets and answers as Kafka's own consumers got.

What the directories hold and how they were made is told in tests/golden/logs/README.md.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.golden.logs.consuming import FILES, consume, open_golden
from tests.golden.logs.reading import ARCHIVES, ExpectedPartition, GoldenLogs, Row, unpack

from ottla.records import BatchBuilder, Compression, scan
from ottla.storage.directory.checkpoints import RECOVERY_POINTS
from ottla.storage.log.leader_epochs import LEADER_EPOCHS
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.producers.entry import ProducerEntry
from ottla.storage.producers.snapshot import decode_snapshot, encode_snapshot, snapshot_path

SMALL_FETCH_BYTES = 1500
CONTROLLER = "__cluster_metadata-0"
CLEAN_ARCHIVES = [path for path in ARCHIVES if "-clean" in path.name]


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenLogs:
    """One archive, unpacked once; nobody writes to it."""
    return unpack(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture
def logs(unpacked: GoldenLogs, tmp_path: Path) -> GoldenLogs:
    """A copy of it, for opening a log may write; without the controller's log, whose indexes are large."""
    data = tmp_path / "data"
    shutil.copytree(unpacked.data, data, ignore=shutil.ignore_patterns(CONTROLLER))
    return unpacked.moved(data)


def opened(logs: GoldenLogs, *, is_closed_cleanly: bool = False) -> Iterator[tuple[ExpectedPartition, PartitionLog]]:
    """Every partition that consumers read, open. To close it cleanly takes syncs, which few tests are about."""
    for partition in logs.partitions.values():
        if partition.has_consumers:
            log = open_golden(logs, partition)
            yield partition, log
            log.close(is_clean=is_closed_cleanly)


def test_every_record_is_read_at_both_isolation_levels(logs: GoldenLogs) -> None:
    for partition, log in opened(logs):
        for max_bytes in (SMALL_FETCH_BYTES, 1 << 20):
            assert consume(log, max_bytes) == partition.records, partition.name
            assert consume(log, max_bytes, committed=True) == partition.committed, partition.name


def test_the_offsets_of_a_log_are_those_kafka_tells(logs: GoldenLogs) -> None:
    for partition, log in opened(logs):
        found = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
        wanted = (partition.log_start_offset, partition.last_stable_offset, *[partition.high_watermark] * 2)
        assert found == wanted, partition.name


def test_an_offset_for_a_time_is_the_one_kafka_gives(logs: GoldenLogs) -> None:
    """Kafka asks only the first segment whose latest timestamp is late enough. When that one is of a batch which
    compaction has emptied, it finds nothing, although a record is there: we look on."""
    for partition, log in opened(logs):
        for asked, wanted in partition.times:
            assert log.offset_for_timestamp(asked) == (wanted or partition.first_at_or_after(asked)), partition.name


def test_the_latest_timestamp_is_the_one_kafka_gives(logs: GoldenLogs) -> None:
    for partition, log in opened(logs):
        assert (log.offset_of_max_timestamp() or (-1, -1, -1)) == partition.latest, partition.name


def test_the_log_of_the_controller_opens(unpacked: GoldenLogs, logs: GoldenLogs) -> None:
    partition = logs.partitions[CONTROLLER]
    shutil.copytree(unpacked.partitions[CONTROLLER].directory, partition.directory)
    log = open_golden(logs, partition)
    assert log.log_end_offset == partition.batches[-1]["lastOffset"] + 1
    assert len(consume(log)) == sum(batch["count"] for batch in partition.batches if not batch["isControl"])
    log.close()


def test_opening_a_clean_log_and_closing_it_writes_nothing(logs: GoldenLogs) -> None:
    """Two things are tidied up, as Kafka does at its next start: leaders that have written nothing, which Kafka notes
    at the end of the log, and files that nobody needs any more."""
    if not logs.is_clean:
        pytest.skip("only a log that was closed has nothing left to do")
    before = contents(logs.data)
    for _ in opened(logs, is_closed_cleanly=True):
        pass
    after = contents(logs.data)
    assert after.items() <= before.items()
    assert {Path(name).suffix for name in before.keys() - after.keys()} <= {".snapshot", ".deleted"}


def contents(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != LEADER_EPOCHS)
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def test_recovering_a_second_time_changes_nothing(logs: GoldenLogs) -> None:
    unclean = logs.left(clean=False)
    for _ in opened(unclean):
        pass
    before = contents(logs.data)
    for partition, log in opened(unclean):
        assert consume(log, committed=True) == partition.committed
    assert contents(logs.data) == before


def test_the_producers_after_opening_are_those_of_kafkas_last_snapshot(logs: GoldenLogs) -> None:
    if not logs.is_clean:
        pytest.skip("a killed broker left no snapshot of the end")
    for partition, log in opened(logs):
        path = snapshot_path(partition.directory, partition.high_watermark)
        if path.exists():
            found = decode_snapshot(encode_snapshot(log.producers.entries.values()))
            assert sorted(found) == sorted(decode_snapshot(path.read_bytes())), partition.name


def test_the_same_producers_are_found_without_any_snapshot(logs: GoldenLogs) -> None:
    """Not where compaction took batches away: there only snapshots know."""
    for name in ("codecs-0", "transactions-0", "open-0", "epochs-0", "__consumer_offsets-1"):
        partition = logs.partitions[name]
        with_snapshots = open_golden(logs, partition)
        wanted = decode_snapshot(encode_snapshot(with_snapshots.producers.entries.values()))
        with_snapshots.close()
        for path in partition.directory.glob("*.snapshot"):
            path.unlink()
        log = open_golden(logs.left(clean=False), partition)
        assert sorted(decode_snapshot(encode_snapshot(log.producers.entries.values()))) == sorted(wanted), name
        log.close()


def test_leader_epochs_end_where_the_batches_say(logs: GoldenLogs) -> None:
    for partition, log in opened(logs):
        ends = {batch["partitionLeaderEpoch"]: batch["lastOffset"] + 1 for batch in partition.batches}
        for epoch, end_offset in ends.items():
            if end_offset > partition.log_start_offset:
                assert log.end_offset_for_epoch(epoch) == (epoch, end_offset), partition.name


@pytest.mark.parametrize("kinds", ["*.index", "*.timeindex", "*.txnindex", "*.*index"])
def test_lost_indexes_are_built_again(logs: GoldenLogs, kinds: str) -> None:
    """A lost .txnindex cannot be told from one that never was, so only recovery from the start brings it back."""
    (logs.data / RECOVERY_POINTS).unlink()
    for path in logs.data.rglob(kinds):
        path.unlink()
    for partition, log in opened(logs.left(clean=False)):
        assert consume(log, SMALL_FETCH_BYTES, committed=True) == partition.committed, partition.name
        for asked, wanted in partition.times[::3]:
            assert log.offset_for_timestamp(asked) == (wanted or partition.first_at_or_after(asked)), partition.name


@pytest.mark.parametrize("tail", [b"\0" * 200, b"garbage" * 30, b""], ids=["zeros", "garbage", "cut"])
def test_a_torn_tail_costs_only_the_batch_it_tears(logs: GoldenLogs, tail: bytes) -> None:
    (logs.data / RECOVERY_POINTS).unlink()  # what was synced cannot be torn
    for partition in logs.partitions.values():
        if not partition.has_consumers:
            continue
        last = max(partition.directory.glob("*.log"))
        lost_from = partition.high_watermark
        if tail:
            last.write_bytes(last.read_bytes() + tail)
        elif rows := partition.files[last.name]:
            last.write_bytes(last.read_bytes()[:-1])
            lost_from = rows[-1]["baseOffset"]
        log = open_golden(logs.left(clean=False), partition)
        assert log.log_end_offset == lost_from
        assert consume(log) == [row for row in partition.records if row.offset < lost_from]
        log.close()


def test_what_we_append_stands_behind_what_kafka_wrote(logs: GoldenLogs) -> None:
    for partition, log in opened(logs):
        rows = append_ours(log, partition.last_timestamp_ms)
        log.update_high_watermark(log.log_end_offset)
        assert consume(log) == partition.records + rows
        log.close()
        again = open_golden(logs.left(clean=True), partition)
        again.update_high_watermark(again.log_end_offset)
        assert consume(again, SMALL_FETCH_BYTES) == partition.records + rows


def append_ours(log: PartitionLog, timestamp_ms: int) -> list[Row]:
    """Some batches of each codec; enough for new segments."""
    latest = log.latest_offset().leader_epoch or 0
    rows: list[Row] = []
    for number, codec in enumerate(list(Compression) * 6):
        builder = BatchBuilder(compression=codec)
        records = [(timestamp_ms + i, f"ours-{number}-{i}".encode(), b"value " * 20, ()) for i in range(10)]
        for record in records:
            assert builder.append(*record)
        appended = log.append_as_leader(bytearray(builder.close()), leader_epoch=latest, now_ms=timestamp_ms)
        if appended.log_append_time_ms >= 0:
            records = [(appended.log_append_time_ms, *record[1:]) for record in records]
        rows += [Row(appended.first_offset + i, *record, latest) for i, record in enumerate(records)]
    return rows


@pytest.mark.parametrize("name", ["times-0", "transactions-0", "open-0"])
@pytest.mark.parametrize("archive", CLEAN_ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_the_same_batches_give_the_same_files(archive: Path, name: str, tmp_path: Path) -> None:
    """Of topics that Kafka wrote in one life of its broker; batches taken as a follower takes them."""
    partition = unpack(archive, tmp_path).partitions[name]
    directory = tmp_path / name
    log = open_log(directory, partition.name, partition.settings, files=FILES, now_ms=0, is_clean=True)
    for path in sorted(partition.directory.glob("*.log")):
        content = path.read_bytes()
        for batch in scan(content):
            sent = bytearray(content[batch.position : batch.position + batch.size_bytes])
            log.append_as_follower(sent, leader_epoch=9, now_ms=partition.last_timestamp_ms)
    log.close()
    assert files_of(directory) == files_of(partition.directory)


def files_of(directory: Path) -> dict[str, bytes | list[ProducerEntry]]:
    """Everything that belongs to segments; the order of the producers in a snapshot means nothing to Kafka."""
    found: dict[str, bytes | list[ProducerEntry]] = {}
    for path in directory.glob("0*"):
        content = path.read_bytes()
        found[path.name] = sorted(decode_snapshot(content)) if path.suffix == ".snapshot" else content
    return found
