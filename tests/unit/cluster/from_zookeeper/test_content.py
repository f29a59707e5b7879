"""What Apache Kafka 3.9.2 left in ZooKeeper is what the metadata log says from then on; what it cannot say is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cluster.from_zookeeper.beginning import beginning_of
from ottla.cluster.from_zookeeper.content import FIRST_LEVEL, Content, Left, Secrets, take
from ottla.cluster.from_zookeeper.found import Found
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.model import ALL_BROKERS, METADATA_VERSION, NO_LEADER, ScramCredential, ScramKey
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.snapshots import Voters, read_snapshot
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.acls import acls_json
from ottla.cluster.store.zookeeper.entities import config_json, credential_text
from ottla.cluster.store.zookeeper.reading import image_of
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.errors import InvalidSetting
from ottla.testing.files import MemoryFiles
from ottla.values import ZERO_UUID

GOLDEN = Path(__file__).parents[3] / "golden" / "znodes" / "kafka-3.9.2.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
NODES = {
    line["path"]: Znode(None if line["data"] is None else line["data"].encode(), line["version"], line["czxid"])
    for line in LINES
}
LEVEL = 30


def refuses(text: str) -> str:
    raise InvalidSetting("it was encoded with another password.encoder.secret")


NO_SECRETS = Secrets(lambda name: name.endswith("password"), refuses)


def content(level: int = LEVEL, secrets: Secrets = NO_SECRETS, **changed: bytes | None) -> Content:
    """What is taken of Kafka's nodes, with these in the place of some; the keys are paths with __ for /."""
    nodes = {**NODES, **{path.replace("__", "/"): Znode(data) for path, data in changed.items()}}
    return take(Found(nodes), level, secrets)


@pytest.fixture
def read() -> ClusterImage:
    return image_of(NODES)


def test_everything_is_as_in_zookeeper_but_for_who_leads(read: ClusterImage) -> None:
    image = content().image
    assert image.cluster_id == read.cluster_id
    for name, topic in image.topics_by_name.items():
        before = read.topic(name)
        assert before is not None
        assert topic.id == before.id
        for partition, earlier in zip(topic.partitions, before.partitions, strict=True):
            assert partition.leader == NO_LEADER
            for kept in ("replicas", "isr", "adding", "removing", "leader_epoch", "partition_epoch", "recovering"):
                assert getattr(partition, kept) == getattr(earlier, kept), (name, kept)
    assert image.quotas == read.quotas
    assert image.scram_credentials == read.scram_credentials
    assert list(image.acl_bindings()) == list(read.acl_bindings())
    assert image.config(ALL_BROKERS) == read.config(ALL_BROKERS)
    assert image.stored("delegation-token") == read.stored("delegation-token")
    assert image.next_producer_id == read.next_producer_id
    assert dict(image.features) == {METADATA_VERSION: LEVEL}
    assert not image.brokers


def test_settings_of_a_topic_that_is_not_there_are_named() -> None:
    found = content(__config__topics__nowhere=config_json({"retention.ms": "1"}))
    assert any("nowhere" in each.what for each in found.left)
    assert not found.image.topic_config("nowhere")


def test_the_controllers_epoch_goes_on(read: ClusterImage) -> None:
    assert content().epoch == read.controller_epoch == 2


def test_a_topic_that_somebody_wants_deleted_is_deleted_and_named() -> None:
    found = content(__admin__delete_topics__two=None)
    assert [each for each in found.left if "deletion" in each.what and "two" in each.what]
    assert found.image.topic("two") is None
    assert not found.image.topic_config("two")


def test_moves_that_have_not_begun_are_named() -> None:
    asked = {"version": 1, "partitions": [{"topic": "both", "partition": 0, "replicas": [1, 2]}]}
    left = content(__admin__reassign_partitions=json.dumps(asked).encode()).left
    assert Left("moves that were asked for and not begun: both-0", "ask again: ottla reassign") in left


def test_a_partition_that_nobody_ever_led_begins_with_all_replicas_in_sync() -> None:
    nodes = dict(NODES)
    del nodes[paths.state("both", 0)]
    partition = take(Found(nodes), LEVEL, NO_SECRETS).image.partition("both", 0)
    assert partition is not None
    assert partition.isr == partition.replicas
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_who_was_eligible_is_in_sync_where_nobody_else_is(read: ClusterImage) -> None:
    state = {"controller_epoch": 2, "leader": -1, "version": 1, "leader_epoch": 9, "isr": [], "ottla_elr": [2]}
    nodes = {**NODES, paths.state("both", 0): Znode(json.dumps(state).encode(), 4)}
    found = take(Found(nodes), LEVEL, NO_SECRETS)
    partition = found.image.partition("both", 0)
    assert partition is not None
    assert (partition.isr, partition.elr, partition.leader_epoch) == ((2,), (), 9)
    assert any("eligible" in note for note in found.notes)


