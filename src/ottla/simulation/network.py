"""The network between simulated machines: TCP as programs see it, with weather and faults.

    network = SimulatedNetwork(loop, Random(7))
    transport = network.machine("10.0.0.1")                 # the door of this machine's processes
    network.partition(["10.0.0.1"], ["10.0.0.2"])           # one way: nothing from the first arrives at the second
    network.heal()

1. Bytes of a connection arrive in order and once, or not at all. A partition holds them back, as TCP's repetitions do:
   after `heal` they arrive late. Only `reset`, a process that ends or an abort breaks a connection.
2. `reset` breaks it at any byte: of what is under way a drawn part still arrives, then each end learns of it, or (half
   open) only one of them does; the other one learns when it writes.
3. A process that is killed leaves its sockets to the kernel, which tells the other ends. A machine that loses power
   tells nobody; when it is back it answers "reset" to whoever still writes.
4. Flow control is real: what was written and is not read counts, until it is read; `writable_changed` follows.
5. `hold` keeps back what one end of one connection writes, while all others work.
6. A connection to nobody is refused; through a partition it is not answered, and whoever waits must know how long.
7. Delay, bandwidth and cuts into pieces come from the `Weather` of the two machines, drawn from the seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import ssl
from collections import deque
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Final

from ottla.errors import ConnectionClosed, ConnectionRefused, TlsHandshakeFailed
from ottla.light_dataclasses import dataclass, replace
from ottla.net.framed_link import fenced
from ottla.net.link import Address, Link, LinkEvents, LinkSettings, Listener
from ottla.net.tls.stream import ServerTls
from ottla.simulation.link import SimulatedLink
from ottla.simulation.loop import SimulationLoop

FIRST_PORT: Final = 30_000
WHOLE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to bytes on their way to or from a machine; of two machines the worse counts."""

    delay_s: tuple[float, float] = (0.000_1, 0.001)
    bytes_per_s: float = 100e6
    piece_bytes: int = WHOLE_BYTES  # the longest piece that arrives at once

    def slower(self, times: float) -> Weather:
        """The same with longer delays."""
        low_s, high_s = self.delay_s
        return replace(self, delay_s=(low_s * times, high_s * times))


class SimulatedListener:
    """An open door of a machine."""

    def __init__(
        self,
        network: SimulatedNetwork,
        address: Address,
        make_events: Callable[[], LinkEvents],
        settings: LinkSettings,
    ) -> None:
        self._network = network
        self.addresses = [address]
        self.make_events = fenced(make_events)
        self.settings = settings
        self.process = network.loop.current_process()
        self.context = contextvars.copy_context()

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    def close(self) -> None:
        self._network.forget(self)

    def abort_handshakes(self) -> None:
        """There are none: TLS is not spoken."""


