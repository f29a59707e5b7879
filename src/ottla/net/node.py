"""Runs a Peer over a transport: the thin loop that acts while the peer decides.

1. `send` returns the answer or raises why there is none; every call ends, at the latest a little after its time-out.
2. Cancelling a `send` is safe: a request not yet written never will be, the answer to one already written is dropped
   when it comes, and nobody else's request notices.
3. `close` fails what is open, closes the link and leaves no task behind. After it nothing can be sent.
4. Events of a link that was given up are ignored: only the newest link speaks for the node.

Belongs to one event loop. For several nodes and for choosing among them see `ottla.client.network`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.clock import Clock, Timer
from ottla.errors import ConnectionClosed, NotConnected, OttlaError
from ottla.net.connection import ApiVersionTable, Completed, Exchange, Failed
from ottla.net.decisions import BackingOff, Close, Connect, Decision, Ready, Send, WakeAt
from ottla.net.link import Link, LinkSettings, Transport
from ottla.net.peer import Peer, State
from ottla.ordered_set import OrderedSet
from ottla.protocol.api import WrittenRequest
from ottla.protocol.schema import Message

log = logging.getLogger(__name__)


class Answer(Protocol):
    """Who waits for an answer: a future, or anybody who hears of it in the same way, once and on the loop."""

    def done(self) -> bool: ...
    def set_result(self, response: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...


class _LinkEvents:
    """The events of one link, told to the node for as long as this is its newest link."""

    def __init__(self, node: NodeConnection) -> None:
        self._node = node
        self.link: Link | None = None
        self.ended = asyncio.Event()

    def opened(self, link: Link) -> None:
        self.link = link
        self._notify(self._node.peer.connected)

    def frame_received(self, frame: memoryview) -> None:
        node = self._node
        if node.newest is not self or not node.complete_at_once(frame):
            self._notify(node.peer.received, frame)

    def writable_changed(self, writable: bool) -> None:
        self._notify(self._node.peer.writable, writable)

    def closed(self, error: OttlaError | None) -> None:
        self.ended.set()
        self._notify(self._node.peer.disconnected, error)

    def _notify(self, event: Callable[..., list[Decision]], *arguments: Any) -> None:
        if self._node.newest is self:
            self._node.happened(event, *arguments)
        elif self.link is not None:
            self.link.abort()


class NodeConnection:
    """One node that can be asked."""

    def __init__(
        self,
        peer: Peer,
        *,
        transport: Transport,
        clock: Clock,
        tls: ssl.SSLContext | Callable[[], ssl.SSLContext | None] | None = None,
        link_settings: LinkSettings | None = None,
    ) -> None:
        """`tls` may be a function, which is asked at every attempt to connect."""
        self.peer = peer
        self._transport = transport
        self._clock = clock
        self._tls = tls
        self._link_settings = link_settings
        self.bytes_in = 0
        self.bytes_out = 0
        self.newest: _LinkEvents | None = None  # the events of the link that speaks for the node
        self._dialing: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._tickets = itertools.count()
        self._answers: dict[object, Answer] = {}
        self._ready: OrderedSet[asyncio.Future[ApiVersionTable]] = OrderedSet()
        self._closed = False

    # --- what the user calls ---

    async def connect(self, *, timeout_ms: float = 30_000) -> ApiVersionTable:
        """Wait until requests can be sent, trying again after failures that may pass; raises the last failure."""
        self._refuse_when_closed()
        if self.peer.state is State.READY and self.peer.versions is not None:
            return self.peer.versions
        now_ms = self._clock.monotonic_ms()
        ready: asyncio.Future[ApiVersionTable] = asyncio.get_running_loop().create_future()
        self._ready.add(ready)
        try:
            self.happened(self.peer.connect, until_ms=now_ms + timeout_ms)
            return await self._at_most(ready, timeout_ms)
        finally:
            self._ready.discard(ready)
            _inspect(ready)

    async def send(
        self,
        request: Message,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float = 30_000,
        expects_response: bool = True,
        client_id: str | None = None,
    ) -> Any:
        """The answer, a message of the request's API; None when none is expected. Connects if need be."""
        self._refuse_when_closed()
        ticket = next(self._tickets)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[ticket] = answer
        try:
            if not expects_response or not self._write_at_once(
                ticket, request, timeout_ms, version=version, at_most=at_most, client_id=client_id
            ):
                self.happened(
                    self.peer.send,
                    ticket,
                    request,
                    timeout_ms=timeout_ms,
                    version=version,
                    at_most=at_most,
                    expects_response=expects_response,
                    client_id=client_id,
                )
            return await answer
        finally:
            if self._answers.pop(ticket, None) is not None:
                self.peer.abandon(ticket)
            _inspect(answer)

    def start_request(
        self,
        request: WrittenRequest,
        answer: Answer,
        *,
        version: int,
        timeout_ms: float,
        expects_response: bool = True,
    ) -> None:
        """The same without waiting, for who sends often: `answer` hears of the end, perhaps before this returns. What
        it raises then would end the connection."""
        self._refuse_when_closed()
        ticket = next(self._tickets)
        self._answers[ticket] = answer
        if expects_response and self._write_at_once(ticket, request, timeout_ms, version=version):
            return
        self.happened(
            self.peer.send,
            ticket,
            request,
            timeout_ms=timeout_ms,
            version=version,
            expects_response=expects_response,
        )

    def start_exchanges(self, exchanges: Sequence[Exchange], now_ms: float, timeout_ms: float) -> int:
        """Write requests that hear of their own end, by one write; how many of them, from the first on. With the others
        nothing was done: something has to be decided first, or a frame cannot be written."""
        events = self.newest
        if self._closed or events is None or events.link is None:
            return 0
        count, buffers = self.peer.send_exchanges(exchanges, now_ms, timeout_ms)
        if not count:
            return 0
        for exchange in exchanges[:count]:
            self._answers[exchange] = exchange
        self.bytes_out += sum(map(len, buffers))
        try:
            events.link.write_gathered(buffers)
        except Exception as error:
            self._failed_in_itself(error)
        return count

    async def close(self) -> None:
        """End everything; calling it twice does no harm."""
        self._closed = True
        events, dialing = self.newest, self._dialing
        self.happened(self.peer.close)
        if self._timer is not None:
            self._timer.cancel()
        if dialing is not None:
            dialing.cancel()
            await asyncio.gather(dialing, return_exceptions=True)
        if events is not None and events.link is not None:
            await events.ended.wait()

    # --- what happens ---

    def happened(self, event: Callable[..., list[Decision]], *arguments: Any, **named: Any) -> None:
        """Tell the peer, then do what it decided. A fault in either fails everybody who waits: nobody hangs."""
        if arguments and isinstance(arguments[0], memoryview):
            self.bytes_in += len(arguments[0])
        try:
            for decision in event(*arguments, now_ms=self._clock.monotonic_ms(), **named):
                self._act(decision)
        except Exception as error:
            self._failed_in_itself(error)

    def _failed_in_itself(self, error: Exception) -> None:
        log.error("the connection to %s:%s failed in itself", self.peer.host, self.peer.port, exc_info=error)
        had_link = self.newest is not None
        self._give_up_link(None)
        self._fail_everybody(error)
        if had_link:  # the peer must know, or it sends into a link that is gone; without one, it knows
            self.happened(self.peer.disconnected, ConnectionClosed(f"a fault of ours: {type(error).__name__}"))

    def _write_at_once(
        self,
        ticket: object,
        request: Message | WrittenRequest,
        timeout_ms: float,
        *,
        version: int | None,
        at_most: int | None = None,
        client_id: str | None = None,
    ) -> bool:
        """The usual case of `happened` for a request: only bytes leave. False when nothing was done."""
        now_ms = self._clock.monotonic_ms()
        buffers = self.peer.send_at_once(
            ticket, request, now_ms=now_ms, timeout_ms=timeout_ms, version=version, at_most=at_most, client_id=client_id
        )
        if buffers is None:
            return False
        try:
            self._act(Send(buffers))
        except Exception as error:
            self._failed_in_itself(error)
        return True

    def complete_at_once(self, frame: memoryview) -> bool:
        """The usual case of `happened` for a frame: an answer that somebody waits for. False when nothing was done."""
        try:
            answered = self.peer.answer_at_once(frame, self._clock.monotonic_ms())
            if answered is None:
                return False
            self.bytes_in += len(frame)
            ticket, response = answered
            if (answer := self._answers.pop(ticket, None)) is not None and not answer.done():
                answer.set_result(response)
        except Exception as error:
            self._failed_in_itself(error)
        return True

    def _act(self, decision: Decision) -> None:
        match decision:
            case Completed():
                if (answer := self._answers.pop(decision.ticket, None)) is not None and not answer.done():
                    answer.set_result(decision.response)
            case Failed():
                if (answer := self._answers.pop(decision.ticket, None)) is not None and not answer.done():
                    answer.set_exception(decision.error)
            case Send():
                assert self.newest is not None, "Send comes after the link was opened"
                assert self.newest.link is not None, "Send comes after the link was opened"
                self.bytes_out += sum(map(len, decision.buffers))
                self.newest.link.write(decision.buffers)
            case WakeAt():
                self._wake_at(decision.ms)
            case Connect():
                self.newest = _LinkEvents(self)
                self._dialing = asyncio.get_running_loop().create_task(self._dial(decision, self.newest))
            case Close():
                self._give_up_link(decision.reason)
            case Ready():
                self._notify_ready(decision.versions)
            case BackingOff():
                self._notify_backing_off(decision)

    async def _dial(self, connect: Connect, events: _LinkEvents) -> None:
        try:
            tls = self._tls if self._tls is None or isinstance(self._tls, ssl.SSLContext) else self._tls()
            await self._transport.connect(connect.host, connect.port, events, tls=tls, settings=self._link_settings)
        except OttlaError as error:
            if self.newest is events:
                self.happened(self.peer.connect_failed, error)
        except Exception as error:
            log.exception("connecting to %s:%s failed in an unexpected way", connect.host, connect.port)
            if self.newest is events:
                self.happened(self.peer.connect_failed, NotConnected(f"{type(error).__name__}: {error}"))

    def _wake_at(self, ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(ms - self._clock.monotonic_ms(), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.happened(self.peer.tick)

    def _give_up_link(self, reason: str | None) -> None:
        events, self.newest = self.newest, None
        if events is not None and events.link is not None:
            log.debug("closing the connection to %s:%s: %s", self.peer.host, self.peer.port, reason)
            events.link.close()
        elif self._dialing is not None:
            self._dialing.cancel()

    def _notify_ready(self, versions: ApiVersionTable) -> None:
        for ready in self._ready:
            if not ready.done():
                ready.set_result(versions)

    def _notify_backing_off(self, decision: BackingOff) -> None:
        log.info("no connection to %s:%s: %s", self.peer.host, self.peer.port, decision.error)
        if decision.retry_at_ms is None:
            for ready in self._ready:
                if not ready.done():
                    ready.set_exception(decision.error)

    def _fail_everybody(self, error: Exception) -> None:
        everybody: list[Answer] = [*self._answers.values(), *self._ready]
        for waiting in everybody:
            if not waiting.done():
                waiting.set_exception(error)
        self._answers.clear()

    # --- waiting ---

    async def _at_most(self, ready: asyncio.Future[ApiVersionTable], timeout_ms: float) -> ApiVersionTable:
        loop = asyncio.get_running_loop()
        too_late = loop.create_task(self._clock.sleep(timeout_ms))
        try:
            await asyncio.wait((ready, too_late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            too_late.cancel()
        if ready.done():
            return ready.result()
        where = f"{self.peer.host}:{self.peer.port}"
        raise self.peer.failure or NotConnected(f"{where} was not ready within {timeout_ms:.0f} ms")

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise NotConnected(f"this connection to {self.peer.host}:{self.peer.port} was closed by us")


def _inspect(future: asyncio.Future[Any]) -> None:
    """A future may fail in the same turn in which its waiter is cancelled; the loop must not call that forgotten."""
    if future.done() and not future.cancelled():
        future.exception()
    else:
        future.cancel()
