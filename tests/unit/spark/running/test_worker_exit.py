"""Python processes of Spark end quietly when Spark closes their connection, and only then."""

from __future__ import annotations

import subprocess
import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.spark.running.worker_exit import DAEMON, STREAM_SOURCE, exit_quietly_when_closed


def program(name: str | None) -> Any:
    """The main module of a process, whose loop ends as that of Spark's daemon does."""

    def end_with(error: BaseException) -> None:
        try:
            raise error
        except BaseException:
            made.traceback.print_exc()

    made: Any = ModuleType("__main__")
    made.__spec__ = None if name is None else SimpleNamespace(name=name)
    made.traceback = traceback
    made.end_with = end_with
    return made


@pytest.fixture(autouse=True)
def hook(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


@pytest.mark.parametrize("name", [None, "pytest", "pyspark.worker"])
def test_other_processes_are_left_alone(name):
    main = program(name)
    exit_quietly_when_closed(main)
    assert (main.traceback, sys.excepthook) == (traceback, sys.__excepthook__)


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError(), EOFError()])
def test_a_worker_whose_connection_was_closed_just_ends_also_in_its_first_task(error, capsys):
    main = program(DAEMON)
    exit_quietly_when_closed(main)
    main.end_with(error)
    assert capsys.readouterr().err == ""


MODULES = ["ottla.spark.datasource", "ottla.spark.source.reader", "ottla.spark.sink.marked_batches"]


@pytest.mark.parametrize("module", MODULES)
def test_whatever_a_worker_imports_of_us_makes_it_quiet(module):
    code = f"""
import traceback, types
__spec__ = types.SimpleNamespace(name={DAEMON!r})
import {module}
try:
    raise BrokenPipeError
except BrokenPipeError:
    traceback.print_exc()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_worker_that_fails_says_so_as_before(capsys):
    main = program(DAEMON)
    exit_quietly_when_closed(main)
    exit_quietly_when_closed(main)
    main.end_with(ValueError("other"))
    assert "ValueError: other" in capsys.readouterr().err
    assert main.traceback.format_exc is traceback.format_exc


def test_the_process_of_a_source_is_silent_about_the_closed_connection_alone(capsys):
    exit_quietly_when_closed(program(STREAM_SOURCE))
    sys.excepthook(BrokenPipeError, BrokenPipeError("closed"), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("a real fault"), None)
    assert "a real fault" in capsys.readouterr().err
