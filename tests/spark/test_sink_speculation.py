"""Speculation on a real cluster: a second attempt of a task that stands still takes over, and no row is there twice.

Spark runs a second attempt only on another host, so the two workers have two addresses of this machine. That is six
Java machines: `long`. Twins, zombies and attempts that Spark did not choose, without Spark: test_sink_bad_weather.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.running import why_not
from tests.spark.test_sink_kills import PROGRAMS, committed
from tests.spark.test_sink_spark_kills import PER_BATCH, fill

from ottla.spark.running.standalone import _WORKER, SparkProcess, StandaloneCluster, begin

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.long]

LIMIT_S = 400
STARTS_LIMIT = 4


class OnTwoHosts(StandaloneCluster):
    def _worker(self, number: int) -> SparkProcess:
        size = ["-c", "1", "-m", "1g", "-d", str(self._directory / f"work-{number}")]
        words = ["spark-class", _WORKER, "--host", f"127.0.0.{number + 1}", "--webui-port", "0", *size, self.master]
        return begin(f"worker-{number}", words, self._directory)


def test_an_attempt_that_stands_still_is_overtaken_and_its_rows_count_once(broker, unique_topic, tmp_path: Path):
    expected = fill(broker, f"{unique_topic}-in", unique_topic, 3)
    (tmp_path / "seen").mkdir()
    with OnTwoHosts(tmp_path / "cluster") as cluster:
        plan = {
            "master": cluster.master,
            "servers": broker.bootstrap_servers,
            "source": f"{unique_topic}-in",
            "sink": unique_topic,
            "checkpoint": str(tmp_path / "checkpoint"),
            "per_batch": PER_BATCH,
            "seen": str(tmp_path / "seen"),
        }
        # On a busy machine a twin may take over from an attempt that had just ended. Then nothing of the batch shows,
        # the query fails with a sentence about it, and whoever runs it starts it again.
        for _ in range(STARTS_LIMIT):
            done = subprocess.run(
                [sys.executable, str(PROGRAMS / "sink_speculation.py"), json.dumps(plan)],
                env={**os.environ, "PYTHONPATH": str(PROGRAMS)},
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
            if done.returncode == 0:
                break
            assert "BatchNotCommitted" in done.stderr, done.stderr[-3000:]
        assert done.returncode == 0, done.stderr[-3000:]
    attempts = {path.name for path in (tmp_path / "seen").iterdir()}
    # A first attempt that was too slow to take a single step before its twin was done has left no name.
    assert {"0-1-1", "1-1-1"} <= attempts
    assert committed(broker, unique_topic, expected.total()) == expected
