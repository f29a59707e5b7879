"""Delegation tokens on the wire and by Kafka's own tool: Apache Kafka 4.3 and our broker answer alike.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`. Without Java,
tests/unit/broker/handlers/test_delegation_tokens.py and tests/client/test_delegation_tokens.py say the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.secure_broker import MODULE, secure_broker
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

from ottla.errors import name_of_code
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.testing import KafkaBroker

pytestmark = pytest.mark.long

TOKENS = {"delegation.token.secret.key": "whatever", "delegation.token.expiry.time.ms": "3600000"}
TOOL = "DelegationTokenCommand"
USERS = 'user_alice="pencil"'


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Where Apache Kafka and our broker ask for logins."""
    jars, scratch = jars_or_skip("4.3"), tmp_path_factory.mktemp("tokens")
    more = "".join(f"{name}={value}\n" for name, value in (TOKENS | {"connections.max.reauth.ms": "0"}).items())
    settings = {
        **TOKENS,
        "listeners": "LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
        "inter.broker.listener.name": "LOGIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {USERS};",
    }
    with secure_broker(jars, scratch, more) as doors, KafkaBroker(settings) as ours:
        yield {"kafka": f"127.0.0.1:{doors.ports['LOGIN']}", "ours": ours.bootstrap_servers}


@pytest.fixture(params=["kafka", "ours"])
def address(request: pytest.FixtureRequest, servers: Mapping[str, str]) -> str:
    return servers[request.param]


# --- on the wire ------------------------------------------------------------------------------------------------------


def logged_in(address: str) -> Wire:
    wire = Wire(address)
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert wire.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0pencil"), 2).error_code == 0
    return wire


def creation(*renewers: str, owner: str = "", max_lifetime_ms: int = -1) -> CreateDelegationTokenRequest:
    pairs = [each.split(":") for each in renewers]
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in pairs],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner:
        request.owner_principal_type, request.owner_principal_name = owner.split(":")
    return request


def created_row(answer: Any) -> tuple[Any, ...]:
    """What can be compared: no id, no secret, and times by their differences."""
    issue_ms = answer.issue_timestamp_ms
    times = (answer.expiry_timestamp_ms - issue_ms, answer.max_timestamp_ms - issue_ms)
    names = (answer.principal_type, answer.principal_name, answer.token_requester_principal_name)
    sizes = (len(answer.token_id), len(answer.hmac), min(issue_ms, 1))
    return (name_of_code(answer.error_code), *names, *times, *sizes)


def changed_row(answer: Any, now_ms: float) -> tuple[str, int]:
    """The new expiry in minutes from now; what is said beside an error is compared as it is."""
    if answer.error_code:
        return name_of_code(answer.error_code), answer.expiry_timestamp_ms
    return name_of_code(answer.error_code), round((answer.expiry_timestamp_ms - now_ms) / 60_000)


def creation_rows(address: str) -> list[tuple[Any, ...]]:
    rows = []
    with logged_in(address) as wire:
        for version in (1, 2, 3):
            for request in (
                creation(),
                creation("User:bob"),
                creation("User:bob", "Group:all"),
                creation(max_lifetime_ms=0),
                creation(max_lifetime_ms=60_000),
                creation(max_lifetime_ms=1 << 62),
                *([creation(owner="User:carol"), creation(owner="Robot:r2")] if version == 3 else []),
            ):
                rows.append(created_row(wire.ask(request, version)))
    return rows


def change_rows(address: str) -> list[Any]:
    rows: list[Any] = []
    with logged_in(address) as wire:
        for version in (1, 2):
            mine = found_by(wire, creation("User:bob"))
            foreign = found_by(wire, creation(owner="User:carol"))
            for secret, period_ms in (
                *((mine.hmac, each) for each in (-1, 0, 60_000, 1 << 62)),
                (foreign.hmac, -1),
                (b"nothing", -1),
                (b"", -1),
            ):
                now_ms = time.time() * 1000
                renewal = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
                rows.append(changed_row(wire.ask(renewal, version), now_ms))
            for secret, period_ms in (
                *((mine.hmac, each) for each in (60_000, 1 << 62, -1)),
                (foreign.hmac, -1),
                (b"nothing", -1),
            ):
                now_ms = time.time() * 1000
                end = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
                rows.append(changed_row(wire.ask(end, version), now_ms))
    return rows


def found_by(wire: Wire, request: CreateDelegationTokenRequest) -> Any:
    """A new token that the broker shows already: Kafka's brokers hear of it from their controller."""
    made = wire.ask(request, 3)
    end = time.monotonic() + HANG_S
    while made.token_id not in {each.token_id for each in described(wire, None)}:
        assert time.monotonic() < end
    return made


def described(wire: Wire, owners: list[str] | None, version: int = 3) -> list[Any]:
    names = None
    if owners is not None:
        pairs = [each.split(":") for each in owners]
        names = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in pairs]
    answer = wire.ask(DescribeDelegationTokenRequest(owners=names), version)
    assert answer.error_code == 0
    tokens: list[Any] = answer.tokens
    return tokens


def description_rows(address: str) -> list[Any]:
    rows: list[Any] = []
    with logged_in(address) as wire:
        made = {
            found_by(wire, creation("User:zoe", "User:yan")).token_id,
            found_by(wire, creation(owner="User:zoe")).token_id,
        }
        for version in (1, 2, 3):
            for owners in (["User:zoe"], ["User:yan"], ["User:nobody"], [], ["User:zoe", "User:yan"]):
                rows.append(
                    sorted(_described_row(each) for each in described(wire, owners, version) if each.token_id in made)
                )
    return rows


def _described_row(token: Any) -> tuple[Any, ...]:
    renewers = tuple((each.principal_type, each.principal_name) for each in token.renewers)
    times = token.expiry_timestamp - token.issue_timestamp, token.max_timestamp - token.issue_timestamp
    return token.principal_name, token.token_requester_principal_name, renewers, *times, len(token.hmac)


@pytest.mark.parametrize("rows", [creation_rows, change_rows, description_rows], ids=lambda rows: rows.__name__)
def test_both_answer_alike(servers: Mapping[str, str], rows: Any) -> None:
    ours = rows(servers["ours"])
    assert ours == rows(servers["kafka"])
    assert len(ours) > 10


# --- by Kafka's own tool ----------------------------------------------------------------------------------------------


def test_kafkas_tool_makes_shows_renews_and_ends_a_token(address: str, tmp_path: Path) -> None:
    login = tmp_path / "client.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE}.plain.PlainLoginModule required username="alice" password="pencil";\n'
    )
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, address)

    def tool(*arguments: str) -> str:
        return java.tool(TOOL, "--command-config", str(login), *arguments)

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    row = re.search(r"^(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[?User:bob", made, re.MULTILINE)
    assert row is not None, made
    token_id, secret = row[1], row[2]
    assert token_id in tool("--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in tool("--renew", "--renew-time-period", "-1", "--hmac", secret)
    tool("--expire", "--expiry-time-period", "-1", "--hmac", secret)
    assert token_id not in tool("--describe", "--owner-principal", "User:alice")
