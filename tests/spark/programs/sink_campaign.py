"""Spark's contract with a sink, without Spark: numbered batches, tasks in processes, a checkpoint, and crashes.

Reads JSON from its first argument:
    {"options": {...}, "directory": ..., "batches": 8, "rows": 12, "faults": [...], "lives": [[3, 0], [4, 1], ...]}
A life of the driver goes on from the checkpoint with so many tasks, and spreads the rows among them by its second
number; when it ends, the next begins, until every batch is done. One process imports everything; drivers and tasks are
forked from it, as Spark's daemon does it, so a restart takes milliseconds. Prints how each life ended, as JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from pathlib import Path

import pyarrow
from pyspark.sql.types import StructType
from sink_faults import DRIVER, FAULTS, FaultySink

import ottla.client.admin.groups
import ottla.client.admin.topics
import ottla.client.admin.transactions  # noqa: F401

TASK_ATTEMPTS = 4
LIVES_LIMIT = 40
SCHEMA = StructType().add("key", "string").add("value", "string")
QUERY_ID = "campaign"


def rows_of(batch: int, count: int, task: int, tasks: int, turn: int) -> pyarrow.RecordBatch:
    values = [f"{batch}/{number}" for number in range(count) if (number + turn) % tasks == task]
    return pyarrow.RecordBatch.from_pydict(
        {"key": values, "value": values}, schema=pyarrow.schema([("key", "string"), ("value", "string")])
    )


def in_a_child(work):
    """What `work` gives in a forked process; None when that died or failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(told) if told else None


def run_task(plan, life, batch, task):
    options, (tasks, turn) = plan["options"], life

    def work():
        rows = rows_of(batch, plan["rows"], task, tasks, turn)
        half = rows.num_rows // 2
        return FaultySink(options, SCHEMA).write_task(QUERY_ID, batch, task, iter([rows[:half], rows[half:]]))

    for _ in range(TASK_ATTEMPTS):
        if (message := in_a_child(work)) is not None:
            return message
    return None


def drive(plan, life, checkpoint: Path) -> None:
    """One life of the driver; ends when all batches are done, or with status 1 when the query failed."""
    os.setpgid(0, 0)
    os.environ[DRIVER] = str(os.getpid())
    while (batch := len(list(checkpoint.iterdir()))) < plan["batches"]:
        messages = [run_task(plan, life, batch, task) for task in range(life[0])]
        sink = FaultySink(plan["options"], SCHEMA)
        if None in messages:
            in_a_child(lambda sink=sink, messages=messages, batch=batch: sink.abort(messages, batch) or True)
            os._exit(1)

        def commit(sink=sink, messages=messages, batch=batch):
            try:
                sink.commit(messages, batch)
            except Exception:
                sink.abort(messages, batch)
                raise
            return True

        if in_a_child(commit) is None:
            os._exit(1)
        (checkpoint / str(batch)).touch()
    os._exit(0)


def main() -> None:
    plan = json.loads(sys.argv[1])
    checkpoint = Path(plan["directory"]) / "commits"
    checkpoint.mkdir(parents=True, exist_ok=True)
    for number, fault in enumerate(plan["faults"]):
        fault["once"] = str(Path(plan["directory"]) / f"fault-{number}")
    os.environ[FAULTS] = json.dumps(plan["faults"])
    rows_of(0, 1, 0, 1, 0)  # pyarrow loads pandas with its first table: better once than in every child
    ends = []
    for life in (*plan["lives"], *[plan["lives"][-1]] * LIVES_LIMIT):
        began = time.monotonic()
        driver = os.fork()
        if driver == 0:
            drive(plan, life, checkpoint)
        status = os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1])
        how = signal.Signals(-status).name if status < 0 else str(status)
        ends.append([how, len(list(checkpoint.iterdir())), round(time.monotonic() - began, 2)])
        if status == 0:
            break
    struck = sum(Path(fault["once"]).exists() for fault in plan["faults"])
    print(json.dumps({"ends": ends, "struck": struck}))


if __name__ == "__main__":
    main()
