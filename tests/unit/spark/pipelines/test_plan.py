"""What Spark is told, decided without Spark."""

from pathlib import Path

import pytest

from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.definition import DeadLetters, Expectation, Pipeline, Sink, Source, Step, Watermark
from ottla.spark.pipelines.operations import (
    Batch,
    Call,
    Count,
    Dataset,
    Latest,
    Pack,
    Query,
    Read,
    Select,
    Unique,
    Where,
)
from ottla.spark.pipelines.plan import make_plan

HERE = Path("/pipelines")
RULE = Expectation(condition="user IS NOT NULL")


def planned(*, sources, steps=None, sinks=None, here=HERE, **more):
    sinks = sinks or {"out": Sink(from_=next(iter(sources)), topic="out")}
    pipeline = Pipeline(name="p", sources=sources, steps=steps or {}, sinks=sinks, **more)
    return make_plan(checked(pipeline, here, {}, "p.yml"), here, "host:9092")


def view(plan, name):
    return next(each for each in plan.views if each.name == name)


def flow(plan, name):
    return next(each for each in plan.flows if each.name == name)


def test_a_plain_topic_is_one_view_with_where_records_came_from():
    plan = planned(sources={"clicks": Source(topic="a, b", group="g", options={"x": "y"})})
    read = view(plan, "clicks").beginning
    assert read == Read(
        "ottla",
        {
            "kafka.bootstrap.servers": "host:9092",
            "subscribe": "a,b",
            "startingOffsets": "earliest",
            "isolationLevel": "read_committed",
            "x": "y",
        },
        stream=True,
    )
    columns, without = view(plan, "clicks").operations
    assert isinstance(columns, Select)
    assert columns.expressions[:2] == ("value", "make_valid_utf8(CAST(key AS STRING)) AS _key")
    assert without == Select(("* EXCEPT (_ottla_key, _ottla_value, _ottla_headers)",))


def test_rules_make_a_checked_view_and_a_flow_of_dead_letters():
    source = Source(topic="clicks", format="json", schema="user STRING", expect={"has_user": RULE})
    plan = planned(sources={"clicks": source}, dead_letters=DeadLetters(topic="dead"))
    assert [each.name for each in plan.views] == ["clicks__checked", "clicks"]
    verdict = view(plan, "clicks__checked").operations[-2]
    assert verdict == Select(
        (
            "*",
            "CASE WHEN _ottla_unreadable IS NOT NULL THEN 'readable' "
            "WHEN NOT coalesce((user IS NOT NULL), false) THEN 'has_user' END AS _ottla_broken",
        )
    )
    assert view(plan, "clicks__checked").operations[-1] == Count("clicks", ("readable", "has_user"))
    assert view(plan, "clicks").beginning == Dataset("clicks__checked", stream=True)
    assert view(plan, "clicks").operations[0] == Where("_ottla_broken IS NULL")
    dead = flow(plan, "clicks__dead")
    assert dead.operations[0] == Where("_ottla_broken IN ('readable', 'has_user')")
    assert dead.target.options["topic"] == "dead"
    assert isinstance(dead.operations[-1], Select)
    assert dead.operations[-1].expressions[:2] == ("_ottla_key AS key", "_ottla_value AS value")


def test_headers_are_read_when_dead_letters_may_need_them_unless_the_options_say_no():
    for options, expected in (({}, "true"), ({"includeheaders": "false"}, None)):
        source = Source(topic="clicks", expect={"has_user": RULE}, options=options)
        plan = planned(sources={"clicks": source}, dead_letters=DeadLetters(topic="dead"))
        read, columns = view(plan, "clicks__checked").beginning, view(plan, "clicks__checked").operations[0]
        assert isinstance(read, Read)
        assert isinstance(columns, Select)
        assert read.options.get("includeHeaders") == expected
        assert ("headers AS _ottla_headers" in columns.expressions) == (expected is not None)
        record = flow(plan, "clicks__dead").operations[-1]
        assert isinstance(record, Select)
        assert record.expressions[2].startswith("concat(coalesce(_ottla_headers, array()), ")


