"""ClusterLink of a broker that is the whole cluster: it keeps the truth in its own store and changes it by itself.

1. Before a port is open it leads what it can lead, says in which of its directories the replicas are, and the disk
   follows the image.
2. Snapshots of the metadata are written in turns with changes, a step at a time on a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.changes import ChangeQueue, P
from ottla.broker.cluster.image_follower import ImageFollower
from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock
from ottla.broker.quotas.forwarded import client_of
from ottla.broker.quotas.mutations import quota_of_creation
from ottla.broker.replication.followers import Followers, NoFollowers
from ottla.broker.requests.context import RequestContext
from ottla.cluster import model
from ottla.cluster.brokers import ProducerIds, allocate_producer_ids
from ottla.cluster.changes import AddPartitions, Change, ChangePartition, CreateTopic
from ottla.cluster.elections import led_again
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import UNASSIGNED_DIRECTORY
from ottla.cluster.placement import moved_replicas
from ottla.cluster.plan import Plan
from ottla.cluster.raft.log import LogState, MetadataLog
from ottla.cluster.store.interface import OwnStore
from ottla.cluster.topics import create_topics
from ottla.errors import (
    BrokerNotAvailable,
    NotLeaderOrFollower,
    broker_error,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

NOT_A_MEMBER: Final = "this broker is a cluster of its own"


class AloneLink:
    is_alone = True
    is_controller = False
    decider = None
    epoch = -1
    passed_on: frozenset[int] = frozenset()
    passed_on_versions = None
    addresses = None

    def __init__(self, broker: Broker, store: OwnStore, pool: Executor | None) -> None:
        self.replication: Followers = NoFollowers()
        self._broker = broker
        self._store = store
        self._changes = ChangeQueue(store, pool, self._apply)
        self._follower = ImageFollower(broker)
        self._tasks: set[asyncio.Task[object]] = set()
        self.metadata_directory_id = store.directory_id

    @property
    def is_idle(self) -> bool:
        return self._changes.is_idle and self._follower.is_idle and not self._tasks

    @property
    def controller_for_clients(self) -> int:
        return self._broker.image.controller_id

    @property
    def needs_restart(self) -> bool:
        """Whether the disk failed under the metadata: what is there is served, and nothing is changed any more."""
        return self._store.has_failed

    def log_state(self) -> LogState | None:
        return None if self.needs_restart else self._store.log_state()

    @property
    def metadata_log(self) -> MetadataLog | None:
        return None if self.needs_restart else self._store.metadata_log

    async def prepare(self) -> None:
        """Make the disk follow the image: with thousands of partitions that takes seconds."""
        self._broker.replicas.was_deleted = self._store.was_deleted
        image = self._store.load()
        if changes := list(led_again(image, self._broker.id, stopped_in_order=self._store.stopped_in_order)):
            image = self._store.commit(changes)
        await self._follower.begin(image)
        if moved := self._moved(image):
            self._broker.take_image(self._store.commit(moved))

    def _moved(self, image: ClusterImage) -> list[ChangePartition]:
        """Replicas of this broker that are in another directory than the image says, as in KIP-858."""

        def directory_of(name: TopicPartition) -> bytes | None:
            found = self._broker.replicas.logs.directory_of(name)
            return None if found is None else found.directory_id

        return list(moved_replicas(image, self._broker.id, directory_of))

    async def start(self, me: model.Broker) -> None:
        """Register; nobody else changes the truth, so the disk follows it already."""
        self.epoch = self._store.membership.register(me).epoch
        self._store.election.stand(me.id)
        self._broker.take_image(self._store.load())

    async def stop(self) -> None:
        """There is nobody to notify."""
        self._follower.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def vanish(self) -> None:
        """Nobody would notice."""
        self._follower.stop()

    async def change(self, make_plan: Callable[[ClusterImage], P]) -> P:
        return await self._changes.submit(make_plan)

    async def _apply(self, image: ClusterImage, changes: Sequence[Change]) -> None:
        unmade = await self._follower.apply(image, changes)
        if self._has_unassigned(changes):
            self._begin(self.change(lambda image: Plan(tuple(self._moved(image)), [])))
        if self._store.upkeep_is_due:
            self._begin(self._changes.carry_out(self._store.upkeep()))
        for error in unmade.values():
            raise error

    def _has_unassigned(self, changes: Sequence[Change]) -> bool:
        """Whether these partitions were put into one of several directories, and nobody has said into which."""
        return any(
            UNASSIGNED_DIRECTORY in partition.directories
            for change in changes
            if isinstance(change, CreateTopic | AddPartitions)
            for partition in (change.topic.partitions if isinstance(change, CreateTopic) else change.partitions)
        )

    def _begin(self, work: Coroutine[object, None, object]) -> None:
        """Something that comes after the change: nobody waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the metadata log: %s", error)

    async def forward(self, request: Message, context: RequestContext) -> Message | None:
        return None

    async def create_topic(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None:
        client = None if asked_by is None else client_of(asked_by.principal, asked_by.client_id)
        meter = None if client is None else self._broker.quotas.mutations_of(client)
        quota = quota_of_creation(meter, self._broker.clock.monotonic_ms)

        def plan(image: ClusterImage) -> Plan[CreatableTopicResult]:
            if image.topic(topic.name) is not None:
                return Plan((), [])
            request = CreateTopicsRequest(topics=[topic], timeout_ms=0)
            return create_topics(image, request, quota.rules(self._broker.topic_rules), self._broker.random)

        for answer in (await self.change(plan)).answers:
            if answer.error_code:
                raise broker_error(answer.error_code, answer.error_message)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        broker_id = self._broker.id

        def plan(image: ClusterImage) -> Plan[ProducerIds]:
            known = image.brokers.get(broker_id)
            change, block = allocate_producer_ids(image, broker_id, known.epoch if known is not None else -1)
            return Plan((change,), [block])

        return ProducerIdBlock(*(await self.change(plan)).answers[0])

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        return False

    async def ask_leader(self, topic: str, partition: int, request: Message) -> Message:
        raise NotLeaderOrFollower(f"{topic}-{partition}: {NOT_A_MEMBER}")

    async def ask_broker(self, broker_id: int, request: Message) -> Message:
        raise BrokerNotAvailable(f"broker {broker_id}: {NOT_A_MEMBER}")

    def replica_moved(self, name: TopicPartition) -> None:
        """Nobody else has to know where it lies."""

    def directory_failed(self) -> None:
        """Nobody else could lead what was there."""
