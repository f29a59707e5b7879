"""A TCP proxy before one listener of one broker: it passes bytes on unchanged, late, in pieces, or not at all.

    proxy = Proxy("broker 1", is_for_brokers=False, passing=passing, random=random, changed=changed)
    await proxy.open()                  # listens on proxy.port, which the broker advertises
    proxy.broker_port = 40123           # where the broker listens now; None while it does not run

1. Not a byte is changed: brokers advertise the addresses of their proxies, so clients come by them.
2. Who calls at a broker's listener for brokers is read from the client id of the first request (`broker-2`); nobody
   else knows that address.
3. A connection can be reset (RST) now or after so many more bytes, lose one end only, or stall in one direction.
4. At most LINKS_LIMIT connections; who comes then is refused. Each holds CHUNK_BYTES in each direction.
5. When one end goes, the other hears of it after all bytes that were on their direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from ottla.ordered_set import OrderedSet
from ottla.simulation.real.weather import CLIENTS, Passing, broker_name, cut_in_pieces

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16
LINKS_LIMIT: Final = 2_000
CALLER: Final = re.compile(rb"(?:broker|ottla-forwarder)-(\d+)")
HEADER: Final = struct.Struct(">ihhih")  # size, API, version, correlation id, length of the client id
UNKNOWN: Final = "a broker"  # before its first request
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


def caller_in(data: bytes) -> str | None:
    """The broker that sends this as its first request; None: it is not one, or too little is here yet."""
    if len(data) < HEADER.size:
        return None
    length = HEADER.unpack_from(data)[-1]
    named = CALLER.match(data[HEADER.size : HEADER.size + max(length, 0)])
    return broker_name(int(named[1])) if named else None


class Direction:
    """One direction of a connection."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.is_held = False
        self.cut_after_bytes: int | None = None
        self.passed_bytes = 0

    def left_before_cut(self, size: int) -> int:
        """How many of so many bytes pass before the connection is cut; all of them when it is not."""
        return size if self.cut_after_bytes is None else min(size, self.cut_after_bytes)


class ProxiedLink:
    """One connection through a proxy."""

    def __init__(self, proxy: Proxy, caller: socket.socket, broker: socket.socket, random: Random) -> None:
        self.incoming = Direction(caller, broker)
        self.outgoing = Direction(broker, caller)
        self.caller = UNKNOWN if proxy.is_for_brokers else CLIENTS
        self._proxy = proxy
        self._random = random
        self._tasks: list[asyncio.Task[None]] = []

    def direction(self, is_incoming: object) -> Direction:
        return self.incoming if is_incoming else self.outgoing

    def names(self, direction: Direction) -> tuple[str, str]:
        return (self.caller, self._proxy.name) if direction is self.incoming else (self._proxy.name, self.caller)

    async def run(self) -> None:
        """Until both directions have come to their end. Whoever started it closes both ends, with a reset, unless they
        are closed: those of a connection that ended in order are, so that what was written last is still read."""
        self._tasks = [asyncio.ensure_future(self._pump(direction)) for direction in (self.incoming, self.outgoing)]
        try:
            await asyncio.gather(*self._tasks)
            self.incoming.source.close()
            self.outgoing.source.close()
        except (OSError, asyncio.CancelledError):
            pass  # reset by one of its ends, or by a fault
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, direction: Direction) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(direction.source, CHUNK_BYTES):
            if direction is self.incoming and self.caller == UNKNOWN:
                self.caller = caller_in(data) or self.caller
            weather = self._proxy.passing.weather_of(*self.names(direction))
            for piece, waits_s in cut_in_pieces(data, weather, self._random):
                if waits_s:
                    await asyncio.sleep(waits_s)
                await self._pass(direction, piece)
        await self._allowed(direction)
        with contextlib.suppress(OSError):
            direction.target.shutdown(socket.SHUT_WR)

    async def _pass(self, direction: Direction, piece: bytes) -> None:
        await self._allowed(direction)
        size = direction.left_before_cut(len(piece))
        await asyncio.get_running_loop().sock_sendall(direction.target, piece[:size])
        direction.passed_bytes += size
        if direction.cut_after_bytes is not None:
            direction.cut_after_bytes -= size
            if not direction.cut_after_bytes:
                raise ConnectionResetError("cut by a fault")

    async def _allowed(self, direction: Direction) -> None:
        while direction.is_held or not self._proxy.passing.may_pass(*self.names(direction)):
            await self._proxy.changed()

    # --- what faults do ---

    def reset_now(self) -> None:
        for task in self._tasks:
            task.cancel()

    def lose_one_end(self, is_incoming: object) -> None:
        """The end that would have got the bytes of this direction learns that the connection is gone; the other one
        writes into nothing."""
        direction = self.direction(is_incoming)
        self.incoming.is_held = self.outgoing.is_held = True
        with contextlib.suppress(OSError):
            direction.target.shutdown(socket.SHUT_RDWR)


class Proxy:
    """See the module."""

    def __init__(
        self, name: str, *, is_for_brokers: bool, passing: Passing, random: Random, changed: Callable[[], asyncio.Event]
    ) -> None:
        self.name = name
        self.is_for_brokers = is_for_brokers
        self.passing = passing
        self.broker_port: int | None = None
        self.links: OrderedSet[ProxiedLink] = OrderedSet()
        self.port = 0
        self._random = random
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None

    async def changed(self) -> None:
        """Return when something may pass that might not before."""
        await self._changed().wait()

    async def open(self) -> None:
        self._listening = socket.create_server((HOST, 0), backlog=1024)
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    async def close(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()

    def _start(self, work: Coroutine[Any, Any, None], *ends: socket.socket) -> None:
        """Whatever becomes of the work, these sockets are closed when it is over."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def over(_: object) -> None:
            self._tasks.discard(task)
            for end in ends:
                reset(end)

        task.add_done_callback(over)

    def _accept(self, listening: socket.socket) -> None:
        # Not by a task that waits: one that is cancelled when its caller is just there would leave him open.
        try:
            caller, _ = listening.accept()
        except OSError:
            return  # he has left already
        if self.broker_port is None or len(self._tasks) >= LINKS_LIMIT:
            reset(caller)
        else:
            broker = socket.socket()
            self._start(self._serve(caller, broker, self.broker_port), caller, broker)

    async def _serve(self, caller: socket.socket, broker: socket.socket, port: int) -> None:
        for end in (caller, broker):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(broker, (HOST, port))
        except OSError:
            return  # nobody listens there
        link = ProxiedLink(self, caller, broker, Random(self._random.random()))
        self.links.add(link)
        try:
            await link.run()
        finally:
            self.links.discard(link)


def reset(end: socket.socket) -> None:
    """Close it so that the other side hears a reset."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    end.close()
