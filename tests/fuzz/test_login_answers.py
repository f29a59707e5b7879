"""A hostile broker answers logins of our client: nothing it says breaks the client, and no impostor passes SCRAM.

The whole setting up of a connection (versions, mechanism, steps of the login, a first request behind it) is answered
with what an honest broker would say, bent: bytes changed, cut, added, swapped with other answers. The broker does not
know the password, so a SCRAM login never succeeds. Whatever comes, the client ends its request exactly once, and can
be closed. 60,000 answers here, five million in the long run; keys are made of passwords without the 4096 rounds.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable

import pytest
from tests.fuzz.test_login import bent

from ottla.errors import OttlaError
from ottla.net.connection import Completed, Failed
from ottla.net.decisions import Close, Decision, Send
from ottla.net.handshake import Authenticator
from ottla.net.peer import Peer, State
from ottla.net.sasl.authenticator import SaslAuthenticator
from ottla.net.sasl.oauthbearer import OAuthBearerClient, Token
from ottla.net.sasl.plain import PlainClient
from ottla.net.sasl.scram import ScramClient
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message

ANSWERS, ANSWERS_LONG, PIECES = 60_000, 5_000_000, 10
SCRAM = "SCRAM-SHA-256"
TABLE = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersion(api_key=key, min_version=APIS[key].versions.min, max_version=APIS[key].versions.max)
        for key in (12, 17, 18, 36)
    ],
)
STEPS = [
    b"",
    b"v=" + b"A" * 43 + b"=",
    b"e=invalid-proof",
    b"e=",
    b"r=abc,s=c2FsdA==,i=4096",
    b'{"status":"invalid_token"}',
    b"r=" + b"=" * 100,
]
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
TICKET = "the request behind the login"


def _mechanisms(chance: random.Random) -> list[Callable[[], Authenticator]]:
    return [
        lambda: SaslAuthenticator(ScramClient(SCRAM, "alice", "pencil", random_bytes=chance.randbytes)),
        lambda: SaslAuthenticator(PlainClient("alice", "pencil")),
        lambda: SaslAuthenticator(OAuthBearerClient(Token("a.b.c", None), {})),
    ]


class HostileBroker:
    """Answers requests; knows what they are, and what honest answers would be."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._others = [each + bytes(range(40)) for each in STEPS]

    def answer(self, request: bytes) -> bytes:
        header, asked = decode_request(request)
        version, correlation_id = header.request_api_version, header.correlation_id
        honest = encode_response(self._honest(asked), version=version, correlation_id=correlation_id)
        made = b"".join(map(bytes, honest))
        if self._chance.random() < 0.6:
            return made
        if self._chance.random() < 0.8:
            return made[:4] + bent(self._chance, made[4:], self._others)
        return bent(self._chance, made, self._others)

    def _honest(self, asked: Message) -> Message:
        match asked:
            case ApiVersionsRequest():
                return TABLE
            case SaslHandshakeRequest():
                code = self._chance.choice((0, 0, 0, 0, 33, 34, -1))
                return SaslHandshakeResponse(error_code=code, mechanisms=[asked.mechanism])
            case SaslAuthenticateRequest():
                return self._step(bytes(asked.auth_bytes))
        return HeartbeatResponse(throttle_time_ms=0, error_code=0)

    def _step(self, said: bytes) -> Message:
        step = self._chance.choice(STEPS)
        if said.startswith(b"n,,n=") and self._chance.random() < 0.7:
            step = b"r=" + said.partition(b"r=")[2] + b"xyz,s=c2FsdA==,i=4096"
        step = bent(self._chance, step, self._others)
        code = self._chance.choice((0, 0, 0, 0, 58, 31))
        lifetime_ms = self._chance.choice((0, 0, 1, -1, 1 << 62))
        return SaslAuthenticateResponse(
            error_code=code, error_message=None, auth_bytes=step, session_lifetime_ms=lifetime_ms
        )


def session(peer: Peer, broker: HostileBroker, answers_limit: int = 12) -> tuple[bool, list[Decision], int]:
    """One connection: whether it was ready, everything decided, and how many answers there were."""
    now_ms, was_ready, count = 0.0, False, 0
    decided = peer.send(TICKET, HEARTBEAT, now_ms=now_ms, timeout_ms=30_000)
    new = peer.connected(now_ms)
    decided += new
    while count < answers_limit and (asked := _requests_in(new)):
        count += len(asked)
        now_ms += 1
        new = []
        for each in asked:
            if not any(isinstance(one, Close) for one in new):
                new += peer.received(broker.answer(each), now_ms)
        decided += new
        was_ready = was_ready or peer.state is State.READY
    return was_ready, decided + peer.close(now_ms), count


def _requests_in(decisions: list[Decision]) -> list[bytes]:
    """What is to be sent; nothing by a connection that is closed."""
    if any(isinstance(each, Close) for each in decisions):
        return []
    return [b"".join(map(bytes, each.buffers))[4:] for each in decisions if isinstance(each, Send)]


def check(answers: int, seed: int) -> Counter[tuple[int, bool]]:
    """Logins by every mechanism; how many of each were ready."""
    chance = random.Random(seed)
    broker, made, ends = HostileBroker(chance), _mechanisms(chance), Counter[tuple[int, bool]]()
    number = 0
    while answers > 0:
        kind = number % len(made)
        peer = Peer("broker", 9092, random=chance, authenticator=made[kind])
        was_ready, decided, count = session(peer, broker)
        ended = [each for each in decided if isinstance(each, Completed | Failed) and each.ticket == TICKET]
        assert len(ended) == 1, (seed, number, ended)
        assert isinstance(ended[0], Completed) or isinstance(ended[0].error, OttlaError), (seed, number, ended)
        assert peer.state is State.DISCONNECTED
        ends[kind, was_ready] += 1
        answers -= count
        number += 1
    return ends


@pytest.fixture
def cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda name, password, salt, rounds: hashlib.sha256(password).digest())


@pytest.mark.usefixtures("cheap_keys")
def test_no_answers_of_a_hostile_broker_break_a_login() -> None:
    ends = check(ANSWERS, seed=12)
    assert ends[0, True] == 0, "an impostor has passed SCRAM"
    assert min(ends[kind, is_ready] for kind in (1, 2) for is_ready in (True, False)) > 100


@pytest.mark.long
@pytest.mark.usefixtures("cheap_keys")
@pytest.mark.parametrize("piece", range(PIECES))
def test_no_answers_of_a_hostile_broker_break_a_login_for_long(piece: int) -> None:
    seed = random.randrange(1 << 32)
    assert check(ANSWERS_LONG // PIECES, seed)[0, True] == 0, f"seed {seed}"
