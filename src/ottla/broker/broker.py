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
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.cluster.link import ClusterLink
from ottla.broker.cluster.producer_id_source import ProducerIdSource
from ottla.broker.cluster.topics_on_demand import TopicsOnDemand
from ottla.broker.coordinators.list import Coordinators
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.observe.log_levels import LogLevels, set_levels
from ottla.broker.observe.request_metrics import RequestMetrics, TopicMetrics
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.connections import ConnectionRates
from ottla.broker.replication.manager import Logs, ReplicaManager
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.progress import PartitionProgress
from ottla.broker.requests.host_names import find_addresses, is_address, look_up
from ottla.broker.requests.pacing import Pacing
from ottla.broker.requests.running import Background
from ottla.broker.security.access import make_access
from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.broker.security.peers import Peers
from ottla.broker.security.stored_secrets import secrets_of
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.dynamic import DynamicSettings
from ottla.broker.settings.group_level import GroupLevelSettings, check_group_level
from ottla.broker.waiting.deadlines import Deadlines
from ottla.clock import Clock
from ottla.cluster import model
from ottla.cluster.config_layers import ConfigRules, TopicsInEffect
from ottla.cluster.features import SUPPORTED
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, QuotaEntity
from ottla.cluster.topic_names import INTERNAL_TOPICS, is_legal_name
from ottla.cluster.topics import TopicRules
from ottla.errors import KafkaStorageError
from ottla.metrics import Registry
from ottla.settings import Settings
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups.coordinator import GroupCoordinator
    from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator

log = logging.getLogger(__name__)


class Broker:
    """One broker without its network.

    `pool` runs blocking disk work; None runs it on the loop (memory only). `make_link` makes the link to the cluster
    when everything it needs of the broker is there. `directory_failed` is called when a sync has failed.
    """

    supported_features = SUPPORTED
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
        directory_failed: Callable[[], None] = lambda: None,
    ) -> None:
        self.id = broker_id
        # One id under two names, for readers of either.
        settings = settings.replaced({"node.id": broker_id, "broker.id": broker_id})
        self.dynamic = DynamicSettings(settings)
        self.clock = clock
        self.random = random
        self.served_apis = served_apis
        self.access = make_access(settings)
        self.background = Background()
        self.quotas = ClientQuotas(settings, registry, clock.monotonic_ms)
        self.connection_rates = ConnectionRates(settings, registry, clock.monotonic_ms)
        self._quotas_in_effect: Mapping[QuotaEntity, Mapping[str, float]] | None = None
        self.take_image(image)
        self.config_rules = self._make_config_rules(settings)
        self.load_dynamic_settings()
        # Each raises InvalidSetting when it could not apply settings that somebody wants to set while running.
        self.settings_checks: list[Callable[[BrokerSettings], object]] = []
        self.topics_in_effect = TopicsInEffect(self.config_rules)
        self.request_metrics = RequestMetrics(registry)
        self.topic_metrics = TopicMetrics(registry)
        self.tokens = DelegationTokens(settings)
        self.orders = asyncio.Lock()  # of the controller are carried out one after the other
        self.pacing = Pacing(clock.monotonic_ms, pool)
        self.fetch_sessions = FetchSessions(
            lambda: random.randint(1, (1 << 31) - 1), slots=settings.max_incremental_fetch_session_cache_slots
        )
        self.deadlines = self._make_deadlines()
        self._directory_failed = directory_failed
        self.progress = PartitionProgress(
            pool,
            clock=clock,
            wake=self.deadlines.arm,
            notify=self._committed,
            failed=self._sync_failed,
        )
        self.replicas = self._make_replicas(logs)
        self.coordinators = Coordinators(self)
        self.link = make_link(self)
        self.peers = Peers(self)
        self.producer_ids = ProducerIdSource(self.link, self.background)
        self.topics_on_demand = TopicsOnDemand(
            self.link, self.background, settings=lambda: self.settings, image=lambda: self.image
        )

    def _make_config_rules(self, settings: BrokerSettings) -> ConfigRules:
        return ConfigRules(
            broker_id=self.id,
            broker=settings,
            group=GroupLevelSettings,
            check_group=lambda own: check_group_level(own, self.settings),
            check_broker=self._check_settings,
            loggers=LogLevels(),
            secrets=secrets_of(settings),
        )

    def _check_settings(self, settings: Settings) -> None:
        assert isinstance(settings, BrokerSettings), "the rules are about this broker's"
        for check in self.settings_checks:
            check(settings)

    def _make_deadlines(self) -> Deadlines:
        return Deadlines(
            self.clock,
            monotonic=lambda: self.progress.with_deadlines,
            wall=lambda: [each.runtime for each in self.coordinators.made],
        )

    def _make_replicas(self, logs: Logs) -> ReplicaManager:
        return ReplicaManager(
            self.id,
            logs,
            settings_of=self.topics_in_effect.of,
            broker_epoch=lambda: self.link.epoch,
            monotonic_ms=self.clock.monotonic_ms,
        )

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

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

    def take_offline(self, partition: Partition, error: KafkaStorageError) -> None:
        """The disk under a partition failed: pending requests get the error, and nothing is served from it any more."""
        if partition.offline is not None:
            return
        log.error("%s: the disk failed, the partition is offline: %s", partition.name, error)
        partition.offline = error
        self.link.directory_failed()
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
        self.progress.close()
        self.pacing.stop()
