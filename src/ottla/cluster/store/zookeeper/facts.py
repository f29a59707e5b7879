"""What a fact means to a member with this image: what enters its image, and which events it gets; pure.

A fact may be old news, because this member wrote it itself, or because two looks found the same. Then it means nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.cluster.changes import Change, SetController, SetStoredValue
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import StoredKey, Topic
from ottla.cluster.store.events import (
    DELETION_ASKED,
    BrokersChanged,
    ConfigChanged,
    ControllerChanged,
    DeletionsAsked,
    LogDirFailed,
    PartitionStatesChanged,
    StoreEvent,
    TopicsChanged,
)
from ottla.cluster.store.requests import request_event
from ottla.cluster.store.zookeeper import paths
from ottla.cluster.store.zookeeper.acls import acl_pattern, node_changes
from ottla.cluster.store.zookeeper.entities import changes_between, read_config, texts_of
from ottla.cluster.store.zookeeper.reading import feature_changes, is_entity, kept_key
from ottla.cluster.store.zookeeper.znodes import DamagedNode, Znode
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodesRead:
    """These nodes of settings, kept values or features were read, because somebody noted that they changed; not before
    the zxid `since`, and not after `until` (read_order.py)."""

    nodes: Mapping[str, Znode | None]
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class RequestsRead:
    """These requests to the controller were there, not before the zxid `since`."""

    texts: Mapping[StoredKey, str]
    since: int


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """These topics were there that the image did not know, and these names not, not before the zxid `since`."""

    found: tuple[Topic, ...]
    gone: tuple[str, ...]
    since: int


Fact: TypeAlias = StoreEvent | NodesRead | RequestsRead | TopicsRead

ONLY_FOR_THE_CONTROLLER: Final = (BrokersChanged, TopicsRead, PartitionStatesChanged, LogDirFailed, RequestsRead)


class Meaning(NamedTuple):
    """Changes to observe, and events to tell."""

    changes: tuple[Change, ...] = ()
    events: tuple[StoreEvent, ...] = ()


def meaning(fact: Fact, image: ClusterImage, nodes: Mapping[str, Znode]) -> Meaning:
    """`nodes` are the newest known; a fact about nodes only says which of them to look at."""
    match fact:
        case NodesRead(read):
            changes = tuple(change for path in read for change in _node_changes(path, image, nodes.get(path)))
            return Meaning(changes, (ConfigChanged(changes),)) if changes else Meaning()
        case RequestsRead(texts):
            return _requests(texts, image)
        case ControllerChanged(controller):
            return Meaning((SetController(*controller or (NO_CONTROLLER, image.controller_epoch)),), (fact,))
        case BrokersChanged(live):
            return Meaning() if live == tuple(image.brokers.values()) else Meaning((), (fact,))
        case TopicsRead(found, gone):
            unknown = tuple(topic for topic in found if image.topic(topic.name) is None)
            missing = tuple(name for name in gone if image.topic(name) is not None)
            return Meaning((), (TopicsChanged(unknown, missing),)) if unknown or missing else Meaning()
        case PartitionStatesChanged(partitions):
            news = tuple(
                (name, partition)
                for name, partition in partitions
                if (known := image.partition(*name)) is not None and partition.partition_epoch > known.partition_epoch
            )
            return Meaning((), (PartitionStatesChanged(news),)) if news else Meaning()
    return Meaning((), (fact,))


def _node_changes(path: str, image: ClusterImage, node: Znode | None) -> list[Change]:
    if path == paths.FEATURE:
        return list(feature_changes(image.features, node))
    if is_entity(path):
        entity = path.removeprefix(paths.CONFIG + "/")
        return changes_between(entity, texts_of(image, entity), read_config(entity, node.data if node else None))
    if acl_pattern(path) is not None:
        return _acl_changes(path, image, node)
    key = kept_key(path)
    text = None if node is None else (node.data or b"").decode()
    return [] if key is None or image.stored_values.get(key) == text else [SetStoredValue(key, text)]


def _acl_changes(path: str, image: ClusterImage, node: Znode | None) -> list[Change]:
    """Rules that make no sense change nothing: what held before is safer than no rules at all."""
    try:
        return node_changes(path, image, node)
    except DamagedNode as problem:
        log.error("what was known of these rules goes on to hold: %s", problem)
        return []


def _requests(texts: Mapping[StoredKey, str], image: ClusterImage) -> Meaning:
    news = {key: text for key, text in texts.items() if image.stored_values.get(key) != text}
    deletions = tuple(key.key for key in news if key.kind == DELETION_ASKED)
    events: list[StoreEvent | None] = [DeletionsAsked(deletions) if deletions else None]
    events += [request_event(key, text) for key, text in news.items() if key.kind != DELETION_ASKED]
    return Meaning(
        tuple(SetStoredValue(key, text) for key, text in news.items()),
        tuple(event for event in events if event is not None),
    )
