"""Values for the tests of the metadata log: changes that a controller could make, drawn by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    RegisterBroker,
    RegisterController,
    RemoveAcl,
    RemoveTopic,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.delegation_tokens import token_key
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.partition_records import merged
from ottla.cluster.model import (
    METADATA_VERSION,
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    ControllerNode,
    DelegationToken,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
    ScramCredential,
    ScramKey,
    Topic,
)
from ottla.cluster.token_text import token_text
from ottla.light_dataclasses import replace
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.metadata_log.topics import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, PartitionChangeRecord

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
TOPIC_IDS = [bytes([number]) * 16 for number in range(1, 5)]

ids = st.integers(0, 5)
names = st.sampled_from(["a", "a.b", "a_b", "orders", "näme"])
uuids = st.binary(min_size=16, max_size=16)
some_ids = st.lists(ids, max_size=3, unique=True).map(tuple)
endpoints = st.builds(
    Endpoint,
    names,
    names,
    st.integers(0, 65535),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
)
features = st.lists(st.builds(FeatureRange, names, ids, ids), max_size=3).map(lambda ranges: tuple(sorted(ranges)))
brokers = st.builds(
    Broker,
    id=ids,
    endpoints=st.lists(endpoints, max_size=2).map(tuple),
    epoch=st.integers(0, 3),
    rack=st.none() | names,
    features=features,
    directories=st.lists(uuids, max_size=2).map(tuple),
    fenced=st.booleans(),
    in_controlled_shutdown=st.booleans(),
    incarnation_id=uuids,
    cordoned_directories=st.none() | st.lists(uuids, max_size=2).map(tuple),
)
controllers = st.builds(
    ControllerNode,
    id=ids,
    incarnation_id=uuids,
    endpoints=st.lists(endpoints, max_size=2).map(tuple),
    features=features,
    zk_migration_ready=st.booleans(),
)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """A partition as a controller leaves it: every replica has a directory."""
    replicas = draw(st.lists(ids, min_size=1, max_size=3, unique=True).map(tuple))
    return Partition(
        replicas=replicas,
        isr=draw(some_ids),
        leader=draw(st.integers(-1, 5)),
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
        adding=draw(some_ids),
        removing=draw(some_ids),
        directories=tuple(draw(st.lists(uuids, min_size=len(replicas), max_size=len(replicas)))),
        elr=draw(some_ids),
        last_known_elr=draw(some_ids),
        recovering=draw(st.booleans()),
    )


@st.composite
def partition_changes(draw: st.DrawFn) -> PartitionChangeRecord:
    """What may happen to a partition, in any combination; the directories stay as many as the replicas."""
    replicas = draw(st.none() | st.lists(ids, min_size=1, max_size=3, unique=True))
    directories = draw(st.lists(uuids, min_size=len(replicas or ()), max_size=len(replicas or ())))
    maybe_ids = st.none() | some_ids.map(list)
    return PartitionChangeRecord(
        topic_id=bytes(16),
        isr=draw(maybe_ids),
        leader=draw(st.sampled_from([NO_LEADER_CHANGE, -1, 0, 1, 2])),
        replicas=replicas,
        removing_replicas=draw(maybe_ids),
        adding_replicas=draw(maybe_ids),
        leader_recovery_state=draw(st.sampled_from([NO_RECOVERY_CHANGE, 0, 1])),
        directories=directories if replicas else None,
        eligible_leader_replicas=draw(maybe_ids),
        last_known_elr=draw(maybe_ids),
    )


bindings = st.builds(
    AclBinding,
    st.builds(AclPattern, st.sampled_from(AclResource), st.sampled_from(PatternType), names),
    st.builds(AclEntry, names, names, st.sampled_from(AclOperation), st.sampled_from(AclPermission)),
)
principals = names.map(lambda name: f"User:{name}")
tokens = st.builds(
    DelegationToken,
    names,
    principals,
    principals,
    st.lists(principals, max_size=2).map(tuple),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)
parts = st.dictionaries(st.sampled_from(["user", "client-id"]), st.none() | names, min_size=1)
entities = parts.map(lambda entity: tuple(sorted(entity.items())))
credentials = st.builds(ScramCredential, st.integers(1, 9), st.binary(max_size=3), st.binary(), st.binary())


def _register(image: ClusterImage) -> st.SearchStrategy[Change]:
    """A new registration, or one that was changed as a record can say it."""
    there = [
        st.builds(
            replace,
            st.just(broker),
            fenced=st.booleans(),
            directories=st.lists(uuids, min_size=1, max_size=2).map(tuple),
            in_controlled_shutdown=st.just(True),
        )
        for broker in image.brokers.values()
    ]
    return st.builds(RegisterBroker, st.one_of(brokers, *there))


def _about_topics(image: ClusterImage) -> list[st.SearchStrategy[Change]]:
    found: list[st.SearchStrategy[Change]] = []
    for topic in image.topics_by_name.values():
        found.append(st.just(RemoveTopic(topic.id)))
        found.append(st.builds(AddPartitions, st.just(topic.id), st.lists(partitions(), min_size=1).map(tuple)))
        for index, partition in enumerate(topic.partitions):
            after = partition_changes().map(lambda record, partition=partition: merged(partition, record))
            found.append(st.builds(ChangePartition, st.just(topic.id), st.just(index), after))
    new = [topic_id for topic_id in TOPIC_IDS if topic_id not in image.names_by_id]
    free = [name for name in ("a", "a.b", "a_b", "orders") if name not in image.topics_by_name]
    if new and free:
        of = st.builds(
            Topic,
            st.sampled_from(free),
            st.sampled_from(new),
            st.lists(partitions(), min_size=1, max_size=3).map(tuple),
        )
        found.append(st.builds(CreateTopic, of))
    return found


def next_change(image: ClusterImage) -> st.SearchStrategy[Change]:
    """One of the changes that may follow on an image."""
    topics = list(image.topics_by_name)
    kinds = [kind for kind in ResourceType if topics or kind is not ResourceType.TOPIC]
    resources = st.sampled_from(kinds).flatmap(
        lambda kind: st.builds(ConfigResource, st.just(kind), st.sampled_from(topics) if kind == 2 else names)
    )
    new_bindings = bindings.filter(lambda binding: binding not in image.acl_ids)
    choices: list[st.SearchStrategy[Change]] = [
        _register(image),
        st.builds(RegisterController, controllers),
        *_about_topics(image),
        st.builds(AlterConfig, resources, st.lists(st.tuples(names, st.none() | names), min_size=1).map(tuple)),
        st.builds(SetFeature, st.sampled_from(["group.version", "share.version"]), st.integers(0, 2)),
        st.builds(SetQuota, entities, names, st.none() | st.floats(allow_nan=False)),
        st.builds(SetScramCredential, st.builds(ScramKey, names, st.integers(1, 2)), st.none() | credentials),
        st.builds(CreateAcl, new_bindings, uuids.filter(lambda acl_id: acl_id not in image.acls_by_id)),
        tokens.map(lambda token: SetStoredValue(token_key(token.id), token_text(token))),
        names.map(lambda name: SetStoredValue(token_key(name), None)),
        st.just(AllocateProducerIds(1, 2, image.next_producer_id + 1000)),
    ]
    if image.brokers:
        choices.append(st.builds(UnregisterBroker, st.sampled_from(list(image.brokers))))
    if image.acl_ids:
        choices.append(st.builds(RemoveAcl, st.sampled_from(list(image.acl_ids))))
    return st.one_of(choices)


@st.composite
def histories(draw: st.DrawFn, steps: int = 6) -> tuple[ClusterImage, tuple[Change, ...]]:
    """An image, and changes that follow on it."""
    image = apply_all(ClusterImage(CLUSTER), [SetFeature(METADATA_VERSION, 30)])
    changes: list[Change] = []
    begin = draw(st.integers(0, steps))
    start = image
    for step in range(steps):
        if step == begin:
            start, changes = image, []
        change = draw(next_change(image))
        image = apply_all(image, [change])
        changes.append(change)
    return start, tuple(changes)
