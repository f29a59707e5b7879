"""A seed has one history, whichever version of Python runs it.

Other versions have no native leaves here, so all take the twins in Python: the native ones append requests that came
together in one step, which is a step less.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ottla

CODE = """
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan
for seed in (1, 23):
    result = run_plan(Plan.short(seed))
    print(result.plan.brokers, result.steps, result.digest, result.anomalies)
    print(result.history.text())
"""
NEWER = ("3.12", "3.13", "3.14")


@cache
def history(python: str, leaves: str = "python") -> str:
    environment = {
        **os.environ,
        "OTTLA_RECORDS": leaves,
        "PYTHONPATH": str(Path(ottla.__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run([python, "-c", CODE], env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def found(version: str) -> str | None:
    """That version's interpreter, if there is one; pyenv keeps several beside the one that is chosen."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    python = str(kept[-1]) if kept else shutil.which(f"python{version}")
    works = python and not subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode
    return python if works else None


@pytest.mark.parametrize("version", NEWER)
def test_a_newer_python_gives_the_same_history_byte_for_byte(version):
    python = found(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    theirs = history(python)
    assert theirs == history(sys.executable)
    assert '"send"' in theirs
