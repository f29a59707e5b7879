"""Executors with a Python of their own: a standalone cluster whose workers know nothing of the driver's environment.

The README's own snippet runs on it as a program with session(master=...), by spark-submit, and through Spark Connect;
and set-ups in which it cannot run end with one sentence. Each of these starts Spark anew: they are `long`. What decides
(interpreters, arrival, sentences, the archive) is tested without Spark in tests/unit/spark.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.spark.other_pythons import NEEDED, PACKAGES, SOURCES, bare_variables, driver_environment, make_environment
from tests.spark.running import why_not
from tests.spark.test_sink_kills import committed

import ottla
from ottla.spark.running.spark_home import spark_home
from ottla.spark.running.standalone import ConnectServer, StandaloneCluster
from ottla.testing import KafkaBroker

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.long]

ROOT = Path(__file__).parents[2]
LIMIT_S = 400
SMALL = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
WORDS = [f"word-{number}" for number in range(50)]
HOME = {"SPARK_HOME": str(spark_home()), "PYTHONPATH": ""}
"""Spark's own directory, with its zip of PySpark: executors have no PySpark installed."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver_environment(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster | SimpleNamespace]:
    """One worker, whose PATH has no Python but the system's; or the cluster that OTTLA_TEST_SPARK_MASTER names."""
    if running := os.environ.get("OTTLA_TEST_SPARK_MASTER"):
        yield SimpleNamespace(master=running)
        return
    with pytest.MonkeyPatch.context() as patched:
        for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV"):
            patched.delenv(name, raising=False)
        directory = tmp_path_factory.mktemp("cluster")
        with StandaloneCluster(directory, workers=1, cores=1, memory="1g", variables=HOME) as made:
            yield made


@pytest.fixture
def servers(broker: KafkaBroker, unique_topic: str) -> str:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, 3) for name in (unique_topic, f"loud-{unique_topic}")])
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(unique_topic, [(None, word) for word in WORDS])
    return broker.bootstrap_servers


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ottla.spark.running.packing import pack

    target = tmp_path_factory.mktemp("packed") / "ottla-executors.tar.gz"
    pack(target)
    return target


