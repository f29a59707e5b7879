"""What does not make sense is told before Spark is started."""

from pathlib import Path

import pytest

from ottla.spark.pipelines.checks import checked, unread
from ottla.spark.pipelines.definition import DeadLetters, Expectation, Pipeline, Sink, Source, Step, Watermark
from ottla.spark.pipelines.faults import PipelineWrong

CLICKS = Source(topic="clicks", format="json", schema="user STRING, page STRING")
PAGES = Source(files="pages", static=True)
LATE = Watermark(column="at", delay="10 seconds", late="dead_letter")


def made(sources=None, steps=None, sinks=None, **more):
    return Pipeline(
        name="p",
        sources=sources or {"clicks": CLICKS, "pages": PAGES},
        steps=steps or {},
        sinks=sinks or {"out": Sink(from_="clicks", topic="out")},
        **more,
    )


def faults(pipeline, directory=Path()):
    with pytest.raises(PipelineWrong) as wrong:
        checked(pipeline, directory, {("steps",): 7}, "p.yml")
    return wrong.value.faults


def test_a_good_pipeline_is_a_graph_in_order():
    steps = {
        "late": Step(sql="SELECT * FROM early JOIN pages USING (page)"),
        "early": Step(from_="clicks"),
        "alone": Step(python=lambda pages: pages),
    }
    graph = checked(made(steps=steps, sinks={"out": Sink(from_="late", topic="t")}), Path(), {}, "p.yml")
    assert graph.order.index("early") < graph.order.index("late")
    assert graph.inputs["late"] == ["early", "pages"]
    assert graph.is_stream("late")
    assert not graph.is_stream("alone")
    assert graph.sources_of("late") == ["clicks", "pages"]
    assert list(unread(graph)) == ["alone"]


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        (made(steps={"s": Step(sql="SELECT * FROM click")}),
         "p.yml:7: steps.s.sql: there is no source or step 'click'; did you mean 'clicks'?"),
        (made(steps={"s": Step(from_="s")}), "it reads itself in a circle: s -> s"),
        (made(steps={"a": Step(from_="b"), "b": Step(from_="a")}), "it reads itself in a circle"),
        (made(steps={"s": Step(sql="SELECT 1")}), "it reads no source and no step"),
        (made(steps={"s": Step()}), "a step has one of sql, from and python, not none"),
        (made(steps={"s": Step(sql="SELECT 1 FROM clicks", from_="clicks")}), "not sql and from"),
        (made(steps={"s": Step(python="steps.per_page")}), "write it as FILE.py:FUNCTION"),
        (made(steps={"s": Step(python="nowhere.py:f")}), "cannot read nowhere.py: No such file"),
        (made(steps={"clicks": Step(from_="pages")}), "there is another 'clicks' in sources"),
        (made(steps={"a__b": Step(from_="clicks")}), "'a__b' is no name"),
        (made({"c": Source()}), "a source has one of topic, topic_pattern and files, not none"),
        (made({"c": Source(topic="t", format="json")}), "json needs a schema"),
        (made({"c": Source(topic="t", format="csv")}), "'csv' is not one of json, string, binary, avro, protobuf"),
        (made({"c": Source(topic="a b")}), "'a b' cannot be the name of a topic"),
        (made({"c": Source(files="x")}), "a stream of files needs a schema"),
        (made({"c": Source(files="x", static=True, group="g")}), "sources.c.group: this is for topics only"),
        (made({"c": Source(topic="t", watermark=Watermark(column="at", delay="soon"))}), "'soon' is no time"),
        (made({"c": Source(topic="t", watermark=LATE)}), "sources.c.watermark.late: the pipeline has no dead_letters"),
        (made({"c": Source(files="f", schema="at TIMESTAMP", watermark=LATE)}), "files have no time of arrival"),
        (made({"c": Source(topic="t", watermark=LATE, expect={"in_time": Expectation(condition="a")})}),
         "the rule of late records is called in_time; give another name"),
        (made(steps={"s": Step(from_="clicks", watermark=LATE)}), "for the watermark of a source that is a topic"),
        (made({"c": Source(topic="t", expect={"r": Expectation(condition="a > 1")})}),
         "the pipeline has no dead_letters"),
        (made({"c": Source(topic="t", bad_records="dead_letter")}), "the pipeline has no dead_letters"),
        (made(sinks={"o": Sink(from_="cliks", topic="t")}),
         "there is no source or step 'cliks'; did you mean 'clicks'?"),
        (made(sinks={"o": Sink(from_="clicks")}), "a sink has one of topic, files, jdbc and table, not none"),
        (made(sinks={"o": Sink(from_="clicks", files="x", key="k")}),
         "sinks.o.key: this is for topic, jdbc and table: rows in files are not replaced"),
        (made(sinks={"o": Sink(from_="clicks", jdbc="jdbc:x")}), "a database needs a table"),
        (made(sinks={"o": Sink(from_="clicks", table="a.b", topic="t")}), "jdbc and table, not topic"),
        (made(sinks={"o": Sink(from_="clicks", table="a.b", mode="update", key="user")}),
         "sinks.o.mode: rows of parquet cannot be replaced: say append, or format: delta or iceberg"),
        (made(sinks={"o": Sink(from_="clicks", table="a.b", key="user")}), "sinks.o.key: this is for mode: update"),
        (made(sinks={"o": Sink(from_="clicks", topic="t", partition_by=("a",))}), "this is for files and table"),
        (made(sinks={"o": Sink(from_="clicks", jdbc="postgres://x", table="t")}), "it begins with jdbc:"),
        (made(steps={"s": Step(from_="clicks", unique_by=("user",))}),
         "steps.s.unique_by: it remembers rows as long as a watermark says, and nothing that it reads has one"),
        (made(sinks={"o": Sink(from_="pages", topic="t")}), "comes only from sources that are read whole"),
        (made(dead_letters=DeadLetters(topic="a", files="b")), "they have one of topic and files, not topic and files"),
        (made({"c": CLICKS, "s": Source(files="x", static=True, expect={"r": Expectation(condition="a")})},
              sinks={"o": Sink(from_="c", topic="t")}, dead_letters=DeadLetters(topic="d")),
         "what is read whole at every run has no dead letters"),
    ],
)  # fmt: skip
def test_what_does_not_make_sense_is_told(pipeline, sentence):
    assert any(sentence in told for told in faults(pipeline)), faults(pipeline)


