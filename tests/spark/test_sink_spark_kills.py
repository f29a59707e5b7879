"""kill -9 of a real Spark driver and of its Python workers: the topic has the rows of the source, each once.

Every kill of the driver costs the start of a JVM, so all of these are long; `make test` has a few under nine queries at
once (test_shape_kills.py), and many more of the sink's code alone (test_sink_kills.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.running import why_not
from tests.spark.test_sink_kills import IN_A_COMMIT, IN_A_TASK, PARTITIONS, PROGRAMS, Kill, committed

from ottla import Admin, NewTopic, Producer

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

PER_BATCH = 40
LIFE_LIMIT_S = 300
KILLS: list[Kill] = [
    ("write", 1, "self"),
    ("end:done", 0, "driver"),
    ("write:done", 0, "self"),
    ("takeover:done", 1, "self"),
]
MORE_KILLS: list[Kill] = [
    *[(point, task, "driver") for point, task in IN_A_TASK],
    *[(point, task, "driver") for point, task in IN_A_COMMIT if task < 2],
    *[(point, task, "driver-alone") for point, task in [("takeover:done", 0), ("write:done", 1)]],
]


def fill(broker: Any, source: str, sink: str, batches: int) -> Counter[str]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(source, 2), NewTopic(sink, PARTITIONS)])
    values = [f"{number}" for number in range(batches * PER_BATCH)]
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(2):
            producer.send_many(source, values[partition::2], partition=partition)
    return Counter(values)


def live(plan: dict[str, Any]) -> int:
    """One life of the driver; gives how it ended, a negative number for a signal."""
    driver = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "sink_driver.py"), json.dumps(plan)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PYTHONPATH", "")])},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return driver.wait(LIFE_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        raise


def check(broker: Any, topic: str, kills: list[Kill], directory: Path) -> None:
    expected = fill(broker, f"{topic}-in", topic, len(kills) + 1)
    plan = {
        "servers": broker.bootstrap_servers,
        "source": f"{topic}-in",
        "sink": topic,
        "checkpoint": str(directory / "checkpoint"),
        "per_batch": PER_BATCH,
        "faults": [
            {"point": point, "task": task, "batch": batch, "victim": victim, "once": str(directory / f"fault-{batch}")}
            for batch, (point, task, victim) in enumerate(kills)
        ],
    }
    deaths = sum(victim != "self" for _, _, victim in kills)
    ends = [live(plan) for _ in range(deaths)]
    assert ends == [-signal.SIGKILL] * deaths
    assert live(plan) == 0
    assert all(Path(fault["once"]).exists() for fault in plan["faults"])
    assert committed(broker, topic, expected.total()) == expected


def test_every_row_is_there_once_after_kills_of_driver_and_workers(broker, unique_topic, tmp_path):
    check(broker, unique_topic, KILLS, tmp_path)


@pytest.mark.parametrize("kill", MORE_KILLS, ids=lambda kill: "-".join(map(str, kill)).replace(":", "-"))
def test_every_stage_with_real_spark(broker, unique_topic, tmp_path, kill):
    check(broker, unique_topic, [kill], tmp_path)
