"""Apache Kafka with a port for each way to log in: TLS, with and without a client's certificate, SASL, and both.

    with secure_broker(jars, scratch) as doors:
        ClientSettings(**doors.settings("BOTH", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="pencil"))

The user alice has the password pencil in every mechanism; tokens without a signature are taken.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conformance.kafka_broker import CLUSTER_ID, KafkaBroker
from tests.patience import HANG_S
from tests.unit.net.papers import Papers, make_papers

MODULE = "org.apache.kafka.common.security"
REAUTH_MS = 3000
SETTINGS = """
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.tls.ssl.client.auth=requested
listener.name.mutual.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
connections.max.reauth.ms={reauth_ms}
"""
LOGINS = """
listener.name.{name}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_alice="pencil";
listener.name.{name}.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;
listener.name.{name}.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;
listener.name.{name}.oauthbearer.sasl.jaas.config={module}.oauthbearer.OAuthBearerLoginModule required \
 unsecuredLoginStringClaim_sub="broker";
"""
PROTOCOLS = {"TLS": "SSL", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}


class Doors(NamedTuple):
    """The broker, its ports by the names of its listeners, and the papers."""

    broker: KafkaBroker
    ports: dict[str, int]
    papers: Papers

    def settings(self, door: str, **more: object) -> dict[str, object]:
        host = "localhost" if "SSL" in PROTOCOLS[door] else "127.0.0.1"
        trusted = {"ssl_cafile": str(self.papers.ca)} if "SSL" in PROTOCOLS[door] else {}
        address = {"bootstrap_servers": f"{host}:{self.ports[door]}", "security_protocol": PROTOCOLS[door]}
        return {**address, **trusted, **more}


@contextlib.contextmanager
def secure_broker(jars: Path, scratch: Path, more: str = "") -> Iterator[Doors]:
    """A running broker; `more` are further settings."""
    papers = make_papers(scratch)
    store = scratch / "store.pem"
    store.write_text(papers.server_key.read_text() + papers.server.read_text())
    settings = SETTINGS.format(store=store, ca=papers.ca, reauth_ms=REAUTH_MS) + more
    settings += "".join(LOGINS.format(name=name, module=MODULE) for name in ("login", "both"))
    broker = KafkaBroker(jars, scratch, scratch / "data", settings)
    ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
    broker.properties.write_text(with_listeners(broker.properties.read_text(), ports))
    scram = [f"--add-scram=SCRAM-SHA-{bits}=[name=alice,password=pencil]" for bits in (256, 512)]
    broker.run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(broker.properties), *scram)
    with broker:
        for port in ports.values():
            socket.create_connection(("127.0.0.1", port), timeout=HANG_S).close()
        yield Doors(broker, ports, papers)


def with_listeners(properties: str, ports: dict[str, int]) -> str:
    """The properties of a broker with more listeners than it had."""
    hosts = {name: "localhost" if "SSL" in PROTOCOLS[name] else "127.0.0.1" for name in ports}
    listeners = "".join(f",{name}://{hosts[name]}:{port}" for name, port in ports.items())
    protocols = "".join(f",{name}:{protocol}" for name, protocol in PROTOCOLS.items())
    properties = re.sub(r"(?m)^((?:advertised\.)?listeners=.*)$", rf"\1{listeners}", properties)
    return re.sub(r"(?m)^(listener\.security\.protocol\.map=.*)$", rf"\1{protocols}", properties)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
