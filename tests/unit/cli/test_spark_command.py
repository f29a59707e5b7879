"""`ottla spark`: what its verbs print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.commands import spark as command
from ottla.cli.main import main
from ottla.client.diagnosis import Finding

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

WELL = Finding("driver", "ok", "Python 3.11.7")
WARNED = Finding("socket", "warning", "it is off", "Turn it on.")
BROKEN = Finding("executors", "failed", "ottla is not installed", "Install it.")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    findings: list[Finding] = []
    monkeypatch.setattr(command, "_examine", lambda options: findings)
    return findings


def test_the_doctor_says_what_to_do_and_ends_with_1_when_something_failed(found, capsys):
    found += [WELL, WARNED, BROKEN]
    assert main(["spark", "doctor"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "ok       driver: Python 3.11.7"
    assert out[2].strip() == "Turn it on."
    assert out[-1] == "1 failed, 1 warning; begin with: executors"


def test_the_doctor_speaks_json_and_ends_with_0_when_nothing_failed(found, capsys):
    found += [WELL, WARNED]
    assert main(["spark", "doctor", "--json"]) == 0
    assert [each["result"] for each in json.loads(capsys.readouterr().out)] == ["ok", "warning"]


@pytest.mark.parametrize("words", [["--master", "local", "--remote", "sc://h"], ["--tasks", "0"]])
def test_words_that_do_not_fit_are_refused_before_spark_starts(found, words, capsys):
    assert main(["spark", "doctor", *words]) == 1
    assert capsys.readouterr().err


def test_pack_says_how_to_use_the_archive(monkeypatch, tmp_path: Path, capsys):
    from ottla.spark.running import packing

    def pack(target: Path, also: list[str]) -> list[str]:
        target.write_bytes(b"x" * 2**20)
        return ["ottla==0.1.0", *also]

    monkeypatch.setattr(packing, "pack", pack)
    target = tmp_path / "packed.tar.gz"
    assert main(["spark", "pack", "-o", str(target), "--with", "fastavro"]) == 0
    out = capsys.readouterr().out
    assert "1.0 MiB, ottla==0.1.0, fastavro" in out
    assert f"--archives {target}#packages --conf spark.executorEnv.PYTHONPATH=./packages" in out
    assert main(["spark", "pack", "-o", "packed.zip"]) == 1
    assert "must end in .tar.gz" in capsys.readouterr().err
