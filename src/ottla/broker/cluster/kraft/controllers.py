"""Connections of a broker to the controllers of its metadata log: to an address, or to whoever is the active one.

1. The active controller is the leader of the log, so Raft (cluster/raft/raft.py) knows where it is; while
   nobody is known, asking it is BrokerNotAvailable at once, and so is a question that waits when another one becomes
   active: nobody waits for a controller that is gone. Whoever asks tries again.
2. What is said in different matters goes by different connections, because answers of one connection come in order: a
   fetch of the log waits for half a second, an administrator's request for a commit, and a heartbeat must do neither.
3. Controllers are asked on their own listener: the first of controller.listener.names, with its protocol, TLS and login
   (sasl.mechanism.controller.protocol).

Belongs to the broker's loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.broker.cluster.inter_broker import InterBroker
from ottla.broker.requests.running import resolve
from ottla.cluster.model import Endpoint
from ottla.errors import BrokerNotAvailable
from ottla.light_tuples import NamedTuple
from ottla.net.connection import ApiVersionTable
from ottla.protocol.schema import Message
from ottla.values import Address

ADDRESSES_LIMIT: Final = 1_000
"""More addresses than that are no quorum's: the oldest are forgotten."""


class Addressed:
    """Addresses as the ids that connections are kept by; it says where an id is reached."""

    def __init__(self, listener: str, protocol: str) -> None:
        self._listener, self._protocol = listener, protocol
        self._ids: dict[Address, int] = {}
        self._next = 0

    def id_of(self, address: Address) -> int:
        known = self._ids.get(address)
        if known is None:
            while len(self._ids) >= ADDRESSES_LIMIT:
                del self._ids[next(iter(self._ids))]
            known = self._ids[address] = self._next
            self._next += 1
        return known

    def endpoint(self, wanted: int) -> Endpoint | None:
        found = next((address for address, known in self._ids.items() if known == wanted), None)
        return None if found is None else Endpoint(self._listener, found.host, found.port, self._protocol)


class ActiveController:
    """Where the active controller is, as far as is known."""

    def __init__(self) -> None:
        self.address: Address | None = None
        self._moved: asyncio.Future[None] | None = None

    def update(self, address: Address | None) -> None:
        """It is there now; whoever waits for another one need not wait any more."""
        if address == self.address:
            return
        self.address = address
        moved, self._moved = self._moved, None
        if moved is not None:
            resolve(moved, None)

    def moved(self) -> asyncio.Future[None]:
        """Resolved when it is somewhere else."""
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved


class Controllers:
    """The connections for one matter."""

    def __init__(self, connections: InterBroker, addressed: Addressed, active: ActiveController) -> None:
        self.versions: ApiVersionTable | None = None
        """What the active controller speaks, as the last one that answered has told."""
        self._connections = connections
        self._addressed = addressed
        self._active = active

    async def ask_at(self, address: Address, request: Message, timeout_ms: float) -> Message:
        """The answer of the controller there; raises an OttlaError when there is none."""
        return await self._connections.send(self._addressed.id_of(address), request, timeout_ms=timeout_ms)

    async def ask(self, request: Message, timeout_ms: float) -> Message:
        """The active controller's answer."""
        address = self._active.address
        if address is None:
            raise BrokerNotAvailable("the active controller is not known yet")
        asking, moved = asyncio.ensure_future(self.ask_at(address, request, timeout_ms)), self._active.moved()
        try:
            await asyncio.wait((asking, moved), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise BrokerNotAvailable(f"the controller at {address} is not the active one any more")
            answer = asking.result()
            self.versions = self._connections.versions(self._addressed.id_of(address)) or self.versions
            return answer
        finally:
            asking.cancel()

    async def close(self) -> None:
        await self._connections.close()


class ControllerConnections(NamedTuple):
    """All of a broker's."""

    log: Controllers
    """What Raft says: it tries again by itself, and wants to know when the process of a leader has ended."""
    lifecycle: Controllers
    """Registration and heartbeats."""
    questions: Controllers
    """In-sync sets, producer ids, directories of replicas: what is answered when it is committed."""
    forwarded: Controllers
    """What clients ask."""

    async def close(self) -> None:
        for each in reversed(self):
            await each.close()
