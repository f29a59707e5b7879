"""What is known about a run without Spark: events, figures, where progress is kept, which topics are wanted."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla import NewTopic
from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.declarative import Event, parsed_event, shortened
from ottla.spark.pipelines.definition import DeadLetters, Expectation, Pipeline, Sink, Source
from ottla.spark.pipelines.faults import PipelineWrong
from ottla.spark.pipelines.operations import Batch, Target
from ottla.spark.pipelines.plan import make_plan
from ottla.spark.pipelines.running import Loaded, find_file, load
from ottla.spark.pipelines.streaming import checkpoint_of, is_for_pipelines
from ottla.spark.pipelines.topics import option_faults, wanted_topics
from ottla.spark.pipelines.watching import RuleFigures

PIPELINE = Pipeline(
    name="p",
    sources={"c": Source(topic="clicks", expect={"r": Expectation(condition="a")})},
    sinks={"out": Sink(from_="c", topic="counts", partitions=4)},
    dead_letters=DeadLetters(topic="dead", bootstrap="other:9092"),
)


def loaded(pipeline=PIPELINE):
    return Loaded(Path("/p.yml"), checked(pipeline, Path("/"), {}, "p.yml"), {})


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("Flow out is RUNNING.", ("out", "RUNNING", None)),
        ("Flow `spark_catalog`.`default`.`out` has COMPLETED.", ("out", "COMPLETED", None)),
        ("Flow 'spark_catalog.default.out' has FAILED.\nError: [X] no\n\tat org.x", ("out", "FAILED", "[X] no")),
        ("Failed to resolve flow: 's'.\nError: [X] no column", ("s", "UNRESOLVED", "[X] no column")),
        ("Run is COMPLETED.", (None, None, None)),
    ],
)
def test_sparks_messages_are_understood(message, event):
    assert parsed_event(message) == Event(message, *event)


def test_errors_come_without_stack_traces_and_plans():
    assert shortened("[X] no\n\tat org.a\n\tat org.b") == "[X] no"
    assert shortened("bad\n\nJVM stacktrace:\nx") == "bad"
    assert len(shortened("x" * 10_000)) == 2_000


def test_figures_are_summed_by_flow_and_rules_are_counted_once():
    plan = loaded().plan("host:9092")
    watch = loaded().watch(plan)
    judged = {".rows": 10, "r": 3}
    for name, out in (("out", 7), ("c__dead", 3), ("stranger", 1)):
        metrics = {"ottla_out": {"rows": out}, "ottla_rules__c": judged}
        progress = {"name": name, "numInputRows": 10, "durationMs": {"triggerExecution": 500}}
        watch.note({**progress, "observedMetrics": metrics}, 5)
    watch.note({"name": "out", "numInputRows": 0, "stateOperators": [{"numRowsDroppedByWatermark": 4}, {}]}, None)
    out = watch.flows["out"]
    assert (out.rows_in, out.rows_out, out.batches, out.behind, out.rows_per_s) == (10, 7, 2, 5, 20.0)
    assert out.late == 4
    assert watch.rules() == [RuleFigures("c", "r", "dead_letter", 3, 10)]
    assert watch.total("rows_in") == 20
    watch.note_state("out", "RUNNING")
    assert watch.states() == "1 running, 1 waiting"


def test_the_last_reports_are_waited_for_but_not_for_ever():
    watch = loaded().watch(loaded().plan("host:9092"))
    watch.wait_for_ends(0.01)
    for query in ("a", "a", "b"):
        watch.note_end(query)
    watch.wait_for_ends(60)


def test_progress_is_where_sparks_pipelines_keep_it(tmp_path):
    assert checkpoint_of(str(tmp_path), "out") == f"{tmp_path}/_checkpoints/out/out/0"
    (tmp_path / "_checkpoints/out/out/2").mkdir(parents=True)
    (tmp_path / "_checkpoints/out/out/other").mkdir()
    assert checkpoint_of(str(tmp_path), "out") == f"{tmp_path}/_checkpoints/out/out/2"
    assert checkpoint_of("s3a://bucket/x", "out") == "s3a://bucket/x/_checkpoints/out/out/0"


def test_databases_and_subdirectories_are_not_for_sparks_pipelines():
    assert is_for_pipelines(Target("ottla", {}))
    assert not is_for_pipelines(Target("ottla", {}, batch=Batch(("user",))))
    assert not is_for_pipelines(Target("jdbc", {}, batch=Batch()))
    assert not is_for_pipelines(Target("parquet", {}, ("day",)))


def test_topics_are_wanted_by_cluster():
    clusters = wanted_topics(loaded().plan("host:9092"), loaded().graph)
    assert [(str(each.settings["bootstrap.servers"]), each.read, each.written) for each in clusters] == [
        ("host:9092", {"clicks"}, {"counts": NewTopic("counts", 4)}),
        ("other:9092", set(), {"dead": NewTopic("dead")}),
    ]


def test_topics_are_asked_for_with_the_login_that_asks_for_tokens():
    cluster = {
        "auth.bootstrap.servers": "host:9093",
        "target.bootstrap.servers.regex": "host:.*",
        "security.protocol": "SSL",
    }
    settings = {f"spark.kafka.clusters.main.{name}": value for name, value in cluster.items()}
    plan = replace(loaded().plan("host:9092"), settings=settings)
    assert [dict(each.settings)["bootstrap.servers"] for each in wanted_topics(plan, loaded().graph)] == [
        "host:9093",
        "other:9092",
    ]


def test_options_of_topics_are_checked_without_spark():
    source = Source(topic="c", options={"maxOffsetPerTrigger": "7"})
    sink = Sink(from_="c", topic="t", options={"deliveryGuarantee": "perhaps"})
    graph = checked(Pipeline(name="p", sources={"c": source}, sinks={"o": sink}), Path("/"), {}, "p.yml")
    faults = list(option_faults(make_plan(graph, Path("/"), "host:9092")))
    assert [fault.place for fault in faults] == [("sources", "c"), ("sinks", "o")]
    assert "maxOffsetsPerTrigger" in faults[0].sentence


def test_a_file_is_found_by_name_directory_or_here(tmp_path):
    (tmp_path / "pipeline.yml").write_text("x")
    assert find_file(None, tmp_path) == find_file(tmp_path, Path("/")) == tmp_path / "pipeline.yml"
    assert find_file(tmp_path / "pipeline.yml", Path("/")) == tmp_path / "pipeline.yml"
    with pytest.raises(PipelineWrong, match="there is no such file"):
        find_file(tmp_path / "other.yml", tmp_path)
    with pytest.raises(PipelineWrong, match="ottla pipeline init"):
        find_file(None, tmp_path / "nowhere")


def test_a_python_file_gives_the_same_as_yaml(tmp_path):
    (tmp_path / "p.py").write_text(
        "from ottla.spark.pipelines import Pipeline, Sink, Source\n"
        "pipeline = Pipeline(name='p', sources={'c': Source(topic='c')}, sinks={'o': Sink(from_='c', topic='o')})\n"
    )
    (tmp_path / "p.yml").write_text("name: p\nsources: {c: {topic: c}}\nsinks: {o: {from: c, topic: o}}\n")
    assert load(tmp_path / "p.py", {}).graph.pipeline == load(tmp_path / "p.yml", {}).graph.pipeline
    (tmp_path / "empty.py").write_text("pipeline = 7\n")
    with pytest.raises(PipelineWrong, match="no Pipeline in the variable 'pipeline'"):
        load(tmp_path / "empty.py", {})


class Streams:
    """What a session of Spark Connect has; to remove a listener may hang there."""

    def __init__(self):
        self.listeners = []

    def addListener(self, listener):  # noqa: N802
        self.listeners.append(listener)


def test_what_spark_reports_behind_the_end_of_a_run_is_passed_over_and_the_listener_is_not_removed():
    pytest.importorskip("pyspark")
    from ottla.spark.pipelines.running import _listened

    watch, streams = loaded().watch(loaded().plan("host:9092")), Streams()
    report = {"name": "out", "numInputRows": 10}
    event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report), sources=[]))
    with _listened(SimpleNamespace(streams=streams), watch, None):
        (listener,) = streams.listeners
        listener.onQueryProgress(event)
    listener.onQueryProgress(event)
    assert watch.flows["out"].rows_in == 10
