"""Loaded by every Python process of Spark while a batch is profiled: notes when each of them works, and on what.

A line of JSON for each piece of work in <OTTLA_STAMPS>/<pid>: what, begin and end (seconds of the clock that all
processes share). A worker that waits for its next command does not work: work begins with the first bytes of a command.
"""

import collections
import importlib.abc
import importlib.util
import json
import os
import pathlib
import sys
import time

PLACE = os.environ.get("OTTLA_STAMPS")
WORKERS = {
    "pyspark.worker": "task",
    "pyspark.sql.worker.plan_data_source_read": "plan the read",
    "pyspark.sql.worker.write_into_data_source": "plan the write",
    "pyspark.sql.worker.python_streaming_sink_runner": "commit",
}
OURS = {
    ("ottla.spark.source.stream_reader", "StreamReader", "latestOffset"): "ours: latestOffset",
    ("ottla.spark.source.stream_reader", "StreamReader", "partitions"): "ours: partitions",
    ("ottla.spark.sink.stream_writer", "StreamSink", "write"): "ours: write",
    ("ottla.spark.sink.stream_writer", "StreamSink", "commit"): "ours: commit",
}


def note(what, begin, end):
    with (pathlib.Path(PLACE) / str(os.getpid())).open("a") as file:
        file.write(json.dumps([what, begin, end]) + "\n")


last_work = collections.deque(["nothing"], maxlen=1)


def named(what):
    """Tasks that read and tasks that write are the same to Spark; ours differ by what they have loaded."""
    if what != "task":
        return what
    return "write task" if "ottla.spark.sink.stream_writer" in sys.modules else "read task"


class FirstRead:
    """A file that remembers when its first bytes came."""

    def __init__(self, file):
        self._file, self.began = file, None

    def read(self, *arguments):
        found = self._file.read(*arguments)
        if self.began is None:
            self.began = time.time()
        return found

    def __getattr__(self, name):
        return getattr(self._file, name)


def timed_worker(main, what):
    def timed(infile, outfile):
        first = FirstRead(infile)
        try:
            return main(first, outfile)
        finally:
            outfile.flush()
            end = time.time()
            last_work.append(named(what))
            if first.began is not None:
                note(named(what), first.began, end)

    return timed


def timed_call(call, what):
    def timed(*arguments, **options):
        begin = time.time()
        try:
            return call(*arguments, **options)
        finally:
            note(what, begin, time.time())

    return timed


def timed_collect(collect):
    def timed(*arguments):
        begin = time.time()
        found = collect(*arguments)
        note(f"gc after {last_work[-1]}", begin, time.time())
        return found

    return timed


class Stamper(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Wraps what is to be timed when its module is loaded."""

    def find_spec(self, name, path, target=None):
        if name not in WORKERS and name not in {module for module, _, _ in OURS}:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        self_loader = spec.loader
        execute = self_loader.exec_module

        def exec_module(module):
            execute(module)
            if name in WORKERS:
                module.main = timed_worker(module.main, WORKERS[name])
            for (owner, kind, method), what in OURS.items():
                if owner == name:
                    chosen = getattr(module, kind)
                    setattr(chosen, method, timed_call(getattr(chosen, method), what))

        self_loader.exec_module = exec_module
        return spec


if PLACE:
    import gc

    sys.meta_path.insert(0, Stamper())
    gc.collect = timed_collect(gc.collect)
