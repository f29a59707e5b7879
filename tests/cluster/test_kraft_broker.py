"""Brokers of Ottla in a cluster of Apache Kafka 4.3.1: under one controller and under three, beside an Apache broker.

Nothing that was acknowledged is lost and all copies become alike, whoever is stopped, killed, or loses a disk. Needs
Java and Kafka's jars: the first test takes seconds and is in every run, the others are run by `make test-long`.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.kraft_cluster import KRaftCluster
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.patience import HANG_S

import ottla
from ottla.client.admin.access import AclBinding, ResourceType
from ottla.client.admin.credentials import ScramMechanism, ScramUpsertion
from ottla.protocol.access import AclOperation
from ottla.testing.promises import GroupReading, NumberedLoad, read_numbers

PARTITIONS = 6
OURS, APACHES = 11, 12

Made = Callable[..., KRaftCluster]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes a cluster that is stopped at the end, and of which nobody may have told of anything broken."""
    clusters: list[KRaftCluster] = []

    def make(*arguments: object, **options: object) -> KRaftCluster:
        cluster = KRaftCluster(tmp_path, *arguments, jars=jars_or_skip("4.3"), **options)  # type: ignore[arg-type]
        clusters.append(cluster)
        return cluster

    try:
        yield make
    finally:
        for cluster in clusters:
            cluster.stop()
    assert [fault for cluster in clusters for fault in cluster.faults()] == []


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def epoch_written(cluster: KRaftCluster, number: int) -> int:
    """The epoch of the registration under which a broker stopped in order."""
    content = json.loads((cluster.data(number)[0] / ".kafka_cleanshutdown").read_bytes())
    return int(content["brokerEpoch"])


# --- in every run -----------------------------------------------------------------------------------------------------


def test_a_broker_serves_under_an_apache_controller_stops_in_order_and_comes_back(made: Made) -> None:
    cluster = made({OURS: OTTLA})
    cluster.start()
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("orders", 3, 1)])
        assert admin.describe_topics(["orders"])["orders"].partitions[2].leader == OURS, "visible to who created it"
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        sent = [producer.send("orders", value=b"%d" % number, partition=number % 3) for number in range(30)]
        assert [each.result(HANG_S).offset for each in sent] == [number // 3 for number in range(30)]
    cluster.signal(OURS, signal.SIGTERM)
    assert epoch_written(cluster, OURS) > 0
    cluster.start_node(OURS)
    assert {partition: len(found) for partition, found in read_all(cluster, "orders", 3).items()} == dict.fromkeys(
        range(3), 10
    )


def read_all(cluster: KRaftCluster, topic: str, partitions: int) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    with ottla.Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        end = time.monotonic() + HANG_S
        while sum(map(len, found.values())) < 30 and time.monotonic() < end:
            for record in consumer.poll(1.0):
                found[record.partition].append(record.value)
    return found


# --- campaigns --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_beside_an_apache_broker_nothing_is_lost_whoever_is_stopped_or_killed(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: KAFKA})
    cluster.start()
    cluster.create_topic("clicks", PARTITIONS, 2)
    cluster.wait_for_copies("clicks")
    assert sorted(map(cluster.leaders("clicks").count, (OURS, APACHES))) == [PARTITIONS // 2] * 2
    with (
        NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS, pause_s=0.01, request_timeout_ms=8_000) as load,
        GroupReading(cluster.bootstrap_servers, "clicks", "readers") as reading,
    ):
        load.wait_for(300, HANG_S)
        for goes_by in (signal.SIGTERM, signal.SIGKILL):
            for number in (OURS, APACHES, 1):
                cluster.signal(number, goes_by)
                load.wait_for(100, HANG_S)
                cluster.start_node(number)
                cluster.wait_for_copies("clicks")
                cluster.wait_for_copies("__consumer_offsets")
                load.wait_for(100, HANG_S)
        cluster.check_group("readers", "clicks")
        load.end()
        reading.wait_for(load.count, HANG_S)
    check(cluster, load, reading)


@pytest.mark.long
def test_the_active_controller_is_killed_under_load_and_brokers_follow_the_next(made: Made) -> None:
    cluster = made({11: OTTLA, 12: OTTLA}, controllers=3)
    cluster.start()
    cluster.create_topic("clicks", PARTITIONS, 2)
    cluster.wait_for_copies("clicks")
    with (
        NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS, pause_s=0.01, request_timeout_ms=8_000) as load,
        GroupReading(cluster.bootstrap_servers, "clicks", "readers") as reading,
    ):
        load.wait_for(300, HANG_S)
        for goes_by in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
            active = cluster.active_controller
            cluster.signal(active, goes_by)
            load.wait_for(100, HANG_S)
            cluster.create_topic(f"after-{goes_by.name}", 2, 2)
            cluster.signal(11, signal.SIGKILL)
            load.wait_for(100, HANG_S)
            cluster.start_node(11)
            cluster.wait_for_copies("clicks")
            if goes_by is signal.SIGSTOP:
                cluster.signal(active, signal.SIGCONT)
            else:
                cluster.start_node(active)
            load.wait_for(100, HANG_S)
        load.end()
        reading.wait_for(load.count, HANG_S)
    check(cluster, load, reading)


