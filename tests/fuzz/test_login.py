"""Frames before a login: whatever is sent, in whatever order, nobody gets in and nothing breaks.

Sequences are made of real messages of a login with a wrong password, bent: bytes changed, cut, added, swapped with
others. 200,000 frames here, five million in the long run; a sample of them goes over sockets to a broker.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator

import pytest
from tests.unit.broker.security.logins import (
    NOW,
    SCRAM,
    Rules,
    frame,
    handshake,
    header_only,
    token,
    versions,
)

from ottla.broker.security.login import PASS, Login, Refuse, Reply, State
from ottla.net.sasl.oauthbearer_server import OAuthBearerServer, TokenRefused
from ottla.net.sasl.server import Identity, ServerMechanism
from ottla.protocol.api import APIS
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.testing import KafkaBroker

FRAMES, FRAMES_LONG, OVER_SOCKETS = 200_000, 5_000_000, 2_000


class FuzzRules(Rules):
    def __init__(self) -> None:
        super().__init__(("PLAIN", SCRAM, "OAUTHBEARER"))

    def server(self, mechanism: str) -> ServerMechanism:
        return OAuthBearerServer(_no_token) if mechanism == "OAUTHBEARER" else super().server(mechanism)


def _no_token(text: str) -> Identity:
    raise TokenRefused("no token is good")


def seeds() -> list[bytes]:
    steps = [
        b"\0alice\0wrong",
        b"alice\0alice\0wrong",
        b"n,,n=alice,r=abc",
        b"n,a=alice,n=alice,r=abc,tokenauth=true",
        b"c=biws,r=abcbm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5u,p=" + b"A" * 43 + b"=",
        b"n,,\x01auth=Bearer abc.def.ghi\x01\x01",
        b"\x01",
        b"",
    ]
    made = [bytes(versions()), bytes(frame(MetadataRequest(topics=[]), 9))]
    made += [
        bytes(handshake(each, version)) for each in ("PLAIN", SCRAM, "OAUTHBEARER", "GSSAPI") for version in (0, 1)
    ]
    made += [bytes(token(step, version)) for step in steps for version in (0, 1, 2)]
    return made + steps + [bytes(header_only(key, 0)) for key in APIS]


def handshakes() -> list[bytes]:
    mechanisms = ("PLAIN", SCRAM, "OAUTHBEARER", "GSSAPI")
    return [bytes(handshake(each, version)) for each in mechanisms for version in (0, 1)]


def bent(chance: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """The message, or one that is nearly so."""
    how = chance.randrange(8)
    if how < 3 or not content:
        return content
    at = chance.randrange(len(content))
    if how == 3:
        return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
    if how == 4:
        return content[:at]
    if how == 5:
        return content[:at] + chance.randbytes(chance.randrange(1, 9)) + content[at:]
    if how == 6:
        return content[:at] + chance.choice(others)[at:]
    return chance.randbytes(chance.randrange(64))


def sequences(seed: int) -> Iterator[Iterator[bytes]]:
    """Half of them begin as a login begins, so that the others reach the steps behind it."""
    chance, known, first, asked = random.Random(seed), seeds(), handshakes(), bytes(versions())
    draw, pick = chance.random, chance.choice

    def sequence() -> Iterator[bytes]:
        if draw() < 0.5:
            if draw() < 0.5:
                yield asked
            yield pick(first)
        while draw() < 0.8:
            yield bent(chance, pick(known), known)

    while True:
        yield sequence()


def check(frames: int, seed: int) -> dict[State, int]:
    """Send so many frames to logins; how many of these ended in which state."""
    rules, ends = FuzzRules(), dict.fromkeys(State, 0)
    for sequence in sequences(seed):
        login = Login(rules)
        for content in sequence:
            frames -= 1
            decision = login.received(memoryview(content), NOW)
            if decision is PASS:
                assert content[:2] == b"\0\x12", content
            elif isinstance(decision, Reply):
                assert decision.identity is None, content
            else:
                assert isinstance(decision, Refuse)
                break
        ends[login.state] += 1
        if frames <= 0:
            return ends
    raise AssertionError("sequences have no end")


def test_no_frames_before_a_login_let_anybody_in() -> None:
    ends = check(FRAMES, seed=13)
    assert ends[State.COMPLETE] == 0
    assert min(ends[each] for each in (State.VERSIONS, State.STEPS, State.FAILED)) > 100


@pytest.mark.long
def test_no_frames_before_a_login_let_anybody_in_for_long() -> None:
    seed = random.randrange(1 << 32)
    assert check(FRAMES_LONG, seed)[State.COMPLETE] == 0, f"seed {seed}"


def test_a_broker_stands_the_same_over_sockets() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "connection.failed.authentication.delay.ms": 0,
    }
    with KafkaBroker(settings) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        left = OVER_SOCKETS
        for sequence in map(list, sequences(seed=14)):
            with socket.create_connection((host, int(port))) as client:
                client.settimeout(60)
                client.sendall(b"".join(struct.pack(">i", len(each)) + each for each in sequence))
                client.shutdown(socket.SHUT_WR)
                while _received(client):
                    pass
            left -= len(sequence)
            if left <= 0:
                break
        principals = broker.call(lambda server: {each.principal for each in server._acceptor.connections})
        assert principals <= {"User:ANONYMOUS"}
        text = broker.call(lambda server: server.registry.text(0))
        assert 'successful_authentication_total{listener="SASL_PLAINTEXT"} 0' in text


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(65_536)
    except ConnectionError:
        return b""