@pytest.mark.parametrize(
    ("sink", "sentence"),
    [
        ({"topic": "t", "format": "parquet"},
         "p.yml:7: sinks.out.format: the values of a topic cannot be written as 'parquet' (it is for files and "
         "table); say one of json, string, avro, protobuf, json_schema"),
        ({"files": "t", "format": "avro"}, "files cannot be written as 'avro' (it is for topic); say one of parquet"),
        ({"jdbc": "jdbc:x", "table": "t", "format": "json"}, "a table of a database has columns and no format"),
        ({"topic": "t", "format": "avro"}, "avro is written with a schema of a registry: say registry: http://host"),
        ({"topic": "t", "key": "user", "key_format": "protobuf"}, "sinks.out.key_format: protobuf is written with a"),
        ({"topic": "t", "key_format": "avro", "registry": "http://r"}, "there is no key: say key"),
        ({"topic": "t", "format": "string"}, "string needs value: SQL for the text"),
        ({"topic": "t", "schema": "{}"}, "sinks.out.schema: this is for format: avro, protobuf, json_schema"),
        ({"topic": "t", "message": "M"}, "sinks.out.message: this is for format: protobuf"),
        ({"topic": "t", "format": "avro", "registry": "http://r", "schema": "no.avsc"}, "cannot read no.avsc: No such"),
    ],
)  # fmt: skip
def test_a_format_that_a_sink_cannot_write_is_told_with_what_it_can(sink, sentence):
    pipeline = made(sinks={"out": Sink(from_="clicks", **sink)})
    with pytest.raises(PipelineWrong) as wrong:
        checked(pipeline, Path(), {("sinks", "out"): 7}, "p.yml")
    assert any(sentence in told for told in wrong.value.faults), wrong.value.faults


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            {"format": "avro"},
            "avro needs schema: a schema to read with (text, or a file); or registry: http://host:8081",
        ),
        ({"format": "protobuf"}, "protobuf needs schema: a schema to read with"),
        ({"format": "json_schema"}, "json_schema needs schema: columns to read; or registry"),
        ({"format": "avro", "schema": "c.avsc"}, "sources.c.schema: cannot read c.avsc: No such file"),
        ({"message": "M"}, "this is for format: protobuf"),
        ({"new_columns": "keep"}, "sources.c.new_columns: this is for JSON of a topic with a schema, and no envelope"),
        ({"envelope": "debezium"}, "sources.c.envelope: a change has columns: say format, one of json, avro"),
    ],
)
def test_a_format_that_a_source_cannot_read_is_told(source, sentence):
    told = faults(made({"c": Source(topic="t", **source)}, sinks={"o": Sink(from_="c", topic="out")}))
    assert any(sentence in fault for fault in told), told


