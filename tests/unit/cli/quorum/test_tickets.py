"""Tickets of a secured cluster: what is signed for whom, and what is not."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from ottla.cli.output import Failure
from ottla.cli.quorum.tickets import Ticket, WrongRequest, signed, signing_request
from ottla.cli.quorum.tokens import JoinToken, is_secured_token
from ottla.net.tls.authority import Authority

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
NOW = datetime(2026, 11, 19, tzinfo=UTC)
RANDOM = random.Random(7).randbytes
TICKET, OTHER = Ticket.make(RANDOM), Ticket.make(RANDOM)
AUTHORITY = Authority.make("Ottla CA of here", now=NOW)
KEY = ec.generate_private_key(ec.SECP256R1())
CSR = signing_request(KEY, ["node-2", "10.0.0.2", "::1"])


def test_a_request_is_signed_for_its_names_and_for_its_key() -> None:
    csr = TICKET.checked(TICKET.request(CSR))
    leaf = x509.load_pem_x509_certificates(signed(AUTHORITY, "ottla-node-x", csr, NOW).encode())[0]
    leaf.verify_directly_issued_by(AUTHORITY.certificate)
    assert leaf.public_key() == KEY.public_key()
    assert leaf.subject.rfc4514_string() == "CN=ottla-node-x"
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))] == [
        "node-2",
        "10.0.0.2",
        "::1",
    ]
    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_an_answer_is_read_by_who_asked() -> None:
    sealed = TICKET.sealed({"certificate": "abc"}, CSR, RANDOM)
    assert TICKET.opened(sealed, CSR) == {"certificate": "abc"}
    assert b"abc" not in sealed
    assert OTHER.opened(sealed, CSR) is None
    assert TICKET.opened(sealed, signing_request(KEY, ["another"])) is None
    for wrong in (b"", b"x", b"\xff", sealed[:-4], b"AAAA" + sealed[4:]):
        assert TICKET.opened(wrong, CSR) is None


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 10_000,
        b"x" * 20_000,
        OTHER.request(CSR),
        json.dumps({"csr": CSR, "mac": ""}).encode(),
        json.dumps({"csr": CSR, "mac": "ü"}).encode(),
        json.dumps({"csr": 1, "mac": "0"}).encode(),
        TICKET.request(CSR).replace(b"CERTIFICATE", b"CERTIFICATf"),
        json.dumps({"csr": "\ud800", "mac": "0"}).encode(),
    ],
)
def test_who_has_no_ticket_gets_no_certificate(request_: bytes) -> None:
    with pytest.raises(WrongRequest):
        TICKET.checked(request_)


def csr_of(*names: x509.GeneralName, key: object = KEY) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "csr",
    [
        "",
        "x",
        csr_of(),
        csr_of(x509.DNSName("a"), key=rsa.generate_private_key(65537, 2048)),
        csr_of(x509.DNSName("a"), key=ec.generate_private_key(ec.SECP384R1())),
        csr_of(x509.RFC822Name("a@b")),
        csr_of(*(x509.DNSName(f"n{number}") for number in range(40))),
        CSR.replace(CSR.splitlines()[2], CSR.splitlines()[2].swapcase()),
    ],
)
def test_what_is_no_request_of_a_node_is_not_signed(csr: str) -> None:
    with pytest.raises(WrongRequest):
        signed(AUTHORITY, "ottla-node-x", csr, NOW)


def test_a_token_of_a_secured_cluster_brings_its_authority_and_shows_no_secret() -> None:
    token = JoinToken(CLUSTER, AUTHORITY.certificate.public_bytes(Encoding.DER), TICKET)
    assert JoinToken.parse(token.text) == token
    assert token.authority_pem == AUTHORITY.pem
    assert is_secured_token(token.text)
    assert not is_secured_token(JoinToken(CLUSTER).text)
    assert not is_secured_token(None)
    assert TICKET.secret not in repr(token)
    with pytest.raises(Failure) as failure:
        JoinToken.parse(token.text[:-1])
    assert TICKET.secret not in str(failure.value)
