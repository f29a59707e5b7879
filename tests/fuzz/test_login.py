"""Frames before a login: whatever is sent, in whatever order, nobody gets in and nothing breaks.

Sequences are made of real messages of a login with a wrong password, bent: bytes changed, cut, added, swapped with
others. 200,000 frames here, five million in the long run, both straight into the state machine. A sample of them goes
over sockets to a broker; in the long run half a million, to a broker process whose memory and files are watched.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.our_broker import free_ports
from tests.conformance.test_hostile import MIB, MeasuredBroker, Others
from tests.patience import HANG_S
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

FRAMES, FRAMES_LONG = 200_000, 5_000_000
OVER_SOCKETS, OVER_SOCKETS_LONG = 2_000, 500_000
MEMORY_LIMIT_BYTES = 12 * MIB  # 8 are what all strangers may hold together
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
NOBODY_CAME_IN = 'successful_authentication_total{listener="SASL_PLAINTEXT",networkProcessor="0"} 0'
SASL_SETTINGS = {
    "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "0",
}


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


def send_over_sockets(servers: str, frames: int, seed: int) -> None:
    """Sequences, each by a connection of its own, until so many frames were sent."""
    host, _, port = servers.partition(":")
    for sequence in map(list, sequences(seed)):
        with socket.create_connection((host, int(port)), timeout=HANG_S) as client:
            with contextlib.suppress(ConnectionError):  # it may be refused while more is on its way
                client.sendall(b"".join(struct.pack(">i", len(each)) + each for each in sequence))
                client.shutdown(socket.SHUT_WR)
            while _received(client):
                pass
        frames -= len(sequence)
        if frames <= 0:
            return


def test_a_broker_stands_the_same_over_sockets() -> None:
    with KafkaBroker({"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **SASL_SETTINGS}) as broker:
        send_over_sockets(broker.bootstrap_servers, OVER_SOCKETS, seed=14)
        principals = broker.call(lambda server: {each.principal for each in server.listeners.acceptor.connections})
        assert principals <= {"User:ANONYMOUS"}
        text = broker.call(lambda server: server.registry.text(0))
        assert NOBODY_CAME_IN in text


@pytest.mark.long
def test_a_broker_stands_half_a_million_over_sockets_and_others_are_served(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    strangers = f"127.0.0.1:{port}"
    settings = {**SASL_SETTINGS, "inter.broker.listener.name": "PLAINTEXT"}
    with MeasuredBroker(tmp_path, settings, listeners=f"SASL_PLAINTEXT://{strangers}") as broker:
        send_over_sockets(strangers, OVER_SOCKETS, seed=15)
        began_s = time.monotonic()
        with broker.within(MEMORY_LIMIT_BYTES), Others(broker.bootstrap_servers) as others:
            send_over_sockets(strangers, OVER_SOCKETS_LONG, seed=random.randrange(1 << 32))
        spent_s, waits_s = time.monotonic() - began_s, sorted(others.waits_s)
        print(f"{OVER_SOCKETS_LONG / spent_s:.0f} frames/s; {len(waits_s)} answers to others, p99 {_p99_ms(waits_s)}")
        assert others.answered == len(waits_s)
        with urllib.request.urlopen(f"http://{broker.admin_address}/metrics", timeout=HANG_S) as answer:
            assert NOBODY_CAME_IN in answer.read().decode()


def _p99_ms(sorted_s: list[float]) -> str:
    return f"{sorted_s[len(sorted_s) * 99 // 100] * 1000:.1f} ms"


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(65_536)
    except ConnectionError:
        return b""
