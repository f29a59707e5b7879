"""A group shows the flow that is furthest behind, from the first report to the end of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import Consumer, Producer
from ottla.client.admin.admin import Admin
from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.definition import DeadLetters, Pipeline, Sink, Source
from ottla.spark.pipelines.group_progress import SlowestFlow, groups_shown
from ottla.spark.pipelines.plan import Plan, make_plan
from ottla.spark.source.group_commits import GroupInUse
from ottla.testing import KafkaBroker
from ottla.values import TopicPartition

A, B = TopicPartition("shown-clicks", 0), TopicPartition("shown-clicks", 1)
OTHER = TopicPartition("shown-others", 0)


def test_of_every_partition_the_slowest_flow_counts():
    slowest = SlowestFlow(["one", "two"])
    slowest.note("one", {A: 10, B: 5})
    assert slowest.positions() == {}, "nobody knows where the other one is"
    slowest.note("two", {A: 7, B: 9})
    assert slowest.positions() == {A: 7, B: 5}
    slowest.note("two", {A: 12})
    assert slowest.positions() == {A: 10}, "a partition that only one flow knows is not shown"
    slowest.note("stranger", {A: 0})
    assert slowest.positions() == {A: 10}


@pytest.fixture
def plan(kafka_broker: KafkaBroker, tmp_path) -> Iterator[Plan]:
    pipeline = Pipeline(
        name="p",
        storage=str(tmp_path / "storage"),
        sources={"c": Source(topic="shown-clicks", format="string", group="shown"), "o": Source(topic="shown-others")},
        sinks={"out": Sink(from_="c", topic="out"), "also": Sink(from_="o", topic="also")},
        dead_letters=DeadLetters(topic="dead"),
    )
    return make_plan(checked(pipeline, tmp_path, {}, "p.yml"), tmp_path, kafka_broker.bootstrap_servers)


def test_only_flows_that_read_the_source_count(plan: Plan):
    (group,) = plan.groups
    assert (group.name, set(group.flows)) == ("shown", {"out", "c__dead"})


def test_the_group_follows_the_flows_to_the_end_of_the_run(plan: Plan, kafka_broker: KafkaBroker):
    listeners = []
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics(["shown-clicks"])
    with groups_shown(plan, listeners.append):
        (note,) = listeners
        note("out", {A: 10, OTHER: 3})
        note("c__dead", {A: 6})
        note("also", {OTHER: 1})
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        (shown,) = admin.list_consumer_group_offsets("shown").items()
    assert (shown[0], shown[1].offset, shown[1].metadata) == (A, 6, "spark batch=1")


def test_a_group_with_members_is_refused_before_a_row_is_read(plan: Plan, kafka_broker: KafkaBroker):
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        producer.send("shown-clicks", b"x").get()
    with Consumer("shown-clicks", bootstrap_servers=kafka_broker.bootstrap_servers, group_id="shown") as consumer:
        consumer.poll(5.0)
        with pytest.raises(GroupInUse), groups_shown(plan, lambda listener: None):
            pass
