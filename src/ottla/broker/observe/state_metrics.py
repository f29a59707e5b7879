"""What is so right now, read when somebody asks: partitions, logs, the cluster, groups, connections, the process.

    state = StateMetrics(registry, broker, acceptor, clock, started_ms)
    await state.prepare()
    for _ in state.update(): ...                    # before the registry is read

1. Nothing is kept while records are served: one reading counts everything, a step at a time, so that requests have
   their turns between (state/readings.py).
2. Labels are bounded, each where it is read (state/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.observe.loop_watch import LoopWatch
from ottla.broker.observe.metric_table import LOOP, counter
from ottla.broker.observe.state.clients import read_clients
from ottla.broker.observe.state.cluster import address_of, read_cluster
from ottla.broker.observe.state.disks import read_disks
from ottla.broker.observe.state.groups import ends_elsewhere, read_groups, read_transactions
from ottla.broker.observe.state.network import Network, read_network
from ottla.broker.observe.state.partitions import read_partitions, read_replication, read_waiting
from ottla.broker.observe.state.process import SERVING, read_process
from ottla.broker.observe.state.readings import Readings, Shown
from ottla.clock import Clock
from ottla.metrics import Registry

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_IDLE: Final = (
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_group_coordinator_metrics_thread_idle_ratio_avg",
)
_IDLE_TIME: Final = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_"
ANY_CAUSE: Final = ""


class StateMetrics:
    """`started_ms` is when the broker began to serve; `broker_state` returns what it does now (state/process.py)."""

    def __init__(
        self,
        registry: Registry,
        broker: Broker,
        network: Network,
        clock: Clock,
        started_ms: int,
        broker_state: Callable[[], int] = lambda: SERVING,
    ) -> None:
        self._shown = Shown(registry)
        self._expired = counter(registry, "kafka_server_socket_server_metrics_expired_connections_killed_total")
        self._broker = broker
        self._network = network
        self._clock = clock
        self._broker_state = broker_state
        self._started_ms = started_ms
        self.loop = LoopWatch(clock)
        broker.request_metrics.show_queue(self.loop.lags)
        self._ends: dict[tuple[str, int], int] = {}

    async def prepare(self) -> None:
        """Ask other brokers what only they know."""
        self._ends = await ends_elsewhere(self._broker)

    def update(self) -> Iterator[None]:
        """Read everything, and show it at the end."""
        broker, out = self._broker, Readings()
        self.loop.read()
        self._read_loop(out)
        yield from read_partitions(broker, out)
        yield from read_replication(broker, out)
        read_waiting(broker, out)
        yield from read_cluster(broker, out, self._clock.now_ms())
        yield from read_groups(broker, out, self._ends)
        yield from read_transactions(broker, out)
        read_network(self._network, [each.name for each in broker.settings.endpoints], out)
        read_clients(broker, out)
        now_ms = self._clock.monotonic_ms()
        read_disks(broker, out, now_ms)
        self._read_own(out)
        uptime_ms = self._clock.now_ms() - self._started_ms
        read_process(out, started_ms=self._started_ms, uptime_ms=uptime_ms, broker_state=self._broker_state())
        self._shown.update(out)

    def _read_loop(self, out: Readings) -> None:
        for name in _IDLE:
            out.put(name, round(self.loop.idle_share, 6))
        out.put("kafka_network_processor_idlepercent", round(self.loop.idle_share, 6), LOOP)
        for ending in ("count", "total"):
            out.put(_IDLE_TIME + ending, self.loop.idle_ns)
        out.put("ottla_loop_lag_seconds", round(self.loop.lag_ms / 1000, 6))
        stalls = self._broker.stalls
        for cause, longest_ms in {ANY_CAUSE: max(stalls.longest_ms.values(), default=0.0), **stalls.longest_ms}.items():
            out.put("ottla_loop_longest_stall_seconds", round(longest_ms / 1000, 3), cause)
        for cause, count in {ANY_CAUSE: sum(stalls.counts.values()), **stalls.counts}.items():
            out.put("ottla_loop_stalls_total", count, cause)

    def _read_own(self, out: Readings) -> None:
        expired = {labels: each.value for labels, each in self._expired.series()}
        out.put("kafka_network_socketserver_expiredconnectionskilledcount", sum(expired.values()))
        for listener in (each.name for each in self._broker.settings.endpoints):
            killed = expired.get((listener, LOOP), 0)
            out.put("kafka_server_socket_server_metrics_expired_connections_killed_count", killed, listener, LOOP)
        broker = self._broker
        me = broker.image.brokers.get(broker.id)
        if me is not None:
            size_bytes = sum(out.values.get("kminion_kafka_topic_log_dir_size_total_bytes", {}).values())
            out.put("kminion_kafka_broker_log_dir_size_total_bytes", size_bytes, *address_of(broker, me))