@pytest.mark.parametrize("name", ["isolationLevel", "isolationlevel", "kafka.isolation.level"])
def test_aborted_records_are_read_only_by_a_source_that_says_so(name):
    plan = planned(sources={"clicks": Source(topic="clicks", options={name: "read_uncommitted"})})
    read = view(plan, "clicks").beginning
    assert isinstance(read, Read)
    assert "read_committed" not in read.options.values()


def test_late_records_are_a_rule_on_their_time_in_the_topic():
    watermark = Watermark(column="at", delay="10 seconds", late="dead_letter")
    source = Source(topic="t", expect={"has_user": RULE}, watermark=watermark)
    plan = planned(sources={"s": source}, dead_letters=DeadLetters(topic="dead"))
    verdict, counted = view(plan, "s__checked").operations[-2:]
    assert isinstance(verdict, Select)
    condition = "WHEN NOT coalesce((`at` >= _timestamp - INTERVAL 10 seconds), false) THEN 'in_time' END"
    assert condition in verdict.expressions[1]
    assert counted == Count("s", ("has_user", "in_time"))
    assert flow(plan, "s__dead").operations[0] == Where("_ottla_broken IN ('has_user', 'in_time')")


def test_text_that_is_no_text_is_unreadable():
    plan = planned(sources={"s": Source(topic="t", format="string")})
    reason, verdict = view(plan, "s__checked").operations[-3:-1]
    assert isinstance(reason, Select)
    assert isinstance(verdict, Select)
    assert "WHEN NOT is_valid_utf8(CAST(_ottla_value AS STRING)) THEN 'the value is no text" in reason.expressions[1]
    assert "WHEN _ottla_unreadable IS NOT NULL THEN raise_error(" in verdict.expressions[1]


def test_a_rule_that_fails_raises_inside_the_query_and_the_order_of_the_file_counts():
    expect = {"a": Expectation(condition="x > 0", action="drop"), "it's": Expectation(condition="y", action="fail")}
    plan = planned(sources={"s": Source(topic="t", expect=expect)})
    verdict = view(plan, "s__checked").operations[-2]
    assert isinstance(verdict, Select)
    text = verdict.expressions[1]
    assert text.index("x > 0") < text.index("raise_error(")
    assert "the rule it\\'s of s (', 'y', '): '" in text
    assert [each.name for each in plan.flows] == ["out"], "nothing goes to dead letters"


def test_streams_are_named_as_streams_in_sql_and_tables_are_not():
    steps = {"joined": Step(sql="SELECT * FROM Clicks JOIN pages USING (page);")}
    sources = {"clicks": Source(topic="c"), "pages": Source(files="pages", static=True)}
    plan = planned(sources=sources, steps=steps, sinks={"out": Sink(from_="joined", topic="o")})
    assert view(plan, "joined").beginning == Query("SELECT * FROM STREAM(Clicks) JOIN pages USING (page)")
    read = view(plan, "pages").beginning
    assert isinstance(read, Read)
    assert (read.format, read.stream, read.options["path"]) == ("parquet", False, "/pipelines/pages")


def test_a_watermark_is_put_on_what_has_passed_the_rules():
    source = Source(
        topic="c",
        expect={"r": Expectation(condition="a", action="drop")},
        watermark=Watermark(column="at", delay="10 minutes"),
    )
    plan = planned(sources={"c": source})
    assert [each.name for each in plan.views] == ["c__checked", "c__passed", "c"]
    late = Query("SELECT * FROM STREAM(c__passed) WATERMARK `at` DELAY OF INTERVAL 10 minutes")
    assert view(plan, "c").beginning == late