def snippet(servers: str, topic: str, directory: Path, start: str) -> Path:
    """The README's program for Spark, with other brokers, topics and paths, and a session that begins as `start`."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    text = next(block for block in blocks if "from ottla.spark import session" in block)
    for before, after in {
        "spark = session()": f"spark = {start}",
        "localhost:9092": servers,
        '"clicks"': f'"{topic}"',
        "/tmp/loud-clicks": str(directory / "checkpoint"),
        "loud-clicks": f"loud-{topic}",
    }.items():
        assert before in text, f"the README has no {before}"
        text = text.replace(before, after)
    program = directory / "snippet.py"
    program.write_text(text + "spark.stop()\n")
    return program


def run(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = bare_variables() | variables
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def check(done: subprocess.CompletedProcess[str], broker: KafkaBroker, topic: str) -> None:
    assert done.returncode == 0, done.stderr[-4000:]
    assert committed(broker, f"loud-{topic}", len(WORDS)) == Counter(word.upper() for word in WORDS)


def starting(cluster: StandaloneCluster, **more: Any) -> str:
    return (
        f"session(master={cluster.master!r}, settings={SMALL!r}, "
        + ", ".join(f"{name}={value!r}" for name, value in more.items())
        + ")"
    )


@pytest.mark.matrix("PySpark 4.3, a standalone cluster whose executors have an environment of their own")
def test_executors_run_their_own_python(cluster, driver, broker, servers, unique_topic, tmp_path):
    own = make_environment(tmp_path / "own", paths=(SOURCES, PACKAGES))
    program = snippet(servers, unique_topic, tmp_path, starting(cluster))
    check(run([str(driver), str(program)], PYSPARK_PYTHON=str(own)), broker, unique_topic)


@pytest.mark.matrix("PySpark 4.3, a standalone cluster without ottla: `ottla spark pack`")
def test_an_archive_brings_ottla_to_executors_that_have_none(
    cluster, driver, archive, broker, servers, unique_topic, tmp_path
):
    bare = make_environment(tmp_path / "bare")
    program = snippet(servers, unique_topic, tmp_path, starting(cluster, archive=str(archive)))
    check(run([str(driver), str(program)], PYSPARK_PYTHON=str(bare)), broker, unique_topic)


@pytest.mark.matrix("PySpark 4.3, spark-submit with the archive and modules of the user")
def test_spark_submit_with_archives_and_modules_of_the_user(
    cluster, driver, archive, broker, servers, unique_topic, tmp_path
):
    bare = make_environment(tmp_path / "bare")
    (tmp_path / "mine.py").write_text("def shouted(rows):\n    return rows\n")
    program = snippet(servers, unique_topic, tmp_path, "session(); import mine")
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.master]
    submit += [word for name, value in SMALL.items() for word in ("--conf", f"{name}={value}")]
    submit += ["--archives", f"{archive}#packages", "--conf", "spark.executorEnv.PYTHONPATH=./packages"]
    submit += ["--py-files", str(tmp_path / "mine.py"), str(program)]
    path = f"{driver.parent}:{bare_variables()['PATH']}"
    done = run(submit, PATH=path, PYSPARK_DRIVER_PYTHON="python", PYSPARK_PYTHON=str(bare))
    check(done, broker, unique_topic)


@pytest.mark.matrix("PySpark 4.3, Spark Connect on a standalone cluster")
def test_spark_connect_on_such_a_cluster(cluster, driver, broker, servers, unique_topic, tmp_path):
    """Without an archive: each session of Connect has a directory of its own on executors, and batches look there."""
    own = make_environment(tmp_path / "own", paths=(SOURCES, PACKAGES))
    settings = SMALL | {"spark.executorEnv.PATH": f"{own.parent}:/usr/bin:/bin"}
    variables = HOME | {"PYSPARK_DRIVER_PYTHON": "python", "PYSPARK_PYTHON": "python"}
    variables["PATH"] = f"{driver.parent}:{bare_variables()['PATH']}"
    with ConnectServer(tmp_path / "server", master=cluster.master, settings=settings, variables=variables) as server:
        program = snippet(servers, unique_topic, tmp_path, f"session(remote={server.remote!r})")
        check(run([str(driver), str(program)]), broker, unique_topic)


WRONG = {
    "no ottla": (("pyarrow",), "ottla is not installed for"),
    "other ottla": (("pyarrow",), "the driver has ottla .*, and .* has 0.0.1"),
    "no pyarrow": (NEEDED, "has no pyarrow"),
    "no such python": (None, "(there is|executors have) no /.*/nowhere/bin/python"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_set_ups_end_with_one_sentence(wrong, cluster, driver, tmp_path):
    links, sentence = WRONG[wrong]
    python = tmp_path / "nowhere" / "bin" / "python"
    if links is not None:
        python = make_environment(
            tmp_path / "executors", links=links, paths=(SOURCES,) if wrong == "no pyarrow" else ()
        )
    if wrong == "other ottla":
        old = next((tmp_path / "executors").glob("lib/python3*/site-packages")) / "ottla"
        old.mkdir()
        (old / "__init__.py").write_text('__version__ = "0.0.1"\n')
    command = [str(driver), "-m", "ottla", "spark", "doctor", "--json", "--master", cluster.master, "--tasks", "1"]
    command += [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    done = run(command, PYSPARK_PYTHON=str(python))
    assert done.returncode == 1, done.stderr[-3000:]
    failed = [finding for finding in json.loads(done.stdout) if finding["result"] == "failed"]
    assert len(failed) == 1, failed
    assert re.search(sentence, failed[0]["what"]), failed


def test_a_session_on_such_a_cluster_refuses_at_once(cluster, driver, tmp_path):
    bare = make_environment(tmp_path / "bare", links=("pyarrow",))
    program = tmp_path / "program.py"
    program.write_text(f"from ottla.spark import session\n{starting(cluster)}\n")
    done = run([str(driver), str(program)], PYSPARK_PYTHON=str(bare))
    assert done.returncode != 0
    assert re.search(r"ExecutorsUnfit: .*ottla is not installed for", done.stderr.splitlines()[-1]), done.stderr[-3000:]