def two(first, second):
    return made(sinks={"a": Sink(from_="clicks", **first), "b": Sink(from_="clicks", **second)})


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        (two({"topic": "t"}, {"topic": "t"}), "p.yml:7: sinks.b.topic: sinks.a writes there already; one step"),
        (two({"files": "x"}, {"files": "./x/"}), "sinks.b.files: sinks.a writes there already"),
        (two({"files": "x"}, {"files": "x/day"}), "one directory is inside the other, and Spark reads them as one"),
        (two({"table": "lake.T"}, {"table": "lake.t"}), "sinks.b.table: sinks.a writes"),
        (two({"jdbc": "jdbc:x", "table": "t"}, {"jdbc": "jdbc:x", "table": "t"}), "sinks.b.table: sinks.a writes"),
        (made(dead_letters=DeadLetters(topic="out")), "dead_letters.topic: sinks.out writes there already"),
        (made(sinks={"o": Sink(from_="clicks", topic="clicks")}),
         "sources.clicks.topic: sinks.o writes what is read here: the pipeline would feed itself without an end; write "
         "to another topic"),
        (made(dead_letters=DeadLetters(topic="clicks")), "sources.clicks.topic: dead_letters writes what is read here"),
        (made({"c": Source(topic_pattern="cl.*")}, sinks={"o": Sink(from_="c", topic="clicks")}),
         "sources.c.topic_pattern: sinks.o writes"),
        (made({"c": Source(topic_pattern="(")}, sinks={"o": Sink(from_="c", topic="clicks")}), "no regular expression"),
        (made({"c": Source(files="in/*", schema="a INT")}, sinks={"o": Sink(from_="c", files="in/out")}),
         "sources.c.files: sinks.o writes"),
    ],
)  # fmt: skip
def test_places_that_meet_are_refused(pipeline, sentence):
    with pytest.raises(PipelineWrong) as wrong:
        checked(pipeline, Path(), {("sinks", "b"): 7}, "p.yml")
    assert any(sentence in told for told in wrong.value.faults), wrong.value.faults


def test_places_that_do_not_meet_are_not_refused():
    apart = two({"topic": "t"}, {"topic": "t", "bootstrap": "other:9092"})
    assert checked(apart, Path(), {}, "p.yml")
    assert checked(two({"files": "x"}, {"files": "xy"}), Path(), {}, "p.yml")
    mirrored = Source(topic="clicks", bootstrap="other:9092")
    assert checked(made({"c": mirrored}, sinks={"o": Sink(from_="c", topic="clicks")}), Path(), {}, "p.yml")


def test_a_function_of_a_file_is_known_by_its_text(tmp_path):
    (tmp_path / "steps.py").write_text("raise SystemExit\ndef per_page(clicks, pages): ...\ndef other(nothing): ...\n")
    good = made(steps={"s": Step(python="steps.py:per_page")})
    assert checked(good, tmp_path, {}, "p").inputs["s"] == ["clicks", "pages"]
    assert "no function 'per_pag'; did you mean 'per_page'?" in faults(
        made(steps={"s": Step(python="steps.py:per_pag")}), tmp_path
    )[0]  # fmt: skip
    assert (
        "there is no source or step 'nothing'" in faults(made(steps={"s": Step(python="steps.py:other")}), tmp_path)[0]
    )


def test_the_tree_shows_sinks_with_what_leads_to_them():
    steps = {"joined": Step(sql="SELECT * FROM clicks JOIN pages USING (page)")}
    sinks = {"out": Sink(from_="joined", topic="t"), "files": Sink(from_="joined", files="x")}
    assert checked(made(steps=steps, sinks=sinks), Path(), {}, "p").tree() == [
        "out  → topic t, exactly once",
        "└─ joined  sql",
        "   ├─ clicks  topic clicks",
        "   └─ pages  files pages, read whole",
        "files  → parquet files x",
        "└─ joined  see above",
    ]
