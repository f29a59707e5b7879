"""What the sink asks of coordinators: read markers, add them to open transactions, end transactions. All by asyncio,
for steps.py in Spark's processes and for the simulation in virtual time.

1. An answer that refuses for good is returned as a value, because the steps know what it means; everything else that
   goes wrong is raised.
2. The marker topic is made when the first marker needs it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.topics import NewTopic
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OttlaError,
    ProducerFenced,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.spark.sink.markers import MARKERS_PER_GROUP, Marker, SinkNames, further_pieces
from ottla.spark.sink.step_kinds import AddMarker, End
from ottla.values import OffsetAndMetadata, TopicPartition

REFUSALS: Final = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, InvalidProducerIdMapping)
MARKER_TOPIC_SETTINGS: Final = {"cleanup.policy": "compact"}


class MarkerTopicUnfit(OttlaError):
    """The marker topic has too few partitions. Delete it if nobody else uses it, or name another by markerTopic."""

    invalid_configuration = True


class CoordinatorCalls:
    """For one query. `marker_topics` are those that are known to be there; the caller keeps them."""

    def __init__(self, admin: AsyncAdmin, names: SinkNames, marker_topics: set[str]) -> None:
        self._admin, self._names, self._marker_topics = admin, names, marker_topics

    async def read_markers(self, tasks: tuple[int, ...], is_final: bool) -> Mapping[int, Marker]:
        found: dict[int, Marker] = {}
        for group_id in dict.fromkeys(map(self._names.group_id, tasks)):
            places = {self._names.place(task): task for task in tasks if self._names.group_id(task) == group_id}
            offsets = await self._admin.list_consumer_group_offsets(group_id, list(places), require_stable=is_final)
            for place, task in places.items():
                marker = offsets.get(place)
                more = await self._pieces(further_pieces(marker)) if task == 0 else ()
                found[task] = Marker.of(task, marker, more)
        return found

    async def _pieces(self, count: int) -> list[OffsetAndMetadata | None]:
        """How a long list goes on. They were committed with the marker, so they are waited for when it is there."""
        found: list[OffsetAndMetadata | None] = []
        for group_id, places in self._list_places(count).items():
            offsets = await self._admin.list_consumer_group_offsets(group_id, places, require_stable=True)
            found += [offsets.get(place) for place in places]
        return found

    def _list_places(self, count: int) -> dict[str, list[TopicPartition]]:
        """Where the pieces of a list stand, in their order."""
        places: dict[str, list[TopicPartition]] = {}
        for piece in range(count):
            places.setdefault(self._names.list_group_id(piece), []).append(self._names.place(piece))
        return places

    async def send(self, step: AddMarker | End) -> PreparedTransaction | OttlaError | None:
        try:
            if isinstance(step, AddMarker):
                return await self._add_marker(step)
            await self._admin.end_transaction(step.prepared, commit=step.commit)
        except REFUSALS as refusal:
            return refusal
        except UnknownTopicOrPartition:
            self._marker_topics.clear()  # somebody deleted it; the next attempt makes it again
            raise
        return None

    async def _add_marker(self, step: AddMarker) -> PreparedTransaction:
        marker, *more = step.marker.as_offsets()
        offsets = {self._names.place(step.task): marker}
        group_id = self._names.group_id(step.task)
        prepared = await self._admin.send_offsets_to_transaction(step.prepared, offsets, group_id)
        pieces = iter(more)
        for list_group_id, places in self._list_places(len(more)).items():
            further = dict(zip(places, pieces, strict=False))
            prepared = await self._admin.send_offsets_to_transaction(prepared, further, list_group_id)
        return prepared

    async def ensure_marker_topic(self) -> None:
        name = self._names.marker_topic
        if name in self._marker_topics:
            return
        try:
            count = len((await self._admin.describe_topics([name]))[name].partitions)
        except UnknownTopicOrPartition:
            count = MARKERS_PER_GROUP
            with contextlib.suppress(TopicAlreadyExists):  # another query was faster
                await self._admin.create_topics([NewTopic(name, MARKERS_PER_GROUP, configs=MARKER_TOPIC_SETTINGS)])
        if count < MARKERS_PER_GROUP:
            raise MarkerTopicUnfit(f"{name} has {count} partitions, {MARKERS_PER_GROUP} are needed")
        self._marker_topics.add(name)