class SimulatedNetwork:
    """All machines and everything between them."""

    def __init__(self, loop: SimulationLoop, random: Random, weather: Weather | None = None) -> None:
        self.loop = loop
        self.random = random
        self.weather = weather or Weather()
        self.links: list[SimulatedLink] = []
        self._weathers: dict[str, Weather] = {}
        self._listeners: dict[Address, SimulatedListener] = {}
        self._blocked: dict[tuple[str, str], int] = {}  # by how many partitions
        self._powerless: dict[str, None] = {}
        self._dialing: deque[tuple[str, str, asyncio.Future[None]]] = deque()
        self._next_port = FIRST_PORT

    def machine(self, host: str) -> MachineTransport:
        """The door for processes of this machine."""
        return MachineTransport(self, host)

    # --- weather and faults ---

    def set_weather(self, host: str, weather: Weather | None) -> None:
        """For one machine; None is that of the network."""
        if weather is None:
            self._weathers.pop(host, None)
        else:
            self._weathers[host] = weather

    def partition(self, senders: Collection[str], receivers: Collection[str]) -> None:
        """Nothing of the first arrives at the second; the other direction stays open."""
        self.block([(sender, receiver) for sender in senders for receiver in receivers])

    def block(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Nothing goes from the first to the second of each pair, until as many `unblock` them."""
        for sender, receiver in pairs:
            if sender != receiver:
                self._blocked[sender, receiver] = self._blocked.get((sender, receiver), 0) + 1

    def unblock(self, pairs: Iterable[tuple[str, str]]) -> None:
        """One `block` of these pairs is over; what nobody else blocks goes on."""
        for pair in pairs:
            if self._blocked.get(pair, 0) > 1:
                self._blocked[pair] -= 1
            else:
                self._blocked.pop(pair, None)
        self._go_on()

    def heal(self) -> None:
        """Every way is open, and what was held back goes on."""
        self._blocked.clear()
        self._go_on()

    def reset(self, link: SimulatedLink, *, half_open: bool = False) -> None:
        """Break a connection; see promise 2."""
        for end in (link, link.other):
            end.cut_outgoing()
        link.break_here("the connection was reset")
        if not half_open:
            link.other.break_here("the connection was reset")

    def hold(self, link: SimulatedLink, is_held: bool) -> None:
        """What this end writes does not arrive, until it is let go; other connections of its machine go on."""
        link.is_held = is_held
        link.go_on()

    def power_off(self, host: str) -> None:
        """The machine tells nobody that it is gone."""
        for link in self._open_of(host):
            link.vanish()
        self._powerless[host] = None
        for address in [each for each in self._listeners if each[0] == host]:
            del self._listeners[address]

    def power_on(self, host: str) -> None:
        self._powerless.pop(host, None)
        self._go_on()

    def end_process(self, host: str) -> None:
        """All sockets of a machine's process are closed by its kernel, without a word of the process."""
        for address in [each for each in self._listeners if each[0] == host]:
            del self._listeners[address]
        for link in self._open_of(host):
            link.vanish()
            link.other.break_here("the other side is gone")

    def open_links(self) -> list[SimulatedLink]:
        """Both ends of each connection, in the order in which they were made."""
        self.links = [link for link in self.links if not link.is_finished]
        return self.links

    def _open_of(self, host: str) -> list[SimulatedLink]:
        return [link for link in self.open_links() if link.host == host]

    # --- for links and transports ---

    def is_blocked(self, sender: str, receiver: str) -> bool:
        if not self._blocked and not self._powerless:
            return False
        return (sender, receiver) in self._blocked or sender in self._powerless or receiver in self._powerless

    def passage_s(self, sender: str, receiver: str, size_bytes: int) -> float:
        """How long so many bytes take."""
        one = other = self.weather
        if self._weathers:
            one, other = (self._weathers.get(host, self.weather) for host in (sender, receiver))
        low_s, high_s = max(one.delay_s, other.delay_s)
        drawn_s = low_s + (high_s - low_s) * self.random.random()
        return drawn_s + size_bytes / min(one.bytes_per_s, other.bytes_per_s)

    def piece_bytes(self, sender: str, receiver: str) -> int:
        """The length of the next piece."""
        if not self._weathers and self.weather.piece_bytes >= WHOLE_BYTES:
            return self.weather.piece_bytes
        longest = min(self._weathers.get(host, self.weather).piece_bytes for host in (sender, receiver))
        return longest if longest >= WHOLE_BYTES else self.random.randint(1, longest)

    def forget(self, listener: SimulatedListener) -> None:
        for address in listener.addresses:
            if self._listeners.get(address) is listener:
                del self._listeners[address]

    def listen(self, listener: SimulatedListener) -> None:
        address = listener.addresses[0]
        if address in self._listeners:
            raise OSError(f"somebody listens on {address[0]}:{address[1]} already")
        self._listeners[address] = listener

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    async def way(self, sender: str, receiver: str) -> None:
        """One question to a machine and its answer; waits while a partition is between."""
        await asyncio.sleep(self.passage_s(sender, receiver, 0) + self.passage_s(receiver, sender, 0))
        while self.is_blocked(sender, receiver) or self.is_blocked(receiver, sender):
            opened: asyncio.Future[None] = self.loop.create_future()
            self._dialing.append((sender, receiver, opened))
            await opened

    def join(self, near: SimulatedLink, listener: SimulatedListener) -> None:
        """The other end of a new connection, at whoever listens."""
        far = SimulatedLink(self, near.remote_address, near.local_address, listener.settings, listener.context)
        near.join(far)
        self.links += [near, far]
        self.loop.call_soon(far.accept, listener.make_events, context=listener.context)

    def listener_at(self, address: Address) -> SimulatedListener:
        found = self._listeners.get(address)
        if found is None or found.process.is_dead:
            raise ConnectionRefused(f"{address[0]}:{address[1]} refused the connection; nothing listens there")
        return found

    def _go_on(self) -> None:
        waiting, self._dialing = self._dialing, deque()
        for _, _, opened in waiting:
            if not opened.done():
                opened.set_result(None)
        for link in self.open_links():
            link.go_on()


class MachineTransport:
    """The transport of one machine; `ottla.net.link.Transport`."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self._network = network
        self.host = host

    async def connect(
        self,
        host: str,
        port: int,
        events: LinkEvents,
        *,
        tls: ssl.SSLContext | None = None,
        settings: LinkSettings | None = None,
    ) -> Link:
        network = self._network
        if tls is not None:
            raise TlsHandshakeFailed("the simulated network speaks no TLS")
        await network.way(self.host, host)
        listener = network.listener_at((host, port))
        near = SimulatedLink(
            network,
            (self.host, network.free_port()),
            (host, port),
            settings or LinkSettings(),
            contextvars.copy_context(),
        )
        network.join(near, listener)
        near.accept(lambda: events)
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
        """`backlog` has no meaning here: a kernel takes whoever comes."""
        if tls is not None:
            raise ConnectionClosed("the simulated network speaks no TLS")
        address = (self.host, port or self._network.free_port())
        listener = SimulatedListener(self._network, address, make_events, settings or LinkSettings())
        self._network.listen(listener)
        return listener
