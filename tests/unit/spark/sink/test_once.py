"""The options that name one write of one batch of one query."""

from types import SimpleNamespace

import pytest

from ottla.spark.sink.once import QUERY_ID, NoQuery, once
from ottla.spark.sink.options import SinkOptions


def rows(properties):
    context = SimpleNamespace(getLocalProperty=properties.get)
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))


def test_the_name_has_the_id_of_the_query_in_it_and_the_sink_takes_both():
    found = once(rows({QUERY_ID: "4f5e-11"}), 7, "totals")
    assert found == {"jobName": "totals-4f5e-11", "batchId": "7"}
    options = SinkOptions.parse({"kafka.bootstrap.servers": "b:1", "topic": "t", **found}, streaming=False)
    assert (options.job_name, options.batch_id) == ("totals-4f5e-11", 7)


def test_outside_a_query_there_is_no_name():
    with pytest.raises(NoQuery, match="totals"):
        once(rows({}), 7, "totals")


def test_where_spark_hides_its_context_there_is_none_either():
    class Remote:
        @property
        def sparkContext(self):  # noqa: N802
            raise RuntimeError("not supported")

    with pytest.raises(NoQuery, match="totals"):
        once(SimpleNamespace(sparkSession=Remote()), 7, "totals")
