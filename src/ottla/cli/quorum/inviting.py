"""`ottla cluster invite`: the line that makes another machine a node of a cluster that runs.

1. Of a cluster without logins it is no secret and does not end: any machine that reaches a broker can make it.
2. Of a secured one it is a ticket, good once and for so long as is asked for. It is made where the key of the cluster's
   authority is, in the data directory of the node that began the cluster: that node finds it there and signs, while it
   runs. Everywhere else the refusal says where to go; the name of that machine is in the authority's certificate, which
   every node and every client has.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import BOOTSTRAP, CONFIG_VARIABLE, SERVERS_VARIABLE, sentences, settings_of
from ottla.cli.moments import duration_ms
from ottla.cli.output import Failure
from ottla.cli.quorum.node_file import (
    NODE_ID,
    client_listeners,
    has_authority_key,
    has_node_file,
    read_node_file,
)
from ottla.cli.quorum.secured_node import is_secured
from ottla.cli.quorum.tickets import GOOD_FOR_MS
from ottla.cli.quorum.tokens import open_line
from ottla.cli.secured_files import AUTHORITY, CLIENT
from ottla.clock import SystemClock
from ottla.light_dataclasses import dataclass, field

if TYPE_CHECKING:
    from ottla.client.admin.cluster import ClusterDescription

SHORTEST_MS: Final = 60_000
LONGEST_MS: Final = 24 * 3_600_000
TRUSTSTORE: Final = "ssl.truststore.location"


@dataclass(frozen=True, slots=True)
class Line:
    """What is typed on the other machine."""

    text: str = field(repr=False)
    cluster_id: str
    expires_ms: int | None = None
    """None of one that is good for ever, any number of times."""

    @property
    def good_until(self) -> str:
        from datetime import datetime

        assert self.expires_ms is not None, "it ends"
        return f"good until {datetime.fromtimestamp(self.expires_ms / 1000).astimezone():%Y-%m-%d %H:%M %Z}"

    def as_value(self) -> dict[str, Any]:
        return {
            "line": self.text,
            "cluster_id": self.cluster_id,
            "expires_ms": self.expires_ms,
            "times": None if self.expires_ms is None else 1,
        }


def invite(options: argparse.Namespace) -> Line:
    """Make it; a Failure says who can, where this node cannot."""
    directory = _directory(options.data)
    good_for_ms = _period_ms(options.expires)
    connection = _connection(options, directory)
    if not _is_secured(directory, connection):
        if options.expires is not None:
            raise Failure(
                "--expires is for secured clusters: without logins whoever reaches a broker may join, and the line, "
                "which is no secret, only says which cluster is meant"
            )
        with sentences():
            cluster = asyncio.run(_described(connection))
        address = _address(cluster, directory)
        text = open_line(cluster.cluster_id, address, is_open=not _is_loopback(address))
        return Line(text, cluster.cluster_id)
    if directory is None or not has_authority_key(directory):
        raise Failure(_who_can(directory, connection))
    with sentences():
        return asyncio.run(_secured_line(connection, directory, good_for_ms))


def _period_ms(text: str | None) -> int:
    if text is None:
        return GOOD_FOR_MS
    try:
        period_ms = duration_ms(text)
    except ValueError as error:
        raise Failure(f"--expires {text}: {error}") from None
    if not SHORTEST_MS <= period_ms <= LONGEST_MS:
        raise Failure(f"--expires {text}: a line is good for 1m to 24h, because whoever has it can join")
    return period_ms


# --- where ------------------------------------------------------------------------------------------------------------


def _directory(named: str | None) -> Path | None:
    """Of a node of this machine; where none is named the usual one, if a node is there."""
    from ottla.broker.settings import BrokerSettings

    directory = BrokerSettings({"log.dirs": named} if named else {}).data_directories[0]
    if has_node_file(directory):
        return directory
    if named is not None:
        raise Failure(
            f"{directory} is no directory of a node that began a cluster, or joined one (ottla broker start "
            "--new-cluster or --join). Leave --data out, and name a broker with -b"
        )
    return None


def _connection(options: argparse.Namespace, directory: Path | None) -> dict[str, object]:
    """How the cluster is reached: as the options say, else as this machine's node."""
    if directory is not None and options.command_config is None and not os.environ.get(CONFIG_VARIABLE):
        file = directory / CLIENT
        if file.exists():
            options.command_config = file
        elif options.bootstrap_server is None and not os.environ.get(SERVERS_VARIABLE):
            options.bootstrap_server = client_listeners(read_node_file(directory))[0].partition("://")[2]
    settings = settings_of(options)
    limit_ms = max(int(options.timeout * 1000), 1)
    return {"default.api.timeout.ms": limit_ms, "request.timeout.ms": limit_ms, **settings}