def test_a_python_step_gets_its_inputs_by_name():
    def both(pages, clicks):
        return pages, clicks

    sources = {"clicks": Source(topic="c"), "pages": Source(files="x", static=True)}
    plan = planned(sources=sources, steps={"s": Step(python=both)}, sinks={"o": Sink(from_="s", topic="o")})
    assert view(plan, "s").beginning == Call(both, (Dataset("pages", stream=False), Dataset("clicks", stream=True)))


def test_records_of_a_sink_are_json_without_where_they_came_from():
    sinks = {
        "whole": Sink(from_="c", topic="t", key="user", headers={"who": "user"}),
        "chosen": Sink(from_="c", topic="u", value="upper(value)"),
        "files": Sink(from_="c", files="out", format="json", partition_by=("day",)),
        "database": Sink(from_="c", jdbc="jdbc:x", table="t", options={"user": "u"}),
    }
    plan = planned(sources={"c": Source(topic="c")}, sinks=sinks)
    pack, record = flow(plan, "whole").operations
    assert isinstance(pack, Pack)
    assert pack.without == ("_key", "_headers", "_topic", "_partition", "_offset", "_timestamp")
    assert record == Select(
        ("CAST(CAST(key AS STRING) AS BINARY) AS key", "headers", "CAST(to_json(_ottla_row) AS BINARY) AS value")
    )
    assert flow(plan, "chosen").operations[0] == Select(("(upper(value)) AS value",))
    assert flow(plan, "files").target.options == {"path": "/pipelines/out"}
    assert flow(plan, "files").target.partition_by == ("day",)
    assert flow(plan, "database").target.options == {"url": "jdbc:x", "dbtable": "t", "user": "u"}


def test_dead_letters_in_files_have_columns_and_a_directory_for_each_step():
    steps = {"s": Step(from_="c", expect={"r": RULE})}
    plan = planned(
        sources={"c": Source(topic="c")},
        steps=steps,
        sinks={"o": Sink(from_="s", topic="o")},
        dead_letters=DeadLetters(files="dead"),
    )
    dead = flow(plan, "s__dead")
    assert dead.target.options["path"] == "/pipelines/dead/step=s"
    columns = dead.operations[-1]
    assert isinstance(columns, Select)
    names = [each.rpartition(" ")[2] for each in columns.expressions]
    assert names == [
        "key",
        "value",
        "headers",
        "pipeline",
        "step",
        "rule",
        "reason",
        "topic",
        "partition",
        "offset",
        "timestamp",
    ]


def test_settings_of_clients_go_to_every_topic_and_a_topic_may_have_its_own_cluster():
    plan = planned(sources={"c": Source(topic="c", bootstrap="other:9092")}, kafka={"security.protocol": "SSL"})
    read = view(plan, "c").beginning
    assert isinstance(read, Read)
    assert read.options["kafka.bootstrap.servers"] == "other:9092"
    assert flow(plan, "out").target.options["kafka.security.protocol"] == "SSL"
    assert flow(plan, "out").target.options["kafka.bootstrap.servers"] == "host:9092"


@pytest.mark.parametrize(("form", "file"), [("avro", "c.avsc"), ("protobuf", "c.proto")])
def test_a_schema_beside_the_file_is_read_and_the_source_decodes_with_it(form, file, tmp_path):
    (tmp_path / file).write_text("the schema")
    source = Source(topic="c", format=form, schema=file, bad_records="drop")
    read = view(planned(sources={"c": source}, here=tmp_path), "c__checked").beginning
    assert isinstance(read, Read)
    formats = {name: read.options[name] for name in ("valueFormat", "badRecords", "valueSchema")}
    assert formats == {"valueFormat": form, "badRecords": "null", "valueSchema": "the schema"}


