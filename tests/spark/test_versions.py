"""Older versions of PySpark: what works there, and what is refused with a sentence. From the registry, so `long`."""

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

STREAMS = """
import pyspark, sys
from ottla.spark import session

servers = {"kafka.bootstrap.servers": sys.argv[1]}
spark = session("older", master="local[2]", quiet=True)
rows = spark.readStream.format("ottla").options(**servers, subscribe=sys.argv[2], startingOffsets="earliest").load()
writer = rows.selectExpr("key", "upper(cast(value as string)) as value").writeStream.format("ottla")
writer = writer.options(**servers, topic="loud-" + sys.argv[2], checkpointLocation=sys.argv[3])
for _ in range(2):
    writer.trigger(availableNow=True).start().awaitTermination()
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


@pytest.mark.matrix("PySpark {version}, local: batch queries; streams are refused with a sentence")
@pytest.mark.parametrize("version", ["4.0", "4.1"])
def test_batch_queries_work_and_streams_are_refused(version, broker, unique_topic, tmp_path):
    words = fill(broker, unique_topic)
    said = run(PROGRAM, version, tmp_path, broker.bootstrap_servers, unique_topic)
    assert "PySpark 4.2 or later" in said, "the stream is refused with our sentence"
    assert committed(broker, f"loud-{unique_topic}", len(words)) == Counter(map(str.upper, words))


@pytest.mark.matrix("PySpark 4.2, local: a stream from topic to topic, exactly once")
def test_streams_work_with_4_2(broker, unique_topic, tmp_path):
    words = fill(broker, unique_topic)
    run(STREAMS, "4.2", tmp_path, broker.bootstrap_servers, unique_topic, tmp_path / "checkpoint")
    assert committed(broker, f"loud-{unique_topic}", len(words)) == Counter(map(str.upper, words))


def fill(broker, topic):
    words = [f"word-{number}" for number in range(30)]
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, 3) for name in (topic, f"loud-{topic}")])
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(topic, [(None, word) for word in words])
    return words


def run(text, version, directory, *arguments):
    """What a program says with that PySpark."""
    python = make_environment(directory / "env", paths=(SOURCES, fetched(version), PACKAGES))
    program = directory / "old.py"
    program.write_text(text)
    variables = bare_variables() | {"XDG_CACHE_HOME": str(directory / "cache")}
    command = [python, program, *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"version: {version}." in done.stdout
    return done.stdout
