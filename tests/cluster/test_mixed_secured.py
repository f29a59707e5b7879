"""Three brokers, one of them Apache Kafka 3.9, behind one lock: what either side writes of it acts on all three.

Everybody, brokers too, comes over SASL_SSL with a password (SCRAM), and may do only what a rule allows. Users, rules
and quotas are written by the controller, which each test takes from the side that its parameter names; tokens are made
by a broker of that side. Then each broker is asked in turn: a user logs in there, and writes to the partition that it
leads.
Needs Java and Kafka's jars (tests/conformance/kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S, wait_until
from tests.unit.net.papers import Papers, make_papers

import ottla
from ottla.client.admin.access import AclBinding, AclFilter, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.credentials import ScramUpsertion
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import NewTopic
from ottla.errors import AuthenticationFailed, TopicAuthorizationFailed, UnknownTopicOrPartition
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.mixed_cluster import MixedCluster
from tests.cluster.test_mixed_tokens import created
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.secure_broker import MODULE
from tests.conformance.transaction_probes import Wire

from ottla.cli.lab_cluster import LabBroker

pytestmark = pytest.mark.long

SIDES = [OTTLA, KAFKA, OTTLA]
MECHANISM, PASSWORD = "SCRAM-SHA-512", "pencil"
PLAIN = f'{MODULE}.plain.PlainLoginModule required user_alice="pencil";'
SCRAM = f'{MODULE}.scram.ScramLoginModule required username="broker" password="b-secret";'
LOCK = {
    "listener.security.protocol.map": "LOCKED:SASL_SSL",
    "inter.broker.listener.name": "LOCKED",
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "listener.name.locked.plain.sasl.jaas.config": PLAIN,
    "listener.name.locked.scram-sha-512.sasl.jaas.config": SCRAM,
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:admin",
    "delegation.token.secret.key": "shared by all three",
    "zookeeper.session.timeout.ms": 6_000,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}


class LockedCluster(MixedCluster):
    """Its only listener is SASL_SSL; the users broker and admin are there before the first broker is."""

    listener = "LOCKED"

    def __init__(self, directory: Path, papers: Papers, jars: Path) -> None:
        store = directory / "store.pem"
        store.write_text(papers.server_key.read_text() + papers.server.read_text())
        stores = {"ssl.keystore.location": store, "ssl.truststore.location": papers.ca}
        super().__init__(directory, SIDES, jars=jars, settings={**LOCK, **stores})
        self.papers = papers
        for broker in self.brokers:
            broker.host = "localhost"  # the name in the certificate

    def command(self, broker: LabBroker) -> list[str]:
        plain = super().command(broker)
        at = plain.index("--listen")
        return [*plain[:at], *plain[at + 2 :], "--set", f"listeners={self.listener}://{broker.address}"]

    def start(self, first: int | None = None) -> None:
        self.zookeeper.start()
        for user, password in (("broker", "b-secret"), ("admin", "a-secret")):
            entity = ("--entity-type", "users", "--entity-name", user)
            change = ("--add-config", f"{MECHANISM}=[password={password}]")
            self.tool("kafka.admin.ConfigCommand", "--zookeeper", self.zookeeper.connect, "--alter", *entity, *change)
        for each in self.brokers:
            self.begin(each.number)
        for each in self.brokers:
            self.wait_for(each.number)

    def login(self, user: str, password: str, at: int | None = None) -> dict[str, Any]:
        """The settings of a client; `at` is the broker that it comes to first."""
        address = self.bootstrap_servers if at is None else self.brokers[at].address
        return {
            **self.encrypted(address),
            "sasl_mechanism": MECHANISM,
            "sasl_username": user,
            "sasl_password": password,
        }

    def encrypted(self, address: str) -> dict[str, Any]:
        return {"bootstrap_servers": address, "security_protocol": "SASL_SSL", "ssl_cafile": str(self.papers.ca)}

    def admin(self) -> Admin:
        return Admin(**self.login("admin", "a-secret"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedCluster]:
    directory = tmp_path_factory.mktemp("locked")
    locked = LockedCluster(directory, make_papers(directory), jars_or_skip("3.9"))
    try:
        locked.start()
        yield locked
        faults = locked.faults()
    finally:
        locked.stop()
    assert faults == []


@pytest.fixture(params=[KAFKA, OTTLA])
def side(request: pytest.FixtureRequest, cluster: LockedCluster) -> str:
    """Whose the controller is, and so who writes."""
    cluster.elect_controller(request.param)
    return str(request.param)


@pytest.fixture
def topic(side: str, cluster: LockedCluster, request: pytest.FixtureRequest) -> str:
    """Broker n leads partition n."""
    name = f"{request.function.__name__.split('_')[2]}-{side}"
    with cluster.admin() as admin:
        placed = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]}
        admin.create_topics([NewTopic(name, replica_assignments=placed)], timeout=HANG_S)

        def is_led() -> bool:
            try:
                found = admin.describe_topics([name], timeout=HANG_S)[name].partitions
            except UnknownTopicOrPartition:  # of a broker that has not heard of it yet
                return False
            return [each.leader for each in found] == [0, 1, 2] and all(len(each.in_sync) == 3 for each in found)

        wait_until(is_led, f"{name} has its leaders")
    return name


def make_user(cluster: LockedCluster, user: str) -> None:
    with cluster.admin() as admin:
        admin.alter_user_scram_credentials([ScramUpsertion(user, PASSWORD)], timeout=HANG_S)
    for number in range(3):
        wait_until(lambda n=number: is_let_in(cluster.login(user, PASSWORD, n)), f"{user} is known to {number}")  # type: ignore[misc]


def is_let_in(login: dict[str, Any]) -> bool:
    try:
        with Admin(**login) as admin:
            admin.list_topics(timeout=HANG_S)
    except AuthenticationFailed:
        return False
    return True


def may_write(cluster: LockedCluster, user: str, topic: str, partition: int) -> bool:
    with ottla.Producer(**cluster.login(user, PASSWORD), enable_idempotence=False) as producer:
        try:
            producer.send(topic, b"x", partition=partition).result(HANG_S)
        except TopicAuthorizationFailed:
            return False
    return True


def is_slowed_down(cluster: LockedCluster, user: str, topic: str, partition: int) -> bool:
    """Whether more than ten seconds of the quota at once make the leader of a partition ask for patience."""
    with ottla.Producer(**cluster.login(user, PASSWORD), enable_idempotence=False) as producer:
        for _ in range(6):
            producer.send(topic, bytes(50_000), partition=partition).result(HANG_S)
        found = [value for key, value in producer.metrics().items() if key.name == "produce-throttle-time-max"]
    return found[0] > 0


def wait_for_each(broker_does: Callable[[int], bool], wanted: bool, what: str) -> None:
    for number in range(3):
        wait_until(lambda n=number: broker_does(n) is wanted, f"{what}: {wanted} at {number}, {SIDES[number]}")  # type: ignore[misc]


def allow_writing(cluster: LockedCluster, user: str, topic: str) -> None:
    with cluster.admin() as admin:
        admin.create_acls([AclBinding(ResourceType.TOPIC, topic, f"User:{user}", AclOperation.WRITE)], timeout=HANG_S)


def test_a_user_logs_in_everywhere_until_he_is_removed(cluster: LockedCluster, side: str) -> None:
    user = f"user-of-{side}"
    make_user(cluster, user)
    wait_for_each(lambda n: is_let_in(cluster.login(user, "wrong", n)), False, "a wrong password")
    with cluster.admin() as admin:
        admin.alter_user_scram_credentials([ScramUpsertion(user, "crayon")], timeout=HANG_S)
    wait_for_each(lambda n: is_let_in(cluster.login(user, "crayon", n)), True, "the next password")
    wait_for_each(lambda n: is_let_in(cluster.login(user, PASSWORD, n)), False, "the old password")


def test_a_rule_lets_a_user_write_everywhere_until_it_is_removed(cluster: LockedCluster, side: str, topic: str) -> None:
    user = f"writer-of-{side}"
    make_user(cluster, user)
    assert not any(may_write(cluster, user, topic, partition) for partition in range(3))
    allow_writing(cluster, user, topic)
    wait_for_each(lambda n: may_write(cluster, user, topic, n), True, "the right to write")
    with cluster.admin() as admin:
        admin.delete_acls([AclFilter(resource_name=topic)], timeout=HANG_S)
    wait_for_each(lambda n: may_write(cluster, user, topic, n), False, "the right to write")


def test_a_quota_slows_a_user_down_everywhere_until_it_is_removed(
    cluster: LockedCluster, side: str, topic: str
) -> None:
    user = f"hasty-of-{side}"
    make_user(cluster, user)
    allow_writing(cluster, user, topic)
    wait_for_each(lambda n: may_write(cluster, user, topic, n), True, "the right to write")
    for limit in (20_000.0, None):
        with cluster.admin() as admin:
            admin.alter_client_quotas([({"user": user}, {"producer_byte_rate": limit})], timeout=HANG_S)
        wait_for_each(lambda n: is_slowed_down(cluster, user, topic, n), limit is not None, "throttled")


def test_a_token_logs_in_everywhere_until_it_is_expired(cluster: LockedCluster, side: str, topic: str) -> None:
    number = SIDES.index(side)
    with EncryptedWire(cluster, number) as wire:
        token = created(wire, "nobody")
    password = token.login_settings()
    logins = [{**cluster.encrypted(each.address), **_named(password)} for each in cluster.brokers]
    wait_for_each(lambda n: is_let_in(logins[n]), True, "the token")
    allow_writing(cluster, "alice", topic)
    for partition, login in enumerate(logins):
        with ottla.Producer(**login, enable_idempotence=False) as producer:
            wait_until(lambda p=partition, w=producer: _is_written(w, topic, p), "alice writes with her token")  # type: ignore[misc]
    plain = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "pencil"}
    with Admin(**cluster.encrypted(cluster.brokers[number].address), **plain) as alice:
        alice.expire_delegation_token(token.hmac, timeout=HANG_S)
    wait_for_each(lambda n: is_let_in(logins[n]), False, "the token")


def _named(dotted: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in dotted.items()}


def _is_written(producer: ottla.Producer, topic: str, partition: int) -> bool:
    try:
        producer.send(topic, b"x", partition=partition).result(HANG_S)
    except TopicAuthorizationFailed:
        return False
    return True


class EncryptedWire(Wire):
    """Asks one very broker, over TLS."""

    def __init__(self, cluster: LockedCluster, number: int) -> None:
        super().__init__(f"127.0.0.1:{cluster.brokers[number].port}")
        context = ssl.create_default_context(cafile=str(cluster.papers.ca))
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")
