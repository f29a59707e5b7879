"""The login of one connection, decided without a socket or a clock: what to do with the next frame.

    NEW ─ApiVersions─► VERSIONS ─SaslHandshake─► STEPS ─SaslAuthenticate, again─► COMPLETE ─SaslHandshake─► STEPS
     └──────────────────SaslHandshake──────────────┘ └─► FAILED                       (re-authentication, KIP-368)

1. Before COMPLETE nothing but ApiVersions, SaslHandshake and SaslAuthenticate is passed on or decoded; whatever else
   comes ends the connection when its first four bytes are known, as in Kafka.
2. After a handshake of version 0 the tokens come bare, without a request around them; then a refusal has no words, and
   the connection just ends.
3. A failed login is answered with Kafka's texts and ends the connection. An unknown user and a wrong password get the
   same text.
4. A login is good until what was shown of it expires, and at most for connections.max.reauth.ms. The client hears for
   how long; after that its next request ends the connection, unless it is the handshake of another login.
5. Another login may come once a second, and only by the same mechanism for the same user. Until it is complete, nothing
   else is served on the connection.
"""

from __future__ import annotations

import enum
import math
from typing import Final, Protocol, TypeAlias

from ottla.errors import MalformedMessage, SaslAuthenticationFailed, UnsupportedSaslMechanism, UnsupportedVersion
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.net.framing import Buffer
from ottla.net.sasl.server import Identity, LoginRefused, ServerMechanism
from ottla.protocol.api import APIS, APIS_BY_NAME
from ottla.protocol.header import RequestHeader, decode_request, encode_response, read_key_and_version
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message

API_VERSIONS_KEY: Final = APIS_BY_NAME["ApiVersions"].key
HANDSHAKE_KEY: Final = APIS_BY_NAME["SaslHandshake"].key
AUTHENTICATE_KEY: Final = APIS_BY_NAME["SaslAuthenticate"].key
FRAMED_SINCE: Final = 1
REAUTH_INTERVAL_MS: Final = 1_000
VERSION_TRIES: Final = 4
"""How often a client may ask for ApiVersions in a version that we do not know."""
STEPS_LIMIT: Final = 16
"""How many messages a mechanism may need; the longest, GSSAPI, needs four."""


class State(enum.Enum):
    """How far a login is."""

    NEW = "nothing was said"
    VERSIONS = "the versions are known"
    STEPS = "the mechanism is chosen"
    COMPLETE = "complete"
    FAILED = "failed"


MOVES: Final[dict[State, frozenset[State]]] = {
    State.NEW: frozenset({State.VERSIONS, State.STEPS, State.FAILED}),
    State.VERSIONS: frozenset({State.STEPS, State.FAILED}),
    State.STEPS: frozenset({State.COMPLETE, State.FAILED}),
    State.COMPLETE: frozenset({State.STEPS, State.FAILED}),
    State.FAILED: frozenset(),
}


class Now(NamedTuple):
    """Wall time, which tokens are good until, and time that never goes back."""

    wall_ms: float
    monotonic_ms: float


class LoginRules(Protocol):
    """What holds on a listener."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Which mechanisms are offered."""

    def server(self, mechanism: str) -> ServerMechanism:
        """A new login in that mechanism."""

    def max_reauth_ms(self, mechanism: str) -> float:
        """How long a login is good at most; 0 is for ever."""


# -- decisions -------------------------------------------------------------------------------------------------------


class Pass(enum.Enum):
    """The frame is a request for the dispatcher."""

    PASS = "pass"


