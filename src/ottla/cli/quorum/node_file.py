"""node.properties in a data directory: what a node of a cluster was told when it began the cluster or joined it.

    process.roles=broker,controller
    node.id=2
    listeners=PLAINTEXT://10.0.0.2:9092,CONTROLLER://10.0.0.2:9093
    controller.quorum.bootstrap.servers=10.0.0.1:9093

1. Every start on that directory reads it, so `ottla broker start --data DIR` is enough from then on. These are Kafka's
   settings by Kafka's names: who wants a server.properties copies them.
2. Whatever else is said (--set, --listen, the file of --config) is stronger, but for who the node is: its id and its
   roles. A port 0 that is asked for is the one that was found first. A file of somebody who writes process.roles
   himself says everything, and this one is not looked at.
3. It is written before meta.properties, which makes a directory a formatted one: who has both has begun or joined.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.broker import NODE_FILE
from ottla.cli.output import Failure

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings

META_FILE: Final = "meta.properties"
COMMENT: Final = "what this node was told when it began or joined its cluster; `ottla broker start` reads it"

ROLES: Final = "process.roles"
NODE_ID: Final = "node.id"
LISTENERS: Final = "listeners"
LISTENER_NAMES: Final = "controller.listener.names"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
VOTERS: Final = "ottla.controller.quorum.voters.max"
ADMIN: Final = "ottla.admin.listener"
NODES: Final = "NODES"
"""The listener of a secured node for other brokers (secured_node.py)."""
BROKER_ROLE: Final = "broker"
BOTH_ROLES: Final = "broker,controller"

_WHO_IT_IS: Final = (ROLES, NODE_ID, LISTENER_NAMES)
_LOCKS: Final = (
    "ssl.",
    "sasl.",
    "listener.name.",
    "authorizer.",
    "super.users",
    "allow.everyone.",
    "ottla.admin.login",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
)
"""What a secured node is locked with, by how it begins."""


def has_node_file(directory: Path) -> bool:
    return (directory / NODE_FILE).exists()


def has_authority_key(directory: Path) -> bool:
    """Whether it began a secured cluster: it signs for other nodes, and no other one does."""
    from ottla.cli.secured_files import AUTHORITY_KEY

    return (directory / AUTHORITY_KEY).exists()


def is_formatted(directory: Path) -> bool:
    return (directory / META_FILE).exists()


def read_node_file(directory: Path) -> dict[str, str]:
    from ottla.properties import read_properties

    try:
        return read_properties(directory / NODE_FILE)
    except OSError as error:
        raise Failure(f"cannot read {directory / NODE_FILE}: {error.strerror}") from None


def write_node_file(directory: Path, settings: Mapping[str, str]) -> None:
    """On the disk, whole, before it returns."""
    from ottla.cli.client_files import properties_text

    path = directory / NODE_FILE
    unfinished = directory / f".{NODE_FILE}.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(properties_text(settings, COMMENT))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}. Choose another directory with --data.") from None


def with_node_file(settings: BrokerSettings, stored: Mapping[str, str]) -> BrokerSettings:
    """The settings of a start on a directory that has one."""
    written = set(settings.configured_names())
    if settings.wanted_id is not None and str(settings.wanted_id) != stored.get(NODE_ID):
        raise Failure(
            f"{settings.data_directories[0]} is node {stored.get(NODE_ID)}'s, and the settings say "
            f"{settings.wanted_id}. Leave node.id out, or choose another directory with --data."
        )
    layer = {name: value for name, value in stored.items() if _is_kept(name) or name not in written}
    if LISTENERS in written:
        known = _listeners_of(stored)
        clients = [known.get(each.name, str(each)) if not each.port else str(each) for each in settings.endpoints]
        if NODES in known:
            _refuse_open(settings)
            clients.append(known[NODES])
        layer[LISTENERS] = joined_listeners(clients, controller_listener(stored))
    return settings.replaced(layer)


def _is_kept(name: str) -> bool:
    return name in _WHO_IT_IS or name.startswith(_LOCKS)


def _refuse_open(settings: BrokerSettings) -> None:
    if any(each.protocol != "SASL_SSL" for each in settings.endpoints):
        raise Failure(
            f"{settings.data_directories[0]} is a node of a secured cluster, and "
            f"{', '.join(map(str, settings.endpoints))} would be open. Add --secure, or leave --listen out."
        )


def controller_listener(stored: Mapping[str, str]) -> str | None:
    """The listener of its controller, as it stands there; None for who is only a broker."""
    if "controller" not in stored.get(ROLES, ""):
        return None
    return _listeners_of(stored).get(stored.get(LISTENER_NAMES, "").upper())


def nodes_listeners(stored: Mapping[str, str]) -> list[str]:
    """That of a secured node for other brokers; else none."""
    return [text for name, text in _listeners_of(stored).items() if name == NODES]


def client_listeners(stored: Mapping[str, str]) -> list[str]:
    others = stored.get(LISTENER_NAMES, "").upper(), NODES
    return [text for name, text in _listeners_of(stored).items() if name not in others]


def _listeners_of(stored: Mapping[str, str]) -> dict[str, str]:
    """By their names."""
    listed = [text.strip() for text in stored.get(LISTENERS, "").split(",")]
    return {text.partition("://")[0].upper(): text for text in listed if text}


def joined_listeners(clients: Iterable[object], controller: str | None) -> str:
    return ",".join([*map(str, clients), *([] if controller is None else [controller])])
