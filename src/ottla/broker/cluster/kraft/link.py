"""ClusterLink of a broker under the controllers of a metadata log: process.roles=broker.

    what it knows     the image that the log makes (log_following.py); handlers, replicas and coordinators follow it
    what it has       what the image says of it (image_follower.py)
    what it changes   nothing by itself: what clients ask is passed on (passing_on.py); in-sync sets, producer ids and
                      directories of replicas it proposes, and the image says what came of it

The start, in Kafka's order: the log is read up to its first known high watermark, and logs are opened, before there is
a link. Then

    register ─► caught up with the own registration ─► replicas, coordinators ─► unfenced ─► the image says so

and only then clients are let in. A stop in order asks the controllers first, who give our leaderships to others; the
epoch of the registration is then written into every directory, which tells the next start that nothing is missing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.cluster.apply import topics_of
from ottla.broker.cluster.broker_addresses import BrokerAddresses, IpNetwork
from ottla.broker.cluster.changes import P
from ottla.broker.cluster.image_follower import ImageFollower
from ottla.broker.cluster.inter_broker import InterBroker
from ottla.broker.cluster.kraft.controllers import ControllerConnections
from ottla.broker.cluster.kraft.directory_assignments import DirectoryAssignments
from ottla.broker.cluster.kraft.lifecycle import BrokerLifecycle, BrokerState, Event
from ottla.broker.cluster.kraft.lifecycle_loop import LifecycleLoop
from ottla.broker.cluster.kraft.log_following import LogFollowing
from ottla.broker.cluster.kraft.passing_on import PASSED_ON, PassingOn
from ottla.broker.cluster.leader_questions import LeaderQuestions
from ottla.broker.cluster.visible import shows_answer, wait_until
from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock
from ottla.broker.replication.replication import BrokerConnections, Replication
from ottla.broker.requests.context import RequestContext
from ottla.cluster import model
from ottla.cluster.changes import Change, RegisterBroker, UnregisterBroker
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.metadata_log.levels import CORDONED_SINCE, DIRECTORIES_SINCE
from ottla.cluster.model import LOST_DIRECTORY, METADATA_VERSION
from ottla.cluster.raft.log import LogState, MetadataLog
from ottla.errors import NotController, OttlaError, broker_error
from ottla.light_dataclasses import replace
from ottla.net.connection import ApiVersionTable
from ottla.ordered_set import OrderedSet
from ottla.protocol.api import api_of
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.schema import Message
from ottla.values import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.link import Decider

log = logging.getLogger(__name__)

FETCH_VERSIONS: Final = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14))
OLDEST_FETCH_VERSION: Final = 13
ASSIGN_AGAIN_MS: Final = 500.0
ASSIGN_LINGER_MS: Final = 20.0
"""Replicas that are made together are told together."""


class BrokerStopped(OttlaError):
    """The controllers of the cluster will not have this broker, or it cannot go on without them, so it stops.
    The sentence says why; start it again when that is mended."""


class LinkSettings(Protocol):
    """The part of the broker's settings that is needed here."""

    @property
    def controlled_shutdown_enable(self) -> bool: ...
    @property
    def broker_session_timeout_ms(self) -> int: ...
    @property
    def controller_socket_timeout_ms(self) -> int: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def broker_networks(self) -> Sequence[IpNetwork]: ...


def fetch_version(metadata_version: int) -> int:
    """The version of Fetch that followers of a cluster at a level of metadata.version speak."""
    return next((version for since, version in FETCH_VERSIONS if metadata_version >= since), OLDEST_FETCH_VERSION)


def _endpoints(image: ClusterImage) -> list[tuple[model.Endpoint, ...]]:
    return [each.endpoints for each in image.brokers.values()]


