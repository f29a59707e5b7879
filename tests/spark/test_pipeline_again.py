"""A pipeline begins anew, and a period is run again: exactly the right rows, in files and in topics."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.test_pipeline_life import LIMIT_S, records

from ottla import Admin, NewTopic
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

PROGRAM = Path(__file__).parent / "programs" / "pipeline_again.py"


def good(numbers: range) -> list[int]:
    return [number for number in numbers if number % 10 != 3]


def test_reset_and_backfill_give_the_right_rows_once(broker: KafkaBroker, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1) for name in ("clicks", "counts", "dead")])
    command = [sys.executable, str(PROGRAM), str(tmp_path), broker.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["first"] == good(range(60))
    assert told["after reset"] == good(range(80)), "with Spark's old list nothing would have been written"

    # The period is the second and third minute: records 20 to 59, twenty of them a minute, two of these no clicks.
    assert told["written"] == {"files": 36, "counts": 2, "clicks__dead": 4}
    assert sorted(told["done"]) == ["clicks__dead", "counts", "files"]
    assert told["backfilled"] == good(range(20, 60)), "written twice, there once"

    counted = Counter(record.key.decode() for record in records(broker.bootstrap_servers, "counts"))
    minutes = [f"2026-01-01 00:0{minute}:00" for minute in range(4)]
    # The runs have counted the minutes that were over; the backfill both of its own, though started twice.
    assert counted == {minutes[0]: 1, minutes[1]: 2, minutes[2]: 2}
    dead = [int(dict(each.headers)["ottla.dead.offset"]) for each in records(broker.bootstrap_servers, "dead")]
    assert Counter(dead) == {number: 2 if 20 <= number < 60 else 1 for number in range(80) if number % 10 == 3}
