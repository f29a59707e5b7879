"""The broker: the parts that handlers use, and what must happen between them when something changes.

Three things move the parts, all of them on the loop:

    a record is appended   `appended` has it flushed where durability asks for it, and tells who waits
    an offset is committed `moved` completes waiting produces and fetches, and what coordinators promised
    the image changes      `adopt` makes the partitions follow it, loads and unloads coordinators

Nothing here knows sockets; server.py puts a network in front of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.cluster.changes import Apart, ChangeQueue
from ottla.broker.cluster.internal_topics import internal_topic_request
from ottla.broker.cluster.topics_on_demand import TopicsOnDemand
from ottla.broker.coordinators.groups import coordinator as groups
from ottla.broker.coordinators.groups.coordinator import GroupCoordinator
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.home import Home
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.broker.coordinators.transactions import coordinator as transactions
from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator
from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock, ProducerIdBlocks
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.housekeeping.flusher import Flusher
from ottla.broker.observe.log_levels import LogLevels, set_levels
from ottla.broker.observe.request_metrics import RequestMetrics, TopicMetrics
from ottla.broker.replication.commits import Commits
from ottla.broker.replication.manager import Logs, Moves, ReplicaManager
from ottla.broker.replication.markers import write_marker
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.answers import Later
from ottla.broker.requests.host_names import look_up
from ottla.broker.requests.long_work import LongWork, Steps, at_once
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.dynamic import DynamicSettings
from ottla.broker.settings.group_level import ConsumerTimes, GroupLevelSettings, check_group_level, consumer_times
from ottla.broker.waiting.purgatory import Purgatory
from ottla.clock import Clock
from ottla.cluster.brokers import ProducerIds, allocate_producer_ids
from ottla.cluster.changes import AddPartitions, AlterConfig, Change, ChangePartition, CreateTopic, RemoveTopic
from ottla.cluster.config_layers import ConfigRules, TopicsInEffect
from ottla.cluster.features import SUPPORTED
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, ConfigResource, ResourceType
from ottla.cluster.plan import Plan
from ottla.cluster.topic_names import INTERNAL_TOPICS, check_name
from ottla.cluster.topics import TopicRules, create_topics
from ottla.errors import BrokerError, KafkaStorageError, LeaderNotAvailable, OttlaError
from ottla.metrics import Registry
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.schema import Message
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition, random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.cluster.controller_role import ControllerRole
    from ottla.broker.cluster.membership import ClusterMember
    from ottla.broker.replication.replication import Replication

log = logging.getLogger(__name__)


class LiveView:
    """ClusterView of whatever image is the newest."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def topic_id(self, name: str) -> bytes | None:
        return self._image().topic_id(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._image().topic_name(topic_id)

    def partition_count(self, name: str) -> int | None:
        return self._image().partition_count(name)

    def topics(self) -> Iterable[str]:
        return self._image().topics()

    def partition_racks(self, name: str, partition: int) -> Sequence[str]:
        """The racks of a partition's replicas, those that have one."""
        image = self._image()
        state = image.partition(name, partition)
        brokers = [image.brokers.get(each) for each in state.replicas] if state is not None else []
        return [each.rack for each in brokers if each is not None and each.rack is not None]


class Broker:
    """One broker without its network. `pool` runs blocking disk work; None runs it on the loop (memory only)."""

    supported_features = SUPPORTED
    internal_topics = INTERNAL_TOPICS
    look_up_hosts = staticmethod(look_up)
    set_log_levels = staticmethod(set_levels)

    def __init__(
        self,
        broker_id: int,
        settings: BrokerSettings,
        *,
        clock: Clock,
        store: Any,
        logs: Logs,
        pool: Executor | None,
        random: Random,
        registry: Registry,
        served_apis: frozenset[int],
    ) -> None:
        self.id = broker_id
        # One id under two names: who asks for either is told it.
        settings = settings.replaced({"node.id": broker_id, "broker.id": broker_id})
        self.dynamic = DynamicSettings(settings)
        self.clock = clock
        self.random = random
        self.served_apis = served_apis
        self.image: ClusterImage = store.load()
        self._apply_broker_settings()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0.0
        self.config_rules = ConfigRules(
            broker_id=broker_id,
            broker=settings,
            group=GroupLevelSettings,
            check_group=lambda own: check_group_level(own, self.settings),
            loggers=LogLevels(),
        )
        self.topics_in_effect = TopicsInEffect(self.config_rules)
        self.request_metrics = RequestMetrics(registry)
        self.topic_metrics = TopicMetrics(registry)
        self.changes: ChangeQueue | ClusterMember = ChangeQueue(store, pool, self.adopt)
        self.member: ClusterMember | None = None
        self.replicas = ReplicaManager(broker_id, logs, settings_of=self._topic_settings)
        self.fetch_sessions = FetchSessions(
            lambda: random.randint(1, (1 << 31) - 1), slots=settings.max_incremental_fetch_session_cache_slots
        )
        self.produce_purgatory = Purgatory(self.arm)
        self.fetch_purgatory = Purgatory(self.arm)
        self.commits = Commits()
        self.long_work = LongWork(clock.monotonic_ms, pool)
        self.replication: Replication | None = None  # with other brokers, in a cluster
        self.offline: Callable[[], None] | None = None  # told when a sync failed
        self._syncing: dict[TopicPartition, list[tuple[int, asyncio.Future[None]]]] = {}
        self._flusher = Flusher(pool, clock=clock, flushed=self._flushed, failed=self._storage_failed)
        self._on_demand = TopicsOnDemand()
        self._producer_ids = ProducerIdBlocks()
        self.groups = self._make_groups()
        self.transactions = self._make_transactions()
        self._runtimes: dict[str, Runtime[Any]] = {
            groups.TOPIC: self.groups.runtime,
            transactions.TOPIC: self.transactions.runtime,
        }

    @property
    def settings(self) -> BrokerSettings:
        """What holds now: what the broker was started with, and what was changed since."""
        return self.dynamic.current

    def _apply_broker_settings(self) -> None:
        own = self.image.config(ConfigResource(ResourceType.BROKER, str(self.id)))
        self.dynamic.load(self.image.config(ALL_BROKERS), own)

    # -- making ------------------------------------------------------------------------------------------------------

    def _make_groups(self) -> GroupCoordinator:
        def make_shard(index: int, partition: InternalPartition) -> GroupShard:
            return GroupShard(
                self.settings, LiveView(lambda: self.image), self._new_uuid_text, times_of=self._consumer_times
            )

        runtime = Runtime(
            groups.TOPIC, make_shard=make_shard, kinds=groups.KINDS, now_ms=self.clock.now_ms, wake=self.arm
        )
        return GroupCoordinator(runtime, lambda: self.image.partition_count(groups.TOPIC))

    def _consumer_times(self, group_id: str) -> ConsumerTimes:
        return consumer_times(self.image.config(ConfigResource(ResourceType.GROUP, group_id)), self.settings)

    def _make_transactions(self) -> TransactionCoordinator:
        def make_shard(index: int, partition: InternalPartition) -> TransactionShard:
            return TransactionShard(
                self.settings,
                coordinator_epoch=partition.leader_epoch,
                next_producer_id=self.next_producer_id,
                transaction_version=self.image.feature("transaction.version"),
            )

        made = TransactionCoordinator(
            lambda: self.image.partition_count(transactions.TOPIC),
            lambda markers, name, told: write_marker(self, markers, name, told),
        )
        made.runtime = Runtime(
            transactions.TOPIC,
            make_shard=make_shard,
            kinds=transactions.KINDS,
            now_ms=self.clock.now_ms,
            other_effect=made.carry_out,
            wake=self.arm,
        )
        return made

    @property
    def controller_role(self) -> ControllerRole | None:
        return None if self.member is None else self.member.role

    def join(self, member: ClusterMember) -> None:
        """Be a member of a cluster from now on: the image is a view, and what we have is what we are told to have."""
        self.member = self.changes = member
        self.replicas.broker_epoch = lambda: member.epoch
        self.replicas.monotonic_ms = self.clock.monotonic_ms
        self.transactions.ask_elsewhere = partial(member.ask_leader, transactions.TOPIC)

    def start(self) -> None:
        """Make the disk follow the image, load the coordinators, get producer ids."""
        if self.member is None:
            at_once(self._follow(self.image, None))
        self._ask_for_producer_ids()

    # -- what changes ------------------------------------------------------------------------------------------------

    def appended(self, partition: Partition) -> None:
        """Something was appended: have it flushed if it must be, or tell who waits."""
        if partition.needs_flush:
            self._flusher.mark(partition)
            if partition.in_sync is not None:
                self.fetch_purgatory.check(partition.name)  # followers need not wait for our disk
        else:
            self._tell(partition)

    def flush(self, partition: Partition) -> None:
        """Have this partition synced, whoever waits for it or nobody."""
        self._flusher.mark(partition)

    def moved(self, partition: Partition) -> None:
        """Something was flushed or replicated: the high watermark may have moved."""
        partition.advance()
        self._tell(partition)

    def told_committed(self, partition: Partition) -> None:
        """The high watermark moved by what another broker said."""
        self._tell(partition)

    def synced(self, partition: Partition) -> Awaitable[None]:
        """Sync a partition; done when all it has now is on the disk, or the disk failed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._syncing.setdefault(partition.name, []).append((partition.log_end_offset, future))
        self._flusher.mark(partition)
        return future

    def _flushed(self, partition: Partition) -> None:
        waiting = self._syncing.pop(partition.name, None)
        if waiting is not None:
            still = [each for each in waiting if each[0] > partition.log.flushed_offset and partition.offline is None]
            for offset, future in waiting:
                if (offset, future) not in still and not future.done():
                    future.set_result(None)
            if still:
                self._syncing[partition.name] = still
        self.moved(partition)

    def _tell(self, partition: Partition) -> None:
        name = partition.name
        self.produce_purgatory.check(name)
        self.fetch_purgatory.check(name)
        self.commits.moved(partition)
        runtime = self._runtimes.get(name.topic)
        if runtime is not None:
            runtime.committed(name.partition)

    def adopt(self, image: ClusterImage, changes: Sequence[Change]) -> Later[None] | None:
        """The cluster's truth changed; None when all of it has been followed, otherwise when that will be."""
        return self.long_work.do(self._adopting(image, changes))

    def _adopting(self, image: ClusterImage, changes: Sequence[Change]) -> Steps[None]:
        before, self.image = self.image, image
        deleted = [
            (before.topic_name(each.topic_id) or "", each.topic_id) for each in changes if isinstance(each, RemoveTopic)
        ]
        if any(isinstance(each, AlterConfig) and each.resource.type is ResourceType.BROKER for each in changes):
            self._apply_broker_settings()
        changed = _topics_of(before, image, changes)
        if self.member is None:
            yield from self._follow(image, changed)
        else:
            self._renew_settings(_topics_of(before, image, [each for each in changes if isinstance(each, AlterConfig)]))
        for _, transaction_shard in self.transactions.runtime.shards():
            transaction_shard.transaction_version = image.feature("transaction.version")
        self._tell_groups(deleted, changed)

    def _renew_settings(self, topics: set[str] | None) -> None:
        """A member's partitions are the controller's affair, but their settings come with the view."""
        known: dict[str, TopicSettings] = {}
        for partition in self.replicas:
            topic = partition.name.topic
            if topics is None or topic in topics:
                if topic not in known:
                    known[topic] = self._topic_settings(self.image, topic)
                partition.take_settings(known[topic])

    def _tell_groups(self, deleted: list[tuple[str, bytes]], changed: set[str] | None) -> None:
        """Groups forget the offsets of topics that are gone, and share out partitions that are new."""
        for index, _ in list(self.groups.runtime.shards()):
            if deleted:
                self.groups.runtime.tell(index, lambda shard, now_ms: shard.topics_deleted(deleted, now_ms))
            if changed is None or changed:
                self.groups.runtime.tell(index, lambda shard, now_ms: shard.topics_changed(changed, now_ms))

    def _follow(self, image: ClusterImage, topics: set[str] | None) -> Steps[None]:
        moves = yield from self.replicas.follow(image, topics, self.clock.now_ms())
        yield from self.carry_out(moves)

    def carry_out(self, moves: Moves) -> Steps[None]:
        """Partitions came, went, or have another leader: who waits for them is told, coordinators move with them."""
        if self.replication is not None:
            self.replication.take(moves)
        for name in [*moves.removed, *(each.name for each in moves.followers)]:
            self.produce_purgatory.check(name)
            self.fetch_purgatory.check(name)
            self.commits.forget(name)
            runtime = self._runtimes.get(name.topic)
            if runtime is not None:
                runtime.unload(name.partition)
        for partition in moves.new_leaders:
            runtime = self._runtimes.get(partition.name.topic)
            if runtime is not None:
                runtime.unload(partition.name.partition)  # what was led in an earlier epoch begins anew
                runtime.load(partition.name.partition, Home(partition, self.appended))
        for partition in moves.new_leaders:
            self.appended(partition)
            yield
        self.arm()

    def _storage_failed(self, partition: Partition, error: KafkaStorageError) -> None:
        if self.replicas.get(partition.name) is not partition:
            return  # it was deleted while it was synced
        self.take_offline(partition, error)
        if self.offline is not None:
            self.offline()

    def take_offline(self, partition: Partition, error: KafkaStorageError) -> None:
        """The disk under a partition failed: whoever waits for it is told, and nobody is served from it any more."""
        if partition.offline is not None:
            return
        log.error("%s: the disk failed, the partition is offline: %s", partition.name, error)
        partition.offline = error
        if self.member is not None:
            self.member.directory_failed()
        self._flushed(partition)
        runtime = self._runtimes.get(partition.name.topic)
        if runtime is not None:
            runtime.unload(partition.name.partition)

    # -- topics ------------------------------------------------------------------------------------------------------

    @property
    def topic_rules(self) -> TopicRules:
        return TopicRules(
            configs=self.config_rules,
            default_partitions=self.settings.num_partitions,
            default_replication_factor=self.settings.default_replication_factor,
            deletion_enabled=self.settings.delete_topic_enable,
            room=self.replicas.partition_room(self.image),
        )

    def _topic_settings(self, image: ClusterImage, name: str) -> TopicSettings:
        return self.topics_in_effect.of(image, name)

    def is_legal_topic_name(self, name: str) -> bool:
        try:
            check_name(name)
        except BrokerError:
            return False
        return True

    def create_missing_topics(self, names: Sequence[str]) -> dict[str, BrokerError]:
        """Begin to make topics that a client asked for; says why it is refused, or that it must ask again."""
        if not self.settings.auto_create_topics_enable:
            return {}
        wanted = [name for name in names if self.is_legal_topic_name(name)]
        for name in wanted:
            if name in INTERNAL_TOPICS:
                self.create_internal_topic(name)
            else:
                self._create(_with_defaults(name))
        return {name: LeaderNotAvailable() for name in wanted if self.image.topic(name) is None}

    def create_internal_topic(self, name: str) -> None:
        self._create(internal_topic_request(name, self.settings, is_alone=self.member is None))

    def _create(self, topic: CreatableTopic) -> None:
        if not self._on_demand.begin(topic.name):
            return
        if self.member is not None:
            self.member.create_topic(topic, lambda error: self._on_demand.ended(topic.name, error))
            return

        def plan(image: ClusterImage) -> Plan[Any]:
            if image.topic(topic.name) is not None:
                return Plan((), [])
            request = CreateTopicsRequest(topics=[topic], timeout_ms=0)
            return create_topics(image, request, self.topic_rules, self.random)

        def done(given: Any) -> None:
            refusals = [each.error_message for each in getattr(given, "answers", ()) if each.error_code]
            refusal = given if isinstance(given, BrokerError) else next(iter(refusals), None)
            self._on_demand.ended(topic.name, refusal)

        self.changes.submit(plan).when_given(done)

    def change(self, make_plan: Callable[[ClusterImage], Any], answer: Callable[[Any], Message]) -> Later[Any]:
        """Plan, store, then answer with what `answer` makes of the plan or of the error that stopped it."""
        later: Later[Any] = Later()
        if self.long_work.is_at_work:  # the request is large, or it would not have come this way
            make_plan = Apart(make_plan)
        self.changes.submit(make_plan).when_given(lambda given: later.give(answer(given)))
        return later

    # -- producer ids ------------------------------------------------------------------------------------------------

    def next_producer_id(self) -> int:
        try:
            return self._producer_ids.next_id()
        finally:
            self._ask_for_producer_ids()

    def _ask_for_producer_ids(self) -> None:
        if self._producer_ids.wanted() is None:
            return
        if self.member is not None:
            self.member.allocate_producer_ids(
                lambda first, size: self._producer_ids.block_stored(ProducerIdBlock(first, size)),
                self._no_producer_ids,
            )
            return

        def plan(image: ClusterImage) -> Plan[ProducerIds]:
            broker = image.brokers.get(self.id)
            change, block = allocate_producer_ids(image, self.id, broker.epoch if broker is not None else -1)
            return Plan((change,), [block])

        def stored(given: Any) -> None:
            if isinstance(given, BrokerError):
                self._no_producer_ids(given)
            else:
                self._producer_ids.block_stored(ProducerIdBlock(*given.answers[0]))

        self.changes.submit(plan).when_given(stored)

    def _no_producer_ids(self, error: OttlaError) -> None:
        log.warning("no block of producer ids: %s", error)
        self._producer_ids.ask_failed()

    def _new_uuid_text(self) -> str:
        return uuid_to_text(random_uuid(self.random.randbytes))

    # -- time --------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Have `tick` called when the next deadline comes. Called whenever a new one may have been set."""
        due_in_ms = self._due_in_ms()
        if due_in_ms is None:
            return
        due_ms = self.clock.monotonic_ms() + due_in_ms
        if self._alarm is not None:
            if self._alarm_ms <= due_ms:
                return
            self._alarm.cancel()
        self._alarm_ms = due_ms
        self._alarm = asyncio.get_running_loop().call_later(max(due_in_ms, 0) / 1000, self.tick)

    def _due_in_ms(self) -> float | None:
        monotonic_ms, now_ms = self.clock.monotonic_ms(), self.clock.now_ms()
        waits = [
            due - monotonic_ms
            for due in (self.produce_purgatory.next_due_ms(), self.fetch_purgatory.next_due_ms())
            if due is not None
        ]
        waits += [
            due - now_ms
            for due in (self.groups.runtime.next_due_ms(), self.transactions.runtime.next_due_ms())
            if due is not None
        ]
        return min(waits, default=None)

    def tick(self) -> None:
        """Deadlines that have come."""
        self._alarm = None
        monotonic_ms, now_ms = self.clock.monotonic_ms(), self.clock.now_ms()
        self.produce_purgatory.expire_due(monotonic_ms)
        self.fetch_purgatory.expire_due(monotonic_ms)
        self.groups.runtime.fire_due(now_ms)
        self.transactions.runtime.fire_due(now_ms)
        self.arm()

    # -- for tests ---------------------------------------------------------------------------------------------------

    def forget_since(self, end_offsets: Mapping[TopicPartition, int], topics: Collection[str]) -> None:
        """Remove topics that are not among `topics`, cut logs back to these ends, load the coordinators anew."""
        new = [topic.id for topic in map(self.image.topic, self.image.topics()) if topic and topic.name not in topics]
        if new:
            self.changes.submit(lambda image: Plan(tuple(map(RemoveTopic, new)), []))
        now_ms = self.clock.now_ms()
        for partition in list(self.replicas):
            end = end_offsets.get(partition.name)
            if end is None or end >= partition.log.log_end_offset:
                continue
            partition.log.truncate_to(end, now_ms)
            runtime = self._runtimes.get(partition.name.topic)
            if runtime is not None:
                runtime.unload(partition.name.partition)
                runtime.load(partition.name.partition, Home(partition, self.appended))
            self.moved(partition)

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Nothing is on its way to the disk."""
        return self._flusher.is_idle and self.changes.is_idle and self.long_work.is_idle

    def stop(self) -> None:
        """Answer everybody who waits; the owner then waits for `is_quiet` and closes the logs."""
        if self._alarm is not None:
            self._alarm.cancel()
        self.produce_purgatory.expire_all()
        self.fetch_purgatory.expire_all()
        self.long_work.stop()


def _with_defaults(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[])


def _topics_of(before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> set[str] | None:
    """The topics that changes are about; None when it may be any of them."""
    found: set[str] = set()
    for change in changes:
        if isinstance(change, CreateTopic):
            found.add(change.topic.name)
        elif isinstance(change, RemoveTopic | AddPartitions | ChangePartition):
            # A removed topic has its name only in the image before, a new one only in the image after.
            found.add(before.topic_name(change.topic_id) or after.topic_name(change.topic_id) or "")
        elif isinstance(change, AlterConfig):
            if change.resource.type is ResourceType.BROKER:
                return None  # defaults of every topic
            if change.resource.type is ResourceType.TOPIC:
                found.add(change.resource.name)
    return found
