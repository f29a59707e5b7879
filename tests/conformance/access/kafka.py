"""Apache Kafka with an authorizer and a user for every rule set, who logs in by PLAIN."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.access.building import built
from tests.conformance.access.rules import rule_sets
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.secure_broker import free_ports
from tests.conformance.transaction_probes import Wire

from ottla.protocol.schema import Message

ADMIN, PASSWORD = "admin", "pencil"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN
listeners=PLAINTEXT://127.0.0.1:{inner},LOGIN://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{inner},LOGIN://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
listener.name.login.plain.sasl.jaas.config={module} required {users};
inter.broker.listener.name=PLAINTEXT
controller.quorum.voters=1@127.0.0.1:{controller}
auto.create.topics.enable=true
default.replication.factor=3
group.consumer.session.timeout.ms=36000000
group.consumer.max.session.timeout.ms=36000000
group.streams.session.timeout.ms=36000000
group.streams.max.session.timeout.ms=36000000
group.streams.initial.rebalance.delay.ms=0
group.streams.assignment.interval.ms=0
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
delegation.token.secret.key=not-a-secret
"""


@contextlib.contextmanager
def secured_kafka(jars: Path, scratch: Path) -> Iterator[str]:
    """The address where its users log in."""
    inner, port, controller = free_ports(3)
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, *rule_sets()))
    settings = SETTINGS.format(admin=ADMIN, inner=inner, port=port, controller=controller, module=MODULE, users=users)
    broker = KafkaBroker(jars, scratch, scratch / "data", settings)
    broker.port = inner
    broker.format()
    with broker:
        yield f"127.0.0.1:{port}"


class Users:
    """A connection for each user, opened when it is first needed."""

    def __init__(self, address: str, client_id: str = "probes") -> None:
        self._address = address
        self._client_id = client_id
        self._wires: dict[str, Wire] = {}

    def ask(self, user: str, request: Message, version: int) -> Any:
        """The answer; None when the broker closes the connection instead."""
        if user not in self._wires:
            self._wires[user] = self._login(user)
        try:
            return self._wires[user].ask(request, version)
        except ConnectionError:
            self._wires.pop(user).__exit__(None, None, None)
            return None

    def _login(self, user: str) -> Wire:
        wire = Wire(self._address, client_id=self._client_id)
        assert not wire.ask(built("SaslHandshake", 1, {"mechanism": "PLAIN"}, {}), 1).error_code
        login = {"auth_bytes": b"\0".join((b"", user.encode(), PASSWORD.encode()))}
        assert not wire.ask(built("SaslAuthenticate", 2, login, {}), 2).error_code
        return wire

    def close(self) -> None:
        for each in self._wires.values():
            each.__exit__(None, None, None)
