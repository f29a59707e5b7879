"""What Apache Kafka 3.9.2 wrote into ZooKeeper is read as an image, and written again byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cluster.changes import CreateAcl, CreateTopic
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, Endpoint, Partition, ScramKey
from ottla.cluster.store.events import REASSIGNMENT_ASKED
from ottla.cluster.store.shared import take_in
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.acls import acl_pattern
from ottla.cluster.store.zookeeper.entities import config_json, read_config, texts_of
from ottla.cluster.store.zookeeper.reading import image_of, is_entity, known_to_all, topic_names
from ottla.cluster.store.zookeeper.writes import Create, writes_of
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern
from ottla.values import ZERO_UUID

GOLDEN = Path(__file__).parents[3] / "golden" / "znodes" / "kafka-3.9.2.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
NODES = {
    line["path"]: Znode(None if line["data"] is None else line["data"].encode(), line["version"], line["czxid"])
    for line in LINES
}


@pytest.fixture
def image() -> ClusterImage:
    return image_of(NODES)


def data(path: str) -> bytes:
    found = NODES[path].data
    assert found is not None
    return found


def test_the_image_has_what_kafka_wrote(image: ClusterImage) -> None:
    assert image.cluster_id == "FnZ3MDgSTgmwuXkiKZ5q_w"
    assert (image.controller_id, image.controller_epoch) == (1, 2)
    assert list(image.topics()) == ["__transaction_state", "both", "gone", "one.unicode", "two"]
    assert image.partition("two", 3) == Partition((2, 1), (1,), 1, 1, 1, adding=(2,), removing=(1,))
    assert image.brokers[2].rack == "north"
    assert image.brokers[2].epoch == NODES["/brokers/ids/2"].czxid
    assert image.brokers[2].endpoint("INTERNAL") == Endpoint("INTERNAL", "::1", 29193)
    assert image.config(ALL_BROKERS) == {"num.io.threads": "9"}
    assert image.topic_config("two") == {"retention.ms": "2000"}
    assert image.next_producer_id % 1000 == 0
    assert image.next_producer_id > 0


def test_quotas_credentials_and_rules_are_read(image: ClusterImage) -> None:
    assert image.quotas[(("client-id", "c 1*"), ("user", "u"))] == {
        "consumer_byte_rate": 20_480_000_000.0,
        "request_percentage": 0.0001,
    }
    assert image.quotas[(("client-id", None), ("user", None))] == {"consumer_byte_rate": 2048.0}
    assert image.quotas[(("ip", "10.1.2.3"),)] == {"connection_creation_rate": 10.0}
    assert image.scram_credentials[ScramKey("al/ice@x y", 1)].salt == b"salt1234"
    assert [(tuple(pattern), tuple(entry)) for pattern, entry in image.acl_bindings()] == [
        ((Resource.TOPIC, Pattern.LITERAL, "two"), ("User:bob", "*", Op.READ, Permission.ALLOW)),
        ((Resource.TOPIC, Pattern.LITERAL, "two"), ("User:carl", "10.0.0.1", Op.ALL, Permission.DENY)),
        ((Resource.GROUP, Pattern.PREFIXED, "g-"), ("User:bob", "*", Op.DESCRIBE_CONFIGS, Permission.ALLOW)),
        ((Resource.CLUSTER, Pattern.LITERAL, "kafka-cluster"), ("User:bob", "*", Op.CLUSTER_ACTION, Permission.ALLOW)),
    ]
    assert REASSIGNMENT_ASKED in image.stored_values


def test_rules_are_written_alike(image: ClusterImage) -> None:
    made = writes_of(ClusterImage("c"), [CreateAcl(each) for each in image.acl_bindings()], {}, 2)
    rules = {write.path: write.data for write in made if isinstance(write, Create) and not write.sequential}
    assert rules == {path: node.data for path, node in NODES.items() if acl_pattern(path) is not None}
    assert len(rules) == 3


def test_brokers_are_written_alike(image: ClusterImage) -> None:
    for number, broker in image.brokers.items():
        was = data(paths.broker(number))
        stamp = int(json.loads(was)["timestamp"])
        assert znodes.broker_json(broker, timestamp_ms=stamp) == was


def test_states_are_written_alike(image: ClusterImage) -> None:
    for (name, index), partition in image.partitions():
        node = NODES[paths.state(name, index)]
        assert znodes.state_json(partition, znodes.written_by_epoch(node)) == node.data


def test_topics_are_written_alike_but_for_the_order_of_many_partitions(image: ClusterImage) -> None:
    for name in topic_names(NODES):
        topic, was = image.topic(name), data(paths.topic(name))
        assert topic is not None
        written = znodes.topic_json(topic)
        assert json.loads(written) == json.loads(was)
        assert list(json.loads(written)) == list(json.loads(was))
        if len(topic.partitions) <= 4:
            assert written == was


def test_maps_of_settings_are_written_alike(image: ClusterImage) -> None:
    for path in filter(is_entity, NODES):
        if NODES[path].data is None:
            continue
        entity = path.removeprefix("/config/")
        kept = read_config(entity, data(path))
        assert config_json(kept) == data(path)
        assert texts_of(image, entity) == kept


def test_single_nodes_are_written_alike(image: ClusterImage) -> None:
    stamp = int(json.loads(data("/controller"))["timestamp"])
    assert znodes.controller_json(1, timestamp_ms=stamp) == data("/controller")
    assert znodes.cluster_id_json(image.cluster_id) == data("/cluster/id")
    assert znodes.features_json({}) == data("/feature")
    last = image.next_producer_id - 1
    block: dict[str, Any] = json.loads(data("/latest_producer_id_block"))
    written = znodes.producer_ids_json(block["broker"], last - 999, last)
    assert written == data("/latest_producer_id_block")
    for path, node in NODES.items():
        if path.startswith("/config/changes/"):
            assert znodes.config_change_json(znodes.read_config_change(node)) == node.data


def test_a_new_topic_makes_the_same_nodes_as_kafka(image: ClusterImage) -> None:
    topic = image.topic("both")
    assert topic is not None
    empty = ClusterImage(image.cluster_id)
    writes = writes_of(empty, [CreateTopic(topic)], {}, 2)
    made = {write.path: write.data for write in writes if isinstance(write, Create)}
    below = {
        path: node.data
        for path, node in NODES.items()
        if path in ("/brokers/topics/both", "/config/topics/both") or path.startswith("/brokers/topics/both/")
    }
    assert made == below
    assert len(writes) == len(made)


def test_what_is_made_at_the_start_is_what_kafka_makes() -> None:
    assert set(paths.MADE_AT_START) <= set(NODES)
    assert all(NODES[path].data is None for path in paths.MADE_AT_START if path != paths.PRODUCER_IDS)


def test_a_member_that_is_not_controller_knows_settings_but_no_topics() -> None:
    member = take_in(ClusterImage("c"), known_to_all(NODES))
    assert not list(member.topics())
    assert member.topic_config("two") == {"retention.ms": "2000"}


def test_who_is_eligible_outside_the_in_sync_set_is_kept_beside_what_kafka_keeps() -> None:
    partition = Partition((1, 2, 3), (1,), 1, 4, 0, elr=(2,), last_known_elr=(3,))
    node = znodes.Znode(znodes.state_json(partition, 7), 0)
    assignment = znodes.Assignment(ZERO_UUID, (((1, 2, 3), (), ()),))
    assert znodes.read_partition("t", 0, assignment, node) == partition
