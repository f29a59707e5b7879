"""`ottla log`: segments, indexes and snapshots that a real log wrote, sound and damaged."""

import json

import pytest

from ottla.cli import log_files
from ottla.cli.commands.doctor import records_of, strays_of
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.records import BatchBuilder, Compression
from ottla.storage.files import DiskFiles
from ottla.storage.log.partition_log import open_log
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

CLICKS = TopicPartition("clicks", 0)


def batch_of(*values, codec=Compression.NONE):
    builder = BatchBuilder(compression=codec)
    for number, value in enumerate(values):
        builder.append(1_700_000_000_000 + number, b"key", value, [("trace", b"7f")])
    return bytearray(builder.close())


@pytest.fixture
def data(tmp_path):
    """A data directory with one log of two segments."""
    directory = tmp_path / "clicks-0"
    directory.mkdir()
    settings = TopicSettings({"segment.bytes": 1024 * 1024, "index.interval.bytes": 4096})
    now_ms = 1_700_000_000_000
    log = open_log(directory, CLICKS, settings, files=DiskFiles(), now_ms=now_ms, is_clean=True)
    for number in range(300):
        log.append_as_leader(batch_of(b"%05d" % number, b"x" * 5000), leader_epoch=3, now_ms=now_ms)
    log.append_as_leader(batch_of(b"packed", codec=Compression.GZIP), leader_epoch=3, now_ms=now_ms)
    log.close()
    return tmp_path


def rows_of(capsys, *words):
    assert main([*map(str, words), "--format", "json"]) == OK
    return json.loads(capsys.readouterr().out)


def segments_of(data):
    return sorted((data / "clicks-0").glob("*.log"))


def test_a_data_directory_shows_its_partitions(data, capsys):
    (row,) = rows_of(capsys, "log", "list", data)
    assert (row["partition"], row["segments"]) == ("clicks-0", 2)
    assert (row["first_offset"], row["next_offset"]) == (0, 601)


def test_stray_logs_are_listed_and_the_doctor_warns_of_them(data, capsys):
    assert strays_of(data).result == "ok"
    stray = f"clicks-0.{'a' * 32}-stray"
    (data / "clicks-0").rename(data / stray)
    (row,) = rows_of(capsys, "log", "list", data)
    assert (row["partition"], row["next_offset"]) == (stray, 601)
    finding = strays_of(data)
    assert (finding.result, stray in finding.what) == ("warning", True)
    assert strays_of(data / "elsewhere").result == "failed"


def test_many_partitions_are_listed_without_reading_their_indexes(data, capsys, monkeypatch):
    before = rows_of(capsys, "log", "list", data)
    (*_, last) = segments_of(data)
    with last.with_suffix(".index").open("ab") as index:
        index.truncate(10 * 1024 * 1024)  # as a broker leaves the one that it writes
    monkeypatch.setattr(type(data), "read_bytes", None)
    assert rows_of(capsys, "log", "list", data) == before


def test_a_brokers_own_change_log_is_no_partition(data, capsys):
    (data / "ottla-metadata").mkdir()
    (data / "ottla-metadata" / "changes.log").write_bytes(b"x")
    assert [row["partition"] for row in rows_of(capsys, "log", "list", data)] == ["clicks-0"]
    assert len(rows_of(capsys, "log", "verify", data)) == 2


def test_a_partition_shows_its_segments(data, capsys):
    rows = rows_of(capsys, "log", "list", data / "clicks-0")
    assert [row["first_offset"] for row in rows] == [0, log_files.base_offset_of(segments_of(data)[1])]


def test_a_segment_shows_its_batches(data, capsys):
    rows = rows_of(capsys, "log", "dump", segments_of(data)[0], "--limit", 2)
    assert [(row["first_offset"], row["last_offset"], row["records"]) for row in rows] == [(0, 1, 2), (2, 3, 2)]
    assert {row["codec"] for row in rows} == {"none"}
    assert {row["epoch"] for row in rows} == {3}