def test_a_registry_is_the_pipelines_or_the_sources_own():
    sources = {
        "a": Source(topic="a", format="protobuf", message="Click"),
        "b": Source(topic="b", format="json_schema", registry="http://other"),
        "c": Source(topic="c", format="avro", options={"schemaregistryurl": "http://third"}),
        "plain": Source(topic="d", format="json", schema="user STRING"),
    }
    plan = planned(sources=sources, registry="http://registry")
    options = {name: view(plan, f"{name}__checked" if name == "plain" else name).beginning.options for name in sources}
    assert [options[name].get("schemaRegistryUrl") for name in sources] == [
        "http://registry", "http://other", "http://third", None
    ]  # fmt: skip
    assert [options[name].get("valueFormat") for name in sources] == ["protobuf", "json", "avro", None]
    assert options["a"]["valueMessage"] == "Click"


def test_plain_json_is_read_by_the_connector_and_the_rest_by_from_json():
    plan = planned(sources={"c": Source(topic="c", format="json", schema="user STRING")})
    columns = view(plan, "c__checked").operations[0]
    assert view(plan, "c__checked").beginning.options["quickJson"] == "user STRING, _corrupt_record STRING"
    assert columns.expressions[0].startswith("coalesce(quickJson, from_json(CAST(value AS STRING), 'user STRING, ")


@pytest.mark.parametrize(
    "source",
    [
        Source(topic="c", format="json", schema="user STRING", envelope="debezium"),
        Source(topic="c", format="json", schema="user STRING", table=True),
        Source(topic="c", format="json", schema="user INTERVAL DAY"),
        Source(topic="c", format="json", schema="user STRING, user INT"),
        Source(topic="c", format="json_schema", schema="user STRING"),
        Source(topic="c", format="string"),
    ],
)
def test_what_the_connector_would_read_otherwise_is_left_to_spark(source):
    plan = planned(sources={"c": source, "d": Source(topic="d")}, sinks={"out": Sink(from_="d", topic="out")})
    assert not any("quickJson" in str(each) for each in plan.views)


def test_settings_that_change_what_times_mean_leave_json_to_spark():
    source = Source(topic="c", format="json", schema="at TIMESTAMP")
    for name in ("spark.sql.timestampType", "spark.sql.legacy.timeParserPolicy"):
        assert "quickJson" not in str(planned(sources={"c": source}, spark={name: "x"}).views)


def test_json_of_a_registry_with_columns_of_ours_is_read_behind_its_five_bytes():
    plan = planned(sources={"c": Source(topic="c", format="json_schema", schema="user STRING")})
    columns = view(plan, "c__checked").operations[0]
    assert isinstance(columns, Select)
    assert columns.expressions[0].startswith(
        "from_json(CAST(IF(startswith(value, X'00'), substring(value, 6), value) AS STRING), 'user STRING, "
    )
    assert "value AS _ottla_value" in columns.expressions, "the record as it was, for dead letters"


def test_what_a_sink_writes_by_a_schema_reaches_it_as_columns():
    sinks = {
        "avro": Sink(from_="c", topic="a", format="avro", key="user", key_format="avro", registry="http://r"),
        "proto": Sink(
            from_="c", topic="b", format="protobuf", value="struct(user)", message="Click", registry="http://r"
        ),
        "json": Sink(from_="c", topic="d", format="json_schema", schema='{"type": "object"}', registry="http://r"),
    }
    plan = planned(sources={"c": Source(topic="c")}, sinks=sinks)
    assert flow(plan, "avro").operations[1] == Select(("key AS key", "_ottla_row AS value"))
    assert flow(plan, "proto").operations[1] == Select(("value AS value",))
    options = {name: flow(plan, name).target.options for name in sinks}
    assert {name: options[name]["valueFormat"] for name in sinks} == {
        "avro": "avro", "proto": "protobuf", "json": "json"
    }  # fmt: skip
    assert (options["avro"]["keyFormat"], options["avro"]["schemaRegistryUrl"]) == ("avro", "http://r")
    assert options["proto"]["valueMessage"] == "Click"
    assert options["json"]["valueSchema"] == '{"type": "object"}'


