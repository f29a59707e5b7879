"""This broker as a member of a cluster: registered, with a view of the others, under orders of a controller.

    what it knows     brokers and partitions from UpdateMetadata (metadata_view.py), settings from the store
    what it has       only LeaderAndIsr and StopReplica say (replication/)
    what it changes   as controller everything, through its role; otherwise settings, quotas and credentials. For the
                      rest it asks the controller (topics that a client needs, producer ids) or says NotController.

1. The view is one image, as in a broker on its own; only where its parts come from differs.
2. A registration has an epoch. Orders for an earlier one are refused, and after a lost session a new one is made before
   anything else.
3. Orders, markers and questions to the controller have connections of their own (`Connections` of inter_broker.py).
4. The end is in order: the controller is asked, a few times if need be, to give our leaderships to others; then we
   leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, TypeVarTuple

from ottla.broker.cluster.apply import apply_image, apply_topic_settings, notify_groups, topics_of
from ottla.broker.cluster.broker_addresses import BrokerAddresses, IpNetwork
from ottla.broker.cluster.changes import P
from ottla.broker.cluster.controller_orders import ControllerOrders
from ottla.broker.cluster.first_view import wait_for_first_view
from ottla.broker.cluster.forwarding import Forwarder
from ottla.broker.cluster.inter_broker import Connections
from ottla.broker.cluster.leader_questions import LeaderQuestions
from ottla.broker.cluster.leaving import while_reachable
from ottla.broker.cluster.metadata_view import changes_of
from ottla.broker.cluster.on_pool import on_pool
from ottla.broker.cluster.visible import shows_changes, wait_until
from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock
from ottla.broker.quotas.forwarded import client_of, forwarding_client_id
from ottla.broker.replication.replication import BrokerConnections, Replication, fetch_version
from ottla.broker.requests.context import RequestContext
from ottla.cluster.changes import (
    AlterConfig,
    Change,
    CreateAcl,
    CreateTopic,
    RegisterBroker,
    RemoveAcl,
    SetController,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.controller.events import ProducerIdsAsked
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker as BrokerEntry
from ottla.cluster.store.events import ConfigChanged, ControllerChanged, SessionBack, SessionLost
from ottla.cluster.store.interface import SharedStore
from ottla.errors import (
    BrokerError,
    NotController,
    OttlaError,
    UnknownServerError,
    broker_error,
)
from ottla.light_dataclasses import replace
from ottla.ordered_set import OrderedSet
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.schema import Message
from ottla.values import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.controller_role import ControllerRole
    from ottla.broker.cluster.link import Decider

log = logging.getLogger(__name__)

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

ANYBODYS: Final = (AlterConfig, SetQuota, SetScramCredential, CreateAcl, RemoveAcl, SetStoredValue)
"""What every member may change."""
KEPT_IN_THE_STORE: Final = (*ANYBODYS, SetFeature)
REGISTER_AGAIN_MS: Final = 500.0
ANNOUNCE_AFTER_MS: Final = 100.0
REPEAT_AFTER_MS: Final = 1_000.0  # a disk that is full now may have room then
CONTROLLER_STEP_MS: Final = 50.0
CONTROLLER_STEPS: Final = 200


class MemberSettings(Protocol):
    """The part of the broker's settings that a member needs."""

    @property
    def controller_socket_timeout_ms(self) -> int: ...
    @property
    def controlled_shutdown_enable(self) -> bool: ...
    @property
    def controlled_shutdown_max_retries(self) -> int: ...
    @property
    def controlled_shutdown_retry_backoff_ms(self) -> int: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def broker_networks(self) -> Sequence[IpNetwork]: ...