def test_records_can_be_shown_from_an_offset(data, capsys):
    rows = rows_of(capsys, "log", "dump", segments_of(data)[1], "--records", "--from-offset", 600)
    assert [(row["offset"], row["key"], row["value"], row["headers"]) for row in rows] == [
        (600, "key", "packed", "trace=7f")
    ]
    assert rows[0]["timestamp"] == "2023-11-14T22:13:20.000Z"


def test_indexes_show_their_entries(data, capsys):
    first = segments_of(data)[0]
    rows = rows_of(capsys, "log", "dump", first.with_suffix(".index"))
    starts = {position for position, _, _ in log_files.batches(first)}
    assert rows
    assert {row["position"] for row in rows} <= starts
    assert rows_of(capsys, "log", "dump", first.with_suffix(".timeindex"))


def test_checkpoints_and_snapshots_show_their_rows(data, capsys):
    assert rows_of(capsys, "log", "dump", data / "clicks-0" / "leader-epoch-checkpoint") == [
        {"epoch": "3", "start_offset": "0"}
    ]
    for snapshot in (data / "clicks-0").glob("*.snapshot"):
        assert rows_of(capsys, "log", "dump", snapshot) == []


def test_what_is_sound_is_called_sound(data, capsys):
    rows = rows_of(capsys, "log", "verify", data)
    assert [row["result"] for row in rows] == ["sound", "sound"]
    assert sum(row["records"] for row in rows) == 601


def test_a_flipped_bit_is_found(data, capsys):
    first = segments_of(data)[0]
    content = bytearray(first.read_bytes())
    content[200] ^= 1
    first.write_bytes(content)
    assert main(["log", "verify", str(first)]) == FAILED
    assert "CRC" in capsys.readouterr().out


def test_an_index_entry_that_points_nowhere_is_found(data):
    index = segments_of(data)[0].with_suffix(".index")
    content = bytearray(index.read_bytes())
    content[7] ^= 1
    index.write_bytes(content)
    (problem, *_) = log_files.verify_segment(segments_of(data)[0]).problems
    assert "where no batch begins" in problem


def test_an_unfinished_batch_at_the_end_is_said_and_what_is_before_it_shown(data, capsys):
    last = segments_of(data)[1]
    last.write_bytes(last.read_bytes()[:-3])
    assert main(["log", "dump", str(last)]) == OK
    shown = capsys.readouterr()
    assert "no whole batch" in shown.err
    assert "599" in shown.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["log", "list", "{data}/nowhere"], "there is no"),
        (["log", "dump", "{data}/readme.txt"], "no file of a log"),
        (["log", "list", "{data}/readme.txt"], "is a file"),
        (["log", "list", "{data}/empty"], "holds no log"),
    ],
)
def test_wrong_paths_get_a_sentence(data, words, sentence, capsys):
    (data / "readme.txt").write_text("hello")
    (data / "empty").mkdir()
    assert main([word.format(data=data) for word in words]) == FAILED
    assert sentence in capsys.readouterr().err


def test_the_doctor_tells_what_the_broker_found_in_its_records(tmp_path):
    assert records_of(tmp_path).what == "no broker has verified them yet"
    file = tmp_path / "ottla-verification.json"
    file.write_text('{"began_ms": 1700000000000, "ended_ms": 1700000060000, "next": null}')
    assert records_of(tmp_path)[1:3] == ("ok", "all sound in the pass that ended 2023-11-14T22:14:20.000Z")
    file.write_text('{"began_ms": 1, "ended_ms": 2, "next": null, "damaged": {"orders-0/7.log": "offsets 3 to 4"}}')
    finding = records_of(tmp_path)
    assert (finding.result, finding.what) == ("failed", "orders-0/7.log: offsets 3 to 4")
    assert "ottla log verify" in finding.remedy
