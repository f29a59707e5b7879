"""The first round of a call, without an event loop: each key's broker is found and asked, once.

1. Brokers are asked at the same time: one request to each is written before the first answer is read. What one broker
   gets in several requests it gets one after the other.
2. A key ends here when its broker answers, with a value or with an error that trying again cannot mend. All others stay
   pending, for the driver: who cannot be found or reached, who does not answer, and whatever may be tried again. A
   request without an answer is remembered in the work, as after every lost answer.
3. Connections are kept for the next call, one for each address. `close` ends them.
4. A broker that tells us to slow down delays its next answer itself; a program of a few requests does not wait as well.
"""

from __future__ import annotations

from typing import Any, Final

from ottla import __version__
from ottla.client.admin.direct_finding import BrokerFinder
from ottla.client.admin.plans import Route, Work
from ottla.client.admin.settings import AdminSettings
from ottla.clock import Clock
from ottla.errors import NotConnected, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.net.direct import DirectConnection
from ottla.protocol.schema import Message
from ottla.values import Address

SET_UP_LIMIT_MS: Final = 2_000
"""A broker that is not there by then is the driver's, which goes on to others meanwhile."""


class Portion(NamedTuple):
    """The keys of one request, and the id of the broker that its answer is told of; None when any would have done."""

    keys: list[Any]
    broker_id: int | None


class DirectRounds:
    """Asks brokers over connections of its own."""

    def __init__(self, settings: AdminSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._finder = BrokerFinder(settings.bootstrap_addresses, self, clock)
        self._connections: dict[Address, DirectConnection] = {}

    def ask(self, work: Work[Any, Any], deadline_ms: float) -> None:
        """One round for everything that is pending."""
        deadline_ms = min(deadline_ms, self._clock.monotonic_ms() + self._settings.request_timeout_ms)
        waiting = self._portions(work, deadline_ms)
        while waiting:
            asked = [each for each, portions in waiting.items() if self._sent(work, each, portions[0], deadline_ms)]
            for each in asked:
                self._receive(work, each, waiting[each].pop(0), deadline_ms)
            waiting = {each: waiting[each] for each in asked if waiting[each] and each in self._connections}

    @property
    def refused(self) -> tuple[Address, ...]:
        """Where nothing listens, when there is no other place to ask."""
        return self._finder.refused

    @property
    def unknown(self) -> tuple[Address, ...]:
        """Whose names nobody knows, when there is no other place to ask."""
        return self._finder.unknown

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- connections ---

    def connect(self, address: Address) -> DirectConnection:
        """The connection to that address, made if there is none."""
        if (known := self._connections.get(address)) is not None:
            return known
        limit_ms = min(SET_UP_LIMIT_MS, self._settings.socket_connection_setup_timeout_ms)
        client_id = self._settings.client_id or None
        made = DirectConnection.open(
            address, self._clock, client_id=client_id, software_version=__version__, limit_ms=limit_ms
        )
        self._connections[address] = made
        return made

    def answer(self, address: Address, request: Message, deadline_ms: float) -> tuple[Any, int]:
        """One answer, and the version it came in; raises NotConnected and what may come after it."""
        connection = self.connect(address)
        try:
            version = connection.send(request, deadline_ms=deadline_ms)
            return connection.receive(deadline_ms), version
        except OttlaError:
            self._drop(address)
            raise

    def _drop(self, address: Address) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()

    # --- whom ---

    def _portions(self, work: Work[Any, Any], deadline_ms: float) -> dict[Address, list[Portion]]:
        """What is asked at each address; keys whose broker is not known are left out."""
        plan = work.plan
        targets = {key: plan.target(key) for key in work.pending}
        try:
            nodes = self._finder.find(plan.route, targets.values(), deadline_ms)
        except OttlaError:
            return {}
        by_broker: dict[tuple[Address, int | None], list[Any]] = {}
        for key, target in targets.items():
            if (node := nodes.get(target)) is not None:
                is_any = plan.route in (Route.ANY, Route.CONTROLLER) or target is None
                by_broker.setdefault((node.address, None if is_any else node.id), []).append(key)
        found: dict[Address, list[Portion]] = {}
        for (address, broker_id), keys in by_broker.items():
            found.setdefault(address, []).extend(Portion(each, broker_id) for each in work.portions(keys))
        return found

    # --- asking ---

    def _sent(self, work: Work[Any, Any], address: Address, portion: Portion, deadline_ms: float) -> bool:
        left_ms = max(deadline_ms - self._clock.monotonic_ms(), 1.0)
        try:
            connection = self.connect(address)
            request = work.plan.request(portion.keys, int(left_ms))
            connection.send(request, deadline_ms=deadline_ms, at_most=work.plan.at_most)
        except NotConnected:
            return False  # nothing was sent
        except OttlaError as error:
            if error.retriable:
                self._drop(address)
            work.not_asked(portion.keys, error)
            return False
        return True

    def _receive(self, work: Work[Any, Any], address: Address, portion: Portion, deadline_ms: float) -> None:
        try:
            response = self._connections[address].receive(deadline_ms)
        except OttlaError as error:
            self._drop(address)
            work.not_asked(portion.keys, error)
        else:
            work.answered(portion.keys, response, portion.broker_id)
