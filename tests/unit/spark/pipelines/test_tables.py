"""Tables of catalogs: what the plan says of them, and the SQL by which their rows are replaced."""

from pathlib import Path

from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.definition import Pipeline, Sink, Source
from ottla.spark.pipelines.operations import Batch, Drop, Target
from ottla.spark.pipelines.plan import make_plan
from ottla.spark.pipelines.streaming import is_for_pipelines
from ottla.spark.pipelines.table_batches import create, merge


def flow_of(sink):
    pipeline = Pipeline(name="p", sources={"c": Source(topic="clicks", format="string")}, sinks={"out": sink})
    (flow,) = make_plan(checked(pipeline, Path("/"), {}, "p.yml"), Path("/"), "host:9092").flows
    return flow


def test_an_appended_table_is_written_by_sparks_own_sink_without_where_rows_came_from():
    flow = flow_of(Sink(from_="c", table="lake.clicks", format="iceberg", partition_by=("page",)))
    assert flow.target == Target("iceberg", {}, ("page",), table="lake.clicks")
    assert isinstance(flow.operations[0], Drop)
    assert not flow.target.is_files
    assert not is_for_pipelines(flow.target)


def test_a_table_that_is_kept_up_to_date_gets_whole_rows_and_its_key():
    flow = flow_of(Sink(from_="c", table="t", format="delta", mode="update", key="user, page", delete="gone"))
    assert flow.operations == ()
    assert isinstance(flow.target.batch, Batch)
    assert (flow.target.batch.key, flow.target.batch.delete) == (("user", "page"), "gone")


def test_rows_are_merged_by_key_and_deleted_when_it_is_asked_for():
    assert merge("t", "batch", ("a", "b"), deletes=True).splitlines() == [
        "MERGE INTO t t USING batch s ON t.`a` = s.`a` AND t.`b` = s.`b`",
        "WHEN MATCHED AND s._ottla_is_deleted THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET *",
        "WHEN NOT MATCHED AND NOT s._ottla_is_deleted THEN INSERT *",
    ]
    assert "DELETE" not in merge("t", "batch", ("a",), deletes=False)


def test_a_table_that_is_not_there_is_made_with_its_properties():
    target = Target("delta", {"delta.appendOnly": "it's"}, ("day",), table="shop.t")
    assert create(target, "batch").splitlines() == [
        "CREATE TABLE IF NOT EXISTS shop.t USING delta",
        "PARTITIONED BY (`day`)",
        "TBLPROPERTIES ('delta.appendOnly' = 'it\\'s')",
        "AS SELECT * FROM batch WHERE false",
    ]
