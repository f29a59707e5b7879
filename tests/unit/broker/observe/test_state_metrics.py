"""What the broker says of itself when it is asked."""

import pytest

from ottla.broker.observe import state_metrics
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


@pytest.fixture
def told():
    """told(broker, "PLAINTEXT", ...) gives the lines of the metrics, by name with labels."""
    registry = Registry()
    state = StateMetrics(registry)

    def look(broker, *connections, uptime_ms=1500):
        for _ in state.update(broker.broker, connections, uptime_ms):
            pass
        lines = [line for line in registry.text(0).splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    return look


def test_partitions_are_counted(broker, told):
    broker.create_topic("orders", 3)
    found = told(broker)
    replicas, controller = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
    assert found[f"{replicas}partitioncount"] == found[f"{replicas}leadercount"] == 3
    assert found[f"{replicas}underreplicatedpartitions"] == found[f"{replicas}offlinereplicacount"] == 0
    assert found[f"{controller}globaltopiccount"] == 1
    assert found[f"{controller}globalpartitioncount"] == 3
    assert found[f"{controller}offlinepartitionscount"] == 0


def test_a_failed_disk_and_missing_replicas_are_seen(broker, told):
    broker.create_topic("orders", 2, min_insync_replicas="2")
    partition = broker.partition("orders", 1)
    partition.in_sync_count = 0
    partition.offline = KafkaStorageError("gone")
    found = told(broker)
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == 1
    assert found["kafka_server_replicamanager_underminisrpartitioncount"] == 1
    assert found["kafka_server_replicamanager_offlinereplicacount"] == 1


def test_connections_are_counted_by_listener(broker, told):
    name = 'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'
    assert told(broker, "PLAINTEXT", "PLAINTEXT")[name] == 2
    assert told(broker)[name] == 0


def test_groups_are_counted_by_state(broker, told):
    broker.create_topic("orders")
    broker.ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=0))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    broker.ask(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 9)
    found = told(broker)
    groups = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert (found[groups], found[f"{groups}empty"], found[f"{groups}stable"]) == (1, 1, 0)
    assert found['kafka_server_group_coordinator_metrics_consumer_group_count{state="Stable"}'] == 0


def test_the_time_since_the_start_is_told_in_seconds(broker, told):
    assert told(broker, uptime_ms=12_345)["ottla_broker_uptime_seconds"] == 12.345


def test_the_largest_logs_are_told_and_the_others_together(broker, told, batch, monkeypatch):
    monkeypatch.setattr(state_metrics, "LOGS_LIMIT", 1)
    broker.create_topic("large")
    broker.create_topic("small")
    for topic, text in (("large", "a" * 500), ("small", "b")):
        broker.produce(topic, batch(text))
    found = told(broker)
    sizes = {topic: broker.partition(topic).log.size_bytes for topic in ("large", "small")}
    assert found['kafka_log_log_size{topic="large",partition="0"}'] == sizes["large"]
    assert found['kafka_log_log_size{topic="__other__",partition="__other__"}'] == sizes["small"]
    assert len([name for name in found if name.startswith("kafka_log_log_size")]) == 2


def test_many_partitions_are_looked_at_in_steps(broker, monkeypatch):
    monkeypatch.setattr(state_metrics, "STEP", 2)
    broker.create_topic("orders", 5)
    registry = Registry()
    steps = list(StateMetrics(registry).update(broker.broker, [], 0))
    assert len(steps) >= 2 * 3, "five partitions are three steps, once for their states and once for their sizes"
    assert "kafka_server_replicamanager_partitioncount 5" in registry.text(0)


def test_a_deleted_topic_is_no_longer_told(broker, told):
    broker.create_topic("orders")
    assert 'kafka_log_log_size{topic="orders",partition="0"}' in told(broker)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=b"\0" * 16)], timeout_ms=1000))
    assert 'kafka_log_log_size{topic="orders",partition="0"}' not in told(broker)
