"""One remote node, seen from the side that connects: what to do next, decided without a socket or a clock.

    DISCONNECTED -> CONNECTING -> NEGOTIATING -> (AUTHENTICATING ->) READY
                        any of these when something fails -> BACKING_OFF -> CONNECTING

1. Every call is told the time and returns a list of decisions (Connect, Send, Completed, ...), which a transport
   carries out in their order. Nothing is ever called back.
2. A request ends exactly once, with Completed or Failed. It waits in a queue until the node is ready and has room,
   at most until its deadline; once sent it is never sent again, because it may have taken effect.
3. A connection is made when somebody asks for it and kept while it is used: without requests it is closed after
   `idle_limit_ms` and made again by the next request.
4. Whatever goes wrong ends in BACKING_OFF, and `failure` says why in words a user can act on. The wait doubles from
   `reconnect_backoff_ms` to `reconnect_backoff_max_ms`, plus or minus a fifth so that a thousand clients do not come
   back in the same instant; it begins again after a connection became ready.
5. Errors that trying again cannot mend (wrong password, untrusted certificate, no common version) are not tried
   again: waiting requests fail at once, and so does every later one until somebody calls `connect`.
6. A node that does not answer in time is left: an answer that comes late would be taken for another, so the whole
   connection goes. The same holds for set-up as a whole, from the first packet to READY.

The state belongs to whoever drives it; one thread at a time.
"""

from __future__ import annotations

import copy
import enum
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ottla.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionRefused,
    IllegalMove,
    MalformedMessage,
    NotConnected,
    OttlaError,
    RequestTimedOut,
    TlsHandshakeFailed,
)
from ottla.light_dataclasses import dataclass
from ottla.net.connection import IN_FLIGHT_LIMIT, ApiVersionTable, ClientConnection, Completed, Exchange, Failed
from ottla.net.decisions import BackingOff, Close, Connect, Decision, Ready, Send, WakeAt
from ottla.net.framing import Buffer
from ottla.net.handshake import Ask, Authenticated, Authenticator, VersionNegotiation
from ottla.net.retries import JITTER, RandomSource, grown_ms
from ottla.net.waiting import WaitingRequest, WaitingRequests
from ottla.protocol.api import WrittenRequest, api_of
from ottla.protocol.schema import Message


class State(enum.Enum):
    """Where a peer is."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    BACKING_OFF = "backing off"


MOVES: Final[dict[State, frozenset[State]]] = {
    State.DISCONNECTED: frozenset({State.CONNECTING}),
    State.CONNECTING: frozenset({State.NEGOTIATING, State.BACKING_OFF, State.DISCONNECTED}),
    State.NEGOTIATING: frozenset({State.AUTHENTICATING, State.READY, State.BACKING_OFF, State.DISCONNECTED}),
    State.AUTHENTICATING: frozenset({State.READY, State.BACKING_OFF, State.DISCONNECTED}),
    State.READY: frozenset({State.AUTHENTICATING, State.BACKING_OFF, State.DISCONNECTED}),
    State.BACKING_OFF: frozenset({State.CONNECTING, State.DISCONNECTED}),
}
_SETTING_UP: Final = frozenset({State.CONNECTING, State.NEGOTIATING, State.AUTHENTICATING})
STORY_LIMIT: Final = 20
STEPS_LIMIT: Final = 16


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Kafka's client settings that concern one connection, with Kafka's defaults."""

    client_id: str | None = None
    software_name: str = "ottla"
    software_version: str = "unknown"
    in_flight_limit: int = IN_FLIGHT_LIMIT  # max.in.flight.requests.per.connection
    waiting_limit: int = 1000
    waits_for_refusing: bool = True  # False: a connection that is refused fails what waits; the caller tries again
    reconnect_backoff_ms: float = 50  # reconnect.backoff.ms
    reconnect_backoff_max_ms: float = 1_000  # reconnect.backoff.max.ms
    setup_timeout_ms: float = 10_000  # socket.connection.setup.timeout.ms
    setup_timeout_max_ms: float = 30_000  # socket.connection.setup.timeout.max.ms
    idle_limit_ms: float = 540_000  # connections.max.idle.ms
    jitter: float = JITTER


