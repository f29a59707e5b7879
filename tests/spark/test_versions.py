"""Older versions of PySpark: batch queries work, streams are refused with a sentence. From the registry, so `long`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.other_pythons import PACKAGES, SOURCES, bare_variables, make_environment
from tests.spark.running import why_not
from tests.spark.test_sink_kills import committed

import ottla
from ottla.java import cache_directory

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.long]

LIMIT_S = 600
PROGRAM = """
import pyspark, sys
from ottla.spark import session

servers = {"kafka.bootstrap.servers": sys.argv[1]}
spark = session("old", master="local[2]", quiet=True)
rows = spark.read.format("ottla").options(**servers, subscribe=sys.argv[2]).load()
rows.selectExpr("key", "upper(cast(value as string)) as value").write.format("ottla").options(
    **servers, topic="loud-" + sys.argv[2], jobName=sys.argv[2], batchId=1
).mode("append").save()
try:
    stream = spark.readStream.format("ottla").options(**servers, subscribe=sys.argv[2]).load()
    stream.writeStream.format("noop").start().awaitTermination()
except Exception as error:
    print("refused:", " ".join(str(error).split()))
print("version:", pyspark.__version__, spark.version)
spark.stop()
"""


def fetched(version: str) -> Path:
    """A directory with that PySpark, kept for the next run."""
    place = cache_directory() / "test-pyspark" / version
    if not (place / "pyspark" / "version.py").exists():
        words = ["install", "--quiet", "--no-deps", "--no-compile", "--target", str(place), f"pyspark=={version}.*"]
        done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode:
            pytest.skip(f"PySpark {version} cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    return place


@pytest.mark.parametrize("version", ["4.0", "4.1"])
def test_batch_queries_work_and_streams_are_refused(version, broker, unique_topic, tmp_path):
    place = fetched(version)
    python = make_environment(tmp_path / "env", paths=(SOURCES, place, PACKAGES))
    words = [f"word-{number}" for number in range(30)]
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, 3) for name in (unique_topic, f"loud-{unique_topic}")])
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(unique_topic, [(None, word) for word in words])
    program = tmp_path / "old.py"
    program.write_text(PROGRAM)
    variables = bare_variables() | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [python, program, broker.bootstrap_servers, unique_topic],
        env=variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"version: {version}." in done.stdout
    assert "PySpark 4.2 or later" in done.stdout, "the stream is refused with our sentence"
    assert committed(broker, f"loud-{unique_topic}", len(words)) == Counter(map(str.upper, words))
