"""The topics of a plan, checked before Spark is started: is the cluster there, are they there?

1. A source's topic that is not there is an error with the nearest name and the command that makes it; it is made only
   when that is asked for, because a wrong name should not pass for an empty topic. A cluster that does not answer is an
   error within a second, not after minutes of Spark's attempts.
2. A sink's topic that is not there is made, with as many partitions as the pipeline says, else as many as the cluster
   gives, and compacted when its records replace older ones.
3. All this is asked from here. When Spark runs elsewhere (Connect), its network may know other clusters than ours: then
   nobody is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.spark.pipelines.batches import TOPICS
from ottla.spark.pipelines.faults import Fault, nearest
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.operations import Read
from ottla.spark.pipelines.plan import Plan
from ottla.spark.sink.options import SinkOptions
from ottla.spark.source.options import SourceOptions
from ottla.spark.tokens.clusters import parse_clusters

ASK_LIMIT_S: Final = 10.0
SERVERS: Final = "bootstrap.servers"
_COMPACTED: Final = {"cleanup.policy": "compact"}


class TopicMissing(OttlaError):
    """A topic that the pipeline reads is not there. Make it, or let the run make it: --create-topics."""


@dataclass(slots=True)
class ClusterTopics:
    """What a plan wants of one cluster."""

    settings: Mapping[str, object]
    read: set[str] = field(default_factory=set)
    written: dict[str, NewTopic] = field(default_factory=dict)


def wanted_topics(plan: Plan, graph: Graph) -> list[ClusterTopics]:
    """The topics of a plan, by cluster."""
    clusters: dict[str, ClusterTopics] = {}
    for _, read in topic_reads(plan):
        if "subscribe" in read.options:
            parsed = SourceOptions.parse(read.options, streaming=read.stream)
            settings = asking(plan, parsed.client_settings("admin"))
            cluster = clusters.setdefault(str(settings[SERVERS]), ClusterTopics(settings))
            cluster.read.update(read.options["subscribe"].split(","))
    made = {topic.name: topic for topic in _new_topics(graph)}
    for flow in plan.flows:
        if flow.target.format == TOPICS:
            options = SinkOptions.parse(flow.target.options, streaming=True)
            settings = asking(plan, options.client_settings("admin"))
            cluster = clusters.setdefault(str(settings[SERVERS]), ClusterTopics(settings))
            topic = flow.target.options["topic"]
            cluster.written[topic] = made.get(topic, NewTopic(topic))  # the options may name another one
    return list(clusters.values())


def asking(plan: Plan, settings: dict[str, object]) -> dict[str, object]:
    """How we ask a cluster. Spark is not started yet, so where its tasks will have a token we log in as who asks for
    it does."""
    servers = str(settings[SERVERS])
    found = [each for each in parse_clusters(plan.settings) if each.is_for(servers)]
    return dict(found[0].asking) if found else settings


def option_faults(plan: Plan) -> Iterator[Fault]:
    """What is wrong with the options of topics, known without Spark."""
    for name, read in topic_reads(plan):
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


def topic_reads(plan: Plan) -> Iterator[tuple[str, Read]]:
    """The sources that are topics, with how they are read."""
    for view in plan.views:
        if isinstance(view.beginning, Read) and view.beginning.format == TOPICS:
            yield view.name.partition("__")[0], view.beginning


def _new_topics(graph: Graph) -> Iterator[NewTopic]:
    """The topics of sinks as they are made: those whose records replace older ones keep the last of each key."""
    for sink in graph.pipeline.sinks.values():
        if sink.topic is not None:
            is_changelog = sink.mode != "append" or sink.delete is not None
            yield NewTopic(sink.topic, sink.partitions, configs=_COMPACTED if is_changelog else {})
    letters = graph.pipeline.dead_letters
    if letters is not None and letters.topic is not None:
        yield NewTopic(letters.topic, letters.partitions)


def prepare_topics(wanted: ClusterTopics, *, create_read: bool = False) -> list[str]:
    """Ask the cluster, and make what is missing; returns the names of the topics that were made.

    Topics that are only read are made with `create_read`, else TopicMissing names the commands that make them.
    """
    with Admin(wanted.settings) as admin:
        there = set(admin.list_topics(timeout=ASK_LIMIT_S))
        read = sorted((wanted.read - there) - set(wanted.written))
        if read and not create_read:
            raise TopicMissing(missing_topics(read, there, str(wanted.settings[SERVERS])))
        made = sorted({*wanted.written, *read} - there)
        if made:
            admin.create_topics([wanted.written.get(topic, topic) for topic in made], timeout=ASK_LIMIT_S)
    return made


def missing_topics(missing: Sequence[str], there: Collection[str], servers: str) -> str:
    """What is not there, and the command for each."""
    near = nearest(missing[0], there) if len(missing) == 1 else ""
    commands = "; ".join(f"ottla topic create {topic} -b {servers}" for topic in missing)
    return f"{', '.join(missing)} at {servers}{near} ({commands})"