def test_a_topic_without_an_id_gets_the_same_one_on_every_machine() -> None:
    topic = json.loads(NODES[paths.topic("both")].data or b"")
    del topic["topic_id"]
    nodes = {**NODES, paths.topic("both"): Znode(json.dumps(topic).encode())}
    first, second = (take(Found(nodes), LEVEL, NO_SECRETS).image.topic_id("both") for _ in range(2))
    assert first == second != ZERO_UUID


def test_a_secret_is_decoded_and_one_that_cannot_be_is_named() -> None:
    settings = config_json({"ssl.key.password": "coded", "num.io.threads": "4"})
    decoded = content(secrets=Secrets(NO_SECRETS.is_secret, str.upper), __config__brokers__1=settings)
    config = next(values for resource, values in decoded.image.configs.items() if resource.name == "1")
    assert config == {"ssl.key.password": "CODED", "num.io.threads": "4"}
    refused = content(__config__brokers__1=settings)
    config = next(values for resource, values in refused.image.configs.items() if resource.name == "1")
    assert config == {"num.io.threads": "4"}
    assert any("ssl.key.password of broker 1" in each.what for each in refused.left)


def test_what_makes_no_sense_is_named_and_not_lost_in_silence() -> None:
    broken = config_json({"SCRAM-SHA-256": "salt=?", "producer_byte_rate": "many", "later_rate": "1"})
    rules = acls_json([{"principal": "User:a", "host": "*", "operation": "Dream", "permissionType": "Allow"}])
    found = content(
        __config__users__a=broken, **{"__kafka-acl__Topic__dreams": rules, "__delegation_token__tokens__old": b"{}"}
    )
    told = "\n".join(each.what for each in found.left)
    for name in ("SCRAM-SHA-256", "producer_byte_rate", "later_rate"):
        assert f"{name} of /config/users/a" in told
    assert "a rule of User:a about TOPIC dreams" in told
    assert "delegation token old" in told


def test_a_users_password_is_taken_with_salt_keys_and_iterations() -> None:
    credential = ScramCredential(8192, b"salt", b"stored", b"server")
    image = content(__config__users__kim=config_json({"SCRAM-SHA-512": credential_text(credential)})).image
    assert image.scram_credentials[ScramKey("kim", 2)] == credential


def test_eligible_leaders_begin_switched_off_and_other_features_stay() -> None:
    levels = {"transaction.version": 2, "eligible.leader.replicas.version": 1, "kiwi.version": 3}
    found = content(__feature=znodes.features_json(levels))
    assert dict(found.image.features) == {METADATA_VERSION: LEVEL, "transaction.version": 2}
    assert any("eligible.leader.replicas.version" in note for note in found.notes)
    assert any("kiwi.version" in each.what for each in found.left)


@pytest.mark.parametrize("level", [FIRST_LEVEL, LEVEL])
def test_the_log_begins_with_exactly_that_and_every_machine_writes_the_same_bytes(level: int) -> None:
    found, written = content(level), []
    for _ in range(2):
        files = MemoryFiles()
        files.make_directory(Path("/data"))
        path = beginning_of(content(level), Voters()).write(files, Path("/data"))
        written.append(files.read_bytes(path))
        log = MetadataLog.open(files, Path("/data"), now_ms=0, limits=LogLimits())
        assert log.newest_snapshot is not None
        assert log.start_offset == log.end_offset == log.newest_snapshot.end_offset
        assert log.last_epoch == found.epoch
        loader = MetadataLoader(found.image.cluster_id)
        for _ in loader.load_snapshot(
            read_snapshot(files, log.snapshot_path(log.newest_snapshot)),
            end_offset=log.newest_snapshot.end_offset,
            epoch=log.newest_snapshot.epoch,
        ):
            pass
        assert loader.image.topics_by_name == found.image.topics_by_name
        assert loader.image.acl_ids == found.image.acl_ids
    assert written[0] == written[1]


def test_another_rule_is_another_fingerprint() -> None:
    rules = acls_json([{"principal": "User:a", "host": "*", "operation": "Read", "permissionType": "Allow"}])
    more = content(**{"__kafka-acl__Topic__more": rules})
    assert beginning_of(content(), Voters()).fingerprint != beginning_of(more, Voters()).fingerprint
