"""Processes of Spark freeze what they have loaded, once, and no other process does."""

import gc
import sys
import types

import pytest

from ottla.spark.running import worker_memory
from ottla.spark.running.worker_exit import DAEMON


@pytest.fixture
def frozen(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(worker_memory, "_calls", 0)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    return calls


def test_a_worker_of_spark_freezes_at_its_second_piece_of_work(frozen, monkeypatch):
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name=DAEMON)
    monkeypatch.setitem(sys.modules, "__main__", main)
    seen = []
    for _ in range(4):
        worker_memory.freeze_what_is_loaded()
        seen.append(len(frozen))
    assert seen == [0, 1, 1, 1]


def test_other_processes_are_left_alone(frozen):
    for _ in range(4):
        worker_memory.freeze_what_is_loaded()
    assert frozen == []