def check(cluster: KRaftCluster, load: NumberedLoad, reading: GroupReading) -> None:
    assert not load.failures
    found = read_numbers(cluster.bootstrap_servers, "clicks", PARTITIONS)
    load.check(found)
    for partition, numbers in found.items():
        assert sorted(set(reading.numbers[partition])) == sorted(numbers), "the group missed something"
    cluster.check_copies("clicks")
    cluster.check_copies("__consumer_offsets")


@pytest.mark.long
def test_a_broker_starts_where_only_a_snapshot_is_left_of_the_log(made: Made) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": 3_000, "metadata.max.retention.bytes": 4_000}
    cluster = made({OURS: OTTLA, APACHES: KAFKA}, settings=settings)
    cluster.start()
    cluster.create_topic("orders", 3, 2)
    cluster.signal(OURS, signal.SIGTERM)
    for number in range(40):
        cluster.create_topic(f"later-{number}", 3, 1)
    controller = cluster.data(1)[0] / "__cluster_metadata-0"
    eventually(
        lambda: any(int(each.name.split("-")[0]) > 100 for each in controller.glob("*-*.checkpoint")),
        "the controller made no snapshot",
    )
    shutil.rmtree(cluster.data(OURS)[0] / "__cluster_metadata-0")
    cluster.start_node(OURS)
    cluster.wait_for_copies("orders")
    with ottla.Admin(bootstrap_servers=cluster.brokers[OURS].address) as admin:
        assert len(admin.list_topics()) == 41
    ours = cluster.data(OURS)[0] / "__cluster_metadata-0"
    newest = max(ours.glob("*-*.checkpoint"))
    cluster.signal(OURS, signal.SIGKILL)
    said = cluster.tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(newest))
    assert said.count('"type":"TOPIC_RECORD"') > 1, said
    cluster.start_node(OURS)
    cluster.wait_for_copies("orders")


