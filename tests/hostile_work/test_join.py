"""The door through which nodes join a secured cluster: what who has a ticket, or a part of one, may write.

It is looked at by the first node, on its loop (cli/quorum/signing.py): nothing may take long there.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from tests.hostile_work.attack import LOOP_LIMIT_MS, TURNS
from tests.hostile_work.records import nested

from ottla.cli.output import Failure
from ottla.cli.quorum.invitations import OPEN_LIMIT, Invitation, ended_names, find, keep
from ottla.cli.quorum.tickets import HOSTS_LIMIT, REQUEST_LIMIT_BYTES, Ticket, WrongRequest, signed
from ottla.cli.quorum.tokens import JoinToken
from ottla.net.tls.authority import Authority

RANDOM = random.Random(3).randbytes
TICKET = Ticket.make(RANDOM)
NOW = datetime(2026, 11, 19, tzinfo=UTC)
AUTHORITY = Authority.make("Ottla CA of here", now=NOW)
MESSAGE_BYTES = 64 << 10
"""No longer record comes into the topic."""


def csr(key: object, hosts: int) -> str:
    names = [x509.DNSName(f"host-{number}.{'x' * 60}.example") for number in range(hosts)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()  # type: ignore[arg-type]


def cpu_ms(act: Callable[[], object]) -> float:
    """Of the best of some turns; what it refuses is refused."""
    times = []
    for _ in range(TURNS):
        before_s = time.thread_time()
        try:
            act()
        except (WrongRequest, Failure):
            pass
        times.append(time.thread_time() - before_s)
    return min(times) * 1000


REQUESTS = {
    "zeros": bytes(MESSAGE_BYTES),
    "nested lists": nested(b"[", b"]", REQUEST_LIMIT_BYTES // 2),
    "a long number": b'{"csr": ' + b"9" * (REQUEST_LIMIT_BYTES - 100) + b', "mac": ""}',
    "many names": json.dumps({f"n{number}": 0 for number in range(1_200)}).encode(),
    "no request, with the ticket": TICKET.request("x" * (REQUEST_LIMIT_BYTES - 200)),
    "as many lines as there is room for": TICKET.request("-----BEGIN CERTIFICATE REQUEST-----\n" * 400),
    "a key of 4,096 bits of another kind": TICKET.request(csr(rsa.generate_private_key(65_537, 4_096), 1)),
    "as many names as are signed": TICKET.request(csr(ec.generate_private_key(ec.SECP256R1()), HOSTS_LIMIT)),
    "more names than are signed": TICKET.request(csr(ec.generate_private_key(ec.SECP256R1()), 120)),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_no_request_for_a_certificate_takes_long(request_: bytes) -> None:
    def answer() -> None:
        signed(AUTHORITY, "ottla-node-x", TICKET.checked(request_), NOW)

    assert cpu_ms(answer) < LOOP_LIMIT_MS


@pytest.mark.parametrize("name", ["", "x" * MESSAGE_BYTES, "../" * 1_000, "\0" * 1_000, TICKET.name])
def test_no_name_of_a_ticket_takes_long_however_many_are_open(tmp_path: Path, name: str) -> None:
    for _ in range(OPEN_LIMIT):
        keep(tmp_path, Invitation(Ticket.make(RANDOM), 2))
    assert cpu_ms(lambda: find(tmp_path, name, 1)) < LOOP_LIMIT_MS
    assert cpu_ms(lambda: ended_names(tmp_path, 1)) < LOOP_LIMIT_MS


@pytest.mark.parametrize("text", ["", "." * 100_000, "2." + "A" * 100_000, "1" * 100_000, "9" * 4_000 + ".x.y"])
def test_no_token_takes_long(text: str) -> None:
    assert cpu_ms(lambda: JoinToken.parse(text)) < LOOP_LIMIT_MS
