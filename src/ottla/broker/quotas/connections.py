"""How fast connections may come: to the broker, to a listener, from an address (KIP-612).

    rates = ConnectionRates(settings, registry, monotonic_ms)
    arrival = rates.arrived("PLAINTEXT", "10.0.0.7", now_ms)
    arrival.wait_ms, arrival.is_refused

1. max.connection.creation.rate, of the broker and of a listener: a connection above it is heard later. Kafka's acceptor
   sleeps meanwhile, so the next ones come after it; here each is told how long it takes until its turn. Nobody waits
   longer than WAIT_LIMIT_MS: such a connection is refused, as one that finds the backlog full would be.
2. The listener of brokers does not count for the broker, where there is another one: clients must not keep brokers out.
3. connection_creation_rate of an address, or of every address that has none of its own: a connection above it is
   refused, after a wait of a window at most, so that whoever tries again at once gains nothing. It does not count.
4. Addresses are forgotten after an hour without a connection; there are at most as many as meters.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from ottla.broker.observe.metric_table import gauge
from ottla.broker.quotas.limits import Owner
from ottla.broker.quotas.meters import Meters, RateMeter
from ottla.broker.settings import BrokerSettings
from ottla.light_tuples import NamedTuple
from ottla.metrics import Family, Gauge, Registry, Window

NO_LIMIT: Final = 2**31 - 1
WAIT_LIMIT_MS: Final = 30_000
_BROKER: Final = ""


class Arrival(NamedTuple):
    """What becomes of a new connection: it is heard after that time, or closed."""

    wait_ms: float = 0.0
    is_refused: bool = False


class ConnectionRates:
    def __init__(self, settings: BrokerSettings, registry: Registry, monotonic_ms: Callable[[], float]) -> None:
        window_s = settings.quota_window_size_seconds
        make = partial(RateMeter, samples=settings.quota_window_num, window_s=window_s, longest_ms=window_s * 1000)
        self._metrics = _Metrics(registry, monotonic_ms)
        self._make = make
        self._doors: dict[str, RateMeter] = {}  # of the broker and of listeners, those with a limit
        self._free_ms: dict[str, float] = {}  # when the next connection of a listener has its turn
        self._between_brokers: str | None = None
        self._addresses = Meters(make, shown=self._metrics.show, hidden=self._metrics.hide)
        self._address_limits: Mapping[str, float] = {}
        self._other_addresses: float | None = None
        self.change(settings)

    def change(self, settings: BrokerSettings) -> None:
        """These settings hold now."""
        names = [each.name for each in settings.endpoints]
        limits = {name: settings.for_listener(name).max_connection_creation_rate for name in names}
        limits[_BROKER] = settings.max_connection_creation_rate
        self._between_brokers = settings.inter_broker_listener.name if len(names) > 1 else None
        doors = {}
        for name, limit in limits.items():
            if limit < NO_LIMIT:
                doors[name] = self._doors.get(name) or self._make(Owner(name, ""), limit, 0.0)
                doors[name].change(limit)
        self._doors = doors

    def load(self, limits: Mapping[str | None, float]) -> None:
        """How many connections a second may come from addresses; None is any other address."""
        self._other_addresses = limits.get(None)
        self._address_limits = {plain_address(name): limit for name, limit in limits.items() if name is not None}
        self._addresses.retain(lambda owner: self._limit_of(owner.user))

    def arrived(self, listener: str, address: str, now_ms: float) -> Arrival:
        """A connection came from an address; says what becomes of it."""
        if not self._doors and not self._address_limits and self._other_addresses is None:
            return Arrival()
        turn_ms = max(now_ms, self._free_ms.get(listener, now_ms))
        doors = self._doors_of(listener)
        start_ms = turn_ms + max([door.charge(1, turn_ms) for door in doors], default=0)
        refused_ms = self._refused_for_ms(address, start_ms)
        if refused_ms or start_ms - now_ms > WAIT_LIMIT_MS:
            for door in doors:
                door.take_back(1, turn_ms)
            return self._metrics.refused(listener, Arrival(refused_ms, is_refused=True), now_ms)
        self._free_ms[listener] = start_ms
        return self._metrics.waits(listener, Arrival(start_ms - now_ms), now_ms)

    def _doors_of(self, listener: str) -> list[RateMeter]:
        names = [listener] if listener == self._between_brokers else [_BROKER, listener]
        return [self._doors[name] for name in names if name in self._doors]

    def _refused_for_ms(self, address: str, now_ms: float) -> int:
        address = plain_address(address)
        limit = self._limit_of(address)
        if limit is None:
            return 0
        self._addresses.sweep(now_ms)
        meter = self._addresses.of(Owner(address, ""), limit, now_ms)
        wait_ms = meter.charge(1, now_ms)
        if wait_ms:
            meter.take_back(1, now_ms)
        return wait_ms

    def _limit_of(self, address: str) -> float | None:
        return self._address_limits.get(address, self._other_addresses)


def plain_address(text: str) -> str:
    """An address in one spelling, and an IPv4 address that came by IPv6 as what it is; another text stays."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


class _Averages:
    """Averages of the last while, by listener."""

    def __init__(self, family: Family[Gauge], monotonic_ms: Callable[[], float]) -> None:
        self._family = family
        self._monotonic_ms = monotonic_ms
        self._windows: dict[str, Window] = {}

    def of(self, listener: str) -> Window:
        window = self._windows.get(listener)
        if window is None:
            window = self._windows[listener] = Window(("avg",))
            self._family.of(listener).read = partial(self._read, window)
        return window

    def _read(self, window: Window) -> float:
        return window.avg(self._monotonic_ms())


class _Metrics:
    """connection-accept-rate per address; how long connections of a listener had to wait, and refused ones."""

    def __init__(self, registry: Registry, monotonic_ms: Callable[[], float]) -> None:
        prefix = "kafka_server_socket_server_metrics_"
        self._monotonic_ms = monotonic_ms
        self._rates = gauge(registry, f"{prefix}connection_accept_rate")
        self._waits = _Averages(gauge(registry, f"{prefix}connection_accept_throttle_time"), monotonic_ms)
        self._refusals = _Averages(gauge(registry, f"{prefix}ip_connection_accept_throttle_time"), monotonic_ms)

    def show(self, meter: RateMeter) -> None:
        self._rates.of(meter.owner.user).read = lambda: meter.rate.per_second(self._monotonic_ms())

    def hide(self, owners: Iterable[Owner]) -> None:
        for owner in owners:
            self._rates.forget(owner.user)

    def waits(self, listener: str, arrival: Arrival, now_ms: float) -> Arrival:
        if arrival.wait_ms:
            self._waits.of(listener).record(arrival.wait_ms, now_ms)
        return arrival

    def refused(self, listener: str, arrival: Arrival, now_ms: float) -> Arrival:
        self._refusals.of(listener).record(arrival.wait_ms, now_ms)
        return arrival
