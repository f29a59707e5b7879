"""Which broker knows about a thing: asked for once, without an event loop, and remembered.

1. What is known of the cluster is Metadata's; it is asked for when a route needs it and it lacks something.
2. Coordinators are asked for together where the broker knows how (FindCoordinator 4).
3. Whom nobody knows is left out of the result. When no broker can be asked the reason of the last one is raised; that
   all of them refused the connection, or have names that nobody knows, is remembered, because waiting may not help
   then.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from ottla.client.admin.plans import Route, Target
from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.clock import Clock
from ottla.errors import NotConnected, OttlaError
from ottla.net.retries import Backoff
from ottla.protocol.schema import Message
from ottla.values import Address, Node, TopicPartition

RELIABLE_EPOCHS_SINCE: Final = 9  # of Metadata: KAFKA-9212 was mended then
KEY_TYPES: Final = {Route.GROUP: 0, Route.TRANSACTION: 1}


def is_unknown_name(error: BaseException | None) -> bool:
    """Whether whoever resolves names has said that there is no such name; that it does not answer is another error."""
    return isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME


class Brokers(Protocol):
    """Who can ask the broker at an address; both raise NotConnected when it cannot be reached."""

    def connect(self, address: Address) -> object:
        """Have a connection to it."""

    def answer(self, address: Address, request: Message, deadline_ms: float) -> tuple[Any, int]:
        """Its answer, and the version of that."""


class _NoSpread:
    """For waits that nobody waits: each question is asked once."""

    def random(self) -> float:
        return 0.5


class BrokerFinder:
    """Finds brokers with questions to any of them."""

    def __init__(self, bootstrap: Sequence[Address], brokers: Brokers, clock: Clock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._metadata = Metadata(bootstrap_nodes(bootstrap), backoff=Backoff(0, 0, _NoSpread()), auto_create=False)
        self._coordinators: dict[tuple[Route, Target], Node] = {}
        self._reached: Node | None = None
        self.refused: tuple[Address, ...] = ()
        """Where nothing listens, when there is no other place to ask."""
        self.unknown: tuple[Address, ...] = ()
        """Whose names nobody knows, when there is no other place to ask."""

    def find(self, route: Route, targets: Iterable[Target], deadline_ms: float) -> dict[Target, Node]:
        """The broker of each target that is known, for that route."""
        wanted = list(dict.fromkeys(targets))
        if route in KEY_TYPES:
            return self._find_coordinators(route, wanted, deadline_ms)
        found = self._known(route, wanted)
        if len(found) < len(wanted):
            self._describe([each.topic for each in wanted if isinstance(each, TopicPartition)], deadline_ms)
            found = self._known(route, wanted)
        return found

    def _known(self, route: Route, wanted: Sequence[Target]) -> dict[Target, Node]:
        found = {target: self._known_node(route, target) for target in wanted}
        return {target: node for target, node in found.items() if node is not None}

    def _known_node(self, route: Route, target: Target) -> Node | None:
        match route:
            case Route.CONTROLLER:
                return self._metadata.controller
            case Route.LEADER:
                assert isinstance(target, TopicPartition), "the plan's target is a partition"
                return self._metadata.leader_of(target)
            case Route.BROKER if isinstance(target, int):
                return self._metadata.node(target)
            case _:
                return self._any()

    def _any(self) -> Node:
        """The one that was reached before, so that no second connection is needed; else the first that can be."""
        failures: dict[Address, OttlaError] = {}
        for node in (self._reached,) if self._reached else self._metadata.nodes_to_ask():
            try:
                self._brokers.connect(node.address)
            except NotConnected as error:
                failures[node.address] = error
            else:
                self._reached = node
                return node
        self._remember(failures)
        raise [NotConnected("no broker is known"), *failures.values()][-1]

    def _remember(self, failures: Mapping[Address, OttlaError]) -> None:
        refused = [each for each, error in failures.items() if isinstance(error.__cause__, ConnectionRefusedError)]
        unknown = [each for each, error in failures.items() if is_unknown_name(error.__cause__)]
        if len(refused) + len(unknown) == len(failures):
            self.refused, self.unknown = tuple(refused), tuple(unknown)

    # --- asking ---

    def _describe(self, topics: Sequence[str], deadline_ms: float) -> None:
        now_ms = self._clock.monotonic_ms()
        self._metadata.want(*topics, now_ms=now_ms)
        self._metadata.request_update()
        request = self._metadata.request(now_ms)
        response, version = self._brokers.answer(self._any().address, request, deadline_ms)
        self._metadata.update(response, now_ms, reliable_epochs=version >= RELIABLE_EPOCHS_SINCE)

    def _find_coordinators(self, route: Route, wanted: Sequence[Target], deadline_ms: float) -> dict[Target, Node]:
        known = self._coordinators
        new = [str(target) for target in wanted if (route, target) not in known]
        if new:
            from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

            # Brokers before Kafka 3.0 take no list of keys: this cannot be written for them, and the driver asks them.
            request = FindCoordinatorRequest(key_type=KEY_TYPES[route], coordinator_keys=new)
            response, _ = self._brokers.answer(self._any().address, request, deadline_ms)
            for each in response.coordinators:
                if each.error_code == 0:
                    known[route, each.key] = Node(each.node_id, each.host, each.port)
        return {target: known[route, target] for target in wanted if (route, target) in known}
