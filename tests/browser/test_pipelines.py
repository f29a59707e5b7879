"""The console's page of pipelines: what a service publishes is drawn, and the button asks it for a replay."""

from __future__ import annotations

import os

import pytest

from ottla.spark.pipelines import DeadLetters, Pipeline, Sink, Source
from ottla.spark.pipelines.drawing import Picture
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.serving.children import Child, Served
from ottla.spark.pipelines.serving.publishing import Publisher
from ottla.spark.pipelines.statuses import FlowStatus, RuleStatus, RunStatus
from ottla.spark.pipelines.storage import Storage
from ottla.testing import KafkaBroker

PIPELINE = Pipeline(
    name="clicks",
    sources={"clicks": Source(topic="clicks", format="json", schema="user STRING")},
    sinks={"counts": Sink(from_="clicks", topic="<b>counts")},
    dead_letters=DeadLetters(topic="dead"),
)
FIGURES = {"late": 0, "batches": 3, "rows_per_s": 12.0, "behind": 40, "state_rows": 2, "state_bytes": 2048}


@pytest.fixture
def service(tmp_path):
    """A broker with a console, and a service that publishes one pipeline; the replays that it was asked for."""
    asked = []

    def replay(request):
        asked.append(request)
        return "clicks: 7 dead letters are replayed"

    flows = tuple(
        FlowStatus(name, "running", rows_in=50, rows_out=written, last_batch_ms=None, error=None, **FIGURES)
        for name, written in (("counts", 43), ("clicks__dead", 7))
    )
    rules = (RuleStatus("clicks", "readable", "dead_letter", 7, 50),)
    storage = Storage(str(tmp_path))
    storage.write_status(RunStatus("clicks", "running", os.getpid(), "here", 0, 1, None, flows, rules))
    child = Child(Served("clicks", storage, []), 0.0, lambda words: None)
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        picture = Picture.of(Graph.of(PIPELINE, {}))
        publisher = Publisher(child, {"bootstrap.servers": broker.bootstrap_servers}, picture, replay)
        publisher.start()
        yield broker, asked
        publisher.stop()


def test_a_pipeline_is_drawn_and_its_dead_letters_are_replayed(service, open_page):
    broker, asked = service
    page = open_page(broker, "#/pipelines")
    page.get_by_role("heading", name="clicks").wait_for()
    drawing = page.get_by_role("img", name="clicks: sources, steps and sinks")
    for text in ("topic <b>counts, exactly once", "12/s, lag 40", "7 letters"):
        drawing.get_by_text(text).wait_for()
    row = page.get_by_role("row", name="readable")
    assert row.get_by_role("cell").all_inner_texts() == ["clicks", "readable", "dead letter", "7", "50"]
    page.get_by_role("button", name="Replay dead letters of clicks").click()
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_text("clicks: 7 dead letters are replayed").wait_for()
    assert asked == [{"rule": None, "step": None}]
