"""df.write whose driver is killed, and the same job run again: no row is there twice, and readers need not wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.running import why_not
from tests.spark.test_sink_kills import PROGRAMS, committed

from ottla import Admin, NewTopic, Producer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

LIFE_LIMIT_S = 400
RECORDS = 400


@pytest.fixture
def plan(broker: Any, unique_topic: str, tmp_path: Path) -> dict[str, Any]:
    """A source with RECORDS numbers, and an empty topic to write."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"{unique_topic}-in", 2), NewTopic(unique_topic, 3)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(f"{unique_topic}-in", [(str(number), str(number)) for number in range(RECORDS)])
    return {
        "servers": broker.bootstrap_servers,
        "source": f"{unique_topic}-in",
        "sink": unique_topic,
        "checkpoint": str(tmp_path / "checkpoint"),
    }


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import sink_jobs

    return sink_jobs


def start(plan: dict[str, Any], kind: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, str(PROGRAMS / "sink_jobs.py"), json.dumps({**plan, "kind": kind})]
    return subprocess.Popen(
        words, env=os.environ, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def run_until_killed(plan: dict[str, Any], kind: str) -> None:
    assert start(plan, kind).wait(LIFE_LIMIT_S) == -signal.SIGKILL


def open_transactions(plan: dict[str, Any]) -> list[str]:
    with Admin(bootstrap_servers=plan["servers"]) as admin:
        listed = admin.list_transactions(states=["Ongoing"])
    return [each.transactional_id for each in listed if plan["sink"] in each.transactional_id]


def test_foreach_batch_writes_each_batch_once_when_the_driver_is_killed_behind_a_write(spark, broker, plan, program):
    run_until_killed(plan, "numbered")
    repeated: list[int] = []
    program.copy_numbered(spark, plan, repeated.append)
    assert program.KILLED_BATCH in repeated
    assert committed(broker, plan["sink"], RECORDS) == Counter(map(str, range(RECORDS)))


@pytest.mark.long  # without Spark: test_a_run_of_a_job_aborts_what_a_killed_run_of_that_name_left
def test_the_next_run_of_a_killed_job_is_visible_at_once(spark, broker, plan, program):
    run_until_killed(plan, "named")
    assert open_transactions(plan) != []
    program.write(program.rows_of_job(spark), plan)
    assert committed(broker, plan["sink"], program.ROWS) == Counter(map(str, range(program.ROWS)))


def test_a_job_that_is_ended_by_sigterm_leaves_nothing_open(plan):
    driver = start(plan, "waiting")
    waiting = Path(f"{plan['checkpoint']}.waiting")
    deadline = time.monotonic() + LIFE_LIMIT_S
    while not waiting.exists() and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert open_transactions(plan) != []
    driver.terminate()
    assert driver.wait(LIFE_LIMIT_S) == -signal.SIGTERM
    assert open_transactions(plan) == []
