"""kill -9 at every stage of a commit: the topic has the rows of the source, each once.

Most kills happen in sink_campaign.py, which is Spark's contract without Spark: the same StreamSink methods in forked
processes, so that a restart of the driver takes milliseconds. With real Spark: test_sink_spark_kills.py.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla import Admin, Consumer, NewTopic, TopicPartition
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

PROGRAMS = Path(__file__).parent / "programs"
Kill = tuple[str, int, str]
ROWS, PARTITIONS = 12, 3

# Where a worker or the driver is killed; the number is the task whose step it is.
IN_A_TASK = [("look", 1), ("takeover", 0), ("takeover:done", 1), ("write", 1), ("write:done", 0)]
IN_A_COMMIT = [
    ("addmarker", 0),
    ("addmarker:done", 1),
    ("end", 0),
    ("end:done", 0),
    ("end", 1),
    ("end:done", 1),
    ("end:done", 2),
    ("commit:done", 0),
]
KILLS = [
    *[(point, task, "self") for point, task in IN_A_TASK],
    *[(point, task, "driver") for point, task in [("look", 0), ("write", 0), ("write:done", 1)]],
    *[(point, task, "driver-alone") for point, task in [("look", 1), ("takeover:done", 0), ("write:done", 2)]],
    *[(point, task, "driver") for point, task in IN_A_COMMIT],
    ("end", 0, "driver-alone"),
    ("end:done", 0, "driver-alone"),
]


@pytest.fixture(scope="module", params=["epoch rises", "first kind"])
def server(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        if request.param == "first kind":
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                admin.update_features({"transaction.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)})
        yield broker


def campaign(broker: Any, topic: str, kills: list[Kill], directory: Path, seed: int, **more: str) -> dict[str, Any]:
    """One batch per kill and one more, every life with another number of tasks and another spread of rows."""
    chance = random.Random(seed)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    plan = {
        "options": {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "topic": topic,
            "transactionalIdPrefix": topic,
            **more,
        },
        "directory": str(directory),
        "batches": len(kills) + 1,
        "rows": ROWS,
        "faults": [
            {"point": point, "task": task, "batch": batch, "victim": victim}
            for batch, (point, task, victim) in enumerate(kills)
        ],
        "lives": [(chance.choice([3, 3, 4]), chance.randrange(5)) for _ in range(len(kills) + 1)],
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "sink_campaign.py"), json.dumps(plan)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def committed(broker: Any, topic: str, count: int) -> Counter[str]:
    """All values that a reader of committed records sees."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 100}
    found: Counter[str] = Counter()
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        deadline = time.monotonic() + HANG_S
        while found.total() < count and time.monotonic() < deadline:
            found.update(record.value.decode() for record in consumer.poll(0.2))
        found.update(record.value.decode() for record in consumer.poll(0.3))
    return found


def source(batches: int) -> Counter[str]:
    return Counter(f"{batch}/{number}" for batch in range(batches) for number in range(ROWS))


def check(broker: Any, topic: str, kills: list[Kill], tmp_path: Path, seed: int, **more: str) -> None:
    told = campaign(broker, topic, kills, tmp_path, seed, **more)
    assert told["struck"] == len(kills), told
    assert told["ends"][-1][:2] == ["0", len(kills) + 1], told
    expected = source(len(kills) + 1)
    assert committed(broker, topic, expected.total()) == expected, told


def test_every_row_is_there_once_after_a_kill_at_every_stage(server, unique_topic, tmp_path):
    check(server, unique_topic, KILLS, tmp_path, seed=1)


def test_readers_of_a_finished_stream_are_not_held_back(server, unique_topic, tmp_path):
    """After the last batch no transaction of this sink is open."""
    check(server, unique_topic, KILLS[-3:], tmp_path, seed=2)
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        still_open = admin.list_transactions(states=["Ongoing"])
    assert [each for each in still_open if each.transactional_id.startswith(unique_topic)] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_two_hundred_kills_in_any_order(server, unique_topic, tmp_path, seed):
    chance = random.Random(seed)
    points = sorted({*IN_A_TASK, *IN_A_COMMIT})
    kills = [(*chance.choice(points), chance.choice(["self", "driver", "driver", "driver-alone"])) for _ in range(20)]
    check(server, unique_topic, kills, tmp_path, seed)


def test_the_list_of_kills_has_every_stage():
    stages = {point for point, _, _ in KILLS}
    assert stages >= set(itertools.chain(dict(IN_A_TASK), dict(IN_A_COMMIT)))
    assert len(KILLS) >= 20
