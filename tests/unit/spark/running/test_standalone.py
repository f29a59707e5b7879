"""Where Spark lies, and processes of Spark that do not start."""

from pathlib import Path

import pytest

from ottla.spark.running import spark_home as spark_home_module
from ottla.spark.running import standalone
from ottla.spark.running.spark_home import light_home, spark_home
from ottla.spark.running.standalone import SparkDidNotStart, begin, free_port


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A made-up PySpark."""
    package = tmp_path / "pyspark"
    for name in ("bin", "jars", "python"):
        (package / name).mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(
        spark_home_module, "find_spec", lambda name: type("Spec", (), {"origin": str(package / "__init__.py")})
    )
    monkeypatch.setattr(standalone, "prepare_environment", lambda: None)
    return package


def test_the_light_home_has_everything_but_pythons_part(home):
    light = light_home()
    assert sorted(path.name for path in light.iterdir()) == ["bin", "jars"]
    assert (light / "jars").resolve() == home / "jars"
    assert light_home() == light, "a second look finds what is there"


def test_a_home_that_the_environment_names_stays(home, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert light_home() == spark_home() == Path("/opt/spark")


def test_a_process_that_ends_is_told_with_the_end_of_its_log(home, tmp_path):
    program = home / "bin" / "spark-class"
    program.write_text("#!/bin/sh\necho no such class >&2\nexit 3\n")
    program.chmod(0o755)
    process = begin("master", ["spark-class", "Master"], tmp_path / "logs")
    with pytest.raises(SparkDidNotStart, match="master: no such class"):
        process.wait_until(lambda: False, deadline=float("inf"))
    process.stop()


def test_a_process_is_stopped_with_what_it_started(home, tmp_path):
    program = home / "bin" / "spark-class"
    program.write_text("#!/bin/sh\nsleep 600 &\necho started\nwait\n")
    program.chmod(0o755)
    process = begin("worker", ["spark-class", "Worker"], tmp_path / "logs")
    process.wait_until(lambda: "started" in process.tail(), deadline=float("inf"))
    process.stop()
    assert not process.is_running


def test_free_ports_can_be_listened_on():
    assert 0 < free_port() < 65_536
