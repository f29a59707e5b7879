"""Which nodes a commit touches, and what others' writes mean to a member."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateTopic,
    RegisterBroker,
    RemoveTopic,
    SetController,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import (
    ALL_BROKERS,
    Broker,
    ConfigResource,
    Endpoint,
    Partition,
    ResourceType,
    ScramCredential,
    ScramKey,
    StoredKey,
    Topic,
)
from ottla.cluster.store.events import (
    NO_STATE,
    REASSIGNMENT_ASKED,
    BrokersChanged,
    ConfigChanged,
    DeletionsAsked,
    PartitionStatesChanged,
    ReassignmentAsked,
    StoreEvent,
    TopicsChanged,
    deletion_asked,
)
from ottla.cluster.store.shared import take_in
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.entities import changes_between, edited, entity_path, java_double, texts_of
from ottla.cluster.store.zookeeper.facts import Fact, Meaning, NodesRead, RequestsRead, TopicsRead, meaning
from ottla.cluster.store.zookeeper.writes import (
    Create,
    Delete,
    DeleteTree,
    Ensure,
    SetData,
    writes_of,
)
from ottla.cluster.store.zookeeper.znodes import DamagedNode, Znode
from ottla.errors import InvalidRequest
from ottla.values import TopicPartition

EMPTY = ClusterImage("cluster")
ID = b"0123456789abcdef"
TOPIC = Topic("t", ID, (Partition((1, 2), (1, 2), 1), Partition((2, 1), (2, 1), 2)))
WITH_TOPIC = take_in(EMPTY, [CreateTopic(TOPIC)])
STATE = '{"controller_epoch":7,"leader":%d,"version":1,"leader_epoch":%d,"isr":%s}'


def state(leader: int, leader_epoch: int, isr: str) -> bytes:
    return (STATE % (leader, leader_epoch, isr)).encode()


# --- changes to writes ------------------------------------------------------------------------------------------------


def test_a_changed_state_is_written_with_the_version_it_is_known_to_have() -> None:
    changed = replace(TOPIC.partitions[1], leader=1, leader_epoch=1, partition_epoch=1)
    assert writes_of(WITH_TOPIC, [ChangePartition(ID, 1, changed)], {}, 7) == [
        SetData("/brokers/topics/t/partitions/1/state", state(1, 1, "[2,1]"), 0)
    ]


def test_two_changes_of_one_partition_are_two_writes() -> None:
    first = replace(TOPIC.partitions[0], isr=(1,), partition_epoch=1)
    second = replace(first, leader=-1, leader_epoch=1, partition_epoch=2)
    writes = writes_of(WITH_TOPIC, [ChangePartition(ID, 0, first), ChangePartition(ID, 0, second)], {}, 7)
    assert [(write.version, write.data) for write in writes if isinstance(write, SetData)] == [
        (0, state(1, 0, "[1]")),
        (1, state(-1, 1, "[1]")),
    ]


def test_a_state_that_was_never_there_is_made_with_what_is_above_it() -> None:
    found = Topic("t", ID, (Partition((1,), (), -1, NO_STATE, NO_STATE),))
    image = take_in(EMPTY, [CreateTopic(found)])
    writes = writes_of(image, [ChangePartition(ID, 0, Partition((1,), (1,), 1))], {}, 7)
    assert writes == [
        Ensure("/brokers/topics/t/partitions"),
        Ensure("/brokers/topics/t/partitions/0"),
        Create("/brokers/topics/t/partitions/0/state", state(1, 0, "[1]")),
    ]


def test_moving_replicas_writes_the_topic_once() -> None:
    changes = [
        ChangePartition(ID, index, replace(each, replicas=(*each.replicas, 3), adding=(3,), partition_epoch=1))
        for index, each in enumerate(TOPIC.partitions)
    ]
    writes = writes_of(WITH_TOPIC, changes, {}, 7)
    assert [write.path for write in writes] == [paths.state("t", 0), paths.state("t", 1), paths.topic("t")]
    assert b'"adding_replicas":{"0":[3],"1":[3]}' in getattr(writes[2], "data")  # noqa: B009


def test_more_partitions_are_made_and_the_topic_is_written() -> None:
    writes = writes_of(WITH_TOPIC, [AddPartitions(ID, (Partition((1,), (1,), 1),))], {}, 7)
    assert [type(write) for write in writes] == [Create, Create, SetData]
    assert [write.path for write in writes] == [paths.partition("t", 2), paths.state("t", 2), paths.topic("t")]


def test_a_removed_topic_goes_with_its_settings() -> None:
    before = take_in(WITH_TOPIC, [SetStoredValue(deletion_asked("t"), "")])
    assert writes_of(before, [RemoveTopic(ID), SetStoredValue(deletion_asked("t"), None)], {}, 7) == [
        DeleteTree(
            "/brokers/topics/t",
            (
                "/brokers/topics/t/partitions/0/state",
                "/brokers/topics/t/partitions/0",
                "/brokers/topics/t/partitions/1/state",
                "/brokers/topics/t/partitions/1",
                "/brokers/topics/t/partitions",
                "/brokers/topics/t",
            ),
        ),
        DeleteTree("/config/topics/t"),
        Delete("/admin/delete_topics/t"),
    ]


def test_registrations_and_elections_are_not_written() -> None:
    broker = Broker(1, (Endpoint("PLAINTEXT", "h", 1),))
    assert writes_of(EMPTY, [RegisterBroker(broker), SetController(1, 2)], {}, 7) == []


def test_settings_are_an_edit_of_the_map_and_a_note() -> None:
    path = "/config/topics/t"
    nodes = {path: Znode(b'{"version":1,"config":{"a":"1","unknown.to.us":"2"}}', 5)}
    resource = ConfigResource(ResourceType.TOPIC, "t")
    changes = [AlterConfig(resource, (("a", None), ("b", "3"))), AlterConfig(resource, (("c", "4"),))]
    assert writes_of(WITH_TOPIC, changes, nodes, 7) == [
        SetData(path, b'{"version":1,"config":{"unknown.to.us":"2","b":"3","c":"4"}}', 5),
        Create("/config/changes/config_change_", b'{"version":2,"entity_path":"topics/t"}', sequential=True),
    ]


def test_quotas_of_a_new_entity_make_the_nodes_above_it() -> None:
    writes = writes_of(EMPTY, [SetQuota((("client-id", "c"), ("user", "u")), "producer_byte_rate", 5.0)], {}, 7)
    assert writes[:3] == [
        Ensure("/config/users/u"),
        Ensure("/config/users/u/clients"),
        Create("/config/users/u/clients/c", b'{"version":1,"config":{"producer_byte_rate":"5"}}'),
    ]


def test_the_last_quota_takes_the_node_away_unless_there_is_something_below() -> None:
    node = Znode(b'{"version":1,"config":{"producer_byte_rate":"5"}}', 3)
    gone = SetQuota((("user", "u"),), "producer_byte_rate", None)
    assert writes_of(EMPTY, [gone], {"/config/users/u": node}, 7)[0] == Delete("/config/users/u", 3)
    below = {"/config/users/u": node, "/config/users/u/clients/c": node}
    assert writes_of(EMPTY, [gone], below, 7)[0] == SetData("/config/users/u", b'{"version":1,"config":{}}', 3)


def test_settings_of_a_group_make_the_folder_that_kafka_does_not_have() -> None:
    change = AlterConfig(ConfigResource(ResourceType.GROUP, "a/b"), (("share.auto.offset.reset", "earliest"),))
    node = Znode(b'{"version":1,"config":{"share.auto.offset.reset":"earliest"}}', 0)
    assert writes_of(EMPTY, [change], {}, 7) == [
        Ensure("/config/groups"),
        Create("/config/groups/a%2Fb", node.data or b""),
        Create("/config/changes/config_change_", b'{"version":2,"entity_path":"groups/a%2Fb"}', sequential=True),
    ]
    gone = AlterConfig(change.resource, (("share.auto.offset.reset", None),))
    assert writes_of(take_in(EMPTY, [change]), [gone], {"/config/groups/a%2Fb": node}, 7)[0] == Delete(
        "/config/groups/a%2Fb", 0
    )


def test_producer_ids_features_and_tokens_have_their_nodes() -> None:
    nodes = {paths.PRODUCER_IDS: Znode(None, 4), paths.FEATURE: Znode(b"{}", 2)}
    token = StoredKey("delegation-token", "x")
    changes: list[Change] = [AllocateProducerIds(1, 9, 1000), SetFeature("f", 2), SetStoredValue(token, "{}")]
    assert writes_of(EMPTY, changes, nodes, 7) == [
        SetData(paths.PRODUCER_IDS, b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}', 4),
        Create("/delegation_token/tokens/x", b"{}"),
        Create("/delegation_token/token_changes/token_change_", b"x", sequential=True),
        SetData(paths.FEATURE, b'{"features":{"f":2},"version":2,"status":1}', 2),
    ]


def test_what_has_no_place_in_zookeeper_is_refused() -> None:
    for change in (
        SetStoredValue(StoredKey("something", "else"), "x"),
        AlterConfig(ConfigResource(ResourceType.BROKER_LOGGER, "1"), (("a", "b"),)),
    ):
        with pytest.raises(InvalidRequest):
            writes_of(EMPTY, [change], {}, 7)


# --- entities ---------------------------------------------------------------------------------------------------------

NAMES = st.one_of(st.none(), st.text(min_size=1, max_size=8))
QUOTAS = st.builds(
    SetQuota,
    st.one_of(
        NAMES.map(lambda name: (("user", name),)),
        NAMES.map(lambda name: (("client-id", name),)),
        NAMES.map(lambda name: (("ip", name),)),
        st.tuples(NAMES, NAMES).map(lambda names: (("client-id", names[0]), ("user", names[1]))),
    ),
    st.sampled_from(["producer_byte_rate", "consumer_byte_rate"]),
    st.integers(1, 2**50).map(float),
)
SETTINGS = st.builds(
    AlterConfig,
    st.one_of(
        st.just(ALL_BROKERS),
        st.integers(0, 9).map(lambda number: ConfigResource(ResourceType.BROKER, str(number))),
        st.sampled_from(["t", "a.b_c-d"]).map(lambda name: ConfigResource(ResourceType.TOPIC, name)),
        st.one_of(st.sampled_from([".", ".."]), st.text(min_size=1, max_size=8)).map(
            lambda name: ConfigResource(ResourceType.GROUP, name)
        ),
    ),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), min_size=1, max_size=3).map(
        lambda values: tuple(sorted(values.items()))
    ),
)
SECRETS = st.builds(
    SetScramCredential,
    st.builds(ScramKey, st.text(min_size=1, max_size=5), st.sampled_from([1, 2])),
    st.builds(ScramCredential, st.integers(4096, 9999), st.binary(max_size=9), st.binary(), st.binary()),
)


@given(st.one_of(QUOTAS, SETTINGS, SECRETS))
def test_an_edit_is_read_back_as_the_change_it_was(change: AlterConfig | SetQuota | SetScramCredential) -> None:
    entity, after = entity_path(change), edited({}, change)
    assert changes_between(entity, {}, after) == [change]
    assert texts_of(take_in(EMPTY, [change]), entity) == after
    assert all(part not in ("", ".", "..") for part in entity.split("/"))


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_doubles_are_written_in_javas_form(value: float) -> None:
    text = java_double(value)
    assert float(text) == value
    mantissa, _, exponent = text.partition("E")
    assert "." in mantissa
    assert bool(exponent) == (not 1e-3 <= value < 1e7)


@pytest.mark.parametrize(
    ("value", "text"), [(12.5, "12.5"), (0.0001, "1.0E-4"), (12345678.0, "1.2345678E7"), (1e21, "1.0E21"), (0.0, "0.0")]
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_credential_that_cannot_be_read_is_passed_over_without_being_printed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert changes_between("users/u", {}, {"SCRAM-SHA-256": "hidden"}) == []
    assert "hidden" not in caplog.text


# --- older nodes, damaged nodes ---------------------------------------------------------------------------------------


def test_nodes_of_older_kafkas_are_read() -> None:
    old = znodes.read_broker(3, Znode(b'{"host":"h","port":9092,"version":1}', czxid=8))
    assert old == Broker(3, (Endpoint("PLAINTEXT", "h", 9092),), 8)
    assert znodes.read_assignment("t", Znode(b'{"version":1,"partitions":{"0":[1]}}')).partitions == (((1,), (), ()),)
    assert znodes.read_controller(Znode(b'{"version":1,"brokerid":4,"timestamp":"0"}')) == 4
    assert znodes.read_features(Znode(b'{"version":1,"status":0,"features":{"f":{"max_version_level":3}}}')) == {}
    assert znodes.read_config_change(Znode(b'{"version":1,"entity_type":"topics","entity_name":"t"}')) == "topics/t"


@pytest.mark.parametrize("data", [None, b"", b"[]", b"{}", b'{"partitions":{"1":[1]}}', b'{"partitions":7}'])
def test_a_damaged_assignment_is_named(data: bytes | None) -> None:
    with pytest.raises(DamagedNode, match="'orders'"):
        znodes.read_assignment("orders", Znode(data))


# --- facts ------------------------------------------------------------------------------------------------------------


def told(fact: Fact, image: ClusterImage, nodes: dict[str, Znode] | None = None) -> tuple[StoreEvent, ...]:
    return meaning(fact, image, nodes or {}).events


def test_topics_that_are_known_already_are_no_news() -> None:
    other = Topic("o", b"fedcba9876543210", TOPIC.partitions)
    assert told(TopicsRead((TOPIC,), (), 1), WITH_TOPIC) == ()
    assert told(TopicsRead((TOPIC, other), ("gone",), 1), WITH_TOPIC) == (TopicsChanged((other,)),)
    assert told(TopicsRead((), ("t",), 1), WITH_TOPIC) == (TopicsChanged((), ("t",)),)


def test_only_newer_states_are_news() -> None:
    newer = replace(TOPIC.partitions[0], isr=(1,), partition_epoch=4)
    found = PartitionStatesChanged(
        (
            (TopicPartition("t", 0), newer),
            (TopicPartition("t", 1), TOPIC.partitions[1]),
            (TopicPartition("unknown", 0), newer),
        )
    )
    assert told(found, WITH_TOPIC) == (PartitionStatesChanged(((TopicPartition("t", 0), newer),)),)


def test_brokers_that_are_as_known_are_no_news() -> None:
    broker = Broker(1, (), epoch=5)
    image = take_in(EMPTY, [RegisterBroker(broker)])
    assert told(BrokersChanged((broker,)), image) == ()
    bounced = BrokersChanged((replace(broker, epoch=6),))
    assert told(bounced, image) == (bounced,)


def test_a_node_that_was_read_means_the_difference_to_the_image() -> None:
    path, resource = "/config/topics/t", ConfigResource(ResourceType.TOPIC, "t")
    image = take_in(EMPTY, [AlterConfig(resource, (("a", "1"), ("b", "2")))])
    nodes = {path: Znode(b'{"version":1,"config":{"b":"3"}}', 2)}
    change = AlterConfig(resource, (("a", None), ("b", "3")))
    assert meaning(NodesRead({path: nodes[path]}, 1, 1), image, nodes) == Meaning(
        (change,), (ConfigChanged((change,)),)
    )
    assert meaning(NodesRead({path: nodes[path]}, 1, 1), take_in(image, [change]), nodes) == Meaning()


def test_requests_enter_the_image_and_are_told_once() -> None:
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'
    fact = RequestsRead({deletion_asked("a"): "", deletion_asked("b"): "", REASSIGNMENT_ASKED: text}, 1)
    changes, events = meaning(fact, EMPTY, {})
    assert events == (DeletionsAsked(("a", "b")), ReassignmentAsked(((TopicPartition("t", 0), (2, 1)),)))
    assert meaning(fact, take_in(EMPTY, changes), {}) == Meaning()


def test_a_request_that_cannot_be_read_asks_for_nothing() -> None:
    assert told(RequestsRead({REASSIGNMENT_ASKED: "no json"}, 1), EMPTY) == (ReassignmentAsked(()),)
