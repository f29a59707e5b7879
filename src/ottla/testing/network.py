"""A network in memory: the transport interface without sockets, with weather that is made on purpose.

1. The same seed, clock and calls give the same events in the same order; nothing depends on the machine's speed.
2. It is TCP seen from above: bytes arrive in order and whole, however they are cut on the way, or the connection
   breaks. So "dropping" means that a connection breaks in the middle of what was sent, and a black hole swallows
   bytes without anybody noticing, as a dead router does.
3. Delays are slept on the clock given, so that a ManualClock decides when something arrives.
4. TLS is not spoken. Both sides must want it or neither; otherwise connecting fails as it would in life.
5. Flow control is real: pausing the reader fills the writer's buffer until its link is not writable.

    network = MemoryNetwork(clock=clock, random=random.Random(7), weather=Weather(delay_ms=(1, 5), piece_bytes=3))
    listener = await network.serve("broker", 9092, make_events)
    link = await network.connect("broker", 9092, events)
    network.swallow("broker", 9092)
"""

from __future__ import annotations

import asyncio
import random as random_module
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence

from ottla.clock import Clock
from ottla.errors import ConnectionClosed, ConnectionRefused, TlsHandshakeFailed
from ottla.light_dataclasses import dataclass
from ottla.net.framed_link import FramedLink, fenced
from ottla.net.framing import Buffer
from ottla.net.link import Address, Link, LinkEvents, LinkSettings, Listener
from ottla.net.tls.stream import ServerTls

