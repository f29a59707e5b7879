"""A node of a cluster with TLS and logins: its listeners, and what its node.properties has beside those of others.

    SASL_SSL     clients, with SCRAM logins, as with any `--secure` (cli/secure_start.py)
    NODES        other brokers, with certificates on both sides
    CONTROLLER   other controllers and brokers, likewise

1. Nodes log in at nodes by their certificates. A login with a password that the cluster keeps would not do: when all
   nodes were stopped, nobody knows which users there are before somebody leads, and nobody leads before votes were
   asked for over such a connection.
2. Whoever has a certificate of the cluster's authority with a name ottla-node-... is the principal `ottla-node`, which
   may do everything, as Kafka's brokers may. The authority signs nothing else; its key is on the first node only.
3. On the next start all of it is in node.properties, and stronger than options: what is called secure is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.quorum.node_file import LISTENER_NAMES, LISTENERS, NODES
from ottla.cli.secure_start import ADMIN, AUTHORIZER, MECHANISM, TOKEN_KEY
from ottla.cli.secured_files import AUTHORITY, SERVER

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings

NODE_USER: Final = "ottla-node"
_MAP: Final = "listener.security.protocol.map"


def node_name(node_id: int) -> str:
    """The common name of a node's certificate."""
    return f"{NODE_USER}-{node_id}"


def secured(settings: BrokerSettings, stored: Mapping[str, str], nodes_address: str) -> dict[str, str]:
    """What node.properties of a secured node says, of what that of another says."""
    directory = settings.data_directories[0].absolute()
    controller = stored[LISTENER_NAMES]
    listeners = stored[LISTENERS].split(",")
    listeners.insert(1, f"{NODES}://{nodes_address}")
    users = [each for each in settings.super_users.split(";") if each.strip()]
    found = {
        **stored,
        LISTENERS: ",".join(listeners),
        _MAP: f"{settings.listener_security_protocol_map},{NODES}:SSL,{controller}:SSL",
        "inter.broker.listener.name": NODES,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / SERVER),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / AUTHORITY),
        "sasl.enabled.mechanisms": f"{MECHANISM},SCRAM-SHA-256",
        "authorizer.class.name": AUTHORIZER,
        "super.users": ";".join(dict.fromkeys([f"User:{ADMIN}", f"User:{NODE_USER}", *users])),
        "allow.everyone.if.no.acl.found": "false",
        "ottla.admin.login": "true",
    }
    for name in (NODES.lower(), controller.lower()):
        found[f"listener.name.{name}.ssl.client.auth"] = "required"
        found[f"listener.name.{name}.ssl.principal.mapping.rules"] = rf"RULE:^CN={NODE_USER}-.*$/{NODE_USER}/"
    return found


def as_node(directory: Path) -> dict[str, object]:
    """How a client connects as this node, to the listeners that nodes have for each other."""
    place = directory.absolute()
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place / SERVER),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place / AUTHORITY),
    }


def is_secured(stored: Mapping[str, str]) -> bool:
    return "authorizer.class.name" in stored


def with_token_key(settings: BrokerSettings, directory: Path) -> BrokerSettings:
    """With the secret of delegation tokens, which all nodes have."""
    file = directory / TOKEN_KEY
    if settings.delegation_token_secret_key is not None or not file.exists():
        return settings
    return settings.replaced({"delegation.token.secret.key": file.read_text("utf-8").strip()})
