"""The session of a pipeline, as far as it goes without Spark."""

import sys

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
pytest.importorskip("grpc", reason="needs PySpark: pip install 'ottla[spark]'")

from pyspark import SparkContext

from ottla.spark.pipelines import connecting
from ottla.spark.pipelines.connecting import PipelinePackagesMissing, SparkUnreachable, local_shuffle, open_session

PARTS = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize("address", ["sc://127.0.0.1:1", "sc://127.0.0.1:none"])
def test_an_address_where_nobody_is_is_told_at_once(address):
    with pytest.raises(SparkUnreachable, match=address), open_session("x", remote=address, settings={}):
        pass


@pytest.mark.parametrize(
    ("master", "parts"),
    [("local[4]", "4"), ("local[3,2]", "3"), ("local", "2"), ("spark://host:7077", None), ("yarn", None)],
)
def test_a_shuffle_on_this_machine_has_as_many_parts_as_there_are_cores(master, parts):
    assert local_shuffle(master).get(PARTS) == parts


@pytest.mark.parametrize(("settings", "parts"), [({}, "2"), ({PARTS: "7"}, "7")])
def test_a_setting_of_the_user_wins(monkeypatch, settings, parts):
    seen = {}

    def session(name, *, master, settings):
        seen.update(settings)
        raise RuntimeError("far enough")

    monkeypatch.setattr(connecting, "session", session)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)  # of tests that ran before in this process
    with pytest.raises(RuntimeError, match="far enough"), open_session("x", master="local[2]", settings=settings):
        pass
    assert seen[PARTS] == parts


def test_what_pyspark_does_not_bring_is_told_with_the_command_that_does(monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PipelinePackagesMissing, match=r"no pandas: pip install pandas"), open_session("p", settings={}):
        pass
