"""Our broker with an authorizer, in memory, for the same probes: users are told to it, nobody logs in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance.access.rules import Rule
from tests.conformance.access.world import World
from tests.unit.broker.conftest import MemoryBroker

from ottla.broker.network.processor import CloseConnection
from ottla.protocol.schema import Message

ADMIN = "admin"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
    "auto.create.topics.enable": "true",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "delegation.token.secret.key": "not-a-secret",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


class Ours:
    """Asks as whoever is named."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.broker = MemoryBroker(SETTINGS, 1)
        self.world = World(lambda request, version: self.ask(ADMIN, request, version), pause=lambda: None)
        self.world.make(rules)
        self.world.make_token()

    def ask(self, user: str, request: Message, version: int) -> Any:
        """The answer; None when the broker closes the connection instead."""
        who = {"principal": f"User:{user}", "security_protocol": "SASL_PLAINTEXT"}
        try:
            return self.broker.ask(request, version, **who)
        except CloseConnection:
            return None

    def close(self) -> None:
        self.broker.close()
