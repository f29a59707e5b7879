"""Processes of Spark freeze what they have loaded, and again when they load more; no other process does."""

import types

import pytest

from ottla.spark.running import worker_memory
from ottla.spark.running.worker_exit import DAEMON


@pytest.fixture
def frozen(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(worker_memory, "_frozen_modules", 0)
    # Of its own, too: a command that ran in this process before may freeze when there is a collection.
    own = types.SimpleNamespace(collect=lambda: None, freeze=lambda: calls.append("freeze"))
    monkeypatch.setattr(worker_memory, "gc", own)
    return calls


def test_a_worker_of_spark_freezes_whenever_it_has_loaded_more(frozen, monkeypatch):
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name=DAEMON)
    modules = {"__main__": main}  # of its own: threads of other tests may load something meanwhile
    monkeypatch.setattr(worker_memory, "sys", types.SimpleNamespace(modules=modules))
    worker_memory.freeze_what_is_loaded()
    worker_memory.freeze_what_is_loaded()
    assert len(frozen) == 1
    modules["what_the_next_task_wants"] = types.ModuleType("what_the_next_task_wants")
    worker_memory.freeze_what_is_loaded()
    worker_memory.freeze_what_is_loaded()
    assert len(frozen) == 2


def test_other_processes_are_left_alone(frozen):
    for _ in range(4):
        worker_memory.freeze_what_is_loaded()
    assert frozen == []
