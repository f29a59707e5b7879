"""What a session is told before it begins."""

import pytest

import ottla.spark
from ottla.spark.running.cores import CORES_VARIABLE, core_count
from ottla.spark.running.session import _pass_cores


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


def test_names_that_need_spark_are_there_when_asked_for() -> None:
    pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
    assert callable(ottla.spark.lag_of)
    with pytest.raises(AttributeError, match="nothing"):
        _ = ottla.spark.nothing
