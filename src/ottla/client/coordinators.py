"""Who looks after a group or a transactional id: found by asking, remembered until somebody says it is gone.

1. One question per key at a time; whoever asks meanwhile waits for the same answer.
2. "Not available", "still loading" and lost connections are tried again with a growing wait until the time is over;
   everything else (no rights, a name that is not possible) is raised at once.
3. A group's coordinator gets a node id of its own and with it a second connection (see connections.py), a
   transaction's coordinator is asked over the broker's usual one, as in Java.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from ottla.client.connections import coordinator_node, within
from ottla.errors import BrokerError, OttlaError, RequestTimedOut, broker_error
from ottla.protocol.api import APIS_BY_NAME
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.values import Node

if TYPE_CHECKING:
    from ottla.client.network import NetworkClient

Kind = Literal["group", "transaction"]
KEY_TYPES: Final[dict[Kind, int]] = {"group": 0, "transaction": 1}
SEVERAL_KEYS_SINCE: Final = 4


class Coordinators:
    """The coordinators this client knows."""

    def __init__(self, network: NetworkClient) -> None:
        self._network = network
        self._known: dict[tuple[Kind, str], Node] = {}
        self._searches: dict[tuple[Kind, str], asyncio.Task[Node]] = {}

    def forget(self, kind: Kind, key: str) -> None:
        self._known.pop((kind, key), None)

    async def find(self, kind: Kind, key: str, *, deadline_ms: float) -> Node:
        """The coordinator, asked for until the deadline if it is not known."""
        known = self._known.get((kind, key))
        if known is not None:
            return known
        # Each caller has a deadline of its own; a search that ran out of somebody else's time begins again.
        while (search := self._searches.get((kind, key))) is not None:
            if not await within(search, self._network.clock, deadline_ms - self._network.clock.monotonic_ms()):
                raise RequestTimedOut(f"the coordinator of {kind} {key!r} is still being looked for")
            if (found := self._known.get((kind, key))) is not None:
                return found
            if self._searches.get((kind, key)) is search:
                del self._searches[kind, key]
        search = asyncio.get_running_loop().create_task(self._search(kind, key, deadline_ms))
        self._searches[kind, key] = search
        try:
            return await search
        finally:
            search.cancel()
            if self._searches.get((kind, key)) is search:
                del self._searches[kind, key]

    async def _search(self, kind: Kind, key: str, deadline_ms: float) -> Node:
        clock, attempt = self._network.clock, 0
        while True:
            try:
                found = await self._ask(kind, key, deadline_ms - clock.monotonic_ms())
                self._known[kind, key] = found
                return found
            except BrokerError as error:
                if not error.retriable:
                    raise
                wait_ms = self._network.backoff.delay_ms(attempt)
                attempt += 1
                if clock.monotonic_ms() + wait_ms >= deadline_ms:
                    raise self._late(kind, key, error) from error
                await self._network.sleep(wait_ms)

    async def _ask(self, kind: Kind, key: str, timeout_ms: float) -> Node:
        from ottla.client.network import VersionedRequest

        def build(version: int) -> FindCoordinatorRequest:
            if version >= SEVERAL_KEYS_SINCE:
                return FindCoordinatorRequest(key_type=KEY_TYPES[kind], coordinator_keys=[key])
            return FindCoordinatorRequest(key=key, key_type=KEY_TYPES[kind])

        request = VersionedRequest(APIS_BY_NAME["FindCoordinator"], build)
        limit_ms = min(timeout_ms, self._network.request_timeout_ms)
        return _node_in(await self._network.ask_any(request, timeout_ms=limit_ms), kind)

    @staticmethod
    def _late(kind: Kind, key: str, error: OttlaError) -> RequestTimedOut:
        return RequestTimedOut(f"the coordinator of {kind} {key!r} was not found: {error.detail or error.what}")


def _node_in(response: FindCoordinatorResponse, kind: Kind) -> Node:
    answer = response.coordinators[0] if response.coordinators else response
    if answer.error_code:
        raise broker_error(answer.error_code, answer.error_message)
    node = Node(answer.node_id, answer.host, answer.port)
    return coordinator_node(node) if kind == "group" else node
