"""A batch is a span that links to the traces of its records, and a record's trace goes on in what is written of it."""

from pathlib import Path

import pytest

from ottla.spark.pipelines import tracing
from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.definition import Pipeline, Sink, Source
from ottla.spark.pipelines.operations import Sample
from ottla.spark.pipelines.plan import make_plan
from ottla.spark.pipelines.tracing import LINKS, BatchSpans, TracingMissing, samples

sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
processing = pytest.importorskip("opentelemetry.sdk.trace.export")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PROGRESS = {
    "name": "out",
    "batchId": 3,
    "timestamp": "2026-11-19T04:00:00.250Z",
    "numInputRows": 7,
    "durationMs": {"triggerExecution": 120, "addBatch": 80},
    "observedMetrics": {
        "ottla_traces__clicks": {"0": f"00-{TRACE}-{SPAN}-01", "1": None, "2": "no context"},
        "ottla_out": {"rows": 7},
    },
}


@pytest.fixture
def spans():
    provider, exporter = sdk.TracerProvider(), export.InMemorySpanExporter()
    provider.add_span_processor(processing.SimpleSpanProcessor(exporter))
    made = BatchSpans("clicks")
    made._tracer = provider.get_tracer("test")
    return made, exporter


def test_a_batch_is_a_span_with_links_to_the_traces_of_its_records(spans):
    made, exporter = spans
    made.note(PROGRESS)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind.name) == ("process out", "CONSUMER")
    assert span.end_time - span.start_time == 120_000_000
    assert span.start_time == 1_795_060_800_250_000_000
    assert [format(link.context.trace_id, "032x") for link in span.links] == [TRACE]
    assert (span.attributes["ottla.batch"], span.attributes["messaging.batch.message_count"]) == (3, 7)
    assert span.attributes["ottla.spark.addBatch_ms"] == 80


def test_a_batch_that_read_nothing_is_none(spans):
    made, exporter = spans
    made.note({**PROGRESS, "numInputRows": 0})
    assert exporter.get_finished_spans() == ()


def test_without_the_package_a_run_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(tracing.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(TracingMissing, match="ottla\\[otel\\]"):
        BatchSpans("clicks")


def planned(**more):
    pipeline = Pipeline(
        name="p",
        sources={"c": Source(topic="clicks", format="json", schema="a INT")},
        sinks={"out": Sink(from_="c", topic="out")},
        **more,
    )
    return make_plan(checked(pipeline, Path("/"), {}, "p.yml"), Path("/"), "host:9092")


def test_a_source_has_the_trace_of_each_record_only_when_it_is_asked_for():
    plan = planned(traces=True)
    (view,) = [view for view in plan.views if view.name == "c__checked"]
    assert view.beginning.options["includeHeaders"] == "true"
    assert [each for each in view.operations if isinstance(each, Sample)] == [Sample("c")]
    assert "_traceparent" in str(plan.flows[0].operations), "it is no part of the value"
    quiet = planned()
    assert "traceparent" not in str(quiet.views) + str(quiet.flows)


def test_what_is_kept_of_a_batch_is_bounded():
    assert len(samples()) == LINKS
    assert all(sample.startswith("min(IF(right(_traceparent, 1)") for sample in samples())
