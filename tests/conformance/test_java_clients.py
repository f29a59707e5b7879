"""The Java clients and Apache Kafka's own programs, unchanged, against a broker process of ours.

Where a test compares refusals, the list is what an Apache Kafka 4.3.1 node answered to the same driver; what we answer
otherwise stands beside it with the reason. Needs Java, a compiler and Kafka's jars (kafka_jars.py) and takes minutes:
run by `make test-long`, skipped where they are missing.
"""

import json
import re
from collections.abc import Iterator

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip, refusals
from tests.conformance.our_broker import BrokerProcess

from ottla.broker.requests.served import SERVED_APIS

pytestmark = pytest.mark.long

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
GROUP_COMMAND = "consumer.group.ConsumerGroupCommand"
CONSUMER_GROUP_HEARTBEAT = 68
RECORDS = 2000

# One node of Apache Kafka 4.3.1, the driver Administration and a broker with id 1 that has no authorizer.
KAFKA_REFUSES = [
    ("create", "InvalidReplicaAssignmentException"),
    ("create again", "TopicExistsException"),
    ("describe", "UnknownTopicOrPartitionException"),
    ("describe absent", "UnknownTopicOrPartitionException"),
    ("partitions", "InvalidReplicaAssignmentException"),
    ("elect", "UnknownTopicOrPartitionException"),
    ("reassign", "UnknownTopicOrPartitionException"),
    ("log dirs", "TimeoutException"),
    ("move", "UnknownTopicOrPartitionException"),
    ("create acl", "SecurityDisabledException"),
    ("acls", "SecurityDisabledException"),
    ("delete acl", "SecurityDisabledException"),
    ("no scram", "ResourceNotFoundException"),
    ("forget broker", "BrokerIdNotRegisteredException"),
    ("delete by name", "UnknownTopicOrPartitionException"),
    ("tokens PLAIN", "IllegalSaslStateException"),
    ("tokens SCRAM-SHA-256", "IllegalSaslStateException"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    jars_or_skip("4.3")
    with BrokerProcess(tmp_path_factory.mktemp("broker"), {"num.partitions": "2"}) as process:
        yield process
        assert process.faults() == []


@pytest.fixture(scope="module")
def java(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    return JavaPrograms(jars_or_skip("4.3"), tmp_path_factory.mktemp("java"), broker.bootstrap_servers)


@pytest.fixture
def topic(java: JavaPrograms, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions, named for the test."""
    name = re.sub(r"\W", "-", request.node.name)
    java.tool("TopicCommand", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "1")
    return name


def produce(java: JavaPrograms, topic: str, records: int = RECORDS, *more: str) -> str:
    size = ["--num-records", str(records), "--record-size", "100", "--throughput", "-1"]
    return java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, *size, *more, "--command-property", f"bootstrap.servers={java.servers}", "acks=all"),
    )


def end_offsets(java: JavaPrograms, topic: str) -> list[int]:
    return [int(line.split(":")[2]) for line in java.tool("GetOffsetShell", "--topic", topic).split()]


def events(printed: str) -> list[dict[str, object]]:
    """What the verifiable programs and the copier tell, one JSON object a line."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


# --- clients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["3.9", "4.3"])
def test_java_clients_do_what_they_do_with_kafka(broker, line, tmp_path):
    """Every codec, acks 0, 1 and all, idempotent and transactional, read_committed in a group, admin calls."""
    printed = JavaPrograms(jars_or_skip(line), tmp_path, broker.bootstrap_servers).driver("Clients", f"clients-{line}")
    assert "consumed 36\n" in printed
    assert refusals(printed) == [("acls", "SecurityDisabledException")]


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_classic_groups_rebalance_commit_and_are_administrated(java, kind):
    topic = f"classic-{kind}"
    printed = java.driver("Groups", topic, *(["dynamic"] if kind == "dynamic" else []), "classic")
    no_member = [("remove member", "UnknownMemberIdException")] if kind == "dynamic" else []
    # The driver asks for the transaction of the other protocol too.
    assert refusals(printed) == [*no_member, *[("describe", "TransactionalIdNotFoundException")] * 2]


@pytest.mark.skipif(CONSUMER_GROUP_HEARTBEAT not in SERVED_APIS, reason="KIP-848 groups are not served yet")
def test_consumer_groups_rebalance_commit_and_are_administrated(java):
    not_there = [("describe", "TransactionalIdNotFoundException")] * 2
    printed = java.driver("Groups", "consumer-groups", "consumer")
    assert refusals(printed) == [("describe classic", "GroupIdNotFoundException"), *not_there]


def test_transactions_speak_their_second_version(java, broker):
    """V2 is chosen by the features we tell: partitions and groups join by Produce and TxnOffsetCommit themselves."""
    before = broker.requests()
    java.driver("Groups", "second-version", "dynamic", "classic")
    after = broker.requests()
    asked = {(api, version) for (api, version), count in after.items() if count > before.get((api, version), 0)}
    assert {("Produce", 13), ("EndTxn", 5), ("TxnOffsetCommit", 5)} <= asked
    assert {api for api, _ in asked}.isdisjoint({"AddPartitionsToTxn", "AddOffsetsToTxn"})


def test_administration_is_refused_what_kafka_refuses(java):
    printed = java.driver("Administration", java.servers, "administration", limit_s=180)
    assert refusals(printed) == KAFKA_REFUSES


def test_a_client_finds_everything_compatible(java):
    supported = ["offsets-for-times", "cluster-id", "describe-acls", "describe-configs", "create-topics"]
    words = [f"--{name}-supported=true" for name in [*supported, "idempotent-producer"]]
    printed = java.tool(
        "ClientCompatibilityTest",
        *(*words, "--num-cluster-nodes=1", "--expect-record-too-large-exception=false", "--topic=compatible"),
    )
    assert "SUCCESS" in printed


# --- topics and settings ---------------------------------------------------------------------------------------------


def test_the_topic_tool_makes_lists_describes_changes_and_deletes(java):
    java.tool("TopicCommand", "--create", "--topic=orders", "--partitions=3", "--config=retention.ms=100000")
    assert "orders" in java.tool("TopicCommand", "--list").split()
    described = java.tool("TopicCommand", "--describe", "--topic", "orders")
    assert "PartitionCount: 3" in described
    assert "retention.ms=100000" in described
    assert "already exists" in java.tool("TopicCommand", "--create", "--topic", "orders", fails=True)
    java.tool("TopicCommand", "--alter", "--topic", "orders", "--partitions", "4")
    assert "PartitionCount: 4" in java.tool("TopicCommand", "--describe", "--topic", "orders")
    assert java.tool("TopicCommand", "--describe", "--under-replicated-partitions").strip() == ""
    java.tool("TopicCommand", "--delete", "--topic", "orders")
    assert "orders" not in java.tool("TopicCommand", "--list").split()


@pytest.mark.parametrize(
    ("entity", "change", "shown"),
    [
        (["topics", "--entity-name", "TOPIC"], "max.message.bytes=2000000", "DYNAMIC_TOPIC_CONFIG:max.message.bytes"),
        (["brokers", "--entity-name", "1"], "log.cleaner.backoff.ms=2000", "DYNAMIC_BROKER_CONFIG:log.cleaner.backoff"),
        (["brokers", "--entity-default"], "message.max.bytes=1500000", "DEFAULT_BROKER_CONFIG:message.max.bytes"),
        (["users", "--entity-name", "alice"], "producer_byte_rate=1000", "producer_byte_rate=1000.0"),
        (["users", "--entity-name", "bob"], "SCRAM-SHA-256=[iterations=4096,password=x]", "SCRAM-SHA-256=iterations"),
        (
            ["groups", "--entity-name", "g"],
            "consumer.session.timeout.ms=50000",
            "DYNAMIC_GROUP_CONFIG:consumer.session",
        ),
        (
            ["client-metrics", "--entity-name", "all"],
            "interval.ms=60000",
            "DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=60000",
        ),
    ],
    ids=["topic", "broker", "brokers", "quota", "scram", "group", "client-metrics"],
)
def test_the_config_tool_sets_and_shows(java, topic, entity, change, shown):
    where = ["--entity-type", *(topic if word == "TOPIC" else word for word in entity)]
    java.tool(CONFIG_COMMAND, "--alter", *where, "--add-config", change)
    assert shown in java.tool(CONFIG_COMMAND, "--describe", *where)
    name = change.partition("=")[0]
    java.tool(CONFIG_COMMAND, "--alter", *where, "--delete-config", name)
    assert shown not in java.tool(CONFIG_COMMAND, "--describe", *where)


@pytest.mark.parametrize(
    ("entity", "change", "reason"),
    [
        (["brokers", "--entity-default"], "group.share.assignment.interval.ms=7", "share groups are not served yet"),
    ],
    ids=["brokers"],
)
def test_the_config_tool_shows_why_a_change_has_no_effect(java, entity, change, reason):
    answer = java.tool(CONFIG_COMMAND, "--alter", "--entity-type", *entity, "--add-config", change, fails=True)
    assert reason in answer


def test_the_cluster_is_told(java):
    where = "--bootstrap-server", java.servers
    assert re.search(r"Cluster ID: [\w-]{22}\n", java.run("org.apache.kafka.tools.ClusterTool", "cluster-id", *where))
    assert "Produce(0): 0 to 13 [usable: 13]" in java.tool("BrokerApiVersionsCommand")
    features = java.tool("FeatureCommand", "describe")
    assert re.search(r"transaction.version .*FinalizedVersionLevel: 2", features)
    java.tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")


# --- records ---------------------------------------------------------------------------------------------------------


def test_what_is_produced_is_consumed_measured_and_described(java, topic):
    assert f"{RECORDS} records sent" in produce(java, topic)
    assert sum(end_offsets(java, topic)) == RECORDS
    measured = java.tool("ConsumerPerformance", "--topic", topic, "--num-records", str(RECORDS), "--group", topic)
    assert measured.splitlines()[1].split(", ")[4] == str(RECORDS)
    described = java.tool(GROUP_COMMAND, "--describe", "--group", topic)
    assert described.count(topic) >= 3
    assert re.search(rf"{topic} +Empty", java.tool(GROUP_COMMAND, "--list", "--state"))


def test_a_groups_offsets_are_reset_deleted_and_the_group_too(java, topic):
    produce(java, topic, 100)
    java.tool("ConsumerPerformance", "--topic", topic, "--num-records", "100", "--group", "moved")
    reset = java.tool(GROUP_COMMAND, *f"--group moved --topic {topic} --reset-offsets --to-earliest --execute".split())
    assert re.findall(rf"moved +{topic} +\d +(\d+)", reset) == ["0", "0", "0"]
    java.tool(GROUP_COMMAND, *f"--group moved --topic {topic} --delete-offsets".split())
    java.tool(GROUP_COMMAND, "--delete", "--group", "moved")
    assert "moved" not in java.tool(GROUP_COMMAND, "--list").split()


def test_records_are_deleted_and_directories_told(java, topic, tmp_path):
    produce(java, topic, 300)
    wanted = tmp_path / "wanted.json"
    up_to = {"topic": topic, "partition": 0, "offset": end_offsets(java, topic)[0]}
    wanted.write_text(json.dumps({"partitions": [up_to], "version": 1}))
    deleted = java.tool("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: {up_to['offset']}" in deleted
    told = json.loads(java.tool("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1])
    sizes = [part["size"] for part in told["brokers"][0]["logDirs"][0]["partitions"]]
    assert len(sizes) == 3
    assert sum(sizes) > 0


def test_verifiable_programs_agree(java, topic):
    sent = events(java.tool("VerifiableProducer", *f"--topic {topic} --max-messages 500 --acks -1".split()))
    assert sent[-1]["acked"] == 500
    options = f"--topic {topic} --group-id {topic} --max-messages 500 --reset-policy earliest"
    heard = events(java.tool("VerifiableConsumer", *options.split()))
    assert sum(int(str(each["count"])) for each in heard if each["name"] == "records_consumed") == 500
    assert all(each.get("success", True) for each in heard if each["name"] == "offsets_committed")


def test_a_message_goes_round_in_time(java, topic):
    printed = java.tool(
        "EndToEndLatency", *f"--topic {topic} --num-records 200 --producer-acks all --record-size 100".split()
    )
    assert re.search(r"Avg latency: [\d.]+ ms", printed)


def test_compaction_keeps_the_last_of_each_key(java):
    printed = java.tool("LogCompactionTester", "--messages", "2000", "--sleep", "2", limit_s=180)
    assert re.search(r"Validated \d+ values, 0 mismatches", printed)


def test_apaches_tool_reads_our_files(java, broker, topic):
    produce(java, topic, 500, "--transactional-id", f"{topic}-id", "--transaction-duration-ms", "50")
    files = ",".join(map(str, broker.data.glob(f"{topic}-*/*.log")))
    printed = java.run("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files)
    assert "endTxnMarker: COMMIT" in printed
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed


# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_copier_with_random_aborts_copies_everything_once(java):
    for name in ("original", "copy"):
        java.tool("TopicCommand", "--create", "--topic", name, "--partitions", "1")
    java.tool("VerifiableProducer", "--topic", "original", "--max-messages", "900", "--acks", "-1")
    who = "--consumer-group copier --transactional-id copier --transaction-size 50 --enable-random-aborts"
    what = "--input-topic original --input-partition 0 --output-topic copy --max-messages 900 --use-group-metadata"
    copied = java.run(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", java.servers, *who.split(" "), *what.split(" ")),
    )
    assert events(copied)[-1]["stage"] == "ShutdownComplete"
    original = committed_values(java, "original")
    assert len(original) == len(set(original)) == 900
    assert committed_values(java, "copy") == original
    assert re.search(r"copier\s+1\s+\d+\s+CompleteCommit", java.tool("TransactionsCommand", "list"))


def committed_values(java: JavaPrograms, topic: str) -> list[str]:
    isolation = ["--isolation-level", "read_committed", "--from-beginning", "--timeout-ms", "4000"]
    return java.tool("consumer.ConsoleConsumer", "--topic", topic, *isolation).split()


def test_transactions_are_listed_described_and_hanging_ones_found(java, topic):
    produce(java, topic, 500, "--transactional-id", topic, "--transaction-duration-ms", "50")
    assert re.search(rf"{topic}\s+1\s+\d+\s+CompleteCommit", java.tool("TransactionsCommand", "list"))
    described = java.tool("TransactionsCommand", "describe", "--transactional-id", topic)
    assert "CompleteCommit" in described
    where = next(index for index, end in enumerate(end_offsets(java, topic)) if end)
    producers = java.tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", str(where))
    assert len(producers.splitlines()) == 2
    hanging = java.tool("TransactionsCommand", "find-hanging", "--broker-id", "1")
    assert len(hanging.splitlines()) == 1
