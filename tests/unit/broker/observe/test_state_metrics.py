"""What the broker says of itself when it is asked."""

import asyncio

import pytest

from ottla.broker.observe.state import partitions, readings
from ottla.broker.observe.state_metrics import StateMetrics
from ottla.errors import KafkaStorageError
from ottla.metrics import Registry
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


class Client:
    """A connection, as far as metrics know it."""

    def __init__(self, listener="PLAINTEXT", software=("apache-kafka-java", "4.3.1"), unbegun=0, sending=False):
        self.listener, self.client_software = listener, software
        self.unbegun_count, self.is_sending = unbegun, sending


class Network:
    """The acceptor, as far as metrics know it."""

    def __init__(self):
        self.connections, self.opened, self.closed, self.waiting_bytes = [], {}, {}, (0, -1)


async def steps_of(state):
    """One reading; it plans a timer, which needs a loop."""
    steps = list(state.update())
    state.loop.stop()
    return steps


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def read(network):
    """read(broker) returns the lines of the metrics, by name with labels."""
    registry = Registry()
    states = {}

    def read_all(broker):
        if broker not in states:
            states[broker] = StateMetrics(
                registry, broker.broker, network, broker.clock, broker.clock.now_ms() - 12_345
            )
        asyncio.run(steps_of(states[broker]))
        lines = [line for line in registry.text(0).splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    return read_all


def test_partitions_are_counted(broker, read):
    broker.create_topic("orders", 3)
    found = read(broker)
    replicas, controller = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
    assert found[f"{replicas}partitioncount"] == found[f"{replicas}leadercount"] == 3
    assert found[f"{replicas}underreplicatedpartitions"] == found[f"{replicas}offlinereplicacount"] == 0
    assert found[f"{controller}globaltopiccount"] == 1
    assert found[f"{controller}globalpartitioncount"] == 3
    assert found[f"{controller}offlinepartitionscount"] == 0


def test_a_failed_disk_and_missing_replicas_are_seen(broker, read):
    broker.create_topic("orders", 2, min_insync_replicas="2")
    partition = broker.partition("orders", 1)
    partition.in_sync_count = 0
    partition.offline = KafkaStorageError("gone")
    found = read(broker)
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == 1
    assert found["kafka_server_replicamanager_underminisrpartitioncount"] == 1
    assert found["kafka_server_replicamanager_offlinereplicacount"] == 1


def test_connections_are_counted_by_listener_and_library(broker, read, network):
    network.connections = [Client(), Client(unbegun=3, sending=True)]
    network.opened, network.closed, network.waiting_bytes = {"PLAINTEXT": 7}, {"PLAINTEXT": 5}, (100, 1000)
    found, sockets = read(broker), "kafka_server_socket_server_metrics_"
    ours = '{listener="PLAINTEXT",networkProcessor="0"}'
    assert found[f"{sockets}connection_count{ours}"] == 2
    assert found[f"{sockets}connection_creation_total{ours}"] == 7
    assert found[f"{sockets}connection_close_total{ours}"] == 5
    java = 'clientSoftwareName="apache-kafka-java",clientSoftwareVersion="4.3.1"'
    assert found[f"{sockets}connections_software{{{java},{ours[1:-1]}}}"] == 2
    assert found["kafka_network_requestchannel_requestqueuesize"] == 3
    assert found['kafka_network_requestchannel_responsequeuesize{processor="0"}'] == 1
    assert found["kafka_network_socketserver_memorypoolavailable"] == 900
    network.connections = []
    assert read(broker)[f"{sockets}connection_count{ours}"] == 0


def test_libraries_beyond_the_limit_are_counted_together(broker, read, network):
    network.connections = [Client(software=("strange", str(number))) for number in range(130)]
    found = read(broker)
    software = [name for name in found if "connections_software" in name]
    assert len(software) == 101
    assert next(found[name] for name in software if "__other__" in name) == 30


def test_groups_are_counted_by_state(broker, read):
    broker.create_topic("orders")
    broker.ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=0))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    broker.ask(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 9)
    found = read(broker)
    groups = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert (found[groups], found[f"{groups}empty"], found[f"{groups}stable"]) == (1, 1, 0)
    assert found['kafka_server_group_coordinator_metrics_consumer_group_count{state="Stable"}'] == 0


def test_the_time_since_the_start_is_shown_in_seconds(broker, read):
    assert read(broker)["ottla_broker_uptime_seconds"] == 12.345


def test_the_largest_logs_are_shown_and_the_others_together(broker, read, batch, monkeypatch):
    monkeypatch.setattr(partitions, "PARTITIONS_LIMIT", 1)
    broker.create_topic("large")
    broker.create_topic("small")
    for topic, text in (("large", "a" * 500), ("small", "b")):
        broker.produce(topic, batch(text))
    found = read(broker)
    sizes = {topic: broker.partition(topic).log.size_bytes for topic in ("large", "small")}
    assert found['kafka_log_log_size{topic="large",partition="0"}'] == sizes["large"]
    assert found['kafka_log_log_size{topic="__other__",partition="__other__"}'] == sizes["small"]
    assert len([name for name in found if name.startswith("kafka_log_log_size")]) == 2


def test_many_partitions_are_looked_at_in_steps(broker, monkeypatch):
    monkeypatch.setattr(readings, "STEP", 2)
    broker.create_topic("orders", 5)
    registry = Registry()
    state = StateMetrics(registry, broker.broker, Network(), broker.clock, 0)
    steps = asyncio.run(steps_of(state))
    assert len(steps) >= 2 * 3, "five partitions are three steps, once for their states and once for their sizes"
    assert "kafka_server_replicamanager_partitioncount 5" in registry.text(0)


def test_a_deleted_topic_is_no_longer_read(broker, read):
    broker.create_topic("orders")
    assert 'kafka_log_log_size{topic="orders",partition="0"}' in read(broker)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=b"\0" * 16)], timeout_ms=1000))
    assert 'kafka_log_log_size{topic="orders",partition="0"}' not in read(broker)
