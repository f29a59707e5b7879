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
from ottla.spark.sink.markers import MARKERS_PER_GROUP, Marker, SinkNames
from ottla.spark.sink.transactions import AddMarker, End

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
            found.update({task: Marker.of(task, offsets.get(place)) for place, task in places.items()})
        return found

    async def send(self, step: AddMarker | End) -> PreparedTransaction | OttlaError | None:
        try:
            if isinstance(step, AddMarker):
                offsets = {self._names.place(step.task): step.marker.as_offset()}
                group_id = self._names.group_id(step.task)
                return await self._admin.send_offsets_to_transaction(step.prepared, offsets, group_id)
            await self._admin.end_transaction(step.prepared, commit=step.commit)
        except REFUSALS as refusal:
            return refusal
        except UnknownTopicOrPartition:
            self._marker_topics.clear()  # somebody deleted it; the next attempt makes it again
            raise
        return None

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