@pytest.mark.long
def test_what_lay_in_a_failed_directory_is_led_by_others(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: KAFKA}, disks=2)
    cluster.expected = "has taken the log directory offline|Disk error when trying"
    cluster.start()
    cluster.create_topic("orders", 8, 2)
    cluster.wait_for_copies("orders")
    first, second = cluster.data(OURS)
    lost = {int(each.name.rpartition("-")[2]) for each in second.glob("orders-*")}
    assert lost, "replicas are spread over directories"
    assert lost != set(range(8))
    with NumberedLoad(cluster.bootstrap_servers, "orders", 8, pause_s=0.01, request_timeout_ms=8_000) as load:
        load.wait_for(200, HANG_S)
        second.rename(second.with_name("gone"))
        second.write_bytes(b"no directory any more")
        load.wait_for(200, HANG_S)
        eventually(
            lambda: all(
                (each.leader == APACHES and each.in_sync == (APACHES,)) if each.partition in lost else True
                for each in cluster.partitions("orders")
            ),
            "what was lost is led from the directory that failed",
        )
        load.wait_for(100, HANG_S)
        load.end()
    assert not load.failures
    load.check(read_numbers(cluster.bootstrap_servers, "orders", 8))
    cluster.signal(OURS, signal.SIGTERM)
    second.unlink()
    second.with_name("gone").rename(second)
    cluster.start_node(OURS)
    cluster.wait_for_copies("orders")
    cluster.check_copies("orders")
    assert first.is_dir()


@pytest.mark.long
def test_partitions_go_from_apache_to_ottla_and_back(made: Made) -> None:
    cluster = made({11: OTTLA, 12: KAFKA, 13: OTTLA, 14: KAFKA})
    cluster.start()
    cluster.create_topic("orders", 4, 2)
    with NumberedLoad(cluster.bootstrap_servers, "orders", 4, pause_s=0.01, request_timeout_ms=8_000) as load:
        for brokers in ((12, 14), (11, 13), (14, 11), (12, 14)):
            load.wait_for(200, HANG_S)
            reassign(cluster, "orders", 4, brokers)
        load.end()
    assert not load.failures
    load.check(read_numbers(cluster.bootstrap_servers, "orders", 4))
    cluster.check_copies("orders")
    for number in (11, 13):
        eventually(
            lambda number=number: not list(cluster.data(number)[0].glob("orders-?")), "what has moved away is deleted"
        )


def reassign(cluster: KRaftCluster, topic: str, partitions: int, brokers: tuple[int, int]) -> None:
    plan = cluster.controllers[1].directory / "reassignment.json"
    moves = [{"topic": topic, "partition": each, "replicas": list(brokers)} for each in range(partitions)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    arguments = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
    cluster.asked(*arguments, "--execute")
    eventually(
        lambda: all(sorted(each.replicas) == sorted(brokers) for each in cluster.partitions(topic)), "nothing moved"
    )
    said = cluster.asked(*arguments, "--verify")
    assert said.count("is completed") == partitions, said
    cluster.wait_for_copies(topic)


@pytest.mark.long
@pytest.mark.parametrize("goes_by", [signal.SIGTERM, signal.SIGKILL], ids=["in order", "killed"])
def test_a_broker_goes_on_with_the_directory_of_the_other_side_and_back(made: Made, goes_by: signal.Signals) -> None:
    cluster = made({OURS: OTTLA, APACHES: KAFKA})
    cluster.start()
    cluster.create_topic("clicks", PARTITIONS, 2)
    with (
        NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS, pause_s=0.01, request_timeout_ms=8_000) as load,
        GroupReading(cluster.bootstrap_servers, "clicks", "readers") as reading,
    ):
        load.wait_for(200, HANG_S)
        for _ in range(2):
            for number in (OURS, APACHES):
                cluster.signal(number, goes_by)
                cluster.sides[number] = KAFKA if cluster.sides[number] == OTTLA else OTTLA
                cluster.start_node(number)
                cluster.wait_for_copies("clicks")
                cluster.wait_for_copies("__consumer_offsets")
                load.wait_for(100, HANG_S)
        load.end()
        reading.wait_for(load.count, HANG_S)
    check(cluster, load, reading)


# --- Apache's tools through our broker --------------------------------------------------------------------------------


