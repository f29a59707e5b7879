"""Python processes of Spark end quietly when Spark closes their connection, and only then."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.spark.running.worker_exit import DAEMON, STREAM_SOURCE, exit_quietly_when_closed


def program(name: str | None, error: BaseException | None = None) -> Any:
    """The main module of a process."""

    def worker(sock: Any, authenticated: bool) -> int:
        if error is not None:
            raise error
        return 0

    made: Any = ModuleType("__main__")
    made.__spec__ = None if name is None else SimpleNamespace(name=name)
    made.worker = worker
    return made


@pytest.fixture(autouse=True)
def hook(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


@pytest.mark.parametrize("name", [None, "pytest", "pyspark.worker"])
def test_other_processes_are_left_alone(name):
    main = program(name)
    before = main.worker
    exit_quietly_when_closed(main)
    assert (main.worker, sys.excepthook) == (before, sys.__excepthook__)


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError(), EOFError()])
def test_a_worker_whose_connection_was_closed_just_ends(error):
    main = program(DAEMON, error)
    exit_quietly_when_closed(main)
    assert main.worker(None, True) == 1


def test_a_worker_that_goes_on_or_fails_does_so_as_before():
    main = program(DAEMON)
    exit_quietly_when_closed(main)
    assert main.worker(None, True) == 0
    main = program(DAEMON, ValueError("other"))
    exit_quietly_when_closed(main)
    with pytest.raises(ValueError, match="other"):
        main.worker(None, True)


def test_the_process_of_a_source_is_silent_about_the_closed_connection_alone(capsys):
    exit_quietly_when_closed(program(STREAM_SOURCE))
    sys.excepthook(BrokenPipeError, BrokenPipeError("closed"), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("a real fault"), None)
    assert "a real fault" in capsys.readouterr().err
