"""A stream sink, and one for numbered batches, that end a process at a chosen moment, once.

OTTLA_TEST_FAULTS is JSON: [{"point": "end:done", "batch": 3, "task": 1, "victim": "driver", "once": "/some/file"}, ...]

    point     a step of sink_transactions.py in lower case, with :done after it; or commit:done, when all is ended and
              Spark does not know it yet
    victim    self: this process; driver: the group of processes that OTTLA_TEST_DRIVER leads;
              driver-alone: only its leader, this process goes on after a while as a zombie
    once      a file that is made when it happens, so that it does not happen again
    topic     only where this one is written; without it everywhere
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

from pyspark.sql.types import StructType

from ottla.spark.datasource import OttlaSource
from ottla.spark.sink.numbered_writer import NumberedSink
from ottla.spark.sink.stream_writer import StreamSink

FAULTS, DRIVER = "OTTLA_TEST_FAULTS", "OTTLA_TEST_DRIVER"
ZOMBIE_WAIT_S = 0.4


class Faulty:
    """A look at the faults before and after every step of MarkedBatches."""

    batch_id = -1

    def write_task(self, query_id, batch_id, task, batches):
        self.batch_id = batch_id
        return super().write_task(query_id, batch_id, task, batches)

    def commit_batch(self, query_id, messages, batch_id):
        self.batch_id = batch_id
        super().commit_batch(query_id, messages, batch_id)
        self.fail_at("commit:done", 0)

    def passing(self, step, is_done):
        self.fail_at(type(step).__name__.lower() + (":done" if is_done else ""), getattr(step, "task", None))

    def fail_at(self, point, task):
        for fault in json.loads(os.environ.get(FAULTS, "[]")):
            is_here = (fault["point"], fault["batch"]) == (point, self.batch_id)
            is_here = is_here and fault.get("topic", self.options.topic) == self.options.topic
            if is_here and (task is None or fault.get("task", task) == task) and is_first(fault["once"]):
                strike(fault["victim"])


class FaultySink(Faulty, StreamSink):
    """Of a stream."""


class FaultyNumberedSink(Faulty, NumberedSink):
    """Of a df.write with jobName and batchId."""


def is_first(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def strike(victim):
    if victim == "driver":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(os.environ[DRIVER]), signal.SIGKILL)
    elif victim == "driver-alone":
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(os.environ[DRIVER]), signal.SIGKILL)
        time.sleep(ZOMBIE_WAIT_S)
        return
    os.kill(os.getpid(), signal.SIGKILL)


class FaultySource(OttlaSource):
    """format("ottla-faulty"): the same source with the faulty sink."""

    @classmethod
    def name(cls):
        return "ottla-faulty"

    def writer(self, schema: StructType, overwrite: bool):
        return FaultyNumberedSink(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool):  # noqa: N802
        return FaultySink(dict(self.options), schema)
