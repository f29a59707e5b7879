"""GSSAPI without Kerberos, seen from the client: the order of messages, and what a broker may not ask for."""

from __future__ import annotations

import sys
from random import Random

import pytest
from tests.unit.net.sasl.test_gssapi_server import NAMES, FakeContext

from ottla.client.logins import Login, login_of
from ottla.client.settings import ClientSettings
from ottla.errors import AuthenticationFailed, InvalidSetting
from ottla.net.sasl.gssapi_client import GssapiClient
from ottla.net.sasl.gssapi_server import NO_LAYER, GssapiServer
from ottla.net.sasl.server import Identity
from ottla.testing.clock import ManualClock


class FakeInitiator:
    """Shows b"ticket" and believes b"proof"; wrapped is in brackets, as in FakeContext."""

    is_established = False

    def initiate(self, token: bytes | None) -> bytes:
        if token is None:
            return b"ticket"
        if token != b"proof":
            raise AuthenticationFailed("no proof")
        self.is_established = True
        return b""

    def wrap(self, message: bytes) -> bytes:
        return b"(" + message + b")"

    def unwrap(self, message: bytes) -> bytes:
        return message[1:-1]


def established() -> GssapiClient:
    client = GssapiClient(FakeInitiator())
    assert client.first() == b"ticket"
    assert client.answered(b"proof") == b""
    return client


def test_client_and_server_come_to_an_end_together() -> None:
    client, server = GssapiClient(FakeInitiator()), GssapiServer(FakeContext(), NAMES)
    said: bytes | None = client.first()
    while said is not None:
        said = client.answered(server.answered(said))
    assert server.identity == Identity("alice")


def test_a_broker_without_a_proof_is_not_believed() -> None:
    client = GssapiClient(FakeInitiator())
    client.first()
    with pytest.raises(AuthenticationFailed, match="no proof"):
        client.answered(b"believe me")


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x02\0\0\0", b"\x06\xff\xff\xff", b"\x01\0\0\0\0"])
def test_a_broker_that_insists_on_a_layer_is_refused(offer: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="protection layer"):
        established().answered(b"(" + offer + b")")


@pytest.mark.parametrize("offer", [b"\x01\0\0\0", b"\x07\x00\xff\xff"])
def test_of_what_a_broker_offers_no_layer_is_chosen(offer: bytes) -> None:
    client = established()
    assert client.answered(b"(" + offer + b")") == b"(" + NO_LAYER + b")"
    assert client.answered(b"") is None


def log_in(**settings: object) -> Login:
    chosen = ClientSettings(bootstrap_servers="localhost:9092", security_protocol="SASL_SSL", **settings)
    return login_of(chosen, clock=ManualClock(), random=Random(1))


def test_a_password_without_a_mechanism_is_not_taken_for_kerberos() -> None:
    with pytest.raises(InvalidSetting, match=r"GSSAPI \(Kerberos\), which is Java's default") as refused:
        log_in(sasl_username="alice", sasl_password="hunter2")
    assert "hunter2" not in str(refused.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'ottla\[gssapi\]'"):
        log_in()