def _is_secured(directory: Path | None, connection: dict[str, object]) -> bool:
    """A node that has joined has no login for people; what it is locked with says it, too."""
    if directory is not None and is_secured(read_node_file(directory)):
        return True
    return str(connection.get("security.protocol", "PLAINTEXT")).upper() != "PLAINTEXT"


async def _described(connection: dict[str, object]) -> ClusterDescription:
    """A cluster that can be joined."""
    from ottla.cli.quorum.joining import joinable_quorum
    from ottla.client.admin.async_admin import AsyncAdmin

    async with AsyncAdmin(connection) as admin:
        await joinable_quorum(admin, connection[BOOTSTRAP])
        return await admin.describe_cluster()


def _address(cluster: ClusterDescription, directory: Path | None) -> str:
    """Of this machine's node, if it serves; else of any other."""
    own = None if directory is None else _node_id(directory)
    nodes = sorted(cluster.nodes, key=lambda node: node.id != own)
    if not nodes:
        raise Failure("no broker of the cluster serves; start one")
    return str(nodes[0].address)


def _node_id(directory: Path) -> int:
    return int(read_node_file(directory)[NODE_ID])


def _is_loopback(address: str) -> bool:
    from ottla.broker.settings.endpoints import is_loopback
    from ottla.values import parse_address

    return is_loopback(parse_address(address).host)


# --- of a secured cluster ---------------------------------------------------------------------------------------------


async def _secured_line(connection: dict[str, object], directory: Path, good_for_ms: int) -> Line:
    from ottla.cli.quorum import invitations
    from ottla.cli.quorum.signing import line_of
    from ottla.cli.secure_certificates import read_authority
    from ottla.client.admin.async_admin import AsyncAdmin

    authority = read_authority(directory)
    cluster = await _described(connection)
    node_id = _node_id(directory)
    if all(node.id != node_id for node in cluster.nodes):
        raise Failure(
            f"node {node_id} has the key of the cluster's authority, and does not run; nobody else signs. Start it: "
            f"ottla broker start --data {directory}"
        )
    async with AsyncAdmin(connection) as admin:
        now_ms = SystemClock().now_ms()
        invitation = await invitations.invite(admin, directory, good_for_ms=good_for_ms, now_ms=now_ms)
    line = line_of(cluster.cluster_id, authority, invitation.ticket, _address(cluster, directory))
    return Line(line, cluster.cluster_id, invitation.expires_ms)


def _who_can(directory: Path | None, connection: dict[str, object]) -> str:
    """The sentence for who has asked elsewhere than where the key is."""
    store = directory / AUTHORITY if directory is not None else connection.get(TRUSTSTORE)
    made = _name_of_authority(Path(str(store)).expanduser()) if store else None
    where = "" if made is None else f" ({made} is what its certificate says)"
    here = "no node of this machine has" if directory is None else f"{directory} has not"
    return (
        f"the line of a secured cluster is made where the key of its authority is, and {here} it. Only the node that "
        f"began the cluster has it{where}. Type on its machine: ottla cluster invite --data DIR"
    )


def _name_of_authority(certificate: Path) -> str | None:
    """As `ottla broker start --secure` names it: after the machine where it was made."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    except (OSError, ValueError):
        return None
    return str(names[0].value) if names else None
