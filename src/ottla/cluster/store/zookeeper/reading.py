"""Nodes to image: what a new controller makes of everything it read; and what a member makes of what concerns all.

`nodes` is path to Znode, as read: absent nodes are not in it. Nothing here waits or looks anything up.

    delegation tokens   StoredKey("delegation-token", ID)
    requests            events.py: deletion_asked(T), REASSIGNMENT_ASKED, ELECTION_ASKED
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.cluster.changes import (
    AllocateProducerIds,
    Change,
    CreateTopic,
    RegisterBroker,
    SetController,
    SetFeature,
    SetStoredValue,
)
from ottla.cluster.delegation_tokens import KIND as TOKEN
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import StoredKey, Topic
from ottla.cluster.store.events import ELECTION_ASKED, REASSIGNMENT_ASKED, deletion_asked
from ottla.cluster.store.shared import take_in
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.acls import acl_pattern, node_changes
from ottla.cluster.store.zookeeper.entities import changes_between, read_config
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.light_dataclasses import replace

Nodes = Mapping[str, Znode]


def image_of(nodes: Nodes, *, change_number: int = 0) -> ClusterImage:
    """All that the nodes say."""
    image = ClusterImage(znodes.read_cluster_id(nodes[paths.CLUSTER_ID]))
    image = take_in(image, (*_cluster(nodes), *_topics(nodes), *known_to_all(nodes), *_requests(nodes)))
    return replace(image, change_number=change_number)


def known_to_all(nodes: Nodes) -> Iterator[Change]:
    """Settings, quotas, credentials, rules, features, kept values: what members know that are not controller."""
    nothing = ClusterImage("")
    yield from feature_changes({}, nodes.get(paths.FEATURE))
    for path, node in sorted(nodes.items()):
        if is_entity(path):
            entity = path.removeprefix(paths.CONFIG + "/")
            yield from changes_between(entity, {}, read_config(entity, node.data))
        elif acl_pattern(path) is not None:
            yield from node_changes(path, nothing, node)
        elif (key := kept_key(path)) is not None:
            yield SetStoredValue(key, (node.data or b"").decode())


def feature_changes(before: Mapping[str, int], node: Znode | None) -> list[SetFeature]:
    after = {} if node is None or not node.data else znodes.read_features(node)
    names = sorted({*before, *after})
    return [SetFeature(name, after.get(name, 0)) for name in names if before.get(name, 0) != after.get(name, 0)]


def is_entity(path: str) -> bool:
    """Whether a node has a map of settings, quotas or credentials."""
    parts = path.strip("/").split("/")
    if parts[0] != "config" or len(parts) < 3 or parts[1] not in paths.CONFIG_TYPES:
        return False
    return len(parts) == 3 or (len(parts) == 5 and parts[1] == "users" and parts[3] == "clients")


def kept_key(path: str) -> StoredKey | None:
    """Under which key the image keeps the text of a node; None when it does not."""
    token = path.removeprefix(paths.TOKENS + "/")
    return None if token == path else StoredKey(TOKEN, token)


def is_shared_map(path: str) -> bool:
    """Whether several members may write a node, so that it is written with the version it was read with."""
    return is_entity(path) or acl_pattern(path) is not None or kept_key(path) is not None


def kept_path(key: StoredKey) -> str | None:
    """Where a kept value is; None when ZooKeeper has no place for its kind."""
    if key.kind == TOKEN:
        return f"{paths.TOKENS}/{key.key}"
    if key == REASSIGNMENT_ASKED:
        return paths.REASSIGNMENT
    if key == ELECTION_ASKED:
        return paths.ELECTION
    return paths.deletion(key.key) if key == deletion_asked(key.key) else None


def request_key(path: str) -> StoredKey | None:
    """Which request to the controller a node is; None when it is none."""
    if path in (paths.REASSIGNMENT, paths.ELECTION):
        return REASSIGNMENT_ASKED if path == paths.REASSIGNMENT else ELECTION_ASKED
    name = path.removeprefix(paths.DELETIONS + "/")
    return None if name == path else deletion_asked(name)


def topic_of(name: str, nodes: Nodes) -> Topic | None:
    """A topic with the states of its partitions; None when it is not there."""
    node = nodes.get(paths.topic(name))
    if node is None:
        return None
    assignment = znodes.read_assignment(name, node)
    partitions = (
        znodes.read_partition(name, index, assignment, nodes.get(paths.state(name, index)))
        for index in range(len(assignment.partitions))
    )
    return Topic(name, assignment.id, tuple(partitions))


def topic_names(nodes: Nodes) -> list[str]:
    lead = paths.TOPICS + "/"
    return sorted(path.removeprefix(lead) for path in nodes if path.startswith(lead) and path.count("/") == 3)


def brokers_in(nodes: Nodes) -> list[RegisterBroker]:
    lead = paths.BROKER_IDS + "/"
    ids = sorted(int(path.removeprefix(lead)) for path in nodes if path.startswith(lead))
    return [RegisterBroker(znodes.read_broker(each, nodes[paths.broker(each)])) for each in ids]


def _cluster(nodes: Nodes) -> Iterator[Change]:
    yield from brokers_in(nodes)
    controller, epoch = nodes.get(paths.CONTROLLER), nodes.get(paths.CONTROLLER_EPOCH)
    if epoch is not None:
        number = NO_CONTROLLER if controller is None else znodes.read_controller(controller)
        yield SetController(number, znodes.read_epoch(epoch))
    block = nodes.get(paths.PRODUCER_IDS)
    if block is not None and (following := znodes.read_next_producer_id(block)):
        yield AllocateProducerIds(-1, -1, following)


def _topics(nodes: Nodes) -> Iterator[Change]:
    for name in topic_names(nodes):
        topic = topic_of(name, nodes)
        if topic is not None and topic.partitions:
            yield CreateTopic(topic)


def _requests(nodes: Nodes) -> Iterator[Change]:
    for path in sorted(nodes):
        if path.startswith(paths.DELETIONS + "/"):
            yield SetStoredValue(deletion_asked(path.removeprefix(paths.DELETIONS + "/")), "")
    for path, key in ((paths.REASSIGNMENT, REASSIGNMENT_ASKED), (paths.ELECTION, ELECTION_ASKED)):
        if path in nodes:
            yield SetStoredValue(key, (nodes[path].data or b"").decode())
