"""Every API over a real connection, in every state before a login: the connection ends, and no dispatcher sees it.

The state machine alone is asked in every version in test_login.py. This is the same question to a whole broker, where
requests come together with what precedes them, in one piece.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.patience import HANG_S
from tests.unit.broker.security.logins import SCRAM, handshake, header_only, token

from ottla.broker.requests.dispatch import Dispatch
from ottla.net.sasl.scram import ScramClient
from ottla.protocol.api import APIS
from ottla.protocol.header import API_VERSIONS_KEY
from ottla.testing import KafkaBroker

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
FIRST = token(ScramClient(SCRAM, "alice", "pencil", random_bytes=lambda count: b"c" * count).first())
STATES = {
    "no login": [],
    "a mechanism is agreed on": [handshake()],
    "half a login": [handshake(SCRAM), FIRST],
    "failed": [handshake(), token(b"\0alice\0wrong")],
    "failed by SCRAM": [handshake(SCRAM), FIRST, token(b"c=biws,r=cccc,p=" + b"A" * 43 + b"=")],
    "wrong mechanism": [handshake("NTLM")],
    "expired": [handshake(), token(b"\0alice\0secret")],
    "again, as another user": [handshake(), token(b"\0alice\0secret"), handshake(), token(b"\0bob\0other")],
}
LIFETIME_MS = 1
ANSWERS_BEFORE_EXPIRY = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "listener.name.sasl_plaintext.connections.max.reauth.ms": str(LIFETIME_MS),
        "connection.failed.authentication.delay.ms": "0",
    }
    with KafkaBroker(settings) as made:
        yield made


def framed(content: memoryview | bytes) -> bytes:
    return struct.pack(">i", len(content)) + bytes(content)


def read_frame(file: object) -> bytes:
    size = file.read(4)  # type: ignore[attr-defined]
    return size and file.read(int.from_bytes(size))  # type: ignore[attr-defined,no-any-return]


def answers_until_the_end(broker: KafkaBroker, state: str, request: bytes) -> int:
    """How many answers came before the broker ended the connection."""
    host, _, port = broker.bootstrap_servers.partition(":")
    before = b"".join(map(framed, STATES[state]))
    count = 0
    with socket.create_connection((host, int(port)), timeout=HANG_S) as client, client.makefile("rb") as file:
        try:
            if state == "expired":  # time must pass after the login
                client.sendall(before)
                for _ in range(ANSWERS_BEFORE_EXPIRY):
                    count += bool(read_frame(file))
                time.sleep(LIFETIME_MS * 5 / 1000)
                client.sendall(request)
            else:
                client.sendall(before + request)
            while read_frame(file):
                count += 1
        except ConnectionError:
            pass
    return count


def note_what_is_dispatched(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The keys of requests that this broker handles. Others in the process, and clients of other tests, go on."""
    seen: list[int] = []

    def noting(usual: Callable[..., object]) -> Callable[..., object]:
        def noted(self: Any, frame: memoryview, *rest: Any) -> object:
            if self._broker is broker._running()[1].broker:
                seen.append(int.from_bytes(frame[:2]))
            return usual(self, frame, *rest)

        return noted

    monkeypatch.setattr(Dispatch, "dispatch", noting(Dispatch.dispatch))
    monkeypatch.setattr(Dispatch, "dispatch_run", noting(Dispatch.dispatch_run))
    return seen


@pytest.mark.parametrize("state", STATES)
def test_no_api_is_served_before_a_login(broker: KafkaBroker, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = note_what_is_dispatched(broker, monkeypatch)
    asked = [key for key in APIS if key != API_VERSIONS_KEY]
    assert len(asked) > 57
    for key in asked:
        request = framed(bytes(header_only(key, APIS[key].versions.max)) + b"\xff" * 500)
        assert answers_until_the_end(broker, state, request) <= len(STATES[state]), APIS[key]
    assert seen == []
