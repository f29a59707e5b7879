"""Changes: what each does to an image, and that an image is what its changes make."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster import changes
from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    IllegalChange,
    RegisterBroker,
    RemoveAcl,
    RemoveTopic,
    SetController,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
    UnregisterBroker,
    apply,
    apply_all,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.image_changes import changes_for
from ottla.cluster.model import (
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
    ScramCredential,
    ScramKey,
    StoredKey,
    Topic,
)
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType

ids = st.integers(0, 5)
small = st.lists(ids, max_size=3).map(tuple)
names = st.sampled_from(["a", "a.b", "a_b", "orders"])
texts = st.text(max_size=5)
raw = st.binary(min_size=16, max_size=16)
partitions = st.builds(
    Partition,
    replicas=small,
    isr=small,
    leader=st.integers(-1, 5),
    leader_epoch=ids,
    partition_epoch=ids,
    adding=small,
    removing=small,
    directories=st.lists(raw, max_size=2).map(tuple),
    elr=small,
    last_known_elr=small,
    recovering=st.booleans(),
)
brokers = st.builds(
    Broker,
    id=ids,
    endpoints=st.lists(st.builds(Endpoint, texts, texts, ids, texts), max_size=2).map(tuple),
    epoch=ids,
    rack=st.none() | texts,
    features=st.lists(st.builds(FeatureRange, texts, ids, ids), max_size=2).map(tuple),
    directories=st.lists(raw, max_size=2).map(tuple),
    fenced=st.booleans(),
    in_controlled_shutdown=st.booleans(),
)
resources = st.builds(ConfigResource, st.sampled_from(ResourceType), names)
entities = st.dictionaries(st.sampled_from(["user", "client-id"]), st.none() | texts, min_size=1).map(
    lambda entity: tuple(sorted(entity.items()))
)
some = st.lists(partitions, min_size=1, max_size=3).map(tuple)
bindings = st.builds(
    AclBinding,
    st.builds(AclPattern, st.sampled_from(AclResource), st.sampled_from(PatternType), names),
    st.builds(AclEntry, names, names, st.sampled_from(AclOperation), st.sampled_from(AclPermission)),
)
any_change: st.SearchStrategy[Change] = st.one_of(
    st.builds(RegisterBroker, brokers),
    st.builds(UnregisterBroker, ids),
    st.builds(SetController, ids, ids),
    st.builds(CreateTopic, st.builds(Topic, names, st.sampled_from([bytes([n]) * 16 for n in range(4)]), some)),
    st.builds(RemoveTopic, st.sampled_from([bytes([n]) * 16 for n in range(4)])),
    st.builds(AddPartitions, st.sampled_from([bytes([n]) * 16 for n in range(4)]), some),
    st.builds(ChangePartition, st.sampled_from([bytes([n]) * 16 for n in range(4)]), ids, partitions),
    st.builds(AlterConfig, resources, st.lists(st.tuples(texts, st.none() | texts), max_size=3).map(tuple)),
    st.builds(SetFeature, names, ids),
    st.builds(SetQuota, entities, names, st.none() | st.floats(0.5, 1e12)),
    st.builds(
        SetScramCredential,
        st.builds(ScramKey, names, st.sampled_from([1, 2])),
        st.none() | st.builds(ScramCredential, ids, raw, raw, raw),
    ),
    st.builds(CreateAcl, bindings),
    st.builds(RemoveAcl, bindings),
    st.builds(SetStoredValue, st.builds(StoredKey, names, names), st.none() | texts),
    st.builds(AllocateProducerIds, ids, ids, ids),
)


@given(st.lists(any_change, max_size=40))
def test_an_image_is_rebuilt_from_its_own_changes(wanted: list[Change]) -> None:
    image = ClusterImage("cluster")
    for change in wanted:
        try:
            after = apply(image, change)
        except IllegalChange:
            continue
        assert after.change_number == image.change_number + 1
        image = after
    again = apply_all(ClusterImage("cluster"), list(changes_for(image)))
    assert replace(again, change_number=image.change_number) == image
    assert list(changes_for(again)) == list(changes_for(image))


def test_every_kind_of_change_can_be_applied() -> None:
    every = set(changes.Change.__args__)  # type: ignore[attr-defined]
    assert every == set(changes._MOVES)


def test_removing_a_topic_removes_its_settings_and_frees_its_name(image: ClusterImage) -> None:
    topic = image.topic("orders")
    assert topic is not None
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    image = apply(image, AlterConfig(resource, (("retention.ms", "5"),)))
    assert image.config(resource) == {"retention.ms": "5"}
    image = apply(image, RemoveTopic(topic.id))
    assert image.topic("orders") is None
    assert image.topic_by_id(topic.id) is None
    assert image.config(resource) == {}
    assert apply(image, CreateTopic(replace(topic, id=b"\7" * 16))).topic_id("orders") == b"\7" * 16


@pytest.mark.parametrize(
    "change",
    [
        CreateTopic(Topic("orders", b"\7" * 16, (Partition((1,), (1,), 1),))),
        CreateTopic(Topic("other", b"\7" * 16, ())),
        RemoveTopic(b"\7" * 16),
        AddPartitions(b"\7" * 16, ()),
        UnregisterBroker(9),
        AlterConfig(ConfigResource(ResourceType.TOPIC, "missing"), (("a", "b"),)),
        AllocateProducerIds(1, 1, 0),
    ],
    ids=lambda change: type(change).__name__,
)
def test_a_change_that_contradicts_the_image_is_refused(image: ClusterImage, change: Change) -> None:
    with pytest.raises(IllegalChange):
        apply(image, change)


def test_a_partition_outside_the_topic_cannot_change(image: ClusterImage) -> None:
    topic = image.topic("orders")
    assert topic is not None
    for index in (-1, 2):
        with pytest.raises(IllegalChange, match="no partition"):
            apply(image, ChangePartition(topic.id, index, topic.partitions[0]))


def test_the_controller_epoch_never_falls(image: ClusterImage) -> None:
    image = apply(image, SetController(1, 5))
    with pytest.raises(IllegalChange, match="from 5 to 4"):
        apply(image, SetController(2, 4))


def test_an_old_image_stays_as_it_was(image: ClusterImage) -> None:
    before = list(changes_for(image))
    apply_all(image, [SetFeature("a", 1), CreateTopic(Topic("new", b"\7" * 16, (Partition((1,), (1,), 1),)))])
    assert list(changes_for(image)) == before


def test_the_image_is_the_view_of_the_coordinators(image: ClusterImage) -> None:
    topic_id = image.topic_id("orders")
    assert topic_id is not None
    assert image.topic_name(topic_id) == "orders"
    assert image.partition_count("orders") == 2
    assert list(image.topics()) == ["orders"]
    assert (image.topic_id("x"), image.topic_name(bytes(16)), image.partition_count("x")) == (None, None, None)
    assert image.partition("orders", 1) is not None
    assert image.partition("orders", 2) is image.partition("orders", -1) is None


def test_secrets_are_not_printed(image: ClusterImage) -> None:
    secret = SetScramCredential(ScramKey("alice", 1), ScramCredential(4096, b"salt-", b"stored-", b"server-"))
    token = SetStoredValue(StoredKey("delegation-token", "t1"), "hmac-secret")
    password = AlterConfig(ConfigResource(ResourceType.BROKER, "1"), (("ssl.key.password", "swordfish"),))
    shown = repr([secret, token, password, apply_all(image, [secret, token, password])])
    assert "alice" in shown
    assert not any(word in shown for word in ("salt-", "stored-", "server-", "hmac-secret", "swordfish"))


def _leads(leader: int) -> Partition:
    return Partition(replicas=(0, 1), isr=(0, 1), leader=leader)


def test_partitions_that_change_together_are_what_they_would_be_one_by_one() -> None:
    image = ClusterImage("c")
    topics = [Topic(name, bytes([number]) * 16, (_leads(0),) * 3) for number, name in enumerate(("a", "b"), 1)]
    image = apply_all(image, [CreateTopic(topic) for topic in topics])
    a, b = topics[0].id, topics[1].id
    moves: list[Change] = [
        ChangePartition(a, 0, _leads(1)),
        ChangePartition(b, 2, _leads(1)),
        ChangePartition(a, 0, _leads(0)),
        ChangePartition(a, 1, _leads(1)),
        AddPartitions(a, (_leads(1),)),
        ChangePartition(a, 3, _leads(0)),
    ]
    one_by_one = image
    for move in moves:
        one_by_one = apply(one_by_one, move)
    assert apply_all(image, moves) == one_by_one
    with pytest.raises(IllegalChange, match="'a' has no partition 3"):
        apply_all(image, [ChangePartition(a, 2, _leads(1)), ChangePartition(a, 3, _leads(1))])


def test_a_topic_is_made_anew_once_however_many_of_its_partitions_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of a cluster changes all of them, and copying thousands for each of thousands held everybody up."""
    topic = Topic("many", b"m" * 16, (_leads(0),) * 500)
    image = apply_all(ClusterImage("c"), [CreateTopic(topic)])
    made: list[object] = []
    made_anew = changes.replace
    monkeypatch.setattr(changes, "replace", lambda each, **new: made.append(each) or made_anew(each, **new))
    after = apply_all(image, [ChangePartition(topic.id, index, _leads(1)) for index in range(500)])
    assert {each.leader for each in after.topics_by_name["many"].partitions} == {1}
    assert after.change_number == image.change_number + 500
    assert len(made) == 2, "the topic and the image"
