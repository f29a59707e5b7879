"""Apache Kafka opens what we have written: its tool reads our files, its brokers start on our directories.

Every test starts from a golden log (tests/golden/logs) or from nothing, appends with PartitionLog, and lets Kafka
judge. A broker that did not like what it found would say so in its log, cut records off, or not give them to consumers.
Needs Java and Kafka's jars (kafka_jars.py) and takes minutes: run by `make test-long`, skipped where they are missing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.dump_log_segments import complaints, dump, dump_files
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.kafka_jars import RELEASES, JarsMissing, find_jars
from tests.conformance.our_records import OurBatch, our_batches
from tests.golden.logs.consuming import open_golden
from tests.golden.logs.make_logs import DRIVER, heard
from tests.golden.logs.reading import SETTINGS, GoldenLogs, Row, row_of, unpack

from ottla.storage.directory.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from ottla.storage.files import DiskFiles
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.values import TopicPartition

pytestmark = pytest.mark.long

FILES = DiskFiles()
GOLDEN = Path(__file__).parent.parent / "golden" / "logs"
ROUNDS = 8
NOW_MS = 1_800_000_000_000
Rows = list[tuple[Row, bool]]


@pytest.fixture(params=RELEASES)
def line(request: pytest.FixtureRequest) -> str:
    """A release line of Kafka that can be had here."""
    jars_of(request.param)
    return str(request.param)


def jars_of(line: str) -> Path:
    try:
        return find_jars(line)
    except JarsMissing as reason:
        pytest.skip(str(reason))


def golden(line: str, stop: str, directory: Path) -> GoldenLogs:
    return unpack(GOLDEN / f"kafka-{RELEASES[line]}-{stop}.tar.xz", directory)


# --- writing ---------------------------------------------------------------------------------------------------------


def append(log: PartitionLog, batch: OurBatch, leader_epoch: int) -> list[Row]:
    """Append as a broker would: data from a client, markers from the coordinator."""
    guard = None
    if batch.transaction_version and not batch.is_marker:
        raises_epoch = batch.transaction_version == 2
        guard = log.producers.start_verification(
            batch.producer_id, batch.sequence, batch.epoch, raises_epoch=raises_epoch, now_ms=NOW_MS
        )
    appended = log.append_as_leader(
        batch.buffer,
        leader_epoch=leader_epoch,
        now_ms=NOW_MS,
        origin=AppendOrigin.COORDINATOR if batch.is_marker else AppendOrigin.CLIENT,
        guard=guard,
        transaction_version=batch.transaction_version if batch.is_marker else None,
    )
    rows = batch.rows(appended.first_offset, leader_epoch)
    if appended.log_append_time_ms >= 0:
        return [row._replace(timestamp_ms=appended.log_append_time_ms) for row in rows]
    return rows


def append_ours(log: PartitionLog, timestamp_ms: int) -> Rows:
    """Batches of every kind; gives the records and whether each is committed."""
    leader_epoch = log.latest_offset().leader_epoch or 0
    found: Rows = []
    for batch in our_batches(ROUNDS, timestamp_ms):
        found += [(row, batch.is_committed) for row in append(log, batch, leader_epoch)]
    return found


def write_everywhere(logs: GoldenLogs, close: Callable[[PartitionLog], None]) -> dict[str, Rows]:
    """Append to every partition of the topics that were made by hand; the checkpoints tell of it."""
    ours: dict[str, Rows] = {}
    ends: dict[TopicPartition, int] = {}
    for name, partition in logs.partitions.items():
        if not name.startswith("__"):
            log = open_golden(logs, partition)
            ours[name] = append_ours(log, partition.last_timestamp_ms)
            ends[partition.name] = log.log_end_offset
            close(log)
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS):
        path = logs.data / checkpoint
        if checkpoint == HIGH_WATERMARKS or logs.is_clean:
            write_offsets(FILES, path, {**read_offsets(FILES, path), **ends})
    return ours


# --- reading with Kafka ----------------------------------------------------------------------------------------------


def consumed(line: str, logs: GoldenLogs, scratch: Path) -> tuple[dict[str, dict[str, Any]], KafkaBroker]:
    """What consumers of Kafka's get from a broker of Kafka's on the directory; and the broker, which is stopped."""
    broker = KafkaBroker(jars_of(line), scratch, logs.data, "log.cleaner.enable=false\n")
    with broker:
        found = heard(broker.run(DRIVER, broker.bootstrap, "read"))
    return found, broker


def check_consumed(logs: GoldenLogs, ours: dict[str, Rows], found: dict[str, dict[str, Any]]) -> None:
    for name, partition in logs.partitions.items():
        if partition.has_consumers and not name.startswith("__"):
            written = ours.get(name, [])
            rows = [row_of(*fields) for fields in found[name]["records"]]
            assert rows == partition.records + [row for row, _ in written], name
            if name != "open-0":  # its transaction may have been given up by the coordinator, for it is old now
                committed = [row.offset for row in partition.committed]
                committed += [row.offset for row, is_committed in written if is_committed]
                assert found[name]["committed"] == committed, name


def test_a_broker_reads_what_we_appended_to_its_logs(line: str, tmp_path: Path) -> None:
    logs = golden(line, "clean", tmp_path)
    left = take_clean_shutdown(FILES, logs.data)
    assert left is not None
    ours = write_everywhere(logs, lambda log: log.close())
    write_clean_shutdown(FILES, logs.data, left.broker_epoch or -1)
    found, broker = consumed(line, logs, tmp_path)
    check_consumed(logs, ours, found)
    assert broker.complaints() == []
    check_nothing_was_recovered(broker, logs, ours)


def check_nothing_was_recovered(broker: KafkaBroker, logs: GoldenLogs, ours: dict[str, Rows]) -> None:
    """The broker took our clean stop for one, and our snapshots of the end for the producers."""
    said = broker.log.read_text(errors="replace")
    recovered = [line for line in said.splitlines() if "Recovering unflushed segment" in line]
    assert [line for line in recovered if "__cluster_metadata" not in line] == []  # which the controller always does
    ends = read_offsets(FILES, logs.data / RECOVERY_POINTS)
    for name in ours:
        end_offset = ends[logs.partitions[name].name]
        assert f"SnapshotFile(offset={end_offset}, file={logs.data / name}/" in said, name


def test_a_broker_recovers_what_we_left_without_closing(line: str, tmp_path: Path) -> None:
    logs = golden(line, "clean", tmp_path)
    take_clean_shutdown(FILES, logs.data)
    ours = write_everywhere(logs, lambda log: log.close(is_clean=False))
    found, _ = consumed(line, logs, tmp_path)
    check_consumed(logs, ours, found)


def test_a_broker_opens_what_we_recovered_for_it(line: str, tmp_path: Path) -> None:
    logs = golden(line, "unclean", tmp_path)
    ours = write_everywhere(logs, lambda log: log.close())
    found, _ = consumed(line, logs, tmp_path)
    check_consumed(logs, ours, found)


def test_a_broker_opens_a_log_that_is_all_ours(line: str, tmp_path: Path) -> None:
    logs = golden(line, "clean", tmp_path)
    partition = logs.partitions["epochs-1"]
    for path in partition.directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    log = open_log(partition.directory, partition.name, SETTINGS, files=FILES, now_ms=NOW_MS, is_clean=True)
    rows = append_ours(log, partition.last_timestamp_ms)
    log.close()
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS):
        path = logs.data / checkpoint
        write_offsets(FILES, path, {**read_offsets(FILES, path), partition.name: log.log_end_offset})
    found, broker = consumed(line, logs, tmp_path)
    assert [row_of(*fields) for fields in found["epochs-1"]["records"]] == [row for row, _ in rows]
    assert found["epochs-1"]["committed"] == [row.offset for row, is_committed in rows if is_committed]
    assert broker.complaints() == []


# --- the tool --------------------------------------------------------------------------------------------------------


@pytest.fixture
def our_partition(tmp_path: Path) -> tuple[Path, Rows]:
    """A log that only we have written to, closed."""
    directory = tmp_path / "ours-0"
    name = TopicPartition("ours", 0)
    log = open_log(directory, name, SETTINGS, files=FILES, now_ms=NOW_MS, is_clean=True)
    rows = append_ours(log, NOW_MS)
    log.close()
    return directory, rows


@pytest.mark.parametrize("options", [(), ("--index-sanity-check",), ("--verify-index-only",), ("--deep-iteration",)])
def test_the_tool_has_no_complaints(line: str, our_partition: tuple[Path, Rows], options: tuple[str, ...]) -> None:
    files = sorted(our_partition[0].iterdir())
    assert {path.suffix for path in files} >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    assert complaints(dump(jars_of(line), files, *options)) == []


def test_the_tool_reads_every_record(line: str, our_partition: tuple[Path, Rows]) -> None:
    directory, rows = our_partition
    text = dump(jars_of(line), sorted(directory.glob("*.log")), "--print-data-log")
    assert complaints(text) == []
    keyed = [part.partition(" key: ")[2] for part in text.splitlines() if part.startswith("| offset: ")]
    wanted = [f"{(row.key or b'').decode()}{payload_of(row)}" for row, _ in rows]
    assert [part for part in keyed if part.startswith("ours")] == wanted


def payload_of(row: Row) -> str:
    return "" if row.value is None else f" payload: {row.value.decode()}"


def test_the_tool_reads_snapshots_and_aborted_transactions(line: str, our_partition: tuple[Path, Rows]) -> None:
    directory, rows = our_partition
    found = dump_files(jars_of(line), sorted(directory.iterdir()))
    aborted = [row for name in sorted(found) if name.endswith(".txnindex") for row in found[name]]
    assert len(aborted) == ROUNDS
    last = max(name for name in found if name.endswith(".snapshot"))
    assert int(last.removesuffix(".snapshot")) > rows[-1][0].offset
    assert len(found[last]) == 3