PASS: Final = Pass.PASS


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer this, and go on. `identity` is there when the login is complete."""

    answer: list[Buffer]
    identity: Identity | None = None
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """The connection ends, with this answer if there is one; `is_login` says that a login failed."""

    reason: str
    answer: list[Buffer] | None = None
    is_login: bool = True
    is_again: bool = False


Decision: TypeAlias = Pass | Reply | Refuse


class Login:
    """See the module. One for each connection of a listener with login."""

    def __init__(self, rules: LoginRules) -> None:
        self._rules = rules
        self.state = State.NEW
        self.identity: Identity | None = None
        self.mechanism = ""
        self._server: ServerMechanism | None = None
        self._is_framed = False
        self._other_mechanism: str | None = None  # what the client wants instead of that of its first login
        self._version_tries = 0
        self._steps = 0
        self._session_end_ms = math.inf
        self._reauth_began_ms = -math.inf

    @property
    def is_complete(self) -> bool:
        return self.state is State.COMPLETE

    def received(self, frame: memoryview, now: Now) -> Decision:
        """What to do with the next frame of the connection."""
        if self.state is State.COMPLETE:
            return self._request(frame, now)
        if self.state is State.FAILED:
            return Refuse("it goes on after a failed login", is_login=False)
        try:
            if self.state is State.STEPS:
                return self._step(frame, now)
            return self._first(frame)
        except (MalformedMessage, UnsupportedVersion) as problem:
            return self._fail(str(problem))

    def passes(self, key: int, monotonic_ms: float) -> bool:
        """Whether requests of that API are served now."""
        return self.state is State.COMPLETE and monotonic_ms < self._session_end_ms and key != HANDSHAKE_KEY

    # -- before and after ------------------------------------------------------------------------------------------

    def _first(self, frame: memoryview) -> Decision:
        key, version = read_key_and_version(frame)
        if key == HANDSHAKE_KEY:
            return self._handshake(frame)
        if key != API_VERSIONS_KEY or self.state is not State.NEW:
            return self._fail(f"{_name(key)} before a login")
        if version in APIS[key].versions:
            self._move(State.VERSIONS)
            return PASS
        self._version_tries += 1
        return PASS if self._version_tries <= VERSION_TRIES else self._fail("it asks for the versions again and again")

    def _request(self, frame: memoryview, now: Now) -> Decision:
        key = int.from_bytes(frame[:2], signed=True)
        if self.passes(key, now.monotonic_ms):
            return PASS
        if key != HANDSHAKE_KEY:
            self._move(State.FAILED)
            return Refuse("its login has expired", is_login=False)
        if now.monotonic_ms - self._reauth_began_ms < REAUTH_INTERVAL_MS:
            return PASS  # the handler says that this is no time for it
        self._reauth_began_ms = now.monotonic_ms
        try:
            return self._handshake(frame)
        except (MalformedMessage, UnsupportedVersion) as problem:
            return self._fail(str(problem))

    # -- the handshake ---------------------------------------------------------------------------------------------

    def _handshake(self, frame: memoryview) -> Decision:
        header, request = decode_request(frame)
        assert isinstance(request, SaslHandshakeRequest)
        wanted, offered = request.mechanism, list(self._rules.mechanisms)
        if wanted not in offered:
            refusal = SaslHandshakeResponse(error_code=UnsupportedSaslMechanism.code, mechanisms=offered)
            return self._fail(f"the mechanism {wanted[:40]!r} is not offered", _encoded(refusal, header))
        if self._is_again and wanted != self.mechanism:
            self._other_mechanism = wanted
        else:
            self._server = self._rules.server(wanted)
            self.mechanism = wanted
        self._is_framed = header.request_api_version >= FRAMED_SINCE
        self._steps = 0
        self._move(State.STEPS)
        return Reply(_encoded(SaslHandshakeResponse(error_code=0, mechanisms=offered), header))

    # -- the steps of the mechanism --------------------------------------------------------------------------------

    def _step(self, frame: memoryview, now: Now) -> Decision:
        if not self._is_framed:
            return self._bare_step(bytes(frame), now)
        key, _ = read_key_and_version(frame)
        if key != AUTHENTICATE_KEY:
            return self._fail(f"{_name(key)} in the middle of a login")
        header, request = decode_request(frame)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            said = self._answered(bytes(request.auth_bytes))
        except LoginRefused as refused:
            text = refused.answer_text or self._common_text()
            answer = SaslAuthenticateResponse(
                error_code=SaslAuthenticationFailed.code, error_message=text, auth_bytes=refused.last_bytes
            )
            return self._fail(refused.reason, _encoded(answer, header))
        response = SaslAuthenticateResponse(error_code=0, auth_bytes=said)
        if (lifetime_ms := self._end_of_steps(now)) is not None:
            response = SaslAuthenticateResponse(error_code=0, auth_bytes=said, session_lifetime_ms=lifetime_ms)
        return self._reply(_encoded(response, header))

    def _bare_step(self, token: bytes, now: Now) -> Decision:
        try:
            said = self._answered(token)
        except LoginRefused as refused:
            return self._fail(refused.reason)
        self._end_of_steps(now)
        return self._reply([said])

    def _reply(self, answer: list[Buffer]) -> Reply:
        is_again = self._reauth_began_ms > -math.inf
        return Reply(answer, self.identity, is_again) if self.state is State.COMPLETE else Reply(answer)

    def _answered(self, token: bytes) -> bytes:
        self._steps += 1
        if self._steps > STEPS_LIMIT:
            raise LoginRefused(f"more than {STEPS_LIMIT} messages")
        if self._other_mechanism is not None:
            text = (
                f"SASL mechanism '{self._other_mechanism}' requested by client is not supported for re-authentication"
                f" of mechanism '{self.mechanism}'"
            )
            raise LoginRefused("another mechanism than before", answer_text=text)
        assert self._server is not None, "a handshake comes first"
        said = self._server.answered(token)
        self._check_same_user(self._server.identity)
        return said

    def _check_same_user(self, identity: Identity | None) -> None:
        before = self.identity
        if before is not None and identity is not None and identity.name != before.name:
            text = f"Cannot change principals during re-authentication from User.{before.name}: User.{identity.name}"
            raise LoginRefused("another user than before", answer_text=text)

    def _end_of_steps(self, now: Now) -> int | None:
        """For how long the login is good, 0 for ever; None when it is not complete."""
        assert self._server is not None, "a handshake comes first"
        identity = self._server.identity
        if identity is None:
            return None
        self.identity = identity
        self._server = None
        self._move(State.COMPLETE)
        limits_ms = [] if identity.expires_ms is None else [max(0.0, identity.expires_ms - now.wall_ms)]
        if (max_reauth_ms := self._rules.max_reauth_ms(self.mechanism)) > 0:
            limits_ms.append(max_reauth_ms)
        lifetime_ms = min(limits_ms, default=math.inf)
        self._session_end_ms = now.monotonic_ms + lifetime_ms
        return int(lifetime_ms) if limits_ms else 0

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def _is_again(self) -> bool:
        return self.identity is not None

    def _common_text(self) -> str:
        what = "re-authentication" if self._is_again else "authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self.mechanism}"

    def _fail(self, reason: str, answer: list[Buffer] | None = None) -> Refuse:
        self._move(State.FAILED)
        return Refuse(reason, answer, is_again=self._is_again)

    def _move(self, state: State) -> None:
        assert state in MOVES[self.state], f"a login cannot go from {self.state} to {state}"
        self.state = state


def _encoded(response: Message, header: RequestHeader) -> list[Buffer]:
    return encode_response(response, version=header.request_api_version, correlation_id=header.correlation_id)


def _name(key: int) -> str:
    return str(APIS[key]) if key in APIS else f"API key {key}"