class KRaftLink:
    """See the module. Belongs to the broker's loop."""

    is_alone = False
    is_controller = False
    decider: Decider | None = None
    metadata_directory_id = ZERO_UUID

    def log_state(self) -> LogState | None:
        return None if self._following.has_failed else self._following.log_state()

    @property
    def metadata_log(self) -> MetadataLog | None:
        return None if self._following.has_failed else self._following.quorum.raft.log

    passed_on = PASSED_ON

    @property
    def passed_on_versions(self) -> ApiVersionTable | None:
        return self._controllers.lifecycle.versions

    def __init__(
        self,
        broker: Broker,
        following: LogFollowing,
        controllers: ControllerConnections,
        make_lifecycle: Callable[[model.Broker], BrokerLifecycle],
        leaders: InterBroker,
        markers: InterBroker,
        fetchers: Sequence[BrokerConnections],
        *,
        settings: LinkSettings,
        ended: Callable[[OttlaError], None],
    ) -> None:
        """`make_lifecycle` is called with what the broker says of itself; `ended` hears why it must stop."""
        self._broker = broker
        self._following = following
        self._controllers = controllers
        self._make_lifecycle = make_lifecycle
        self._settings = settings
        self._ended = ended
        self._others = leaders, markers
        self._loop: LifecycleLoop | None = None
        self._follower = ImageFollower(broker, is_alone=False)
        self._questions = LeaderQuestions(broker, leaders, markers, timeout_ms=settings.request_timeout_ms)
        self._passing_on = PassingOn(broker, controllers.forwarded, limit_ms=settings.request_timeout_ms)
        self._assignments = DirectoryAssignments(broker.id)
        self._assigning: asyncio.Task[None] | None = None
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._is_leaving = False
        self._endpoints: list[tuple[model.Endpoint, ...]] = []  # that addresses were made of
        self.addresses: BrokerAddresses | None = BrokerAddresses(
            self._registered_brokers, networks=settings.broker_networks, clock=broker.clock
        )
        self.replication = Replication(
            broker,
            fetchers,
            self._ask_about_in_sync_sets,
            broker_epoch=lambda: self.epoch,
            fetch_version=lambda: fetch_version(broker.image.feature(METADATA_VERSION)),
        )

    # --- coming and going ---------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return -1 if self._loop is None else self._loop.lifecycle.epoch

    @property
    def state(self) -> BrokerState:
        return BrokerState.STARTING if self._loop is None else self._loop.lifecycle.state

    @property
    def is_idle(self) -> bool:
        return self._follower.is_idle and not self._tasks

    async def prepare(self) -> None:
        """Nothing: replicas are made when the image shows this broker."""

    async def start(self, me: model.Broker) -> None:
        """Register, be what the image says, and be unfenced."""
        lifecycle = self._make_lifecycle(me)
        loop = self._loop = LifecycleLoop(lifecycle, self._ask_about_life, self._broker.clock, self._heard)
        self._following.applied.append(loop.applied)
        loop.applied(self._following.applied_offset)
        self._report_failed_directories()
        if self._broker.replicas.cordoned:
            self.directories_cordoned()
        loop.start()
        await loop.until(lambda: lifecycle.state is not BrokerState.STARTING)
        self._refuse_failure(lifecycle)
        self.replication.start()
        await self._following.show_to(self._show)
        await self._broker.loads.wait()
        loop.ready()
        await loop.until(lambda: not lifecycle.is_fenced)
        self._refuse_failure(lifecycle)
        await wait_until(lambda: self._broker.image.is_active(self._broker.id), self._broker.clock)

    def _refuse_failure(self, lifecycle: BrokerLifecycle) -> None:
        if lifecycle.failure is not None:
            raise BrokerStopped(lifecycle.failure)

    def _heard(self, event: Event) -> None:
        assert self._loop is not None, "the loop tells it"
        broker_id, lifecycle = self._broker.id, self._loop.lifecycle
        match event:
            case Event.REGISTERED:
                log.info("broker %d is registered with epoch %d", broker_id, lifecycle.epoch)
            case Event.FENCED:
                log.warning("broker %d is fenced: the controllers have not heard of it for too long", broker_id)
            case Event.UNFENCED:
                log.info("broker %d is unfenced", broker_id)
            case Event.MUST_STOP if not self._is_leaving:
                self._ended(BrokerStopped(lifecycle.failure))
            case Event.MUST_STOP:
                log.warning("%s", lifecycle.failure)

    async def stop(self) -> None:
        """Hand our leaderships over, and leave. Who cannot follow the log any more would not see others take over: he
        goes at once, and the controllers find out by his silence."""
        if self._is_leaving:
            return
        self._is_leaving = True
        hands_over = self._settings.controlled_shutdown_enable and not self._following.has_failed
        if self._loop is not None and hands_over:
            await self._loop.shut_down()
        await self._end()

    async def vanish(self) -> None:
        """For tests: end without a word to anybody."""
        self._is_leaving = True
        await self._end()

    async def _end(self) -> None:
        await self.replication.stop()
        if self._loop is not None:
            await self._loop.stop()
        self._follower.stop()
        await self._following.hide_from(self._show)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.addresses is not None:
            await self.addresses.close()
        for connections in reversed(self._others):
            await connections.close()

    # --- the image ----------------------------------------------------------------------------------------------------

    async def _show(self, image: ClusterImage, changes: Sequence[Change] | None) -> None:
        """Until the very end: who hands its leaderships over must not lead any more when others do."""
        before = self._broker.image
        if changes is not None and not changes:
            self._broker.take_image(image)  # only its number grew
            return
        await self._follower.apply(image, changes)
        if changes is None or any(isinstance(each, RegisterBroker | UnregisterBroker) for each in changes):
            self._start(self._brokers_changed(before, image))
        self._assign_directories(None if changes is None else topics_of(before, image, changes))

    async def _brokers_changed(self, before: ClusterImage, image: ClusterImage) -> None:
        """Beside everything else: names of hosts may take long to resolve."""
        assert self.addresses is not None
        if (endpoints := _endpoints(image)) != self._endpoints:
            self._endpoints = endpoints
            await self.addresses.update(image.brokers.values())
        gone = _live(before) - _live(image)
        for connections in self._others:
            for broker_id in gone:
                connections.forget(broker_id)
            await connections.sweep()

    async def _registered_brokers(self) -> tuple[model.Broker, ...]:
        return tuple(self._broker.image.brokers.values())

    @property
    def controller_for_clients(self) -> int:
        """Any broker passes on what is meant for a controller, so one of them is named."""
        live = [each.id for each in self._broker.image.brokers.values() if not each.fenced]
        return self._broker.random.choice(live) if live else NO_CONTROLLER

    # --- log directories ----------------------------------------------------------------------------------------------

    def directory_failed(self) -> None:
        """What lies there is offline before the controllers hear of it: others will lead it then, and we must not
        follow them into a directory that is gone."""
        self._broker.see_failed_directories()
        self._report_failed_directories()

    def _report_failed_directories(self) -> None:
        directories = self._broker.replicas.directories
        failed = [each.directory_id for each in directories if not each.is_online and each.directory_id is not None]
        if failed and self._loop is not None:
            self._loop.directories_failed(failed)

    def directories_cordoned(self) -> None:
        """Other directories than before get no new replicas."""
        replicas = self._broker.replicas
        cordoned = [each for each in replicas.directories if each.path in replicas.cordoned]
        if self._loop is not None:
            self._loop.directories_cordoned([each.directory_id for each in cordoned if each.directory_id is not None])

    def replica_moved(self, name: TopicPartition) -> None:
        self._assign_directories({name.topic})

    def _assign_directories(self, topics: set[str] | None) -> None:
        """Tell the controllers where replicas of these topics lie that the image has elsewhere, or nowhere; None is
        all topics. One that cannot be served, in a directory that works, is lost: who has a good copy leads then."""
        broker = self._broker
        for partition in broker.replicas if topics is None or topics else ():
            state, index = partition.state, partition.name.partition
            if topics is not None and partition.name.topic not in topics:
                continue
            if state is None or broker.id not in state.replicas or not state.directories:
                continue
            directory = broker.replicas.directory_of(partition.name)
            if directory is None or not directory.is_online or directory.directory_id is None:
                self._assignments.forget(partition.topic_id, index)
                continue
            known = state.directories[state.replicas.index(broker.id)]
            place = directory.directory_id if partition.offline is None else LOST_DIRECTORY
            self._assignments.lies(partition.topic_id, index, place, known)
        if len(self._assignments) and self._assigning is None:
            self._assigning = self._start(self._assign())

    async def _assign(self) -> None:
        try:
            await self._broker.clock.sleep(ASSIGN_LINGER_MS)
            while (request := self._assignments.request(self.epoch)) is not None:
                try:
                    response = await self._ask(request)
                    assert isinstance(response, AssignReplicasToDirsResponse)
                    if self._assignments.answered(response):
                        continue
                except OttlaError as error:
                    log.info("the controller has not been told where replicas lie, and is told again: %s", error)
                await self._broker.clock.sleep(ASSIGN_AGAIN_MS)
        finally:
            self._assigning = None

    # --- what it asks -------------------------------------------------------------------------------------------------

    async def _ask(self, request: Message) -> Message:
        timeout_ms = self._settings.controller_socket_timeout_ms
        return await self._controllers.questions.ask(request, timeout_ms)

    async def _ask_about_in_sync_sets(self, request: AlterPartitionRequest) -> Message:
        return await self._ask(request)

    async def _ask_about_life(self, request: Message) -> Message:
        if isinstance(request, BrokerHeartbeatRequest):
            self._leave_out_what_is_unknown(request)
        # Longer than a session nobody should wait for an answer that says whether it lasts.
        limit_ms = min(self._settings.controller_socket_timeout_ms, self._settings.broker_session_timeout_ms)
        return await self._controllers.lifecycle.ask(request, limit_ms)

    def _leave_out_what_is_unknown(self, heartbeat: BrokerHeartbeatRequest) -> None:
        """Controllers of an older cluster have no words for directories, or for cordoned ones."""
        level = self._following.image.feature(METADATA_VERSION)
        if level < DIRECTORIES_SINCE:
            heartbeat.offline_log_dirs = []
        if level < CORDONED_SINCE:
            heartbeat.cordoned_log_dirs = None

    async def change(self, make_plan: Callable[[ClusterImage], P]) -> P:
        """Only for what changes nothing that the cluster keeps (levels of loggers, validation)."""
        plan = make_plan(self._broker.image)
        if plan.changes:
            raise NotController("only the controllers of this cluster change what it keeps")
        return plan

    async def forward(self, request: Message, context: RequestContext) -> Message | None:
        return await self._passing_on.answer(request, context)

    async def create_topic(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None:
        """As whoever asked for it, whose rights and quota count at the controllers; else as this broker itself."""
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._settings.request_timeout_ms)
        if asked_by is None:
            response = await self._ask(request)
        else:
            api, spoken = api_of(request), self.passed_on_versions
            version = api.versions.max if spoken is None else spoken.choose(api)
            response = await self._passing_on.ask(request, replace(asked_by, api_version=version))
        assert isinstance(response, CreateTopicsResponse)
        (answer,) = response.topics
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message)
        await wait_until(lambda: shows_answer(self._broker.image, request, response), self._broker.clock)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        response = await self._ask(AllocateProducerIdsRequest(broker_id=self._broker.id, broker_epoch=self.epoch))
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code:
            raise broker_error(response.error_code)
        return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        return self._questions.leads_elsewhere(topic, partition)

    async def ask_leader(self, topic: str, partition: int, request: Message) -> Message:
        return await self._questions.ask_leader(topic, partition, request)

    async def ask_broker(self, broker_id: int, request: Message) -> Message:
        return await self._questions.ask_broker(broker_id, request)

    # --- small parts --------------------------------------------------------------------------------------------------

    def _start(self, coroutine: Coroutine[object, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _live(image: ClusterImage) -> set[int]:
    """Brokers that can be asked for something."""
    return {broker.id for broker in image.brokers.values() if not broker.fenced}
