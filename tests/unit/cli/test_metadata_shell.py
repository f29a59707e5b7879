"""kafka-metadata-shell on a snapshot of an Apache cluster says what Apache's own shell said of it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tests.golden.metadata.reading import HERE, golden_files, shell_snapshot

from ottla import __version__
from ottla.cli.kafka.metadata_commands import print_names
from ottla.cli.kafka.tools import main

COMMANDS = (HERE / "shell-commands.txt").read_text()
GOLDEN = (HERE / "shell-4.3.1.txt").read_text()


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    name, data = shell_snapshot()
    path = tmp_path / Path(name).name
    path.write_bytes(data)
    return path


def test_a_session_goes_as_in_apaches_shell(
    snapshot: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(COMMANDS))
    assert main("kafka-metadata-shell", ["--snapshot", str(snapshot)]) == 0
    assert capsys.readouterr().out == GOLDEN


def test_a_session_ends_with_the_input(
    snapshot: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("pwd\n"))
    assert main("kafka-metadata-shell", ["-s", str(snapshot)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [">> /", ">> "]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ls /image/topics/byName", "moving\npairs\n"),
        ("cat /local/version", f"{__version__}\n"),
        ("man", "invalid choice: 'man' (choose from 'cat', 'find', 'ls', 'tree')\n"),
        ("find /image/clientQuotas/ip*", "/image/clientQuotas/ip*\n/image/clientQuotas/ip*/connection_creation_rate\n"),
        ("", "Loading...\nStarting...\n[ Kafka Metadata Shell ]\n>> \n"),
    ],
)
def test_a_command_may_stand_on_the_command_line(
    snapshot: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main("kafka-metadata-shell", [f"--snapshot={snapshot}", *command.split()]) == 0
    assert capsys.readouterr().out == said


def test_the_newest_snapshot_of_a_directory_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in golden_files().items():
        if name.startswith("broker/__cluster_metadata-0/"):
            (tmp_path / Path(name).name).write_bytes(data)
    (tmp_path / "00000000000000000999-0000000001.checkpoint.part").write_bytes(b"")
    assert main("kafka-metadata-shell", ["--snapshot", str(tmp_path), "cat", "/image/provenance"]) == 0
    assert capsys.readouterr().out == GOLDEN[GOLDEN.index("offset ") :].partition("\n")[0] + "\n"


def test_a_log_from_its_beginning_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(golden_files()["controller/__cluster_metadata-0/00000000000000000000.log"])
    assert main("kafka-metadata-shell", ["--snapshot", str(log), "ls", "/image/cluster/*"]) == 0
    assert capsys.readouterr().out == "brokers:\n2\n3\n\ncontrollers:\n1\n"


def test_what_cannot_be_read_is_refused_with_a_sentence(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refusal(path: Path) -> str:
        assert main("kafka-metadata-shell", ["--snapshot", str(path), "ls"]) == 1
        printed, problem = capsys.readouterr()
        assert printed == ""
        return problem

    assert "there is no file" in refusal(snapshot / ".." / "none.checkpoint")
    (snapshot.parent / "empty").mkdir()
    assert "there is no snapshot (*.checkpoint)" in refusal(snapshot.parent / "empty")
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    assert "ends in the middle of a batch" in refusal(snapshot)
    assert main("kafka-metadata-shell", ["ls"]) == 1
    assert "argument --snapshot/-s is required" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("width", "lines"), [(20, ["a   ccc   eeeee", "bb  dddd"]), (60, ["a  bb  ccc  dddd  eeeee"]), (None, 5), (7, 5)]
)
def test_names_are_in_as_many_columns_as_there_is_room_for(
    capsys: pytest.CaptureFixture[str], width: int | None, lines: list[str] | int
) -> None:
    print_names(["a", "bb", "ccc", "dddd", "eeeee"], width)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == lines or len(printed) == lines
