"""Whatever a controller commits, the next one reads: random changes, the image in memory against that in ZooKeeper."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    RemoveAcl,
    RemoveTopic,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import (
    ALL_BROKERS,
    AclBinding,
    AclEntry,
    AclPattern,
    ConfigResource,
    Partition,
    ResourceType,
    ScramCredential,
    ScramKey,
    Topic,
)
from ottla.cluster.store.events import deletion_asked
from ottla.cluster.store.shared import take_in
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from ottla.cluster.store.zookeeper.store import ZooKeeperStore

CHROOTS = count()
NAMES = ["a", "b.c", "d_e-f"]
BROKERS = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True).map(tuple)
ANYONE = st.one_of(st.none(), st.text(min_size=1, max_size=4))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    replicas = draw(BROKERS)
    return Partition(replicas, replicas, replicas[0])


@st.composite
def moved(draw: st.DrawFn, before: Partition) -> Partition:
    replicas = draw(BROKERS)
    return replace(
        before,
        replicas=replicas,
        isr=draw(st.sampled_from([replicas, replicas[:1], ()])),
        leader=draw(st.sampled_from([-1, *replicas])),
        leader_epoch=before.leader_epoch + draw(st.integers(0, 2)),
        partition_epoch=before.partition_epoch + 1,
        adding=draw(st.sampled_from([(), replicas[:1]])),
        removing=draw(st.sampled_from([(), replicas[-1:]])),
        recovering=draw(st.booleans()),
    )


@st.composite
def of_a_topic(draw: st.DrawFn, image: ClusterImage) -> Change:
    name = draw(st.sampled_from(NAMES))
    topic = image.topic(name)
    if topic is None:
        identity = name.encode().ljust(16, bytes([image.change_number % 250 + 1]))
        return CreateTopic(Topic(name, identity, tuple(draw(st.lists(partitions(), min_size=1, max_size=4)))))
    match draw(st.integers(0, 5)):
        case 0:
            return RemoveTopic(topic.id)
        case 1:
            return AddPartitions(topic.id, (draw(partitions()),))
        case 2:
            values = st.dictionaries(st.sampled_from("xyz"), st.one_of(st.none(), st.text(max_size=3)), min_size=1)
            return AlterConfig(ConfigResource(ResourceType.TOPIC, name), tuple(sorted(draw(values).items())))
    index = draw(st.integers(0, len(topic.partitions) - 1))
    return ChangePartition(topic.id, index, draw(moved(topic.partitions[index])))


@st.composite
def of_all(draw: st.DrawFn, image: ClusterImage) -> Change:
    user = draw(ANYONE)
    entity = draw(st.sampled_from([(("user", user),), (("client-id", "c"), ("user", user)), (("ip", "::1"),)]))
    pattern = draw(
        st.sampled_from(
            [
                AclPattern(AclResource.TOPIC, PatternType.LITERAL, "a"),
                AclPattern(AclResource.GROUP, PatternType.PREFIXED, "b-"),
                AclPattern(AclResource.TRANSACTIONAL_ID, PatternType.LITERAL, "*"),
            ]
        )
    )
    entry = AclEntry(
        f"User:{user}", "*", draw(st.sampled_from([AclOperation.READ, AclOperation.ALL])), AclPermission.ALLOW
    )
    return draw(
        st.sampled_from(
            [
                SetQuota(entity, "request_percentage", draw(st.sampled_from([None, 0.0005, 25.0, 1e9]))),
                SetQuota(entity, "producer_byte_rate", draw(st.sampled_from([None, 1.0, 2.0**40]))),
                SetScramCredential(
                    ScramKey(user or "u", 1), draw(st.sampled_from([None, ScramCredential(4096, b"s", b"t", b"u")]))
                ),
                CreateAcl(AclBinding(pattern, entry)),
                RemoveAcl(AclBinding(pattern, entry)),
                SetStoredValue(deletion_asked("a"), draw(st.sampled_from([None, ""]))),
                AlterConfig(ALL_BROKERS, (("k", draw(st.sampled_from([None, "v", "w"]))),)),
                AllocateProducerIds(1, 1, image.next_producer_id + 1000),
                SetFeature("f", draw(st.integers(0, 3))),
            ]
        )
    )


@st.composite
def commits(draw: st.DrawFn) -> list[list[Change]]:
    image, made = ClusterImage("c"), list[list[Change]]()
    for _ in range(draw(st.integers(1, 8))):
        commit = list[Change]()
        for _ in range(draw(st.integers(1, 4))):
            change = draw(st.one_of(of_a_topic(image), of_all(image)))
            if isinstance(change, RemoveTopic) and _is_made_in(change, commit):
                continue  # nobody plans that: deleting takes several steps
            image = take_in(image, [change])
            commit.append(change)
        made.append(commit)
    return made


def _is_made_in(removal: RemoveTopic, commit: list[Change]) -> bool:
    return any(isinstance(change, CreateTopic) and change.topic.id == removal.topic_id for change in commit)


@settings(max_examples=8, phases=[Phase.generate])
@given(commits())
def test_what_one_controller_commits_the_next_one_reads(zookeeper: ZooKeeperServer, made: list[list[Change]]) -> None:
    connection = Connection(f"{zookeeper.connect}/images/{next(CHROOTS)}")
    store, member = ZooKeeperStore(connection), ZooKeeperStore(connection)
    try:
        store.stand(1)
        store.take_over()
        member.load()
        for commit in made:
            store.commit(commit)
        known = store.load()
        read = store.take_over()
        assert replace(read, change_number=0) == replace(known, change_number=0)
        late = ZooKeeperStore(connection)
        kept = late.load()
        late.close()
        for name in ("configs", "quotas", "scram_credentials", "features"):
            assert getattr(kept, name) == getattr(known, name)
    finally:
        store.close()
        member.close()