_Step: TypeAlias = Ask | ApiVersionTable | Authenticated
_SETUP: Final = object()  # the ticket of our own requests, those before READY


class Peer:
    """One remote node; the driver tells it what happened and does what it says."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        random: RandomSource,
        settings: PeerSettings | None = None,
        authenticator: Callable[[], Authenticator] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._settings = settings or PeerSettings()
        self._random = random
        self._make_authenticator = authenticator
        self._state = State.DISCONNECTED
        self._story: deque[str] = deque(maxlen=STORY_LIMIT)
        self._connection = self._new_connection()
        self._waiting = WaitingRequests(limit=self._settings.waiting_limit)
        self._versions: ApiVersionTable | None = None
        self._next_step: Callable[[Message], _Step] | None = None  # who takes the answer to our own request
        self._steps = 0
        self._wanted_until_ms = -math.inf
        self._failures = 0
        self._slow_setups = 0  # attempts in a row whose time ran out
        self._failure: OttlaError | None = None
        self._refused: OttlaError | None = None
        self._writable = True
        # Times at which something must happen by itself; infinity when it need not.
        self._setup_deadline_ms = math.inf
        self._backoff_until_ms = math.inf
        self._used_ms = -math.inf
        self._reauthenticate_ms = math.inf
        self._announced_ms = math.inf

    # --- looking ---

    @property
    def state(self) -> State:
        return self._state

    @property
    def versions(self) -> ApiVersionTable | None:
        """What the node serves; None before the first negotiation."""
        return self._versions

    @property
    def failure(self) -> OttlaError | None:
        """Why the last attempt or connection ended; None once one is ready."""
        return self._failure

    @property
    def load(self) -> int:
        """Requests for this node that have no answer yet, sent or not: what "least loaded" compares. Our own, of a
        set-up or of another login, do not count: nobody but us hears of their answers."""
        own = 1 if self._state in (State.NEGOTIATING, State.AUTHENTICATING) else 0
        return max(0, self._connection.in_flight_count - own) + len(self._waiting)

    @property
    def can_send_now(self) -> bool:
        """Whether a request would be written at once."""
        return self._state is State.READY and self._writable and not self._waiting.line and self._connection.has_room

    def story(self) -> list[str]:
        """The last moves, oldest first."""
        return list(self._story)

    # --- what the user wants ---

    def connect(self, now_ms: float, *, until_ms: float = math.inf) -> list[Decision]:
        """Be connected, trying again until `until_ms`. Also forgives an error that was not to be tried again."""
        out: list[Decision] = []
        self._refused = None
        self._wanted_until_ms = until_ms
        if self._state is State.DISCONNECTED:
            self._dial(out, now_ms)
        return out

    def send(
        self,
        ticket: object,
        request: Message | WrittenRequest,
        *,
        now_ms: float,
        timeout_ms: float,
        version: int | None = None,
        at_most: int | None = None,
        expects_response: bool = True,
        client_id: str | None = None,
    ) -> list[Decision]:
        """Send when possible, connecting if need be. `version` fixes the version, `at_most` limits the choice;
        `client_id` is that of this request alone."""
        if self._refused is not None:
            return [Failed(ticket, _again(self._refused))]
        if self._waiting.is_full:
            return [Failed(ticket, NotConnected(f"{len(self._waiting)} requests wait for {self._name} already"))]
        deadline_ms = now_ms + timeout_ms
        self._waiting.add(WaitingRequest(ticket, request, version, at_most, deadline_ms, expects_response, client_id))
        out: list[Decision] = []
        if self._state is State.DISCONNECTED:
            self._dial(out, now_ms)
        self._flush(out, now_ms)
        self._wake(out, deadline_ms)
        return out

    def send_at_once(
        self,
        ticket: object,
        request: Message | WrittenRequest,
        *,
        now_ms: float,
        timeout_ms: float,
        version: int | None = None,
        at_most: int | None = None,
        client_id: str | None = None,
    ) -> list[Buffer] | None:
        """The usual case of `send`: the bytes to write when nothing else has to be decided, else None."""
        deadline_ms = now_ms + timeout_ms
        if not self.can_send_now or self._reauthenticate_ms <= now_ms or deadline_ms < self._announced_ms:
            return None
        assert self._versions is not None, "READY comes after negotiation"
        try:
            if version is None:
                version = self._versions.choose(api_of(request), at_most=at_most)
            buffers = self._connection.send(
                ticket, request, version=version, deadline_ms=deadline_ms, client_id=client_id
            )
        except Exception:
            return None  # nothing has happened yet, and `send` says what is wrong
        self._used_ms = now_ms
        return buffers

    def send_exchanges(
        self, exchanges: Sequence[Exchange], now_ms: float, timeout_ms: float
    ) -> tuple[int, list[Buffer]]:
        """The same for exchanges: how many of them, from the first on, and the bytes of these."""
        deadline_ms = now_ms + timeout_ms
        if self._state is not State.READY or not self._writable or self._waiting.line:
            return 0, []
        if self._reauthenticate_ms <= now_ms or deadline_ms < self._announced_ms:
            return 0, []
        count, buffers = self._connection.send_exchanges(exchanges, deadline_ms)
        if count:
            self._used_ms = now_ms
        return count, buffers

    def answer_at_once(self, frame: Buffer, now_ms: float) -> tuple[object, object] | None:
        """The usual case of `received`: ticket and answer when it brings nothing to decide, else None and nothing
        happened."""
        if self._state is not State.READY or self._waiting.line or self._reauthenticate_ms <= now_ms:
            return None
        try:
            answered = self._connection.match(frame)
        except OttlaError:
            return None  # it is still there for `received`, which knows what to do about it
        self._used_ms = now_ms
        return answered

    def abandon(self, ticket: object) -> bool:
        """Nobody wants this answer any more. True when the request was not sent and now never will be."""
        return self._waiting.abandon(ticket)

    def close(self, now_ms: float) -> list[Decision]:
        """Be disconnected: nothing stays open and nothing stays unanswered."""
        out: list[Decision] = []
        if self._state in _SETTING_UP or self._state is State.READY:
            out.append(Close("closed by us"))
        self._end_connection(out, "closed by us", now_ms)
        self._fail_waiting(out, NotConnected(f"the connection to {self._name} was closed by us"))
        self._wanted_until_ms = -math.inf
        self._announced_ms = math.inf
        if self._state is not State.DISCONNECTED:
            self._move(State.DISCONNECTED, "closed by us", now_ms)
        return out

    # --- what happened ---

    def connected(self, now_ms: float) -> list[Decision]:
        """The connection is open, TLS included."""
        out: list[Decision] = []
        self._move(State.NEGOTIATING, "connection open", now_ms)
        self._connection = self._new_connection()
        self._writable = True
        negotiation = VersionNegotiation(
            software_name=self._settings.software_name, software_version=self._settings.software_version
        )
        self._begin_steps(negotiation.answered)
        self._take_step(out, negotiation.start(), now_ms)
        return out

    def connect_failed(self, error: OttlaError, now_ms: float) -> list[Decision]:
        """The attempt that Connect asked for came to nothing."""
        out: list[Decision] = []
        self._fail(out, error, now_ms)
        return out

    def disconnected(self, error: OttlaError | None, now_ms: float) -> list[Decision]:
        """The other side, or the network, closed the connection."""
        out: list[Decision] = []
        self._fail(out, self._why_disconnected(error), now_ms)
        return out

    def received(self, frame: Buffer, now_ms: float) -> list[Decision]:
        """An answer came."""
        out: list[Decision] = []
        try:
            completed = self._connection.receive(frame)
            if completed.ticket is _SETUP:
                self._setup_answered(out, completed, now_ms)
            else:
                out.append(completed)
        except OttlaError as error:
            self._give_up(out, self._explain(error), now_ms)
            return out
        self._used_ms = now_ms
        self._flush(out, now_ms)
        return out

    def writable(self, writable: bool, now_ms: float) -> list[Decision]:
        """The transport has room for more bytes, or has not."""
        out: list[Decision] = []
        self._writable = writable
        self._flush(out, now_ms)
        return out

    def tick(self, now_ms: float) -> list[Decision]:
        """Time has passed."""
        out: list[Decision] = []
        self._announced_ms = math.inf
        expired = self._waiting.expire(now_ms)
        out.extend(Failed(waiting.ticket, self._why_never_sent(waiting)) for waiting in expired)
        if self._state in _SETTING_UP and self._setup_deadline_ms <= now_ms:
            self._slow_setups += 1
            self._give_up(out, self._why_set_up_takes_long(), now_ms)
        elif late := self._connection.expired(now_ms):
            names = ", ".join(sorted({request.api.name for request in late}))
            self._give_up(out, ConnectionClosed(f"{self._name} did not answer {names} in time"), now_ms)
        elif self._state is State.READY:
            self._tick_ready(out, now_ms)
        elif self._state is State.BACKING_OFF and self._backoff_until_ms <= now_ms:
            self._end_backoff(out, now_ms)
        self._wake(out, self._next_wake_ms())
        return out

    # --- moving ---

    def _move(self, state: State, reason: str, now_ms: float) -> None:
        if state not in MOVES[self._state]:
            raise IllegalMove(f"{self._name} cannot go from {self._state.value} to {state.value}", story=self.story())
        self._story.append(f"{now_ms:.0f} ms: {self._state.value} to {state.value} ({reason})")
        self._state = state

    def _dial(self, out: list[Decision], now_ms: float) -> None:
        self._move(State.CONNECTING, "wanted", now_ms)
        settings = self._settings
        # More patience helps where the network is slow. A machine that refuses is quick: whoever waited longer after
        # that would only notice later that it went down behind an open connection.
        self._setup_deadline_ms = now_ms + self._grown(
            settings.setup_timeout_ms, settings.setup_timeout_max_ms, self._slow_setups
        )
        out.append(Connect(self.host, self.port))
        self._wake(out, self._setup_deadline_ms)

    def _end_backoff(self, out: list[Decision], now_ms: float) -> None:
        if self._waiting or now_ms < self._wanted_until_ms:
            self._dial(out, now_ms)
        else:
            self._move(State.DISCONNECTED, "nobody wants it", now_ms)

    def _give_up(self, out: list[Decision], error: OttlaError, now_ms: float) -> None:
        """Fail while a connection, or an attempt to make one, is still there."""
        out.append(Close(str(error)))
        self._fail(out, error, now_ms)

    def _fail(self, out: list[Decision], error: OttlaError, now_ms: float) -> None:
        """Every failure comes through here: end what was sent, say why, wait."""
        self._move(State.BACKING_OFF, str(error), now_ms)
        self._end_connection(out, str(error), now_ms)
        self._failure = error
        settings = self._settings
        backoff_ms = self._grown(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, self._failures)
        self._backoff_until_ms = now_ms + backoff_ms
        self._failures += 1
        retry = not error.invalid_configuration
        out.append(BackingOff(error, self._backoff_until_ms if retry else None))
        if not retry:
            self._refused = error
            self._wanted_until_ms = -math.inf
            self._fail_waiting(out, error)
        elif isinstance(error, ConnectionRefused) and not settings.waits_for_refusing:
            self._fail_waiting(out, error)
        self._wake(out, self._backoff_until_ms)

    def _end_connection(self, out: list[Decision], reason: str, now_ms: float) -> None:
        out.extend(end for end in self._connection.close(reason, now_ms) if end.ticket is not _SETUP)
        self._setup_deadline_ms = math.inf
        self._reauthenticate_ms = math.inf
        self._next_step = None

    def _fail_waiting(self, out: list[Decision], error: OttlaError) -> None:
        out.extend(Failed(waiting.ticket, _again(error)) for waiting in self._waiting.take_all())

    # --- setting up: one step after the other, first the versions, then who we are ---

    def _begin_steps(self, next_step: Callable[[Message], _Step]) -> None:
        self._next_step = next_step
        self._steps = 0

    def _setup_answered(self, out: list[Decision], completed: Completed, now_ms: float) -> None:
        assert self._next_step is not None, "our own requests are sent by steps only"
        assert isinstance(completed.response, Message), "our own requests are all answered"
        self._take_step(out, self._next_step(completed.response), now_ms)

    def _take_step(self, out: list[Decision], step: _Step, now_ms: float) -> None:
        match step:
            case Ask():
                self._ask(out, step)
            case ApiVersionTable():
                self._versions = step
                self._authenticate(out, step, now_ms)
            case Authenticated():
                self._become_ready(out, step.session_ms, now_ms)

    def _ask(self, out: list[Decision], step: Ask) -> None:
        self._steps += 1
        if self._steps > STEPS_LIMIT:
            raise AuthenticationFailed(f"no end after {STEPS_LIMIT} steps")
        deadline_ms = self._setup_deadline_ms
        out.append(Send(self._connection.send(_SETUP, step.request, version=step.version, deadline_ms=deadline_ms)))

    def _authenticate(self, out: list[Decision], versions: ApiVersionTable, now_ms: float) -> None:
        if self._make_authenticator is None:
            self._become_ready(out, None, now_ms)
            return
        self._move(State.AUTHENTICATING, "versions known", now_ms)
        authenticator = self._make_authenticator()
        self._begin_steps(authenticator.answered)
        self._take_step(out, authenticator.start(versions), now_ms)

    def _reauthenticate(self, out: list[Decision], now_ms: float) -> None:
        """The session is nearly over. What was sent is answered before our request, what comes later waits."""
        assert self._versions is not None, "a session begins after negotiation"
        self._reauthenticate_ms = math.inf
        self._setup_deadline_ms = now_ms + self._settings.setup_timeout_ms
        try:
            self._authenticate(out, self._versions, now_ms)
        except OttlaError as error:
            self._give_up(out, error, now_ms)
        self._wake(out, self._next_wake_ms())

    def _become_ready(self, out: list[Decision], session_ms: float | None, now_ms: float) -> None:
        assert self._versions is not None, "READY comes after negotiation"
        self._move(State.READY, "set up", now_ms)
        self._failures = self._slow_setups = 0
        self._failure = None
        self._setup_deadline_ms = math.inf
        self._wanted_until_ms = -math.inf
        self._used_ms = now_ms
        if session_ms is not None:
            # Well before the end, at a moment of our own: the clients of a restarted node all began together.
            self._reauthenticate_ms = now_ms + session_ms * (0.85 + 0.1 * self._random.random())
        out.append(Ready(self._versions))
        self._wake(out, self._next_wake_ms())

    # --- sending ---

    def _flush(self, out: list[Decision], now_ms: float) -> None:
        """Send what waits, as far as there is room."""
        if self._state is not State.READY:
            return
        if self._reauthenticate_ms <= now_ms and self._connection.has_room:
            self._reauthenticate(out, now_ms)
            return
        while self._waiting and self._writable and self._connection.has_room:
            self._send(out, self._waiting.take(), now_ms)

    def _send(self, out: list[Decision], waiting: WaitingRequest, now_ms: float) -> None:
        try:
            buffers = self._connection.send(
                waiting.ticket,
                waiting.request,
                version=self._version_for(waiting),
                deadline_ms=waiting.deadline_ms,
                expects_response=waiting.expects_response,
                client_id=waiting.client_id,
            )
        except Exception as error:
            # Whatever makes a request impossible to write must fail its own sender. Raised from here it would
            # hit whoever happened to call: another sender, or the answer that made room.
            out.append(Failed(waiting.ticket, error))
            return
        self._used_ms = now_ms
        out.append(Send(buffers))
        if not waiting.expects_response:
            out.append(Completed(waiting.ticket, None))

    def _version_for(self, waiting: WaitingRequest) -> int:
        if waiting.version is not None:
            return waiting.version
        assert self._versions is not None, "READY comes after negotiation"
        return self._versions.choose(api_of(waiting.request), at_most=waiting.at_most)

    # --- time ---

    def _tick_ready(self, out: list[Decision], now_ms: float) -> None:
        if self.load or self._used_ms + self._settings.idle_limit_ms > now_ms:
            self._flush(out, now_ms)
            return
        out.append(Close("idle"))
        self._end_connection(out, "idle", now_ms)
        self._move(State.DISCONNECTED, "idle", now_ms)

    def _next_wake_ms(self) -> float:
        times = [self._waiting.next_deadline_ms, self._setup_deadline_ms, self._reauthenticate_ms]
        deadline_ms = self._connection.next_deadline_ms
        if deadline_ms is not None:
            times.append(deadline_ms)
        elif self._state is State.READY:
            times.append(self._used_ms + self._settings.idle_limit_ms)
        elif self._state is State.BACKING_OFF:
            times.append(self._backoff_until_ms)
        return min(times)

    def _wake(self, out: list[Decision], ms: float) -> None:
        # A wake-up too early costs one tick that finds nothing; so only earlier ones are announced.
        if ms < self._announced_ms:
            self._announced_ms = ms
            out.append(WakeAt(ms))

    def _grown(self, first_ms: float, most_ms: float, attempt: int) -> float:
        """Doubled with every attempt up to the most, then spread by the jitter."""
        return grown_ms(first_ms, most_ms, attempt, self._random, self._settings.jitter)

    # --- words ---

    @property
    def _name(self) -> str:
        return f"{self.host}:{self.port}"

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(client_id=self._settings.client_id, in_flight_limit=self._settings.in_flight_limit)

    def _why_never_sent(self, waiting: WaitingRequest) -> OttlaError:
        name = api_of(waiting.request).name
        if self._state is State.READY:
            return RequestTimedOut(f"{name} was never sent, {self._name} has too many requests before it")
        why = "" if self._failure is None else f"; the last attempt failed: {self._failure}"
        return NotConnected(f"{name} waited too long for {self._name}, which is {self._state.value}{why}")

    def _why_set_up_takes_long(self) -> OttlaError:
        why = {
            State.CONNECTING: "it does not answer at all; is the address right, does a firewall drop the packets?",
            State.NEGOTIATING: "it accepts connections but does not answer ApiVersions; does it speak Kafka, or TLS?",
            State.AUTHENTICATING: "it did not finish the authentication",
        }[self._state]
        return NotConnected(f"set-up of {self._name} took too long: {why}")

    def _why_disconnected(self, error: OttlaError | None) -> OttlaError:
        if isinstance(error, TlsHandshakeFailed):
            return TlsHandshakeFailed(f"{self._name}: {error.detail}")
        if self._state is State.NEGOTIATING:
            if isinstance(error, MalformedMessage):
                return self._explain(error)
            why = "it may expect TLS, not speak Kafka, or be older than 0.10"
            return NotConnected(f"{self._name} closed the connection instead of answering ApiVersions; {why}")
        if self._state is State.AUTHENTICATING:
            return NotConnected(f"{self._name} closed the connection during authentication; are the credentials right?")
        return ConnectionClosed(f"{self._name} closed it") if error is None else self._explain(error)

    def _explain(self, error: OttlaError) -> OttlaError:
        """During negotiation bytes that make no sense mean one thing: no Kafka broker is there. Later they end the
        connection; whoever waits for it was not the one they were meant for, and may try again."""
        if not isinstance(error, MalformedMessage):
            return error
        if self._state is State.NEGOTIATING:
            return NotConnected(f"{self._name} does not speak Kafka: {error.detail}")
        return ConnectionClosed(f"{self._name} sent bytes that are no answer: {error.detail}")


def _again(error: OttlaError) -> OttlaError:
    """The same error once more: one instance per request, so that tracebacks stay apart."""
    return copy.copy(error)