FIRST_PORT = 30_000


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to bytes on their way."""

    delay_ms: tuple[float, float] = (0, 0)  # from, to; chosen again for every piece
    piece_bytes: int | None = None  # cut into pieces of 1 up to this many bytes; None leaves writes whole
    break_chance: float = 0.0  # that a piece does not arrive and takes the connection with it


class MemoryListener:
    """An open door of a MemoryNetwork."""

    def __init__(
        self,
        network: MemoryNetwork,
        address: Address,
        make_events: Callable[[], LinkEvents],
        tls: ssl.SSLContext | ServerTls | None,
        settings: LinkSettings,
    ) -> None:
        self._network = network
        self.addresses = [address]
        self.make_events = fenced(make_events)
        self.tls = tls
        self.settings = settings

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    def close(self) -> None:
        self._network.forget(self)

    def abort_handshakes(self) -> None:
        """There are none: TLS is not spoken."""


class MemoryNetwork:
    """All hosts and everything between them."""

    def __init__(self, *, clock: Clock, random: random_module.Random, weather: Weather | None = None) -> None:
        self.clock = clock
        self.random = random
        self.weather = weather or Weather()
        self._listeners: dict[Address, MemoryListener] = {}
        self._links: list[MemoryLink] = []
        self._swallowed: set[Address] = set()
        self._next_port = FIRST_PORT
        self._pumps: set[asyncio.Task[None]] = set()

    # --- the transport interface ---

    async def connect(
        self,
        host: str,
        port: int,
        events: LinkEvents,
        *,
        tls: ssl.SSLContext | None = None,
        settings: LinkSettings | None = None,
    ) -> Link:
        await self.clock.sleep(self.random.uniform(*self.weather.delay_ms))
        if (host, port) in self._swallowed:
            await asyncio.get_running_loop().create_future()  # nobody answers; whoever waits must know how long
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefused(f"{host}:{port} refused the connection; nothing listens there")
        if (tls is None) != (listener.tls is None):
            raise TlsHandshakeFailed(f"only one side of {host}:{port} wants TLS")
        here, there = ("memory", self._free_port()), (host, port)
        near = MemoryLink(self, events, settings or LinkSettings(), local=here, remote=there)
        far = MemoryLink(self, listener.make_events(), listener.settings, local=there, remote=here)
        near.join(far)
        self._links += [near, far]
        far.open()
        near.open()
        return near

    async def serve(
        self,
        host: str,
        port: int,
        make_events: Callable[[], LinkEvents],
        *,
        tls: ssl.SSLContext | ServerTls | None = None,
        settings: LinkSettings | None = None,
        backlog: int = 128,
    ) -> Listener:
        """`backlog` has no meaning here: nobody waits to be accepted."""
        address = (host, port or self._free_port())
        if address in self._listeners:
            raise OSError(f"somebody listens on {host}:{port} already")
        self._listeners[address] = MemoryListener(self, address, make_events, tls, settings or LinkSettings())
        return self._listeners[address]

    # --- making trouble ---

    def swallow(self, host: str, port: int) -> None:
        """A black hole at this address: nothing arrives in either direction, and nobody is told."""
        self._swallowed.add((host, port))

    def heal(self) -> None:
        """No black holes any more. Bytes that were swallowed are lost, so a connection that missed some is broken."""
        self._swallowed.clear()
        for link in self._open_links():
            if link.missed_bytes:
                link.fail("bytes were lost")

    def break_all(self) -> None:
        """Every open connection breaks now."""
        for link in self._open_links():
            link.fail("the network broke")

    @property
    def open_count(self) -> int:
        """Open ends; two for a connection in good health."""
        return sum(1 for _ in self._open_links())

    async def close(self) -> None:
        """Stop everything that is under way; nothing is delivered any more."""
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    # --- for its links and listeners ---

    def swallows(self, link: MemoryLink) -> bool:
        return not self._swallowed.isdisjoint((link.local_address, link.remote_address))

    def forget(self, listener: MemoryListener) -> None:
        for address in listener.addresses:
            self._listeners.pop(address, None)

    def start(self, pump: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(pump, name=name)
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        limit = self.weather.piece_bytes or len(data)
        start = 0
        while start < len(data):
            stop = start + (limit if self.weather.piece_bytes is None else self.random.randint(1, limit))
            yield data[start:stop]
            start = stop

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _open_links(self) -> list[MemoryLink]:
        self._links = [link for link in self._links if not link.is_finished]
        return self._links


class MemoryLink(FramedLink):
    """One end of a connection. What it writes waits here until its pump carries it to the other end."""

    def __init__(
        self, network: MemoryNetwork, events: LinkEvents, settings: LinkSettings, *, local: Address, remote: Address
    ) -> None:
        super().__init__(events, settings)
        self._network = network
        self.local_address = local
        self.remote_address = remote
        self.missed_bytes = 0
        self._other: MemoryLink = self
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._on_the_way_bytes = 0
        self._last_due_ms = 0.0
        self._pumping = False
        self._reading = asyncio.Event()
        self._reading.set()

    @property
    def is_finished(self) -> bool:
        return self._finished

    def join(self, other: MemoryLink) -> None:
        self._other, other._other = other, self

    def open(self) -> None:
        self._notify(self._events.opened, self)

    def close(self) -> None:
        if self._ending:
            return
        self._write_held()
        self._ending = True
        self._start_pump()
        if self._on_the_way:
            self._network.start(self._lose_patience(), name=f"closing {self.local_address}")

    async def _lose_patience(self) -> None:
        await self._network.clock.sleep(self._settings.close_limit_ms)
        self.abort()

    def fail(self, reason: str) -> None:
        """The connection breaks for both ends."""
        for end in (self, self._other):
            end.abort(ConnectionClosed(reason))

    # --- what a FramedLink needs ---

    def _put(self, pieces: Sequence[Buffer]) -> None:
        low_ms, high_ms = self._network.weather.delay_ms
        for piece in self._network.pieces(b"".join(pieces)):
            due_ms = self._network.clock.monotonic_ms() + self._network.random.uniform(low_ms, high_ms)
            self._last_due_ms = max(self._last_due_ms, due_ms)  # a later piece never overtakes
            self._on_the_way.append((self._last_due_ms, piece))
            self._on_the_way_bytes += len(piece)
        self._start_pump()
        self._check_room()

    def _waiting_bytes(self) -> int:
        return self._on_the_way_bytes

    def _stop_reading(self) -> None:
        self._reading.clear()

    def _go_on_reading(self) -> None:
        self._reading.set()

    def _cut(self) -> None:
        self._on_the_way.clear()
        self._reading.set()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._finish, None)
        if not self._network.swallows(self):
            loop.call_soon(self._other.abort, ConnectionClosed("the other side broke the connection"))

    # --- carrying bytes ---

    def _start_pump(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._network.start(self._pump(), name=f"memory {self.local_address} to {self.remote_address}")

    async def _pump(self) -> None:
        try:
            while self._on_the_way and not self._other.is_finished:
                await self._carry_one()
        finally:
            self._pumping = False
        if self._ending and not self._finished:
            self._finish(None)
            self._other.hear_the_end()

    async def _carry_one(self) -> None:
        due_ms, _ = self._on_the_way[0]
        wait_ms = due_ms - self._network.clock.monotonic_ms()
        if wait_ms > 0:
            await self._network.clock.sleep(wait_ms)
        await self._other._reading.wait()
        if not self._on_the_way:
            return  # aborted meanwhile
        _, piece = self._on_the_way.popleft()
        self._on_the_way_bytes -= len(piece)
        if self._network.swallows(self):
            self._other.missed_bytes += len(piece)
        elif self._network.random.random() < self._network.weather.break_chance:
            self.fail("the network broke")
        else:
            self._other.arrive(piece)
        self._check_room()

    def arrive(self, piece: bytes) -> None:
        position = 0
        while position < len(piece) and not self._ending:
            room = self._lend(-1)
            count = min(len(room), len(piece) - position)
            room[:count] = piece[position : position + count]
            del room
            self._received(count)
            position += count

    def hear_the_end(self) -> None:
        """The other side closed after its last byte."""
        if self._yielding:  # frames that came before still wait for their turn, as they would before a socket's end
            asyncio.get_running_loop().call_soon(self.hear_the_end)
            return
        if not self._network.swallows(self):
            self._on_the_way.clear()
            self._reading.set()
            self._finish(None)

    def _check_room(self) -> None:
        pause_bytes = self._settings.write_pause_bytes
        if self._on_the_way_bytes > pause_bytes:
            self._writable_is(False)
        elif self._on_the_way_bytes <= pause_bytes // 4:
            self._writable_is(True)
