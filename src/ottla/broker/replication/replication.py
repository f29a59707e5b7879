"""Replication between this broker and the others, put together: whom we follow, who follows us, what we propose.

    following       one loop per leader and fetcher (num.replica.fetchers); partitions are shared out among fetchers
    leading         the fetch handler reports followers' fetches; the high watermark moves, and with it produces
    in-sync sets    who caught up is proposed at once, who is late every half of replica.lag.time.max.ms

Belongs to the broker's loop. The controller's orders come as Moves (manager.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol
from zlib import crc32

from ottla.broker.fetch.replica_selector import View, is_rack_aware, preferred
from ottla.broker.replication.fetch_loop import FetchLoop, Send, Start
from ottla.broker.replication.fetch_plan import FetchSettings
from ottla.broker.replication.follower import Applied, Follower
from ottla.broker.replication.in_sync import Proposal
from ottla.broker.replication.isr_requests import IsrDecision, IsrVerdict
from ottla.broker.replication.isr_sender import IsrSender
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.replica_log import ReplicaLog
from ottla.broker.replication.roles import Moves
from ottla.broker.replication.throttle import Throttle, is_listed
from ottla.broker.requests.running import next_turn
from ottla.cluster.model import NO_LEADER
from ottla.errors import KafkaStorageError, NotLeaderOrFollower, UnknownLeaderEpoch
from ottla.ordered_set import OrderedSet
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

# Since which inter.broker.protocol.version leaders are sure to speak a version of Fetch.
FETCH_VERSIONS: Final = (((3, 9), 17), ((3, 7), 16), ((3, 5), 15), ((3, 1), 13), ((2, 7), 12))
OLDEST_FETCH_VERSION: Final = 11


def fetch_version(protocol_version: str) -> int:
    """The version of Fetch that goes with an inter.broker.protocol.version, such as 3.9-IV0."""
    major, minor = protocol_version.split("-")[0].split(".")[:2]
    spoken = (int(major), int(minor))
    return next((version for since, version in FETCH_VERSIONS if spoken >= since), OLDEST_FETCH_VERSION)


class BrokerConnections(Protocol):
    """Connections to other brokers, inter_broker.InterBroker."""

    @property
    def send(self) -> Send: ...
    @property
    def start(self) -> Start: ...
    def forget(self, broker_id: int) -> None: ...
    async def sweep(self) -> None: ...
    async def close(self) -> None: ...


class Replication:
    """Followers (followers.py) of a broker in a cluster, and the fetch loops by which it follows others."""

    def __init__(
        self,
        broker: Broker,
        connections: Sequence[BrokerConnections],
        ask_controller: Callable[[AlterPartitionRequest], Awaitable[Message]],
        *,
        broker_epoch: Callable[[], int],
        fetch_version: Callable[[], int],
    ) -> None:
        """`connections` to other brokers, one per fetcher and for nothing else: a fetch holds up what is behind it.
        `fetch_version` is the newest version of Fetch that leaders of this cluster are sure to speak."""
        settings = broker.settings
        self._broker = broker
        self._connections = connections
        self._fetch_version = fetch_version
        self._loops: dict[tuple[int, int], FetchLoop] = {}
        self._closing: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._sender = IsrSender(
            broker.id, ask_controller, broker_epoch=broker_epoch, clock=broker.clock, decided=self._isr_decided
        )
        window = settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1000
        self._sent = Throttle(samples=window[0], sample_ms=window[1])
        self._fetched = Throttle(samples=window[0], sample_ms=window[1])
        self.is_rack_aware = is_rack_aware(settings.replica_selector_class)
        self._checking: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._checking = asyncio.get_running_loop().create_task(self._check_periodically(), name="late followers")

    async def stop(self) -> None:
        self._is_stopped = True  # an order that comes now would begin to follow into logs that are being closed
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
        await self._sender.stop()
        for loop in list(self._loops.values()):
            await loop.stop()
        self._loops.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)
        for connection in self._connections:
            await connection.close()

    # -- following ---------------------------------------------------------------------------------------------------

    def apply(self, moves: Moves) -> None:
        """Partitions came, went, or have another leader."""
        names = [*moves.removed, *moves.stopped, *(each.name for each in (*moves.new_leaders, *moves.followers))]
        for name in names:
            self._forget(name)
        for partition in () if self._is_stopped else moves.followers:
            self._sender.forget(partition.name, partition.topic_id)
            if partition.offline is None and partition.leader_id not in (NO_LEADER, self._broker.id):
                self._follow(partition)
        self._drop_idle()

    def redistribute(self, connections: Sequence[BrokerConnections]) -> None:
        """num.replica.fetchers changed: all partitions are followed again, over these connections. It does not wait."""
        loops, self._loops = list(self._loops.values()), {}
        before, self._connections = self._connections, connections
        for loop in loops:
            loop.follower.forget_all()  # what it still hears is of no use: somebody else follows now
        self._in_background(self._end_all(loops, before))
        for partition in () if self._is_stopped else list(self._broker.replicas):
            if not partition.is_leader and partition.leader_id != NO_LEADER and partition.offline is None:
                self._follow(partition)

    async def _end_all(self, loops: Sequence[FetchLoop], connections: Sequence[BrokerConnections]) -> None:
        for loop in loops:
            await loop.stop()
        for connection in connections:
            await connection.close()

    def _in_background(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _forget(self, name: TopicPartition) -> None:
        for loop in self._loops.values():
            loop.follower.forget(name)

    def _follow(self, partition: Partition) -> None:
        fetcher = crc32(f"{partition.name}".encode()) % len(self._connections)
        key = partition.leader_id, fetcher
        loop = self._loops.get(key) or self._new_loop(*key)
        replica = ReplicaLog(partition, self._broker.replicas, self._broker.clock.now_ms)
        loop.follower.follow(replica, partition.leader_epoch)
        loop.wake()

    def _new_loop(self, leader_id: int, fetcher: int) -> FetchLoop:
        settings = self._fetch_settings()
        made = self._loops[leader_id, fetcher] = FetchLoop(
            leader_id,
            Follower(settings, broker_epoch=self._broker.replicas.broker_epoch),
            self._connections[fetcher].send,
            self._connections[fetcher].start,
            settings=settings,
            timeout_ms=self._broker.settings.replica_socket_timeout_ms,
            clock=self._broker.clock,
            is_throttled=self._is_follower_throttled,
            applied=self._applied,
        )
        return made

    def _fetch_settings(self) -> FetchSettings:
        settings = self._broker.settings
        return FetchSettings(
            broker_id=self._broker.id,
            wait_max_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            response_max_bytes=settings.replica_fetch_response_max_bytes,
            partition_max_bytes=settings.replica_fetch_max_bytes,
            backoff_ms=settings.replica_fetch_backoff_ms,
            version=self._fetch_version(),
        )

    def _drop_idle(self) -> None:
        for key, loop in list(self._loops.items()):
            if not len(loop.follower):
                del self._loops[key]
                leader_id, fetcher = key
                self._connections[fetcher].forget(leader_id)
                self._in_background(self._end(loop, self._connections[fetcher]))

    async def _end(self, loop: FetchLoop, connection: BrokerConnections) -> None:
        await loop.stop()
        await connection.sweep()

    async def _applied(self, applied: Applied) -> None:
        """Records of a leader are in our logs."""
        partitions = [self._broker.replicas.get(name) for name in applied.appended]
        now_ms = self._broker.clock.monotonic_ms()
        self._broker.topic_metrics.replicated_in.value += sum(applied.size_bytes.values())
        for name, size_bytes in applied.size_bytes.items():
            if self._is_slow_follower(name):
                self._fetched.record(size_bytes, now_ms)
        for name, error in applied.failed:
            partition = self._broker.replicas.get(name)
            if partition is not None and isinstance(error, KafkaStorageError):
                self._broker.take_offline(partition, error)
        for name in applied.committed:
            partition = self._broker.replicas.get(name)
            if partition is not None:
                self._broker.progress.committed(partition)
        unsynced = [self._broker.progress.synced(each) for each in partitions if each is not None and each.needs_flush]
        if unsynced:
            await asyncio.gather(*unsynced)
        if applied.shortened:
            await self._write_log_starts()

    async def _write_log_starts(self) -> None:
        """The next question tells the leader where our logs start, and then records count as deleted."""
        try:
            await self._broker.write_log_starts()
        except KafkaStorageError as error:
            log.warning("where logs start cannot be written down now, and is tried again later: %s", error)

    def lags(self) -> Iterator[tuple[int, TopicPartition, int | None]]:
        """Every partition that this broker follows: its leader, its name, how many records it is behind; -1 when it
        failed, None when nobody knows."""
        for (leader_id, _), loop in self._loops.items():
            for name, lag in loop.follower.lags():
                yield leader_id, name, lag

    def lag(self, name: TopicPartition) -> int | None:
        """How many records this broker is behind the leader of a partition; None when it does not know."""
        return next((loop.follower.lag(name) for loop in self._loops.values() if name in loop.follower), None)

    # -- throttles ---------------------------------------------------------------------------------------------------

    def _is_slow_follower(self, name: TopicPartition) -> bool:
        partition = self._broker.replicas.get(name)
        listed = () if partition is None else partition.log.settings.follower_replication_throttled_replicas
        return bool(listed) and is_listed(name, self._broker.id, listed)

    def _is_follower_throttled(self, name: TopicPartition) -> bool:
        if not self._is_slow_follower(name):
            return False
        limit = self._broker.settings.follower_replication_throttled_rate
        return self._fetched.is_exceeded(limit, self._broker.clock.monotonic_ms())

    def is_leader_throttled(self, partition: Partition, replica_id: int) -> bool:
        """Whether this follower gets nothing of this partition now."""
        if not self._is_slow_leader(partition, replica_id):
            return False
        limit = self._broker.settings.leader_replication_throttled_rate
        return self._sent.is_exceeded(limit, self._broker.clock.monotonic_ms())

    def _is_slow_leader(self, partition: Partition, replica_id: int) -> bool:
        listed = partition.log.settings.leader_replication_throttled_replicas
        if not listed or not is_listed(partition.name, self._broker.id, listed):
            return False
        return partition.in_sync is not None and replica_id not in partition.in_sync.isr

    def count_sent(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """So much goes to a follower; it counts when the follower is throttled."""
        if self._is_slow_leader(partition, replica_id):
            self._sent.record(size_bytes, self._broker.clock.monotonic_ms())

    # -- leading -----------------------------------------------------------------------------------------------------

    def follower_fetched(
        self, partition: Partition, replica_id: int, offset: int, *, log_start_offset: int, broker_epoch: int
    ) -> None:
        """A follower has everything before `offset`."""
        in_sync = partition.in_sync
        if in_sync is None or replica_id not in in_sync.followers:
            return
        now_ms = self._broker.clock.monotonic_ms()
        end, start_before = partition.end.log_end_offset, in_sync.followers[replica_id].log_start_offset
        in_sync.fetched(
            replica_id,
            offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=end,
            now_ms=now_ms,
        )
        if replica_id not in in_sync.isr:
            in_sync.update_joining(end, now_ms, lag_limit_ms=self._lag_limit_ms, may_join=self._may_join)
            self._propose(partition, in_sync.expand(replica_id, partition.high_watermark, self._may_join))
        if partition.advance():
            self._broker.progress.committed(partition)
        elif log_start_offset != start_before:
            self._broker.progress.produce_purgatory.check(partition.name)  # deletions wait for it

    def check_follower(self, partition: Partition, replica_id: int, *, knows_epoch: bool) -> None:
        """Raise unless this broker is one of the partition's replicas, as far as the leader knows."""
        if partition.in_sync is not None and replica_id in partition.in_sync.followers:
            return
        said = f"broker {replica_id} is not among the replicas of {partition.name} in this epoch"
        raise UnknownLeaderEpoch(said) if knows_epoch else NotLeaderOrFollower(said)

    def preferred_replica(self, partition: Partition, rack: str, offset: int) -> int | None:
        """Where a consumer should read instead of here; None for here."""
        in_sync, brokers = partition.in_sync, self._broker.image.brokers
        if not self.is_rack_aware or in_sync is None:
            return None
        me = brokers.get(self._broker.id)
        views = [
            View(broker_id, brokers[broker_id].rack, each.log_start_offset, each.log_end_offset, each.caught_up_ms)
            for broker_id, each in in_sync.followers.items()
            if broker_id in in_sync.isr and broker_id in brokers
        ]
        return preferred(rack, offset, me.rack if me is not None else None, views)

    @property
    def _lag_limit_ms(self) -> int:
        return self._broker.settings.replica_lag_time_max_ms

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        known = self._broker.image.brokers.get(broker_id)
        if known is None or not known.is_active:
            return False
        return broker_epoch == -1 or known.epoch == -1 or broker_epoch == known.epoch

    def _propose(self, partition: Partition, proposal: Proposal | None) -> None:
        if proposal is None or partition.in_sync is None:
            return
        log.info("%s: in sync should be %s", partition.name, sorted(proposal.isr))
        if not self._sender.submit(partition.name, partition.topic_id, proposal):
            partition.in_sync.withdraw()

    def _isr_decided(self, outcome: IsrDecision) -> None:
        partition = self._broker.replicas.get(outcome.name)
        if partition is None or partition.in_sync is None or partition.in_sync.proposal is not outcome.proposal:
            return
        counts = self._broker.counts
        if outcome.verdict is IsrVerdict.ACCEPTED:
            counts.isr_changed(partition.in_sync_count, len(outcome.isr))
            partition.update_isr(outcome.proposal, outcome.isr, outcome.leader_epoch, outcome.partition_epoch)
        else:
            counts.failed_isr_updates += 1
        if outcome.verdict is IsrVerdict.WITHDRAWN:
            partition.in_sync.withdraw()
        self._broker.progress.advanced(partition)

    async def _check_periodically(self) -> None:
        while True:
            await self._broker.clock.sleep(max(1.0, self._lag_limit_ms / 2))
            for partition in list(self._broker.replicas):
                if partition.in_sync is not None:
                    self._check_followers(partition)
            await next_turn()

    def _check_followers(self, partition: Partition) -> None:
        in_sync = partition.in_sync
        assert in_sync is not None, "only leaders with followers are checked"
        now_ms, end = self._broker.clock.monotonic_ms(), partition.log_end_offset
        self._propose(partition, in_sync.shrink(end, now_ms, self._lag_limit_ms))
        in_sync.update_joining(end, now_ms, lag_limit_ms=self._lag_limit_ms, may_join=self._may_join)
        if partition.advance():
            self._broker.progress.advanced(partition)
