"""The topics of a plan, looked at before Spark is started: is the cluster there, are they there?

1. A source's topic that is not there is told with the nearest name; a cluster that does not answer is told in a second,
   not after minutes of Spark's attempts.
2. A sink's topic that is not there is made, with as many partitions as the pipeline says, else as many as the cluster
   gives.
3. All this is asked from here. When Spark runs elsewhere (Connect), its network may know other clusters than ours: then
   nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.errors import OttlaError
from ottla.spark.pipelines.faults import Fault, nearest
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.operations import Read
from ottla.spark.pipelines.plan import TOPICS, Plan
from ottla.spark.sink.options import SinkOptions
from ottla.spark.source.options import SourceOptions

ASK_LIMIT_S: Final = 10.0
SERVERS: Final = "bootstrap.servers"


class TopicMissing(OttlaError):
    """A topic that the pipeline reads is not there. Make it first: ottla topic create NAME."""


@dataclass(slots=True)
class ClusterTopics:
    """What a plan wants of one cluster."""

    settings: Mapping[str, object]
    read: set[str] = field(default_factory=set)
    written: dict[str, int | None] = field(default_factory=dict)


def wanted_topics(plan: Plan, graph: Graph) -> list[ClusterTopics]:
    """The topics of a plan, by cluster."""
    clusters: dict[str, ClusterTopics] = {}
    for _, read in _reads(plan):
        if "subscribe" in read.options:
            settings = SourceOptions.parse(read.options, streaming=read.stream).client_settings("admin")
            cluster = clusters.setdefault(str(settings[SERVERS]), ClusterTopics(settings))
            cluster.read.update(read.options["subscribe"].split(","))
    partitions = dict(_partitions(graph))
    for flow in plan.flows:
        if flow.target.format == TOPICS:
            settings = SinkOptions.parse(flow.target.options, streaming=True).client_settings("admin")
            cluster = clusters.setdefault(str(settings[SERVERS]), ClusterTopics(settings))
            cluster.written[flow.target.options["topic"]] = partitions.get(flow.target.options["topic"])
    return list(clusters.values())


def option_faults(plan: Plan) -> Iterator[Fault]:
    """What is wrong with the options of topics, known without Spark."""
    for name, read in _reads(plan):
        try:
            SourceOptions.parse(read.options, streaming=read.stream)
        except OttlaError as error:
            yield Fault(("sources", name), str(error))
    for flow in plan.flows:
        if flow.target.format == TOPICS:
            place = ("sinks", flow.name) if flow.dead_letters_of is None else ("dead_letters",)
            try:
                SinkOptions.parse(flow.target.options, streaming=True)
            except OttlaError as error:
                yield Fault(place, str(error))


def _reads(plan: Plan) -> Iterator[tuple[str, Read]]:
    for view in plan.views:
        if isinstance(view.beginning, Read) and view.beginning.format == TOPICS:
            yield view.name.partition("__")[0], view.beginning


def _partitions(graph: Graph) -> Iterator[tuple[str, int | None]]:
    for sink in graph.pipeline.sinks.values():
        if sink.topic is not None:
            yield sink.topic, sink.partitions
    letters = graph.pipeline.dead_letters
    if letters is not None and letters.topic is not None:
        yield letters.topic, letters.partitions


def prepare_topics(wanted: ClusterTopics) -> list[str]:
    """Ask the cluster, and make what is missing; gives the names of the topics that were made."""
    with Admin(wanted.settings) as admin:
        there = set(admin.list_topics(timeout=ASK_LIMIT_S))
        missing = sorted((wanted.read - there) - set(wanted.written))
        if missing:
            raise TopicMissing(f"{missing[0]} at {wanted.settings[SERVERS]}{nearest(missing[0], there)}")
        made = sorted(set(wanted.written) - there)
        if made:
            admin.create_topics([_new(topic, wanted.written[topic]) for topic in made], timeout=ASK_LIMIT_S)
    return made


def _new(topic: str, partitions: int | None) -> NewTopic | str:
    return topic if partitions is None else NewTopic(topic, partitions)
