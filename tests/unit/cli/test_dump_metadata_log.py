"""kafka-dump-log on the metadata log of an Apache cluster prints what Apache's own tool printed of it."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from tests.golden.metadata.reading import HERE, golden_files

from ottla.cli.kafka.dump_log import run
from ottla.cluster.metadata_log.batches import control_batch, data_batch
from ottla.protocol.metadata_log import encode_record
from ottla.protocol.metadata_log.control import SnapshotFooterRecord
from ottla.protocol.metadata_log.transactions import NoOpRecord

GOLDEN = lzma.decompress((HERE / "dump-log-4.3.1.txt.xz").read_bytes()).decode()
NAMES = [line.removeprefix("Dumping ") for line in GOLDEN.splitlines() if line.startswith("Dumping ")]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, data in golden_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_logs_and_snapshots_are_printed_as_apaches_tool_does(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(NAMES) == 4
    assert run(["--cluster-metadata-decoder", "--files", ",".join(NAMES)]) == 0
    printed, problems = capsys.readouterr()
    assert printed == GOLDEN
    assert problems == ""


def test_without_the_decoder_only_control_records_are_told(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--deep-iteration", "--files", NAMES[0]])
    printed, _ = capsys.readouterr()
    assert 'LeaderChange: {"version":0,"leaderId":1' in printed
    assert "payload" not in printed


def test_a_record_that_is_not_known_is_told_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "00000000000000000000.log"
    values = [encode_record(NoOpRecord(), 0), b"\x01\x1d\x00\x00"]
    batch = data_batch(values, base_offset=0, epoch=1, timestamp_ms=0)
    log.write_bytes(batch + control_batch([SnapshotFooterRecord()], base_offset=2, epoch=1, timestamp_ms=0))
    assert run(["--cluster-metadata-decoder", "--files", str(log)]) == 0
    printed, _ = capsys.readouterr()
    assert 'payload: {"type":"NO_OP_RECORD","version":0,"data":{}}' in printed
    assert "Error at 1, skipping." in printed
    assert 'SnapshotFooter {"version":0}' in printed