def test_a_sink_that_replaces_rows_makes_its_records_batch_by_batch():
    sinks = {
        "changed": Sink(from_="c", topic="a", mode="update", key="user", delete="gone", order_by="at"),
        "added": Sink(from_="c", topic="b", key="user", delete="gone"),
        "rows": Sink(from_="c", jdbc="jdbc:postgresql://h/db", table="s.t", mode="complete", key="user, page"),
    }
    plan = planned(sources={"c": Source(topic="c")}, sinks=sinks)
    changed, added, rows = (flow(plan, name) for name in sinks)
    assert changed.operations == ()
    assert changed.target.batch is not None
    assert changed.target.batch == Batch(("user",), "at", None, changed.target.batch.record)
    pack, record = changed.target.batch.record
    assert isinstance(pack, Pack)
    assert pack.beside == ("(user) AS key", "(gone) AS _ottla_is_deleted")
    written = "IF(_ottla_is_deleted, NULL, CAST(to_json(_ottla_row) AS BINARY)) AS value"
    assert record == Select(("CAST(CAST(key AS STRING) AS BINARY) AS key", written))
    assert (added.operations, added.target.batch) == ((pack, record), None), "Spark's own pipelines write tombstones"
    assert rows.target.format == "postgresql"
    origin = ("_key", "_headers", "_topic", "_partition", "_offset", "_timestamp")
    assert rows.target.batch == Batch(("user", "page"), without=origin)
    assert (changed.target.mode, added.target.mode, rows.target.mode) == ("update", "append", "complete")
    assert rows.target.options == {"url": "jdbc:postgresql://h/db", "table": "s.t"}


def test_a_topic_as_a_table_has_the_last_record_of_each_key_before_it_is_read():
    sources = {"c": Source(topic="c"), "pages": Source(topic="p", format="json", schema="page STRING", table=True)}
    plan = planned(sources=sources)
    checked_view = view(plan, "pages__checked")
    assert isinstance(checked_view.beginning, Read)
    assert not checked_view.beginning.stream
    assert checked_view.operations[:2] == (Latest(("topic", "key"), "offset"), Where("value IS NOT NULL"))


def test_a_change_of_a_database_is_the_row_as_it_is_now():
    sources = {"rows": Source(topic="rows", format="json", schema="id INT", envelope="debezium")}
    sinks = {"out": Sink(from_="rows", topic="out", mode="update", key="id", delete="_deleted")}
    plan = planned(sources=sources, sinks=sinks)
    tombstones, parsed, _, columns = view(plan, "rows__checked").operations[:4]
    assert tombstones == Where("value IS NOT NULL")
    assert "before STRUCT<id INT>, after STRUCT<id INT>, op STRING, " in parsed.expressions[0]
    assert columns.expressions[:3] == (
        "_ottla_after.*",
        "_ottla_parsed.op AS _op",
        "_ottla_parsed.op = 'd' AS _deleted",
    )
    assert "the value is no change of a row" in columns.expressions[-1]
    pack, _ = flow(plan, "out").target.batch.record
    assert pack.without[-2:] == ("_op", "_deleted")


def test_a_table_of_changes_lacks_what_was_deleted():
    rows = Source(topic="rows", format="avro", registry="http://r", envelope="debezium", table=True)
    plan = planned(sources={"c": Source(topic="c"), "rows": rows})
    assert Where("NOT coalesce(_deleted, false)") in view(plan, "rows__checked").operations


def test_a_step_that_keeps_first_rows_judges_only_those_and_its_dead_letters_are_rows():
    source = Source(
        topic="c", format="json", schema="id INT, at TIMESTAMP", watermark=Watermark(column="at", delay="1 minute")
    )
    step = Step(from_="c", unique_by=("id",), expect={"r": RULE})
    plan = planned(
        sources={"c": source},
        steps={"first": step},
        sinks={"o": Sink(from_="first", topic="o")},
        dead_letters=DeadLetters(topic="dead"),
    )
    assert view(plan, "first__checked").operations[0] == Unique(("id",))
    assert any(isinstance(operation, Pack) for operation in flow(plan, "first__dead").operations)
