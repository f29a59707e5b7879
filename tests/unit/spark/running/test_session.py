"""What a session is told before it begins."""

import os

import pytest

import ottla.spark
from ottla.spark.running.cores import CORES_VARIABLE, core_count
from ottla.spark.running.session import _ask_for_quiet, _pass_cores, prefer_quick_start


@pytest.mark.parametrize(
    ("master", "settings", "cores"),
    [
        ("local[3]", {}, 3),
        ("local[5,2]", {}, 5),
        ("spark://host:7077", {"spark.cores.max": "12"}, 12),
        ("yarn", {"spark.executor.cores": "7"}, 7),
    ],
)
def test_sources_learn_how_many_tasks_run_at_once(
    monkeypatch: pytest.MonkeyPatch, master: str, settings: dict[str, str], cores: int
) -> None:
    monkeypatch.setenv(CORES_VARIABLE, "1")
    monkeypatch.delenv(CORES_VARIABLE)
    _pass_cores(master, settings)
    assert core_count() == cores


def test_what_the_environment_says_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CORES_VARIABLE, "9")
    _pass_cores("local[2]", {})
    assert core_count() == 9


def test_options_for_java_come_before_those_of_the_user_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    for _ in range(2):
        prefer_quick_start()
        _ask_for_quiet()
    quiet, quick, mine = os.environ["SPARK_SUBMIT_OPTS"].split()
    assert (quick, mine) == ("-XX:TieredStopAtLevel=1", "-Dmine=1")
    assert quiet.startswith("-Dlog4j2.configurationFile=file:")


def test_names_that_need_spark_are_there_when_asked_for() -> None:
    pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
    assert callable(ottla.spark.lag_of)
    with pytest.raises(AttributeError, match="nothing"):
        _ = ottla.spark.nothing