@pytest.mark.long
def test_every_admin_tool_of_apache_works_through_our_broker(made: Made, tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "a secret of tests",
    }
    cluster = made({OURS: OTTLA, APACHES: KAFKA}, settings=settings)
    cluster.start()
    tools = JavaPrograms(cluster.jars, tmp_path, cluster.brokers[OURS].address)
    tools.tool("TopicCommand", "--create", "--topic", "t1", "--partitions", "2", "--replication-factor", "2")
    tools.tool("TopicCommand", "--alter", "--topic", "t1", "--partitions", "4")
    assert tools.tool("TopicCommand", "--describe", "--topic", "t1").count("Leader: ") == 4
    assert "already exists" in tools.tool("TopicCommand", "--create", "--topic", "t1", fails=True)
    configs = "kafka.admin.ConfigCommand"
    about = ("--entity-type", "topics", "--entity-name", "t1")
    tools.tool(configs, "--alter", *about, "--add-config", "retention.ms=1234567")
    assert "retention.ms=1234567" in tools.tool(configs, "--describe", *about)
    ours = ("--entity-type", "brokers", "--entity-name", str(OURS))
    tools.tool(configs, "--alter", *ours, "--add-config", "max.connections=777")
    assert "max.connections=777" in tools.tool(configs, "--describe", *ours)
    refused = tools.tool(configs, "--alter", *ours, "--add-config", "max.connections=many", fails=True)
    assert "max.connections" in refused, "what this broker cannot take is refused by it"
    loggers = ("--entity-type", "broker-loggers", "--entity-name", str(OURS))
    tools.tool(configs, "--alter", *loggers, "--add-config", "ottla.broker=DEBUG")
    assert "ottla.broker=DEBUG" in tools.tool(configs, "--describe", *loggers)
    users = ("--entity-type", "users", "--entity-name", "alice")
    tools.tool(configs, "--alter", *users, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=pw]")
    tools.tool(configs, "--alter", *users, "--add-config", "producer_byte_rate=1000000")
    described = tools.tool(configs, "--describe", *users)
    assert "producer_byte_rate=1000000" in described
    assert "SCRAM-SHA-256=iterations=4096" in described
    rule = ("--allow-principal", "User:bob", "--operation", "Read", "--topic", "t1")
    tools.tool("AclCommand", "--add", *rule)
    eventually(lambda: "User:bob" in tools.tool("AclCommand", "--list"), "the rule is not shown")
    tools.tool("AclCommand", "--remove", "--force", *rule)
    described = tools.tool("FeatureCommand", "describe")
    assert re.search(r"metadata\.version.*FinalizedVersionLevel: 4\.3-IV0", described), described
    status = tools.tool("MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", status), status
    replicas = tools.tool("MetadataQuorumCommand", "describe", "--replication")
    assert re.search(rf"^{OURS}\b.*Observer", replicas, re.MULTILINE), replicas
    nobody = ("--controller-id", "99", "--controller-directory-id", "b3R0bGEtZ29sZGVuLTAwMg")
    assert "VoterNotFound" in tools.tool("MetadataQuorumCommand", "remove-controller", *nobody, fails=True)
    election = ("--election-type", "preferred", "--all-topic-partitions")
    assert tools.tool("LeaderElectionCommand", *election) is not None
    sizes = tools.tool("LogDirsCommand", "--describe", "--broker-list", f"{OURS},{APACHES}")
    assert sizes.count('"partition":"t1-') >= 4, sizes
    assert "t1" in tools.tool("TopicCommand", "--list")
    tools.tool("TopicCommand", "--delete", "--topic", "t1")
    assert "t1" not in tools.tool("TopicCommand", "--list")
    cluster.signal(APACHES, signal.SIGKILL)
    eventually(lambda: "is fenced" not in unregistered(tools), "a broker that is dead can be unregistered")


