"""Bugs planted in Raft: each applies to the source of today, and schedules of a quorum find it (all: `long`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.planted.bug import SOURCE, Bug
from tests.planted.bugs_quorum import BUGS

SEEDS = "1-3000"
LIMIT_S = 1_800


def find(bug: Bug, directory: Path) -> str:
    """The line about the first seed that broke a promise."""
    source = directory / "src"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("*.c", "*.egg-info"))
    bug.apply(source)
    command = [sys.executable, "-m", "ottla.simulation.quorum", "--seeds", SEEDS, "--first"]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    return next((line for line in done.stdout.splitlines() if line.startswith("seed ")), "")


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_the_patch_applies_to_the_source_of_today(bug: Bug) -> None:
    assert bug.problem() is None
    assert all(old != new for _, old, new in bug.edits)


def test_there_are_at_least_twenty_five() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25


def test_one_of_them_is_found_at_once(tmp_path: Path) -> None:
    (bug,) = [bug for bug in BUGS if bug.name == "the-end-of-the-log-is-taken-for-committed"]
    assert find(bug, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_it_is_found(bug: Bug, tmp_path: Path) -> None:
    line = find(bug, tmp_path)
    assert line, f"{bug.name} was not found by the seeds {SEEDS}"
    print(f"{bug.name}: {line[:150]}")
