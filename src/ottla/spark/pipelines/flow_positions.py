"""Where each flow is in its topics, and where these end: from the storage and the cluster, whether it runs or not.

1. A flow that has done a batch is where its checkpoint says; one that has not is where its first run would begin. So is
   a partition that was added since.
2. Ends are those that the flow can read: with read_committed an open transaction ends a partition.
3. Tables (`static: true`) and files have no positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.operations import Flow
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.storage import Storage
from ottla.spark.pipelines.topics import topic_reads
from ottla.spark.pipelines.watching import Positions
from ottla.spark.source.bounds import starting_positions
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.survey import begin_with
from ottla.spark.source.topic_positions import TopicPositions
from ottla.values import TopicPartition


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """One flow in the topics of one source."""

    flow: str
    source: str
    settings: Mapping[str, object]
    """Of a consumer of that cluster."""
    position: Positions
    ends: Positions

    @property
    def behind(self) -> int:
        return sum(max(0, end - self.position.get(partition, end)) for partition, end in self.ends.items())

    def first_unread(self) -> dict[TopicPartition, int]:
        """The partitions that have more, and where."""
        return {each: at for each, at in self.position.items() if at < self.ends.get(each, at)}


PATIENCE: Final = {
    "kafka.request.timeout.ms": "10000",
    "kafka.default.api.timeout.ms": "10000",
    "fetchOffset.numRetries": "0",
}
"""Somebody waits for the answer: a cluster that is away is said soon. What the pipeline itself says is stronger."""


def positions_of(plan: Plan, graph: Graph, storage: Storage) -> Iterator[SourcePosition]:
    """Every flow in every source that leads to it."""
    for source, read in topic_reads(plan):
        if not read.stream:
            continue
        options = SourceOptions.parse({**PATIENCE, **read.options}, streaming=True)
        places = TopicPositions(options)
        try:
            listed = begin_with(options, places)
            begin = starting_positions(options, listed.partitions, places).positions
            ends = places.latest(listed.partitions)
        finally:
            places.close()
        for flow in flows_from(plan, graph, source):
            known = known_positions(storage, flow)
            position = {each: known.get(each, begin[each]) for each in listed.partitions}
            yield SourcePosition(flow.name, source, options.client_settings("consumer"), position, ends)


def known_positions(storage: Storage, flow: Flow) -> dict[TopicPartition, int]:
    """Where the checkpoint says that the flow is. Two sources of one topic are at the earlier place."""
    progress = storage.progress_of(flow.name)
    known: dict[TopicPartition, int] = {}
    for offset in progress.offsets if progress is not None else ():
        for partition, position in offset.positions.items():
            known[partition] = min(position, known.get(partition, position))
    return known


def flows_from(plan: Plan, graph: Graph, source: str) -> list[Flow]:
    """The flows that read a source, at last."""
    return [flow for flow in plan.flows if source in graph.sources_of(dataset_of(flow))]


def dataset_of(flow: Flow) -> str:
    """The source or step whose rows a flow writes; dead letters are of its checked rows."""
    return flow.dead_letters_of or flow.dataset
