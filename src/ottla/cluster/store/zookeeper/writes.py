"""Changes to writes: which nodes a commit touches, and how.

1. A commit is a list of writes in the order in which they must be made; session.py makes transactions of them.
2. A state node is written with the version it is known to have, once per change of its partition; the node of a topic
   once per commit, whatever happened to the topic. Maps of settings are edited with the version they were read with.
3. Registrations and elections are not written here (shared.py, 1).
4. A note goes with every change of settings, so that brokers that watch the notes read them anew: one per entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateTopic,
    RemoveTopic,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
)
from ottla.cluster.delegation_tokens import KIND as TOKEN
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition, StoredKey, Topic
from ottla.cluster.store.shared import partition_before, take_in
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.acls import acl_writes
from ottla.cluster.store.zookeeper.entities import EntityChange, config_json, edited, entity_path, read_config
from ottla.cluster.store.zookeeper.operations import ANY_VERSION
from ottla.cluster.store.zookeeper.operations import Check as Check
from ottla.cluster.store.zookeeper.operations import Create as Create
from ottla.cluster.store.zookeeper.operations import Delete as Delete
from ottla.cluster.store.zookeeper.operations import DeleteTree as DeleteTree
from ottla.cluster.store.zookeeper.operations import Ensure as Ensure
from ottla.cluster.store.zookeeper.operations import SetData as SetData
from ottla.cluster.store.zookeeper.operations import Write as Write
from ottla.cluster.store.zookeeper.reading import kept_path
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.errors import InvalidRequest

NEVER_EMPTY: Final = ("users/", "clients/", "ips/", "groups/", "client-metrics/")
"""An empty map of these is taken away, as Kafka does with its own; topics and brokers keep theirs."""


def writes_of(
    before: ClusterImage, changes: Sequence[Change], nodes: Mapping[str, Znode], controller_epoch: int
) -> list[Write]:
    """The writes of a commit. `nodes` are the maps of settings, kept values, features and producer ids as known."""
    return [
        *_topic_writes(before, changes, nodes, controller_epoch),
        *_entity_writes(before, changes, nodes),
        *acl_writes(changes, nodes),
        *_single_writes(before, changes, nodes),
    ]


# --- topics -----------------------------------------------------------------------------------------------------------


def _topic_writes(
    before: ClusterImage, changes: Sequence[Change], nodes: Mapping[str, Znode], controller_epoch: int
) -> Iterator[Write]:
    image, kept = before, dict[bytes, Topic]()
    for change in changes:
        following = take_in(image, [change])
        match change:
            case CreateTopic(topic):
                yield from _new_topic(topic, controller_epoch)
            case RemoveTopic(topic_id) if (gone := image.topic_by_id(topic_id)) is not None:
                kept.pop(topic_id, None)
                yield from _no_topic(gone, nodes)
            case AddPartitions(topic_id, added) if (grown := following.topic_by_id(topic_id)) is not None:
                kept[topic_id] = grown
                first = len(grown.partitions) - len(added)
                yield from _new_partitions(grown.name, first, added, controller_epoch)
            case ChangePartition(topic_id) if (present := following.topic_by_id(topic_id)) is not None:
                kept[topic_id] = present
                yield from _state(present.name, change, partition_before(image, change), controller_epoch)
        image = following
    for topic_id, topic in kept.items():
        yield from _assignment(before.topic_by_id(topic_id), topic)


def _new_topic(topic: Topic, controller_epoch: int) -> Iterator[Write]:
    yield Create(paths.topic(topic.name), znodes.topic_json(topic))
    yield Create(paths.partitions(topic.name))
    yield from _new_partitions(topic.name, 0, topic.partitions, controller_epoch)


def _no_topic(topic: Topic, nodes: Mapping[str, Znode]) -> Iterator[Write]:
    below = [
        path
        for index, partition in enumerate(topic.partitions)
        for path in (paths.state(topic.name, index), paths.partition(topic.name, index))
        if partition.partition_epoch >= 0
    ]
    yield DeleteTree(paths.topic(topic.name), (*below, paths.partitions(topic.name), paths.topic(topic.name)))
    settings = paths.entity(f"topics/{topic.name}")
    yield DeleteTree(settings, (settings,) if settings in nodes else None)


def _new_partitions(name: str, first: int, added: Sequence[Partition], controller_epoch: int) -> Iterator[Write]:
    for index, partition in enumerate(added, first):
        yield Create(paths.partition(name, index))
        yield Create(paths.state(name, index), znodes.state_json(partition, controller_epoch))


def _state(name: str, change: ChangePartition, before: Partition | None, controller_epoch: int) -> Iterator[Write]:
    path, data = paths.state(name, change.index), znodes.state_json(change.partition, controller_epoch)
    if before is not None and before.partition_epoch >= 0:
        yield SetData(path, data, before.partition_epoch)
        return
    yield Ensure(paths.partitions(name))  # a controller before us may have come as far as this
    yield Ensure(paths.partition(name, change.index))
    yield Create(path, data)


def _assignment(before: Topic | None, after: Topic) -> Iterator[Write]:
    data = znodes.topic_json(after)
    if before is None or znodes.topic_json(before) != data:
        yield SetData(paths.topic(after.name), data)


# --- settings, quotas, credentials ------------------------------------------------------------------------------------


def _entity_writes(before: ClusterImage, changes: Sequence[Change], nodes: Mapping[str, Znode]) -> Iterator[Write]:
    """Edits of maps; those of new topics without a note, and every new topic gets a map, be it empty."""
    new = [change.topic.name for change in changes if isinstance(change, CreateTopic)]
    removed = {before.names_by_id.get(change.topic_id) for change in changes if isinstance(change, RemoveTopic)}
    nodes = {path: node for path, node in nodes.items() if path.removeprefix("/config/topics/") not in removed}
    edits: dict[str, list[EntityChange]] = {f"topics/{name}": [] for name in new}
    for change in changes:
        if isinstance(change, AlterConfig | SetQuota | SetScramCredential):
            edits.setdefault(entity_path(change), []).append(change)
    for name in removed - set(new):
        edits.pop(f"topics/{name}", None)
    for entity, ones in edits.items():
        yield from _entity(entity, ones, nodes)
        if entity.removeprefix("topics/") not in new or not entity.startswith("topics/"):
            yield Create(paths.CONFIG_CHANGE, znodes.config_change_json(entity), sequential=True)


def _entity(entity: str, edits: Sequence[EntityChange], nodes: Mapping[str, Znode]) -> Iterator[Write]:
    path = paths.entity(entity)
    node = nodes.get(path)
    config = {} if node is None else read_config(entity, node.data)
    for change in edits:
        config = edited(config, change)
    if not config and entity.startswith(NEVER_EMPTY):
        if node is not None and not any(other.startswith(path + "/") for other in nodes):
            yield Delete(path, node.version)
            return
        if node is None:
            return
    if node is None:
        yield from (Ensure(parent) for parent in paths.uncertain_parents(path))
        yield Create(path, config_json(config))
    else:
        yield SetData(path, config_json(config), node.version)


# --- what stands alone ------------------------------------------------------------------------------------------------


def _single_writes(before: ClusterImage, changes: Sequence[Change], nodes: Mapping[str, Znode]) -> Iterator[Write]:
    """One write per node, however often a commit changes it."""
    after = take_in(before, (change for change in changes if isinstance(change, SetFeature)))
    blocks = [change for change in changes if isinstance(change, AllocateProducerIds)]
    if blocks:
        version = nodes[paths.PRODUCER_IDS].version if paths.PRODUCER_IDS in nodes else ANY_VERSION
        first = blocks[-2].next_producer_id if len(blocks) > 1 else before.next_producer_id
        data = znodes.producer_ids_json(blocks[-1].broker_id, first, blocks[-1].next_producer_id - 1)
        yield SetData(paths.PRODUCER_IDS, data, version)
    for key, text in {change.key: change.text for change in changes if isinstance(change, SetStoredValue)}.items():
        yield from _kept(key, text, nodes, before)
    if after is not before:
        node = nodes.get(paths.FEATURE)
        data = znodes.features_json(dict(after.features))
        yield Create(paths.FEATURE, data) if node is None else SetData(paths.FEATURE, data, node.version)


def _kept(key: StoredKey, text: str | None, nodes: Mapping[str, Znode], before: ClusterImage) -> Iterator[Write]:
    path = kept_path(key)
    if path is None:
        raise InvalidRequest(f"a cluster on ZooKeeper has no place for values of kind {key.kind!r}")
    node, is_there = nodes.get(path), key in before.stored_values
    version = ANY_VERSION if node is None else node.version
    if text is None and not is_there:
        return
    if text is None:
        yield Delete(path, version)
    elif is_there:
        yield SetData(path, text.encode(), version)
    else:
        yield from (Ensure(parent) for parent in paths.uncertain_parents(path))
        yield Create(path, text.encode() or None)
    yield from _kept_note(key)


def _kept_note(key: StoredKey) -> Iterator[Write]:
    if key.kind == TOKEN:
        yield Create(paths.TOKEN_CHANGES + "/token_change_", key.key.encode(), sequential=True)
