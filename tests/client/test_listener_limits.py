"""A limit of connections for one listener holds there, and only there, and changes while the broker runs."""

from __future__ import annotations

import socket

from tests.patience import HANG_S

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.testing.broker import KafkaBroker

KEY = "listener.name.outside.max.connections"
SETTINGS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    KEY: "1",
}


def is_served(port: int, kept: list[socket.socket]) -> bool:
    """Whether a new connection is answered; the others stay open."""
    link = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
    kept.append(link)
    try:
        link.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))  # ApiVersions, version 0
        return len(link.recv(4)) == 4
    except ConnectionError:
        return False


def test_a_listener_of_its_own_limit() -> None:
    kept: list[socket.socket] = []
    with KafkaBroker(SETTINGS) as broker:
        inside, outside = (each.port for each in broker.info.endpoints)
        try:
            assert is_served(outside, kept)
            assert not is_served(outside, kept)
            assert is_served(inside, kept)
            assert is_served(inside, kept)
            with Admin(bootstrap_servers=f"127.0.0.1:{inside}") as admin:
                broker_resource = ConfigResource(ConfigResourceType.BROKER, str(broker.info.broker_id))
                admin.incremental_alter_configs({broker_resource: [AlterConfig(KEY, "3")]})
            assert is_served(outside, kept)
        finally:
            for each in kept:
                each.close()
