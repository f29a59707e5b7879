"""Metadata logs that Apache Kafka writes now: every record of them is read and written back byte for byte, its tools
read what we make of them, and ours print what Apache's print.

The kept ones (tests/golden/metadata) are the same for ever; this makes them anew. Needs Java and Kafka's jars
(kafka_jars.py) and takes a minute: run by `make test-long`, skipped where they are missing.
"""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.kafka_broker import run_java
from tests.conformance.kafka_jars import JarsMissing, find_jars, java_command
from tests.golden.metadata.make_log import CLUSTER_ID, LINE, make
from tests.golden.metadata.reading import HERE, golden_files, records_of, shell_snapshot

from ottla.cli.kafka import dump_log, metadata_shell
from ottla.cluster.metadata_log.batches import read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.cluster.raft.snapshots import SnapshotId, Voters, write_snapshot
from ottla.protocol.metadata_log import decode_record, encode_record
from ottla.protocol.metadata_log.control import decode_control, encode_control
from ottla.records.control import read_control_type
from ottla.storage.files import DiskFiles

pytestmark = pytest.mark.long

LOG = "controller/__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a session leaves in the directories of an Apache controller and an Apache broker."""
    try:
        find_jars(LINE)
    except JarsMissing as reason:
        pytest.skip(str(reason))
    return golden_files(make(tmp_path_factory.mktemp("metadata")))


def test_every_record_that_apache_writes_now_is_written_back(files: dict[str, bytes]) -> None:
    kinds = set()
    for name, data in files.items():
        if name.endswith((".log", ".checkpoint")):
            for batch, record in records_of(data):
                assert record.value is not None
                if batch.is_control:
                    message = decode_control(read_control_type(record.key), record.value)
                    assert encode_control(message) == record.value
                    kinds.add(type(message))
                else:
                    entry, version = decode_record(record.value)
                    assert encode_record(entry, version) == record.value
                    kinds.add(type(entry))
    assert len(kinds) >= 22


@pytest.fixture(scope="module")
def unpacked(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files in a directory, with a snapshot of ours that has all that the controller's log says."""
    directory = tmp_path_factory.mktemp("unpacked")
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    loader, voters = MetadataLoader(CLUSTER_ID), Voters()
    for batch in read_batches(files[LOG]):
        loader.add(batch)
        voters = voters.after(batch.controls)
    steps = write_snapshot(
        DiskFiles(),
        directory / SnapshotId(loader.position.end_offset, loader.position.epoch).file_name,
        (record.encode() for record in snapshot_records(loader.image)),
        epoch=loader.position.epoch,
        last_timestamp_ms=loader.position.timestamp_ms,
        now_ms=lambda: loader.position.timestamp_ms,
        voters=voters,
    )
    assert len(list(steps)) >= 3
    return directory


def test_both_tools_print_the_same_of_their_files_and_of_ours(
    unpacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [path for path in sorted(unpacked.rglob("*")) if path.suffix in (".log", ".checkpoint")]
    words = ["--cluster-metadata-decoder", "--files", ",".join(map(str, paths))]
    theirs = run_java(find_jars(LINE), "org.apache.kafka.tools.DumpLogSegments", *words)
    assert dump_log.run(words) == 0
    assert capsys.readouterr().out == theirs
    assert any(path.parent == unpacked for path in paths)
    assert "isvalid: false" not in theirs


def shell_jars() -> Path:
    try:
        return find_jars(LINE, "shell")
    except JarsMissing as reason:
        pytest.skip(str(reason))


def sessions(
    path: Path, commands: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """What Apache's shell and ours say. In a conversation, because Apache's may answer a single command before it has
    taken what it read."""
    shell = java_command(shell_jars(), "org.apache.kafka.shell.MetadataShell", "--snapshot", str(path))
    theirs = subprocess.run(shell, input=commands, capture_output=True, text=True, timeout=60, check=True).stdout
    monkeypatch.setattr(sys, "stdin", io.StringIO(commands))
    assert metadata_shell.run(["--snapshot", str(path)]) == 0
    return theirs, capsys.readouterr().out


def test_both_shells_say_the_same_of_the_kept_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data = shell_snapshot()
    path = tmp_path / Path(name).name
    path.write_bytes(data)
    theirs, ours = sessions(path, (HERE / "shell-commands.txt").read_text(), capsys, monkeypatch)
    assert theirs == (HERE / "shell-4.3.1.txt").read_text()
    assert ours == theirs


def test_both_shells_say_the_same_of_our_snapshot(
    unpacked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = unpacked.glob("*.checkpoint")
    theirs, ours = sessions(path, "ls /image/topics/byName\ntree /image\nexit\n", capsys, monkeypatch)
    assert ours == theirs
    assert theirs.partition(">> ")[2].startswith("last\nmoving\npairs\n>> acls:\n")
