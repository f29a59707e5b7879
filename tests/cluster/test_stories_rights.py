"""A cluster with logins and rules: no right is gained by asking another broker, or by posing as one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.test_stories_strangers import orders
from tests.conformance.access.building import built
from tests.conformance.access.kafka import MODULE, PASSWORD, Users

from ottla.broker.quotas.forwarded import FORWARDER
from ottla.broker.server import Server
from ottla.cluster.model import Endpoint
from ottla.errors import NONE, ClusterAuthorizationFailed, TopicAuthorizationFailed
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.api import api_of
from ottla.testing import KafkaCluster

BROKER, CLIENT = "broker", "al"
LOGINS = " ".join(f'user_{name}="{PASSWORD}"' for name in (BROKER, CLIENT))
SETTINGS: dict[str, object] = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="{BROKER}" password="{PASSWORD}" {LOGINS};'
    ),
}
RULES = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": f"User:{BROKER}"}
LITERAL, ALLOW = 3, 3


@contextlib.contextmanager
def clients(cluster: KafkaCluster, broker_id: int, client_id: str = "probes") -> Iterator[Users]:
    users = Users(cluster.server(broker_id).info.bootstrap_servers, client_id)
    try:
        yield users
    finally:
        users.close()


def ask(users: Users, who: str, api: str, version: int, **values: Any) -> Any:
    return users.ask(who, built(api, version, values, {}), version)


def allow(cluster: KafkaCluster, operation: AclOperation, topic: str) -> None:
    rule = {"resource_type": AclResource.TOPIC, "resource_name": topic, "resource_pattern_type": LITERAL}
    who = {"principal": f"User:{CLIENT}", "host": "*", "operation": operation, "permission_type": ALLOW}
    with clients(cluster, 0) as users:
        answer = ask(users, BROKER, "CreateAcls", 3, creations=[{**rule, **who}])
    assert answer.results[0].error_code == NONE, answer


@pytest.mark.parametrize("client_id", ["probes", f"{FORWARDER}1"])
def test_no_right_is_gained_by_forwarding(client_id: str) -> None:
    with KafkaCluster(brokers=3, settings={**SETTINGS, **RULES}) as cluster:
        allow(cluster, AclOperation.CREATE, "mine")
        made = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("mine", "others")]
        codes = {broker_id: _codes(cluster, broker_id, client_id, made) for broker_id in range(3)}
        assert set(codes.values()) == {(NONE, TopicAuthorizationFailed.code)}


def _codes(cluster: KafkaCluster, broker_id: int, client_id: str, made: list[dict[str, Any]]) -> tuple[int, ...]:
    """What a broker answers, as soon as it knows the rule."""
    found: tuple[int, ...] = ()

    def knows_the_rule() -> bool:
        nonlocal found
        answer = ask(users, CLIENT, "CreateTopics", 7, topics=made, timeout_ms=30_000, validate_only=True)
        codes = {each.name: each.error_code for each in answer.topics}
        found = codes["mine"], codes["others"]
        return found[0] == NONE

    with clients(cluster, broker_id, client_id) as users:
        cluster.wait_until(knows_the_rule)
    return found


@pytest.mark.parametrize("rules", [{}, RULES], ids=["no authorizer", "authorizer"])
def test_who_logs_in_as_a_client_cannot_pose_as_a_broker(rules: dict[str, object]) -> None:
    with KafkaCluster(brokers=3, settings={**SETTINGS, **rules}) as cluster:
        with clients(cluster, 0) as users:
            made = [{"name": "clicks", "num_partitions": 1, "replication_factor": 3}]
            ask(users, BROKER, "CreateTopics", 7, topics=made, timeout_ms=30_000)
            cluster.wait_until(lambda: cluster.leader_of("clicks", 0) >= 0)
        leader = cluster.leader_of("clicks", 0)
        server = cluster.server(leader)
        topic = cluster.call(lambda: server.broker.image.topic("clicks"))
        assert topic is not None
        known = cluster.call(lambda: view_of(server))
        for name, request in orders(leader, topic.id).items():
            with clients(cluster, leader) as users:
                answer = users.ask(CLIENT, request, api_of(request).advertised.max)
                assert _refusals(answer) <= {ClusterAuthorizationFailed.code, TopicAuthorizationFailed.code}, name
                assert answer is None or _refusals(answer), name
        assert cluster.call(lambda: view_of(server)) == known
        assert cluster.leader_of("clicks", 0) == leader


def view_of(server: Server) -> tuple[dict[int, tuple[Endpoint, ...]], int]:
    """What orders of a controller would change."""
    image = server.broker.image
    return {each.id: each.endpoints for each in image.brokers.values()}, image.controller_epoch


def _refusals(answer: Any) -> set[int]:
    """All error codes in it; empty where the connection was closed."""
    if answer is None:
        return set()
    codes = {answer.error_code} - {NONE} if hasattr(answer, "error_code") else set()
    for field in answer.fields:
        for each in getattr(answer, field.name) if isinstance(getattr(answer, field.name), list) else ():
            codes |= _refusals(each) if hasattr(each, "fields") else set()
    return codes
