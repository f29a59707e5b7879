"""What the tests of logins share: rules with one user, frames of requests, and a login that has come to some state."""

from __future__ import annotations

import struct

from ottla.broker.security.login import Decision, Login, Now, Reply
from ottla.net.sasl.plain import PlainServer, PlainUsers
from ottla.net.sasl.scram import ScramClient, scram_keys
from ottla.net.sasl.scram_server import Credential, Decoys, ScramServer
from ottla.net.sasl.server import ServerMechanism
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message

SCRAM = "SCRAM-SHA-256"
USERS = PlainUsers({"alice": "secret", "bob": "other"}, key=b"k")
KEYS = scram_keys(SCRAM, "pencil", salt=b"salt", iterations=4096)
NOW = Now(1_700_000_000_000, 5_000.0)


class Rules:
    """PLAIN with two users, SCRAM with one; a token in SCRAM ends when `expires_ms` says."""

    def __init__(self, mechanisms: tuple[str, ...] = ("PLAIN", SCRAM), *, max_reauth_ms: float = 0) -> None:
        self.mechanisms = mechanisms
        self.reauth_ms = max_reauth_ms
        self.expires_ms: float | None = None

    def server(self, mechanism: str) -> ServerMechanism:
        if mechanism == "PLAIN":
            return PlainServer(USERS)
        return ScramServer(mechanism, self._credential_of, decoys=Decoys(b"s"), random_bytes=lambda count: b"n" * count)

    def _credential_of(self, user: str, mechanism: str, is_token: bool) -> Credential | None:
        return Credential(KEYS, user, self.expires_ms) if user == "alice" else None

    def max_reauth_ms(self, mechanism: str) -> float:
        return self.reauth_ms


def frame(request: Message, version: int) -> memoryview:
    parts = encode_request(request, version=version, correlation_id=7, client_id="test")
    return memoryview(b"".join(parts))


def header_only(key: int, version: int) -> memoryview:
    """The first bytes of a request, and then bytes that are no body."""
    return memoryview(struct.pack(">hhi", key, version, 7) + b"\xff" * 9)


def versions() -> memoryview:
    return frame(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> memoryview:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def token(auth_bytes: bytes, version: int = 2) -> memoryview:
    return frame(SaslAuthenticateRequest(auth_bytes=auth_bytes), version)


ALICE = b"\0alice\0secret"


def complete(rules: Rules | None = None, now: Now = NOW) -> Login:
    login = Login(rules or Rules())
    for each in (versions(), handshake(), token(ALICE)):
        login.received(each, now)
    assert login.is_complete
    return login


def told(decision: Decision, version: int = 2) -> SaslAuthenticateResponse:
    """The answer to a SaslAuthenticate."""
    answer = decision.answer  # type: ignore[union-attr]
    assert answer is not None
    found = decode_response(APIS[36], version, b"".join(answer))[1]
    assert isinstance(found, SaslAuthenticateResponse)
    return found


def agreed(decision: Decision, version: int = 1) -> SaslHandshakeResponse:
    """The answer to a SaslHandshake."""
    answer = decision.answer  # type: ignore[union-attr]
    assert answer is not None
    found = decode_response(APIS[17], version, b"".join(answer))[1]
    assert isinstance(found, SaslHandshakeResponse)
    return found


def scram(login: Login, user: str = "alice", password: str = "pencil", *, is_framed: bool = True) -> Decision:
    """Both messages of SCRAM after its handshake; what the last one came to."""
    client = ScramClient(SCRAM, user, password, random_bytes=lambda count: b"c" * count)
    first = login.received(token(client.first()) if is_framed else memoryview(client.first()), NOW)
    assert isinstance(first, Reply)
    challenge = bytes(told(first).auth_bytes) if is_framed else b"".join(first.answer)
    final = client.answered(challenge)
    assert final is not None
    return login.received(token(final) if is_framed else memoryview(final), NOW)
