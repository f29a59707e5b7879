"""Bugs planted in Raft and in the controller: each applies to the source of today, and schedules find it (all: `long`).

Those of Raft are found by a quorum alone, those of the controller by whole clusters on a quorum.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.planted import bugs_controllers, bugs_quorum
from tests.planted.bug import SOURCE, Bug

RAFT = {bug.name: bug for bug in bugs_quorum.BUGS}
CONTROLLERS = {bug.name: bug for bug in bugs_controllers.BUGS}
BUGS = {**RAFT, **CONTROLLERS}
COMMANDS = {
    "raft": ("-m", "ottla.simulation.quorum", "--seeds", "1-3000", "--first"),
    "controllers": (
        "-m",
        "ottla.simulation",
        "--short",
        "--controllers",
        "--seeds",
        "1-3000",
        "--first",
        "--show",
        "1",
    ),
}
LIMIT_S = 1_800


def find(bug: Bug, directory: Path) -> str:
    """The line about the first seed that broke a promise."""
    source = directory / "src"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("*.c", "*.egg-info"))
    bug.apply(source)
    command = [sys.executable, *COMMANDS["raft" if bug.name in RAFT else "controllers"]]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    return "" if done.returncode == 0 else next(line for line in reversed(done.stdout.splitlines()) if _is_about(line))


def _is_about(line: str) -> bool:
    return line.startswith("seed ")


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_patch_applies_to_the_source_of_today(bug: Bug) -> None:
    assert bug.problem() is None
    assert all(old != new for _, old, new in bug.edits)


def test_there_are_at_least_twenty_five_of_raft_and_ten_of_the_controller() -> None:
    assert len(RAFT) == len(bugs_quorum.BUGS) >= 25
    assert len(CONTROLLERS) == len(bugs_controllers.BUGS) >= 10


@pytest.mark.parametrize("name", ["the-end-of-the-log-is-taken-for-committed", "who-comes-back-leads-nothing"])
def test_two_of_them_are_found_at_once(name: str, tmp_path: Path) -> None:
    assert find(BUGS[name], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_it_is_found(bug: Bug, tmp_path: Path) -> None:
    line = find(bug, tmp_path)
    assert line, f"{bug.name} was not found"
    print(f"{bug.name}: {line[:150]}")
