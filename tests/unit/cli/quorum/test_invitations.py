"""Tickets that are open, who may make a line for another machine, and what is said where nobody can."""

from __future__ import annotations

import argparse
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ottla.cli.output import Failure
from ottla.cli.quorum import inviting
from ottla.cli.quorum.invitations import (
    OPEN_LIMIT,
    Invitation,
    ended_names,
    find,
    forget,
    keep,
    open_names,
)
from ottla.cli.quorum.inviting import Line, invite
from ottla.cli.quorum.tickets import Ticket
from ottla.cli.quorum.tokens import JoinToken
from ottla.client.admin.cluster import ClusterDescription
from ottla.net.tls.authority import Authority
from ottla.values import Node

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
RANDOM = random.Random(7).randbytes
NOW_MS = 1_000_000


def invitation(expires_ms: int = NOW_MS + 60_000) -> Invitation:
    return Invitation(Ticket.make(RANDOM), expires_ms)


def test_a_ticket_is_found_until_it_was_used(tmp_path: Path) -> None:
    kept = invitation()
    keep(tmp_path, kept)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert find(tmp_path, kept.ticket.name, NOW_MS) == kept
    assert open_names(tmp_path) == [kept.ticket.name]
    forget(tmp_path, kept.ticket.name)
    assert find(tmp_path, kept.ticket.name, NOW_MS) is None
    forget(tmp_path, kept.ticket.name)


def test_a_ticket_is_not_found_when_its_time_is_over(tmp_path: Path) -> None:
    early, late = invitation(NOW_MS), invitation(NOW_MS + 1)
    keep(tmp_path, early)
    keep(tmp_path, late)
    assert find(tmp_path, early.ticket.name, NOW_MS) is None
    assert find(tmp_path, late.ticket.name, NOW_MS) == late
    assert ended_names(tmp_path, NOW_MS) == [early.ticket.name]


@pytest.mark.parametrize(
    "name", ["", "..", "../secret", "ottla-join-", "ottla-join-00/../../x", "ottla-join-XYZ", "\0"]
)
def test_a_name_that_is_no_tickets_is_no_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.ticket").write_text('{"secret": "x", "expires_ms": 9999999999999}')
    assert find(tmp_path / "data", name, NOW_MS) is None
    assert open_names(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"secret": "x"}', '{"secret": "x", "expires_ms": "soon"}'])
def test_a_file_that_says_nothing_lets_nobody_in_and_is_taken_away(tmp_path: Path, content: str) -> None:
    name = Ticket.make(RANDOM).name
    (tmp_path / f"{name}.ticket").write_text(content)
    assert find(tmp_path, name, NOW_MS) is None
    assert ended_names(tmp_path, NOW_MS) == [name]


def test_so_many_lines_are_open_at_once_and_no_more(tmp_path: Path) -> None:
    for _ in range(OPEN_LIMIT):
        keep(tmp_path, invitation())
    with pytest.raises(Failure, match=f"{OPEN_LIMIT} lines are open already"):
        keep(tmp_path, invitation())


# --- the command -----------------------------------------------------------------------------------------------------


def options(**said: object) -> argparse.Namespace:
    given = {"data": None, "expires": None, "command_config": None, "command_property": [], "timeout": 5.0}
    return argparse.Namespace(**{**given, "bootstrap_server": "10.0.0.1:9092", **said})


@pytest.fixture
def a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def described(connection: dict[str, object]) -> ClusterDescription:
        return ClusterDescription(CLUSTER, 1, (Node(1, "10.0.0.1", 9092), Node(2, "10.0.0.2", 9092)))

    monkeypatch.setattr(inviting, "_described", described)
    monkeypatch.setenv("HOME", "/nonexistent")


def node_directory(directory: Path, node_id: int = 2) -> Path:
    directory.mkdir()
    listeners = "PLAINTEXT://10.0.0.2:9092,CONTROLLER://10.0.0.2:9093"
    (directory / "node.properties").write_text(
        f"node.id={node_id}\nlisteners={listeners}\ncontroller.listener.names=CONTROLLER\n"
    )
    return directory


@pytest.mark.usefixtures("a_cluster")
def test_without_logins_the_line_is_made_anywhere_and_does_not_end(tmp_path: Path) -> None:
    line = invite(options())
    assert line == Line(
        f"ottla broker start --join 10.0.0.1:9092 --token {JoinToken(CLUSTER).text} --insecure", CLUSTER
    )
    assert line.as_value() == {"line": line.text, "cluster_id": CLUSTER, "expires_ms": None, "times": None}
    here = invite(options(data=str(node_directory(tmp_path / "data")), bootstrap_server=None))
    assert "--join 10.0.0.2:9092" in here.text, "this machine's node"


@pytest.mark.usefixtures("a_cluster")
@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"expires": "10m"}, "--expires is for secured clusters"),
        ({"expires": "soon"}, "write a length of time"),
        ({"expires": "10s"}, "good for 1m to 24h"),
        ({"expires": "2d"}, "good for 1m to 24h"),
        ({"data": "/nonexistent"}, "/nonexistent is no directory of a node"),
    ],
)
def test_what_cannot_be_is_said(said: dict[str, object], sentence: str) -> None:
    with pytest.raises(Failure, match=sentence):
        invite(options(**said))


@pytest.mark.usefixtures("a_cluster")
def test_who_has_not_the_authoritys_key_hears_who_has(tmp_path: Path) -> None:
    directory = node_directory(tmp_path / "data")
    authority = Authority.make("Ottla CA of machine-1", now=datetime(2026, 11, 19, tzinfo=UTC))
    (directory / "ca.pem").write_text(authority.pem)
    secured = {"command_property": ["security.protocol=SASL_SSL"]}
    with pytest.raises(Failure, match=r"data has not it.*\(Ottla CA of machine-1 is what its certificate says\)"):
        invite(options(data=str(directory), **secured))
    trusts = [*secured["command_property"], f"ssl.truststore.location={directory / 'ca.pem'}"]
    with pytest.raises(Failure, match=r"no node of this machine has it.*Ottla CA of machine-1"):
        invite(options(command_property=trusts))
    with pytest.raises(Failure, match=r"Only the node that began the cluster has it\. Type on its machine"):
        invite(options(**secured))
