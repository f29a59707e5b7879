"""The broker: its parts, put together. Handlers use them; nothing here knows sockets (server.py adds those).

    image, link         what is true in the cluster, and how this broker changes it or asks others (cluster/)
    replicas, progress  the partitions that are here, and who hears when they advance (replication/)
    coordinators        groups and transactions: state machines whose state is kept in internal topics
    deadlines           one alarm for everything that waits

Three things move the parts, all of them on the loop: a record is appended (`progress.appended`), an offset is committed
(`progress.advanced`), and the image changes (cluster/apply.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.cluster.link import ClusterLink, Member
from ottla.broker.cluster.policies import NO_POLICIES, Policies, refusing_faults
from ottla.broker.cluster.producer_id_source import ProducerIdSource
from ottla.broker.cluster.topics_on_demand import TopicsOnDemand
from ottla.broker.coordinators.list import Coordinators
from ottla.broker.coordinators.loads import Loads
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.housekeeping.watchdog import Watchdog
from ottla.broker.observe.counts import BrokerCounts
from ottla.broker.observe.log_levels import LogLevels, set_levels
from ottla.broker.observe.request_metrics import RequestMetrics
from ottla.broker.observe.stalls import Stalls
from ottla.broker.observe.topic_metrics import TopicMetrics
from ottla.broker.produce.writer import Writer
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.connections import ConnectionRates
from ottla.broker.replication.corruption import Corruption
from ottla.broker.replication.manager import Logs, ReplicaManager
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.progress import PartitionProgress
from ottla.broker.requests.host_names import find_addresses, is_address, look_up
from ottla.broker.requests.pacing import Pacing
from ottla.broker.requests.running import Background, Work
from ottla.broker.requests.timing import FirstWait, noted
from ottla.broker.security.access import make_access
from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.broker.security.peers import Peers
from ottla.broker.security.stored_secrets import secrets_of
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.dynamic import DynamicSettings
from ottla.broker.settings.group_level import GroupLevelSettings, check_group_level
from ottla.broker.waiting.deadlines import Deadlines, HasDeadlines
from ottla.clock import Clock
from ottla.cluster import model
from ottla.cluster.config_layers import ConfigRules, TopicsInEffect
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, QuotaEntity
from ottla.cluster.topic_names import INTERNAL_TOPICS, SCHEMAS, is_legal_name
from ottla.cluster.topics import TopicRules
from ottla.errors import KafkaStorageError, OttlaError
from ottla.metrics import Registry
from ottla.settings import Settings
from ottla.storage.directory.checkpoints import LOG_STARTS
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups.coordinator import GroupCoordinator
    from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from ottla.broker.housekeeping.compaction import Cleaning
    from ottla.broker.network.processor import Connection
    from ottla.broker.observe.tracing import BrokerTracing
    from ottla.broker.registry.service import SchemaRegistry
    from ottla.broker.registry.validation import SchemaChecks
    from ottla.broker.replication.log_dir_moves import LogDirMoves
    from ottla.broker.sharing.sharing import Sharing
    from ottla.broker.telemetry.telemetry import ClientTelemetry

log = logging.getLogger(__name__)


class Broker:
    """One broker without its network.

    `pool` runs blocking disk work; None runs it on the loop (memory only). `make_link` makes the link to the cluster
    when everything it needs of the broker is there. `directory_failed` is called when a sync has failed.
    """

    cleaning: Cleaning | None = None  # while logs are compacted
    connections: Callable[[], Sequence[Connection]] = staticmethod(tuple)  # the network's, set by who has one
    internal_topics = INTERNAL_TOPICS
    is_legal_topic_name = staticmethod(is_legal_name)
    look_up_hosts = staticmethod(look_up)
    set_log_levels = staticmethod(set_levels)

    def __init__(
        self,
        broker_id: int,
        settings: BrokerSettings,
        *,
        clock: Clock,
        image: ClusterImage,
        make_link: Callable[[Broker], ClusterLink],
        logs: Logs,
        pool: Executor | None,
        random: Random,
        registry: Registry,
        served_apis: frozenset[int],
        policies: Policies = NO_POLICIES,
        directory_failed: Callable[[], None] = lambda: None,
        part_ended: Callable[[OttlaError], None] = lambda error: None,
    ) -> None:
        self.id = broker_id
        # One id under two names, for readers of either.
        settings = settings.replaced({"node.id": broker_id, "broker.id": broker_id})
        self.dynamic = DynamicSettings(settings)
        self.clock, self.random = clock, random
        self.served_apis = served_apis
        self._policies, self._pool = policies, pool
        self.access = make_access(settings, kept_topics=[SCHEMAS] if settings.schema_registry_address else [])
        self.stalls = Stalls(clock)
        self.watchdog = Watchdog(clock, part_ended)
        self.background = Background(self._watched)
        self.quotas = ClientQuotas(settings, registry, clock.monotonic_ms)
        self.connection_rates = ConnectionRates(settings, registry, clock.monotonic_ms)
        self._quotas_in_effect: Mapping[QuotaEntity, Mapping[str, float]] | None = None
        self.take_image(image)
        self.config_rules = self._make_config_rules(settings)
        self.load_dynamic_settings()
        # Each raises InvalidSetting when it could not apply settings that somebody wants to set while running.
        self.settings_checks: list[Callable[[BrokerSettings], object]] = []
        self.topics_in_effect = TopicsInEffect(self.config_rules)
        self._make_counters(registry, settings)
        self.tokens = DelegationTokens(settings)
        self.member: Member | None = None  # set by whoever makes the link of one
        self.pacing = Pacing(clock.monotonic_ms, pool)
        self.fetch_sessions = FetchSessions(
            lambda: random.randint(1, (1 << 31) - 1), slots=settings.max_incremental_fetch_session_cache_slots
        )
        self._sharing_deadlines: tuple[HasDeadlines, ...] = ()
        self.deadlines = self._make_deadlines()
        self._directory_failed = directory_failed
        self.writer = Writer(self)
        self.progress = self._make_progress(pool)
        self.replicas = self._make_replicas(logs)
        self.corruption = Corruption(self, pool)
        self.loads = Loads(self.background, clock.monotonic_ms)
        self.coordinators = Coordinators(self)
        self.link = make_link(self)
        self.peers = Peers(self)
        self.producer_ids = ProducerIdSource(self.link, self.background)
        self.topics_on_demand = TopicsOnDemand(
            self.link, self.background, settings=lambda: self.settings, image=lambda: self.image
        )

    def _make_progress(self, pool: Executor | None) -> PartitionProgress:
        return PartitionProgress(
            pool,
            clock=self.clock,
            wake=self.deadlines.arm,
            notify=self._committed,
            failed=self._sync_failed,
            synced_in=self.counts.flushes.record,
            before_round=self.writer.append_all,
        )

    async def _watched(self, work: Work[None]) -> None:
        """Background work, whose long steps are noted."""
        note = partial(self.stalls.note, getattr(work, "__qualname__", "background work"))
        await noted(work, FirstWait(self.clock.monotonic_ms, note))

    def _make_config_rules(self, settings: BrokerSettings) -> ConfigRules:
        return ConfigRules(
            broker_id=self.id,
            broker=settings,
            group=GroupLevelSettings,
            check_group=lambda own: check_group_level(own, self.settings),
            check_broker=self._check_settings,
            check_pattern=_check_pattern,
            policy=refusing_faults(self._policies.alter_config),
            loggers=LogLevels(),
            secrets=secrets_of(settings),
        )

    def _check_settings(self, settings: Settings) -> None:
        assert isinstance(settings, BrokerSettings), "the rules are about this broker's"
        for check in self.settings_checks:
            check(settings)

    def _make_counters(self, registry: Registry, settings: BrokerSettings) -> None:
        self.request_metrics = RequestMetrics(registry)
        self.topic_metrics = TopicMetrics(registry)
        self.counts = BrokerCounts()
        self.tracing: BrokerTracing | None = None
        if settings.ottla_tracing_enable:
            from ottla.broker.observe.tracing import BrokerTracing

            self.tracing = BrokerTracing.enabled()

    def _make_deadlines(self) -> Deadlines:
        def waiting() -> Sequence[HasDeadlines]:
            coordinators = [each.runtime for each in self.coordinators.made]
            return (*self.progress.with_deadlines, *self._sharing_deadlines, *coordinators)

        return Deadlines(self.clock, waiting)

    def _make_replicas(self, logs: Logs) -> ReplicaManager:
        return ReplicaManager(
            self.id,
            logs,
            settings_of=self.topics_in_effect.of,
            broker_epoch=lambda: self.link.epoch,
            monotonic_ms=self.clock.monotonic_ms,
        )

    @cached_property
    def log_dir_moves(self) -> LogDirMoves:
        """Replicas on their way to other directories; made when the first one is wanted elsewhere."""
        from ottla.broker.replication.log_dir_moves import LogDirMoves

        return LogDirMoves(self, self.replicas.logs, self._pool)

    async def write_log_starts(self) -> None:
        """Return when the disk says where logs start: a start that only memory knows is gone when we are killed."""
        for job in self.replicas.logs.checkpoint_jobs([LOG_STARTS]):
            if self._pool is None:
                job.run()
            else:
                await asyncio.get_running_loop().run_in_executor(self._pool, job.run)

    def is_compacting(self, name: TopicPartition) -> bool:
        return self.cleaning is not None and self.cleaning.is_at(name)

    def moved(self, partition: Partition) -> None:
        """The log of a partition lies in another directory now, as long as before."""
        if self.cleaning is not None:
            self.cleaning.restart(partition.name)
        self.progress.flushed(partition)
        self.link.replica_moved(partition.name)

    @cached_property
    def telemetry(self) -> ClientTelemetry:
        """The metrics that clients push; made when the first one asks."""
        from ottla.broker.telemetry.telemetry import ClientTelemetry

        return ClientTelemetry(
            image=lambda: self.image,
            limit_bytes=lambda: self.settings.telemetry_max_bytes,
            monotonic_ms=self.clock.monotonic_ms,
            random_bytes=self.random.randbytes,
        )

    @cached_property
    def sharing(self) -> Sharing:
        """Share groups, as far as the leader of partitions has to do with them; loaded when somebody first fetches."""
        from ottla.broker.sharing.sharing import Sharing

        made = Sharing(self)
        self._sharing_deadlines = (made.leaders,)
        return made

    @property
    def is_sharing(self) -> bool:
        """Whether the part for share groups was needed so far."""
        return bool(self._sharing_deadlines)

    def forget_shared(self, name: TopicPartition) -> None:
        """The partition is led elsewhere now, or in another epoch; so are its share partitions."""
        if self.is_sharing:
            self.sharing.leaders.forget(name)

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

    @cached_property
    def schema_registry(self) -> SchemaRegistry:
        """Schemas of records; loaded when somebody asks for one."""
        from ottla.broker.registry.service import SchemaRegistry

        return SchemaRegistry(self)

    @cached_property
    def schema_checks(self) -> SchemaChecks:
        """Of records for topics that want schemas; loaded with the first of those."""
        from ottla.broker.registry.validation import SchemaChecks

        return SchemaChecks(self)

    @property
    def settings(self) -> BrokerSettings:
        """What holds now: what the broker was started with, and what was changed since."""
        return self.dynamic.current

    def take_image(self, image: ClusterImage) -> None:
        """This is true now; whoever sets the image does it by this, so that rules of access and quotas follow."""
        self.image = image
        self.access.update(image)
        if image.quotas is not self._quotas_in_effect:
            self._quotas_in_effect = image.quotas
            self.quotas.load(image.quotas.items())
            self.background.start(self._limit_addresses(self.quotas.address_limits))

    async def _limit_addresses(self, limits: Mapping[str | None, float]) -> None:
        """Quotas of addresses; what is a host name is looked up first."""
        names = [name for name in limits if name is not None and not is_address(name)]
        found = await find_addresses(names, self.clock) if names else {}
        if limits is self.quotas.address_limits:  # they were not changed meanwhile
            by_address = {name: limit for name, limit in limits.items() if name not in found}
            for name, addresses in found.items():
                by_address.update(dict.fromkeys(addresses - by_address.keys(), limits[name]))
            self.connection_rates.load(by_address)

    def load_dynamic_settings(self) -> None:
        """Take over what the image says of this broker's settings."""
        own = self.image.config(self.config_rules.broker_resource)
        self.dynamic.load(self.image.config(ALL_BROKERS), self.config_rules.readable(own))

    @property
    def topic_rules(self) -> TopicRules:
        return TopicRules(
            configs=self.config_rules,
            default_partitions=self.settings.num_partitions,
            default_replication_factor=self.settings.default_replication_factor,
            deletion_enabled=self.settings.delete_topic_enable,
            policy=refusing_faults(self._policies.create_topic),
            room=self.replicas.partition_room(self.image),
        )

    def _committed(self, name: TopicPartition) -> None:
        coordinator = self.coordinators.of_topic(name.topic)
        if coordinator is not None:
            coordinator.runtime.committed(name.partition)

    async def start(self, me: model.Broker) -> None:
        """Join the cluster, load the coordinators, get producer ids."""
        await self.link.start(me)
        self.producer_ids.fetch_block()

    # -- disks that fail ---------------------------------------------------------------------------------------------

    def _sync_failed(self, partition: Partition, error: KafkaStorageError) -> None:
        if self.replicas.get(partition.name) is not partition:
            return  # it was deleted while it was synced
        self.take_offline(partition, error)
        self._directory_failed()

    def see_failed_directories(self) -> None:
        """Take offline what lies in directories that have failed since the last look."""
        self._directory_failed()

    def take_offline(self, partition: Partition, error: KafkaStorageError) -> None:
        """The disk under a partition failed, or lost some of it: pending requests get the error, and nothing is served
        from it any more."""
        if partition.offline is not None:
            return
        log.error("%s is offline here: %s", partition.name, error)
        partition.offline = error
        self.link.directory_failed()
        directory = self.replicas.directory_of(partition.name)
        if directory is not None and directory.is_online:
            self.link.replica_moved(partition.name)  # nothing else of its directory is gone, so it is said of it alone
        self.progress.flushed(partition)
        coordinator = self.coordinators.of_topic(partition.name.topic)
        if coordinator is not None:
            coordinator.runtime.unload(partition.name.partition)

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Nothing is on its way to the disk."""
        return self.progress.is_idle and self.link.is_idle and self.pacing.is_idle

    def stop(self) -> None:
        """Answer everybody who waits; the owner then waits for `is_quiet` and closes the logs."""
        self.deadlines.cancel()
        self.loads.stop()
        self.progress.close()
        self.pacing.stop()


def _check_pattern(pattern: str) -> None:
    """Raises for what clients cannot be matched by; loaded when somebody sets one."""
    from ottla.patterns.patterns import compile_pattern

    compile_pattern(pattern)