class ClusterMember:
    """ClusterLink and Member of a broker in a cluster; see the module. Belongs to the broker's loop."""

    is_alone = False
    is_controller = False

    @property
    def decider(self) -> Decider | None:
        return self.role

    metadata_directory_id = ZERO_UUID

    def log_state(self) -> None:
        """The truth is in ZooKeeper."""

    metadata_log = None

    passed_on: frozenset[int] = frozenset()
    passed_on_versions = None

    def __init__(
        self,
        broker: Broker,
        store: SharedStore,
        connections: Connections,
        role: ControllerRole,
        fetchers: Sequence[BrokerConnections],
        forwarder: Forwarder,
        *,
        settings: MemberSettings,
        pool: Executor | None,
    ) -> None:
        self.epoch = -1
        self._connections = connections
        self.role = role
        self._broker = broker
        self._store = store
        self._settings = settings
        self._pool = pool
        self._me: BrokerEntry | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._commits = 0  # that are being written
        self._is_leaving = False
        self._is_announcing = False
        self._is_repeating = False
        self._has_view = False  # whether the controller has sent its view of the cluster
        self._view_changed = asyncio.Event()
        self.replication = Replication(
            broker,
            fetchers,
            self.ask_controller,
            broker_epoch=lambda: self.epoch,
            fetch_version=lambda: fetch_version(broker.settings.inter_broker_protocol_version),
        )
        self.addresses = BrokerAddresses(
            self._registered_brokers, networks=settings.broker_networks, clock=broker.clock
        )
        self.orders = ControllerOrders(
            broker, learn_settings=self._learn_settings, repeat=self._ask_for_orders, take_view=self._take_view
        )
        self._forwarder = forwarder
        self._questions = LeaderQuestions(
            broker, connections.leaders, connections.markers, timeout_ms=settings.request_timeout_ms
        )
        self._unread: set[str] = set()  # new topics whose settings could not be read yet

    # --- coming and going ---

    async def prepare(self) -> None:
        """Nothing: the controller says which partitions are ours."""

    async def start(self, me: BrokerEntry) -> None:
        """Register, listen to the store, stand for election."""
        self._loop = asyncio.get_running_loop()
        self._me = me
        self._apply_stored(())
        self.replication.start()
        self._broker.load_dynamic_settings()  # no change tells of what was set before this start
        await self._register()
        await self.addresses.refresh()
        self._store.wake_with(self._wake)
        self.role.start()
        self._process_events()
        await self._wait_for_first_view()

    async def _wait_for_first_view(self) -> None:
        """Ready means that clients get true answers."""
        await wait_for_first_view(
            lambda: self._broker.image if self._has_view else None,
            self._view_changed,
            broker_id=self._broker.id,
            topics=await self._in_store(self._store.topic_names),
            clock=self._broker.clock,
        )

    async def _registered_brokers(self) -> tuple[BrokerEntry, ...]:
        return await self._in_store(self._store.registered_brokers)

    def _wake(self) -> None:
        """Events wait; called by any thread."""
        assert self._loop is not None, "start subscribes to the store"
        self._loop.call_soon_threadsafe(self._process_events)

    async def _register(self) -> None:
        assert self._me is not None, "start names us"
        # A controller has heard of what we lost before we began; it need not hear of it again after every session.
        me = replace(self._me, lost_memory=self._me.lost_memory and not self._has_view)
        registered = await self._in_store(self._store.membership.register, me)
        self.epoch = registered.epoch
        self._apply_changes([RegisterBroker(registered)])

    async def _say_that_losses_are_known(self) -> None:
        """A controller that takes over later cannot tell who came into sync before it lost its memory and who since. We
        can: a controller has sent its view to this registration, so it did not trust us, and we come into sync anew."""
        if self._me is None or not self._me.lost_memory:
            return
        try:
            await self._register()
        except OttlaError as error:
            log.info("it stays written that broker %d lost its memory: %s", self._broker.id, error)

    async def stop(self) -> None:
        """Hand our leaderships over, resign, leave. Nothing waits for a store that is out of reach: the session ends by
        itself then, and the others elect new leaders."""
        if self._is_leaving:
            return
        self._is_leaving = True
        is_reachable = True
        if self._settings.controlled_shutdown_enable and self.epoch >= 0:
            is_reachable = await self._while_reachable(self._hand_over(), "our leaderships were not handed over")
        await self._end_roles()
        # At once: until then nobody is controller, and closing connections takes its time.
        if is_reachable:
            is_reachable = await self._while_reachable(self.role.resign(), "we did not resign as controller")
        if is_reachable and self.epoch >= 0:
            await self._while_reachable(self._leave(), "the cluster was not told that we leave")
        await self._end_connections()
        await self._close_store()

    async def vanish(self) -> None:
        """For tests: end without a word to anybody."""
        self._is_leaving = True
        await self._end_roles()
        await self._end_connections()

    async def _end_roles(self) -> None:
        await self.replication.stop()
        await self.role.close()

    async def _end_connections(self) -> None:
        await self.addresses.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections.close()

    async def _while_reachable(self, work: Coroutine[object, None, None], otherwise: str) -> bool:
        is_done = await while_reachable(work, partial(self._in_store, self._store.controller), self._broker.clock)
        if not is_done:
            log.warning("broker %d stops while its metadata store is out of reach: %s", self._broker.id, otherwise)
        return is_done

    async def _hand_over(self) -> None:
        if not set(self._broker.image.brokers) - {self._broker.id}:
            return  # the last one: there is nobody to take over
        for attempt in range(self._settings.controlled_shutdown_max_retries + 1):
            if attempt:
                await self._broker.clock.sleep(self._settings.controlled_shutdown_retry_backoff_ms)
            try:
                request = ControlledShutdownRequest(broker_id=self._broker.id, broker_epoch=self.epoch)
                response = await self.ask_controller(request)
            except OttlaError as error:
                log.info("the controller could not be asked to take over our partitions: %s", error)
                continue
            assert isinstance(response, ControlledShutdownResponse)
            if not response.error_code and not response.remaining_partitions:
                return
            log.info("%d partitions are still led by broker %d", len(response.remaining_partitions), self._broker.id)
        log.warning("broker %d stops although it may still lead partitions", self._broker.id)

    async def _leave(self) -> None:
        try:
            await self._in_store(self._store.membership.leave, self._broker.id)
        except OttlaError as error:
            log.warning("the cluster could not be told that broker %d leaves: %s", self._broker.id, error)

    async def _close_store(self) -> None:
        """Ends the session, and with it what still waits for the store on the pool's threads; others need those."""
        await asyncio.to_thread(self._store.close)

    # --- updates from the controller and the store ---

    def _take_view(self, request: UpdateMetadataRequest) -> None:
        """The controller's word about brokers and partitions."""
        before = set(self._broker.image.brokers)
        changes = changes_of(self._broker.image, request)
        self._apply_changes(changes)
        new = {each.topic.name for each in changes if isinstance(each, CreateTopic)}
        if new and self._has_view:
            self._start(self._learn_settings(new))
        if not self._has_view:
            self._has_view = True
            self._start(self._say_that_losses_are_known())
        self._view_changed.set()
        if any(isinstance(each, RegisterBroker | UnregisterBroker) for each in changes):
            self._start(self.addresses.update(self._broker.image.brokers.values()))
        for gone in before - set(self._broker.image.brokers):
            self._connections.forget(gone)
        self._start(self._connections.sweep())

    def _apply_changes(self, changes: Sequence[Change]) -> None:
        """These things are true now."""
        if changes:
            self._apply(apply_all(self._broker.image, changes), changes)

    def _apply_stored(self, changes: Sequence[Change]) -> None:
        """Settings, quotas, credentials, rules and features are in the store's image already: take them over."""
        kept = self._store.load()
        image = replace(
            self._broker.image,
            cluster_id=kept.cluster_id,
            change_number=self._broker.image.change_number + 1,
            configs=kept.configs,
            quotas=kept.quotas,
            features=kept.features,
            scram_credentials=kept.scram_credentials,
            acls=kept.acls,
            stored_values=kept.stored_values,
        )
        self._apply(image, changes)

    def _apply(self, image: ClusterImage, changes: Sequence[Change]) -> None:
        """Partitions are the controller's affair; everything else follows the view."""
        before = self._broker.image
        changed = apply_image(self._broker, image, changes)
        settings = [each for each in changes if isinstance(each, AlterConfig)]
        apply_topic_settings(self._broker, topics_of(before, image, settings))
        notify_groups(self._broker, before, changes, changed)

    async def _learn_settings(self, topics: Collection[str]) -> None:
        """Read the settings of new topics: no event carries them."""
        try:
            changes = await self._in_store(self._store.read_topic_settings, sorted(topics))
        except OttlaError as error:
            log.warning("the settings of new topics could not be read, they begin with the defaults: %s", error)
            self._unread |= set(topics)
            return
        if changes:
            self._apply_stored(changes)

    def _process_events(self) -> None:
        for event in self._store.take_events():
            match event:
                case ConfigChanged():
                    self._apply_stored(event.changes)
                    self.role.notify(event)
                case SessionLost():
                    self.epoch = -1
                    self.role.notify(event)
                case SessionBack():
                    self._start(self._register_again(event))
                case ControllerChanged():
                    self._controller_changed(event)
                case _:
                    self.role.notify(event)

    def _controller_changed(self, event: ControllerChanged) -> None:
        found = event.controller
        if found is not None and found.epoch >= self._broker.image.controller_epoch:
            self._apply_changes([SetController(found.broker_id, found.epoch)])
        self.role.notify(event)

    async def _register_again(self, event: SessionBack) -> None:
        while not self._is_leaving:
            try:
                await self._register()
                break
            except OttlaError as error:
                log.warning("broker %d could not register again: %s", self._broker.id, error)
                await self._broker.clock.sleep(REGISTER_AGAIN_MS)
        unread, self._unread = self._unread, set()
        if unread:
            await self._learn_settings(unread)
        self.role.notify(event)

    # --- what it changes ---

    @property
    def is_idle(self) -> bool:
        return not self._tasks and not self._commits

    async def change(self, make_plan: Callable[[ClusterImage], P]) -> P:
        """The plan when its changes are true and visible here; raises the BrokerError that stopped it."""
        if self.role.is_active:
            plan = await self.role.submit(make_plan)
            # The controller's own settings come back to nobody else's view as an event; take them over here.
            if kept := [each for each in plan.changes if isinstance(each, KEPT_IN_THE_STORE)]:
                self._apply_stored(kept)
            await self._wait_until_visible(plan.changes)
            return plan
        plan = make_plan(self._broker.image)
        if plan.changes:
            if not all(isinstance(each, ANYBODYS) for each in plan.changes):
                raise NotController(f"broker {self._broker.image.controller_id} is the controller")
            await self._commit(plan.changes)
        return plan

    async def _wait_until_visible(self, changes: Sequence[Change]) -> None:
        """A client that changed a topic asks for it next, and should see the change."""

        def is_visible() -> bool:
            truth = self.role.state.image if self.role.state is not None else self._broker.image
            return shows_changes(self._broker.image, truth, changes)

        await wait_until(is_visible, self._broker.clock)

    async def _commit(self, changes: Sequence[Change]) -> None:
        self._commits += 1
        try:
            await self._in_store(self._store.commit, changes)
            self._apply_stored(changes)
        except BrokerError:
            raise
        except Exception as error:
            log.exception("a change could not be written")
            raise UnknownServerError(str(error)) from error
        finally:
            self._commits -= 1

    def replica_moved(self, name: TopicPartition) -> None:
        """A controller of ZooKeeper's time does not know of directories."""

    def directory_failed(self) -> None:
        """Have the controller find other leaders for what was in a log directory of ours; once for many partitions
        that fail together."""
        if not self._is_announcing:
            self._is_announcing = True
            self._start(self._announce_failed_directory())

    async def _announce_failed_directory(self) -> None:
        await self._broker.clock.sleep(ANNOUNCE_AFTER_MS)
        self._is_announcing = False
        await self._have_orders_sent()

    def _ask_for_orders(self) -> None:
        """A controller that hears of a directory sends its orders again, and the answers tell it what is well now."""
        if not self._is_repeating:
            self._is_repeating = True
            self._start(self._repeat_orders())

    async def _repeat_orders(self) -> None:
        await self._broker.clock.sleep(REPEAT_AFTER_MS)
        self._is_repeating = False
        await self._have_orders_sent()

    async def _have_orders_sent(self) -> None:
        try:
            await self._in_store(self._store.announce_failed_directory, self._broker.id)
        except OttlaError as error:
            log.warning("the controller could not be told of a log directory: %s", error)

    # --- what it asks the controller for ---

    async def ask_controller(self, request: Message, client_id: str | None = None) -> Message:
        """The controller's answer; this broker may be the controller, and then asks itself through the network too."""
        controller_id = await self._controller_id()
        timeout_ms = self._settings.controller_socket_timeout_ms
        controller = self._connections.controller
        return await controller.send(controller_id, request, timeout_ms=timeout_ms, client_id=client_id)

    async def _controller_id(self) -> int:
        """Who is controller; a broker that has just come waits a little until somebody is."""
        for _ in range(CONTROLLER_STEPS):
            if self._broker.image.controller_id >= 0 or self._is_leaving:
                break
            await self._broker.clock.sleep(CONTROLLER_STEP_MS)
        return self._broker.image.controller_id

    @property
    def controller_for_clients(self) -> int:
        return self._broker.image.controller_id

    async def forward(self, request: Message, context: RequestContext) -> Message | None:
        return await self._forwarder.answer(request, context)

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        return self._questions.leads_elsewhere(topic, partition)

    async def ask_leader(self, topic: str, partition: int, request: Message) -> Message:
        return await self._questions.ask_leader(topic, partition, request)

    async def ask_broker(self, broker_id: int, request: Message) -> Message:
        return await self._questions.ask_broker(broker_id, request)

    async def create_topic(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None:
        client = None if asked_by is None else client_of(asked_by.principal, asked_by.client_id)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._settings.request_timeout_ms)
        if client is not None and self._broker.quotas.mutations_of(client) is None:
            client = None  # nothing counts it, so nobody has to know whose it is
        response = await self._forwarder.forward(request, client=client)
        if response is None:
            response = await self.ask_controller(request, forwarding_client_id(self._broker.id, client))
        assert isinstance(response, CreateTopicsResponse)
        (answer,) = response.topics
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        request = AllocateProducerIdsRequest(broker_id=self._broker.id, broker_epoch=self.epoch)
        response: object
        if self.role.is_active:
            response = await self.role.ask(ProducerIdsAsked(request))
        else:
            response = await self.ask_controller(request)
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code:
            raise broker_error(response.error_code)
        return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    # --- small parts ---

    async def _in_store(self, call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        return await on_pool(self._pool, call, *arguments)

    def _start(self, coroutine: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
