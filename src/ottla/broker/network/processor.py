"""One client's connection on the broker's side: frames in, answers out, in order and within limits.

1. Answers leave in the order of their requests, whoever is ready first. One that is ready at once, while nothing
   waits before it, goes straight to the link; that is nearly every answer to a producer.
2. When too many requests wait for their answers, its own or those of all (waiting_requests.py), or the client does not
   read what it asked for, we stop reading its requests; TCP tells the client.
3. An answer may hold slices of files. They go out in portions, one per turn of the loop, so that a consumer of
   megabytes does not make producers wait; nothing is read ahead of what the socket takes. Where the link can, the
   kernel sends KERNEL_PORTION_BYTES straight from the file, to a follower FOLLOWER_PORTION_BYTES; elsewhere
   PORTION_BYTES are read and written.
4. A request that cannot be understood ends the connection, and the log says who sent what.
5. While a long request of a connection is worked on (`hold`), none of its other requests is begun until it is answered.
6. An answer that must be awaited is a coroutine; its first step runs at once, in the order of the requests.
7. How long answers wait for others and take to be sent is recorded, for those only that do (TimedAnswer).

What to answer is the dispatcher's business; this file knows bytes, order and time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from ottla.broker.network.portions import PORTION_BYTES, read_portion
from ottla.broker.network.waiting_requests import NO_LIMIT, WaitingRequests
from ottla.broker.observe.log_limit import LineLimit
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Running, Work, is_coroutine, resolve
from ottla.clock import Clock, SystemClock, Timer
from ottla.errors import BrokerError, ConnectionClosed, MalformedMessage, OttlaError
from ottla.net.connection import AnswerOrder
from ottla.net.framing import SIZE, Buffer, frame_prefix
from ottla.net.link import Link
from ottla.storage.segment.records_file import FileSlice

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

OUTBOX_LIMIT_BYTES: Final = 2 * 1024 * 1024
KERNEL_PORTION_BYTES: Final = 262_144
SMALL_SLICE_BYTES: Final = 16_384  # it is cheaper to copy so much and to send the answer by one call than by three
FOLLOWER_PORTION_BYTES: Final = 1_048_576  # producers wait for followers: it is their turn, too
ANONYMOUS: Final = "User:ANONYMOUS"

Piece: TypeAlias = Buffer | FileSlice
Answer: TypeAlias = Sequence[Piece]
Answering: TypeAlias = Answer | Work[Answer | None] | None
"""The answer to a request, None for no answer, or a coroutine that returns either."""


class AnswerTimes(Protocol):
    """Where the way of an answer is recorded (observe/request_metrics.py)."""

    def queued(self, for_ms: float) -> None: ...
    def sent(self, for_ms: float) -> None: ...
    def waited(self, started_ms: float, waits_since_ms: float, now_ms: float, count: int = 1) -> None: ...


class RunAnswers(Protocol):
    """The answers to requests that came together by one connection."""

    @property
    def request_bytes(self) -> list[int]:
        """The sizes of the requests that are answered."""

    @property
    def is_over(self) -> bool:
        """Whether they can leave now."""

    def content(self) -> bytes:
        """Whole frames."""

    def timed(self, clock: Clock, times: AnswerTimes, started_ms: float) -> None:
        """The requests began then, and their answers leave later."""

    def leave_by(self, connection: Connection, places: list[int]) -> None:
        """They call `leave` with these places when they can."""


class TimedAnswer(list[Piece]):
    """An answer that may wait for others or take long to send. In the outbox it stands behind its last piece."""

    __slots__ = ("ready_ms", "times")

    def __init__(self, parts: Sequence[Piece], times: AnswerTimes, ready_ms: float) -> None:
        super().__init__(parts)
        self.times = times
        self.ready_ms = ready_ms

    def __repr__(self) -> str:
        return f"<an answer of {len(self)} pieces>"  # what they say is the client's, and may be a secret

    def its_turn(self, now_ms: float) -> None:
        """Those before it have left."""
        self.times.queued(now_ms - self.ready_ms)
        self.ready_ms = now_ms


class CloseConnection(Exception):
    """The answer to a request is to end its connection; the text goes to the log, `answer` to the client."""

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class Dispatcher(Protocol):
    def dispatch(self, frame: memoryview, connection: Connection) -> Answering:
        """CloseConnection ends the connection, also out of a coroutine."""

    def dispatch_run(
        self, frame: memoryview, following: deque[memoryview], connection: Connection
    ) -> RunAnswers | None:
        """The answers to this request and to those that it takes away from `following`, if there are any; None when it
        is to be dispatched alone."""


class Connection:
    """LinkEvents of one client."""

    def __init__(
        self,
        number: int,
        listener: str,
        dispatcher: Dispatcher,
        gone: Callable[[Connection], None],
        waiting: WaitingRequests = NO_LIMIT,
        clock: Clock | None = None,
        security_protocol: str = "PLAINTEXT",
    ) -> None:
        self.number = number
        self.listener = listener
        self.security_protocol = security_protocol
        self.principal = ANONYMOUS
        self.by_token = False
        self.client_software = ("unknown", "unknown")
        self.last_active_ms = 0.0
        self.kernel_portion_bytes = KERNEL_PORTION_BYTES
        self._dispatcher = dispatcher
        self._gone = gone
        self._link: Link | None = None
        self._order: AnswerOrder[Answer] = AnswerOrder()
        self._waiting = waiting
        self._clock = clock or SystemClock()
        self._outbox: deque[Piece | TimedAnswer] = deque()
        self._outbox_bytes = 0
        self._offset = 0  # how much of the first file slice is sent already
        self._turn_is_planned = False
        self._waits_for_room = False
        self._throttled = False
        self._throttled_until_ms = 0.0
        self._is_held = False
        self._stopped_reading = False
        self._throttle_timer: Timer | None = None
        # The dispatcher's memory of who asks by this connection, per kind of request.
        self.contexts: dict[object, tuple[RequestContext, bytes]] = {}
        self._left: asyncio.Future[None] | None = None  # made when somebody wants to know of its end

    @property
    def host(self) -> str:
        address = self._link.remote_address if self._link is not None else None
        return address[0] if address else "unknown"

    @property
    def port(self) -> int:
        address = self._link.remote_address if self._link is not None else None
        return address[1] if address else 0

    @property
    def name(self) -> str:
        address = self._link.remote_address if self._link is not None else None
        return f"{address[0]}:{address[1]}-{self.number}" if address else f"connection {self.number}"

    @property
    def is_idle(self) -> bool:
        return not self._order.waiting_count and not self._outbox

    @property
    def unbegun_count(self) -> int:
        """Requests that were read and are not begun."""
        return 0 if self._link is None else len(self._link.following)

    @property
    def waiting_count(self) -> int:
        """Requests that are begun and not answered."""
        return self._order.waiting_count

    @property
    def is_sending(self) -> bool:
        """There are answers that the link has not taken."""
        return bool(self._outbox)

    @property
    def is_stuck(self) -> bool:
        """It waits for its client to read."""
        return self._link is not None and (self._waits_for_room or not self._link.writable)

    def authenticated(self, principal: str, *, by_token: bool = False) -> None:
        """Who its client is, is known now."""
        self.principal = principal
        self.by_token = by_token
        self.contexts.clear()

    @property
    def is_gone(self) -> bool:
        """Nobody is there any more to take an answer."""
        return self._link is None

    def left(self) -> asyncio.Future[None]:
        """Resolved when the client has left."""
        if self._left is None:
            self._left = asyncio.get_running_loop().create_future()
            if self.is_gone:
                self._left.set_result(None)
        return self._left

    def hold(self) -> None:
        """Begin no other request of this connection until all that were begun are answered: who calls is one of them,
        and need not be the last."""
        self._is_held = True
        self._resume_or_pause_reading()

    @property
    def is_held(self) -> bool:
        return self._is_held

    def resume(self) -> None:
        """Read requests again, unless something else holds them back."""
        self._resume_or_pause_reading()

    def close(self) -> None:
        """Write what waits, then close."""
        if self._link is not None:
            self._link.close()

    def abort(self, reason: str) -> None:
        """Close now: what waits will not be written."""
        if self._link is not None:
            self._link.abort(ConnectionClosed(reason))

    def throttle(self, for_ms: float) -> None:
        """Read nothing more for a while: the answer tells the client, and this holds those who do not listen."""
        until_ms = self._clock.monotonic_ms() + for_ms
        if for_ms <= 0 or self._link is None or (self._throttled and until_ms <= self._throttled_until_ms):
            return
        self._throttled = True
        self._throttled_until_ms = until_ms
        self._stopped_reading = True
        self._link.pause_reading()
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._throttle_timer = self._clock.call_later(for_ms, self._throttle_ends)

    # -- events of the link -----------------------------------------------------------------------------------------

    def opened(self, link: Link) -> None:
        self._link = link

    def frame_received(self, frame: memoryview) -> None:
        if self._link is not None and self._run_received(self._link, frame):
            return
        place = None if self.is_idle else self._arrived(len(frame))
        try:
            answer = self._dispatcher.dispatch(frame, self)
        except (CloseConnection, MalformedMessage, BrokerError) as reason:
            self.end(reason)
            return
        self._answer(answer, len(frame), place)

    def _run_received(self, link: Link, frame: memoryview) -> bool:
        """Have the frame answered together with those behind it, when the dispatcher knows how; else say False."""
        try:
            answers = self._dispatcher.dispatch_run(frame, link.following, self)
        except (CloseConnection, MalformedMessage, BrokerError) as reason:
            self.end(reason)
            return True
        if answers is None:
            return False
        sizes = answers.request_bytes
        if not answers.is_over:
            answers.leave_by(self, [self._arrived(sizes[0])] if len(sizes) == 1 else list(map(self._arrived, sizes)))
            if not self._order.wants_reading or self._waiting.is_full:
                self._resume_or_pause_reading()
        elif self.is_idle:
            self._write_frames(answers.content())
        else:
            for answer, size_bytes in zip(_frames_in(answers.content()), sizes, strict=True):
                self._answer((answer,), size_bytes, self._arrived(size_bytes))
        return True

    def leave(self, places: list[int], content: bytes) -> None:
        """Answers that were held back, as whole frames: by one write. Where others come first, each takes its place,
        from the last to the first, so that all leave by one write then."""
        try:
            if self._link is not None and (left := self._order.leave_together(places[0], len(places))) is not None:
                self._waiting.change(-left)
                self._write_frames(content)
            else:
                for place, frame in zip(reversed(places), reversed(list(_frames_in(content))), strict=True):
                    self._answered(place, (frame,))
        except Exception as fault:
            # What goes wrong here must not reach whoever let them go: he has others to serve.
            log.exception("%s: a request cannot be answered", self.name)
            self.end(fault)
        if self._is_held or self._stopped_reading:
            self._ended()

    def _ended(self) -> None:
        """One or more requests that waited have their answers."""
        if not self._order.waiting_count:
            self._is_held = False
        self._resume_or_pause_reading()

    def _arrived(self, size_bytes: int) -> int:
        """A request that waits; the place of its answer."""
        self._waiting.change(size_bytes)
        return self._order.arrived(size_bytes)

    def _answer(self, answering: Answering, size_bytes: int, place: int | None) -> None:
        """The answer to a request of that size; `place` None: nothing waits before it."""
        if is_coroutine(answering):
            self._run(Running(answering), size_bytes, place)
            return
        answer: Any = answering
        if place is None:
            self._write_at_once(answer)
        else:
            self._answered(place, answer)
            self._resume_or_pause_reading()

    def _run(self, running: Running[Answer | None], size_bytes: int, place: int | None) -> None:
        if running.is_done:
            self._completed(running, place)
        else:
            waits_at = self._arrived(size_bytes) if place is None else place
            running.on_done = partial(self._completed, running, waits_at)
            self._resume_or_pause_reading()

    def _completed(self, running: Running[Answer | None], place: int | None) -> None:
        try:
            answer = running.result()
        except (CloseConnection, MalformedMessage, BrokerError) as reason:
            self.end(reason)
        except Exception as fault:
            # What goes wrong here must not reach whoever completed the request: he has others to serve.
            log.exception("%s: a request cannot be answered", self.name)
            self.end(fault)
        else:
            if place is None:
                self._write_at_once(answer)
            else:
                self._answered(place, answer)
        self._ended()

    def writable_changed(self, writable: bool) -> None:
        if writable:
            self._write()

    def closed(self, error: OttlaError | None) -> None:
        if error is not None:
            log.debug("%s: closed: %s", self.name, error)
        self._link = None
        self._waiting.change(-self._order.waiting_bytes)
        self._outbox.clear()
        self.contexts.clear()
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        if self._left is not None:
            resolve(self._left, None)
        self._gone(self)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _write_at_once(self, answer: Answer | None) -> None:
        """Nothing waits before this answer."""
        if answer is None or self._link is None:
            return
        if len(answer) == 1 and isinstance(answer[0], bytes) and self._link.writable:
            self._link.write((SIZE.pack(len(answer[0])) + answer[0],))
        else:
            self._post(answer)
            self._write()
            self._resume_or_pause_reading()

    def _write_frames(self, content: bytes) -> None:
        """Whole answers; all that were asked for before have been answered."""
        if self._link is not None and self._link.writable and not self._outbox:
            self._link.write((content,))
            return
        self._outbox.append(content)
        self._outbox_bytes += len(content)
        self._write()
        self._resume_or_pause_reading()

    def _answered(self, place: int, answer: Answer | None) -> None:
        if self._link is None:
            return
        waited_bytes = self._order.waiting_bytes
        ready = self._order.answered(place, answer)
        self._waiting.change(self._order.waiting_bytes - waited_bytes)
        if len(ready) == 1 and not self._outbox:
            self._write_at_once(ready[0])
        elif ready:
            self._count_waits(ready)
            for each in ready:
                self._post(each)
            self._write()

    def _count_waits(self, ready: Sequence[Answer]) -> None:
        """All but the first were ready before, and waited for it."""
        now_ms = self._clock.monotonic_ms()
        for each in ready[1:]:
            if type(each) is TimedAnswer:
                each.its_turn(now_ms)

    def _post(self, answer: Answer) -> None:
        self._outbox.append(frame_prefix(answer))
        self._outbox.extend(answer)
        self._outbox_bytes += sum(map(len, answer)) + SIZE.size
        if type(answer) is TimedAnswer:
            self._outbox.append(answer)

    def _write(self) -> None:
        """As much as the link takes: all buffers up to a file slice, or one portion of the slice."""
        if self._turn_is_planned or self._link is None:
            return
        try:
            self._write_a_portion(self._link)
        except OttlaError as reason:
            self._link.abort(reason)

    def _write_a_portion(self, link: Link) -> None:
        buffers: list[Buffer] = []
        budget = PORTION_BYTES
        while self._outbox and budget > 0 and link.writable:
            piece = self._outbox[0]
            if isinstance(piece, TimedAnswer):
                self._pass_ends()
                continue
            if not isinstance(piece, FileSlice):
                portion = piece
                self._outbox.popleft()
            elif (sent := self._sent_by_kernel(link, buffers, piece)) is None:
                portion = self._portion_of(piece, budget)
            else:
                buffers = []
                budget -= sent
                if sent:
                    continue
                self._waits_for_room = self._turn_is_planned = True
                link.when_sendable(self._next_turn)
                return
            buffers.append(portion)
            budget -= len(portion)
            self._outbox_bytes -= len(portion)
        if buffers:
            link.write(buffers)
        self._pass_ends()
        if self._outbox and link.writable:
            self._turn_is_planned = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _pass_ends(self) -> None:
        """Answers that have left are recorded."""
        while self._outbox and type(end := self._outbox[0]) is TimedAnswer:
            self._outbox.popleft()
            end.times.sent(self._clock.monotonic_ms() - end.ready_ms)

    def _sent_by_kernel(self, link: Link, before: list[Buffer], piece: FileSlice) -> int | None:
        """How many bytes of the slice went straight to the socket, after those buffers; None when none can."""
        number = piece.file.fileno()
        if number is None or piece.size_bytes <= SMALL_SLICE_BYTES:
            return None
        wanted = min(self.kernel_portion_bytes, piece.size_bytes - self._offset)
        sent = link.send_file(before, number, piece.position + self._offset, wanted)
        if sent:
            self._outbox_bytes -= sent
            self._passed(piece, sent)
        return sent

    def _portion_of(self, piece: FileSlice, budget: int) -> Buffer:
        wanted = min(budget, piece.size_bytes - self._offset)
        portion = read_portion(piece, self._offset, wanted)
        if len(portion) < wanted:
            # The log was truncated under an answer whose size is already sent: the frame cannot be made whole.
            raise ConnectionClosed("the records were truncated while they were being sent")
        self._passed(piece, wanted)
        return portion

    def _passed(self, piece: FileSlice, size_bytes: int) -> None:
        self._offset += size_bytes
        if self._offset == piece.size_bytes:
            self._outbox.popleft()
            self._offset = 0

    def _next_turn(self) -> None:
        self._turn_is_planned = self._waits_for_room = False
        self._write()
        self._resume_or_pause_reading()

    def _resume_or_pause_reading(self) -> None:
        if self._link is None:
            return
        if (  # what nearly every request finds
            not self._is_held
            and self._order.wants_reading
            and self._outbox_bytes < OUTBOX_LIMIT_BYTES
            and not (self._throttled or self._waiting.is_full)
        ):
            self._stopped_reading = False
            self._link.resume_reading()
            return
        # Who has nothing waiting may always ask: one of those requests may be what the others are waiting for.
        is_one_at_a_time = self._waiting.is_full and self._order.waiting_count > 0
        is_held_back = self._throttled or self.is_held or is_one_at_a_time
        if self._order.wants_reading and self._outbox_bytes < OUTBOX_LIMIT_BYTES and not is_held_back:
            self._stopped_reading = False
            self._link.resume_reading()
        else:
            self._stopped_reading = True
            self._link.pause_reading()

    def _throttle_ends(self) -> None:
        self._throttled = False
        self._throttle_timer = None
        self._resume_or_pause_reading()

    def end(self, reason: Exception) -> None:
        """Close it for something that its client did, and say so."""
        log.info("%s: closing the connection: %s", self.name, reason)
        if self._link is None:
            return
        if isinstance(reason, CloseConnection) and reason.answer is not None:
            self._post(reason.answer)
            self._write()
        if self._link is not None:
            self._link.close()


def _frames_in(content: bytes) -> Iterator[bytes]:
    """The frames of which these bytes are made, without their sizes."""
    position = 0
    while position < len(content):
        end = position + SIZE.size + SIZE.unpack_from(content, position)[0]
        yield content[position + SIZE.size : end]
        position = end