def unregistered(tools: JavaPrograms) -> str:
    """What kafka-cluster says when the dead broker is unregistered."""
    full = "org.apache.kafka.tools.ClusterTool"
    return tools.run(full, "unregister", "--bootstrap-server", tools.servers, "--id", str(APACHES))


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_what_is_wrong_is_refused_with_a_sentence_and_nothing_is_lost(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: OTTLA})
    for number in cluster.controllers:
        cluster.begin(number)
        cluster.wait_for(number)
    cluster.start_node(OURS)
    cluster.expected = "the broker (could not|stopped)|ottla.cli"
    metadata = cluster.data(APACHES)[0] / "meta.properties"
    good = metadata.read_text()
    foreign = "controllers of another cluster|is a controller of another cluster"
    for text, words in (
        (good.replace("b3R0bGEtZ29sZGVuLTAwMg", "AAAAAAAAAAAAAAAAAAAAZZ"), foreign),
        (good.replace("node.id=12", "node.id=13"), r"node\.id=13, but this broker has 12"),
        (None, "has no meta.properties"),
    ):
        if text is None:
            metadata.unlink()
        else:
            metadata.write_text(text)
        assert re.search(words, refused(cluster, APACHES)), words
    metadata.write_text(good)
    cluster.start_node(APACHES)
    cluster.signal(APACHES, signal.SIGTERM)
    log = cluster.data(APACHES)[0] / "__cluster_metadata-0"
    state = (log / "quorum-state").read_bytes()
    (log / "quorum-state").write_bytes(state[:10])
    assert "makes no sense" in refused(cluster, APACHES)
    (log / "quorum-state").write_bytes(state)
    cluster.start_node(APACHES)


def refused(cluster: KRaftCluster, number: int) -> str:
    """What a broker says that does not start."""
    cluster.begin(number)
    process = cluster.nodes[number].process
    assert process is not None
    assert process.wait(HANG_S) != 0
    return cluster.nodes[number].log.read_text()


@pytest.mark.long
def test_a_node_id_that_is_there_twice_is_refused_and_the_first_lives_on(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: OTTLA}, settings={"initial.broker.registration.timeout.ms": 3_000})
    cluster.expected = "ottla.cli"
    for number in (1, OURS):
        cluster.begin(number)
        cluster.wait_for(number)
    twin = cluster.brokers[APACHES]
    metadata = cluster.data(APACHES)[0] / "meta.properties"
    metadata.write_text(metadata.read_text().replace(f"node.id={APACHES}", f"node.id={OURS}"))
    cluster.extra[APACHES] = {"node.id": OURS}
    assert "another process is registered with this node.id" in refused(cluster, APACHES)
    assert not twin.is_running
    cluster.create_topic("orders", 2, 1)
    assert cluster.leaders("orders") == [OURS, OURS]


@pytest.mark.long
def test_a_snapshot_that_is_not_whole_is_refused_and_the_log_is_kept(made: Made) -> None:
    cluster = made({OURS: OTTLA})
    cluster.expected = "ottla.cli"
    cluster.start()
    cluster.create_topic("orders", 2, 1)
    cluster.signal(OURS, signal.SIGTERM)
    log = cluster.data(OURS)[0] / "__cluster_metadata-0"
    before = (log / "00000000000000000000.log").read_bytes()
    torn = log / "00000000000000099999-0000000001.checkpoint"
    torn.write_bytes(before[:100])
    assert torn.name in refused(cluster, OURS)
    assert (log / "00000000000000000000.log").read_bytes() == before
    torn.unlink()
    cluster.start_node(OURS)
    assert cluster.leaders("orders") == [OURS, OURS]


@pytest.mark.long
def test_a_cluster_of_an_older_level_is_served_in_its_words(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: KAFKA}, release="4.0")
    cluster.start()
    cluster.create_topic("orders", 4, 2)
    cluster.wait_for_copies("orders")
    with NumberedLoad(cluster.bootstrap_servers, "orders", 4, pause_s=0.01, request_timeout_ms=8_000) as load:
        for number in (OURS, APACHES):
            cluster.signal(number, signal.SIGTERM)
            load.wait_for(50, HANG_S)
            cluster.start_node(number)
            cluster.wait_for_copies("orders")
        load.end()
    load.check(read_numbers(cluster.bootstrap_servers, "orders", 4))
    cluster.check_copies("orders")


# --- logins -----------------------------------------------------------------------------------------------------------

