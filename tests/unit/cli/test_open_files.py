"""The limit of open files is raised and nothing else changed; in processes of their own, because it stays raised."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="there is no such limit on Windows")

PROGRAM = """
import resource
from ottla.cli.open_files import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))
raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limits_after(hard: int) -> list[int]:
    command = [sys.executable, "-c", PROGRAM.format(hard=hard)]
    return [int(each) for each in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def test_the_soft_limit_becomes_the_hard_one():
    assert limits_after(hard=512) == [512, 512]


def test_a_limit_that_is_high_enough_stays():
    assert limits_after(hard=64) == [64, 64]


def test_a_refusal_is_told_and_ends_nothing(monkeypatch, caplog):
    from ottla.cli.open_files import raise_limit

    def refuse(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
    assert "at most 256 files may be open" in caplog.text
