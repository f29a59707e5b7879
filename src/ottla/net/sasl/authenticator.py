"""The exchange that all mechanisms share: name the mechanism, then step by step until both sides are content.

    -> SaslHandshake(mechanism)        <- it is offered, or the list of those that are
    -> SaslAuthenticate(bytes)         <- bytes of the other side; again until the mechanism is done

1. A refusal becomes AuthenticationFailed (or a class below it) with the broker's words; the mechanism's own checks of
   the broker (SCRAM's signature) raise the same. Trying again does not help, and nobody does.
2. The end of the session that the broker names is handed on, so that the connection logs in again in time (KIP-368).
3. Only the framed exchange (SaslHandshake 1, Kafka 1.0) is spoken: bare tokens could not say why they were refused.
"""

from __future__ import annotations

from typing import Final, Protocol

from ottla.errors import (
    AuthenticationFailed,
    MalformedMessage,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    broker_error,
)
from ottla.net.connection import ApiVersionTable
from ottla.net.handshake import Ask, Authenticated
from ottla.protocol.api import APIS_BY_NAME
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message

_HANDSHAKE: Final = APIS_BY_NAME["SaslHandshake"]
_AUTHENTICATE: Final = APIS_BY_NAME["SaslAuthenticate"]
_FRAMED_SINCE: Final = 1


class Mechanism(Protocol):
    """One login in one mechanism, the client's half."""

    @property
    def name(self) -> str: ...
    def first(self) -> bytes:
        """What the client says first."""

    def answered(self, challenge: bytes) -> bytes | None:
        """What to say next; None when the login is complete. Raises AuthenticationFailed when it must not be."""


class SaslAuthenticator:
    """An Authenticator (net/handshake.py) around one mechanism; made anew for every login."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._version = 0

    def start(self, versions: ApiVersionTable) -> Ask | Authenticated:
        if not versions.offers(_HANDSHAKE) or not versions.offers(_AUTHENTICATE):
            raise AuthenticationFailed("the broker offers no login on this port, or is older than Kafka 1.0")
        handshake_version = versions.choose(_HANDSHAKE)
        if handshake_version < _FRAMED_SINCE:
            raise AuthenticationFailed("the broker speaks only the login of Kafka before 1.0")
        self._version = versions.choose(_AUTHENTICATE)
        return Ask(SaslHandshakeRequest(mechanism=self._mechanism.name), handshake_version)

    def answered(self, response: Message) -> Ask | Authenticated:
        match response:
            case SaslHandshakeResponse():
                return self._agreed(response)
            case SaslAuthenticateResponse():
                return self._step(response)
        raise MalformedMessage(f"a login is not answered with {type(response).__name__}")

    def _agreed(self, response: SaslHandshakeResponse) -> Ask:
        if response.error_code == UnsupportedSaslMechanism.code:
            offered = ", ".join(sorted(response.mechanisms)) or "none"
            raise UnsupportedSaslMechanism(f"sasl.mechanism is {self._mechanism.name}, the broker offers {offered}")
        if response.error_code:
            raise broker_error(response.error_code, "the broker refused to begin a login")
        return self._ask(self._mechanism.first())

    def _step(self, response: SaslAuthenticateResponse) -> Ask | Authenticated:
        if response.error_code == SaslAuthenticationFailed.code:
            raise SaslAuthenticationFailed(response.error_message)
        if response.error_code:
            raise AuthenticationFailed(str(broker_error(response.error_code, response.error_message)))
        said = self._mechanism.answered(bytes(response.auth_bytes))
        if said is not None:
            return self._ask(said)
        return Authenticated(response.session_lifetime_ms if response.session_lifetime_ms > 0 else None)

    def _ask(self, auth_bytes: bytes) -> Ask:
        return Ask(SaslAuthenticateRequest(auth_bytes=auth_bytes), self._version)