USERS = {"node": "node-pw", "alice": "alice-pw"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def login(name: str) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": name,
        "sasl_plain_password": USERS[name],
    }


def locked() -> dict[str, object]:
    """Settings of a cluster in which everybody logs in."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    jaas = f'{PLAIN} username="node" password="{USERS["node"]}" {users};'
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.controller.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "delegation.token.secret.key": "a secret of tests",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
    }


@pytest.mark.long
def test_a_broker_logs_in_at_its_controllers_and_says_who_asks(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: KAFKA}, settings=locked())
    cluster.start()
    ours = cluster.brokers[OURS].address
    with ottla.Admin(bootstrap_servers=ours, **login("alice")) as alice:
        with pytest.raises(ottla.errors.BrokerError):
            alice.create_topics([ottla.NewTopic("orders", 4, 2)])
        with ottla.Admin(bootstrap_servers=ours, **login("node")) as node:
            node.create_acls([AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.ALL)])
        eventually(lambda: is_created(alice), "the rule is the controller's, and alice is who asks")
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", **login("alice")) as producer:
        sent = [producer.send("orders", value=b"x", partition=number % 4) for number in range(40)]
        assert {each.result(HANG_S).partition for each in sent} == set(range(4)), "led by either, copied by the other"


def is_created(admin: ottla.Admin) -> bool:
    try:
        admin.create_topics([ottla.NewTopic("orders", 4, 2)])
    except ottla.errors.BrokerError:
        return False
    return True


@pytest.mark.long
def test_users_and_tokens_of_the_metadata_log_are_let_in_by_both_sides(made: Made) -> None:
    cluster = made({OURS: OTTLA, APACHES: KAFKA}, settings=locked())
    cluster.start()
    with ottla.Admin(bootstrap_servers=cluster.brokers[OURS].address, **login("node")) as node:
        node.alter_user_scram_credentials([ScramUpsertion("bob", "bob-pw", ScramMechanism.SCRAM_SHA_256)])
        node.create_acls([AclBinding(ResourceType.TOPIC, "orders", "User:bob", AclOperation.ALL)])
        node.create_topics([ottla.NewTopic("orders", 2, 2)])
    bob = {"sasl_mechanism": "SCRAM-SHA-256", "security_protocol": "SASL_PLAINTEXT"}
    password = {**bob, "sasl_plain_username": "bob", "sasl_plain_password": "bob-pw"}
    for number in (OURS, APACHES):
        eventually(lambda number=number: sees_orders(cluster, number, password), f"{number} does not know bob")
    with ottla.Admin(bootstrap_servers=cluster.brokers[OURS].address, **password) as admin:
        token = admin.create_delegation_token()
        assert token.owner.name == "bob"
    secret = base64.b64encode(token.hmac).decode()
    jaas = f'{SCRAM} required username="{token.token_id}" password="{secret}" tokenauth="true";'
    for number in (OURS, APACHES):
        by_token = {**bob, "sasl_jaas_config": jaas}
        eventually(lambda number=number, how=by_token: sees_orders(cluster, number, how), f"{number}: no token")
    refused_here = pytest.raises(ottla.errors.DelegationTokenRequestNotAllowed)
    with ottla.Admin(bootstrap_servers=cluster.brokers[OURS].address, **by_token) as admin, refused_here:
        admin.create_delegation_token()


def sees_orders(cluster: KRaftCluster, number: int, how: dict[str, str]) -> bool:
    try:
        with ottla.Admin(bootstrap_servers=cluster.brokers[number].address, **how) as admin:
            return "orders" in admin.list_topics()
    except ottla.errors.OttlaError:
        return False


# --- everything at once -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_clients_of_all_kinds_find_no_anomaly_whatever_fails(tmp_path: Path) -> None:
    jars_or_skip("4.3")
    from tests.cluster.kraft_campaign import run

    assert "All checks passed" in run(tmp_path, 120, seed=1)
