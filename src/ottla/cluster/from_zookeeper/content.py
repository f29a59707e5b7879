"""What a stopped cluster has in ZooKeeper, as the image that its metadata log begins with; pure.

1. Ids, replicas, in-sync sets, leader epochs, partition epochs, moves that go on, settings, users, rules, quotas,
   tokens and the next producer id are what ZooKeeper says. Nobody leads: no broker is registered, and the controller
   elects when they come. Epochs go on from where they are, also the controller's.
2. A partition that never had a leader has all its replicas in sync, as it would have at its first election.
3. Eligible leader replicas begin switched off: they trust a broker only by its last registration, and there is none. A
   partition with nobody in sync has those in sync that were eligible, because they have all that was acknowledged.
4. metadata.version is the only feature that is not ZooKeeper's. The others stay as they are.
5. Secrets of brokers are decoded (password.encoder.secret): the metadata log keeps them as they are, as Kafka's.
6. What has no place, or makes no sense, is named (`left`): never dropped in silence. What the records do not say again
   exactly is a fault of ours, and refused.
7. The same nodes give the same image on every machine: ids that ZooKeeper does not have are made of names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from ottla.cluster.changes import (
    AllocateProducerIds,
    AlterConfig,
    Change,
    CreateAcl,
    CreateTopic,
    IllegalChange,
    SetFeature,
    SetStoredValue,
    apply_all,
)
from ottla.cluster.delegation_tokens import KIND as TOKEN
from ottla.cluster.features import ELR_VERSION, SUPPORTED
from ottla.cluster.from_zookeeper.found import Found
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import folded
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.cluster.model import (
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    AclBinding,
    ConfigResource,
    Partition,
    ResourceType,
    StoredKey,
    Topic,
)
from ottla.cluster.store.events import DELETION_ASKED, NO_STATE, ElectionAsked, ReassignmentAsked
from ottla.cluster.store.requests import requests_in
from ottla.cluster.store.zookeeper import paths
from ottla.cluster.store.zookeeper.entities import read_config, texts_of
from ottla.cluster.store.zookeeper.reading import image_of, is_entity, topic_names
from ottla.cluster.token_text import DamagedToken, read_token, token_text
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclPermission
from ottla.values import ZERO_UUID, random_uuid

FIRST_LEVEL: Final = 21
"""3.9-IV0: from here on the log can say who votes."""
NAMES_SHOWN: Final = 20
_UNKNOWN: Final = (AclOperation.UNKNOWN, AclPermission.UNKNOWN)
_FEATURES: Final = {each.name: each for each in SUPPORTED}


class Left(NamedTuple):
    """What is not taken over: what it is, and why or what to do."""

    what: str
    why: str


class Secrets(NamedTuple):
    """Which settings of brokers are secrets, and what they are; `decode` raises OttlaError."""

    is_secret: Callable[[str], bool]
    decode: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Content:
    """The image to begin with, the controller's last epoch, the time of the newest node, and what is left."""

    image: ClusterImage
    epoch: int
    newest_ms: int
    left: tuple[Left, ...]
    notes: tuple[str, ...] = field(default=())
    """What is otherwise than in ZooKeeper, in sentences."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How much there is of each kind, for a plan."""
        image = self.image
        kinds = [resource.type for resource in image.configs]
        return {
            "topics": len(image.topics_by_name),
            "partitions": sum(len(topic.partitions) for topic in image.topics_by_name.values()),
            "partitions that move": sum(partition.is_reassigning for _, partition in image.partitions()),
            "topics with settings": kinds.count(ResourceType.TOPIC),
            "brokers with settings": kinds.count(ResourceType.BROKER),
            "groups with settings": kinds.count(ResourceType.GROUP),
            "metrics subscriptions": kinds.count(ResourceType.CLIENT_METRICS),
            "passwords of users": len(image.scram_credentials),
            "access rules": sum(1 for _ in image.acl_bindings()),
            "quotas": sum(map(len, image.quotas.values())),
            "delegation tokens": len(image.stored_values),
        }

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Who has replicas."""
        return tuple(sorted({each for _, partition in self.image.partitions() for each in partition.replicas}))


def take(found: Found, metadata_version: int, secrets: Secrets) -> Content:
    """See the module."""
    read = image_of(found.nodes)
    left = [Left(path, "nobody here knows what that is") for path in found.unknown]
    left += _unread(found, read)
    left += _requests(read)
    notes: list[str] = []
    image = ClusterImage(read.cluster_id)
    image = apply_all(image, list(_features(read, metadata_version, left, notes)))
    image = apply_all(image, _topics(read, notes))
    image = apply_all(image, list(_settings(image, read, secrets, left)))
    image = replace(image, quotas=read.quotas, scram_credentials=read.scram_credentials)
    image = apply_all(image, [*_rules(read, left), *_tokens(read, left)])
    if read.next_producer_id:
        image = apply_all(image, [AllocateProducerIds(-1, -1, read.next_producer_id)])
    prove(image)
    newest_ms = max((node.created_ms for node in found.nodes.values()), default=0)
    return Content(image, max(read.controller_epoch, 1), newest_ms, tuple(left), tuple(notes))


def prove(image: ClusterImage) -> None:
    """IllegalChange unless a reader of the records has exactly this image."""
    again = folded(ClusterImage(image.cluster_id), snapshot_records(image), image.change_number)
    for name in ClusterImage.__slots__:
        if getattr(again, name) != getattr(image, name):
            raise IllegalChange(f"the metadata log would not say the same {name} as ZooKeeper; nothing was written")


# --- features ---------------------------------------------------------------------------------------------------------


def _features(read: ClusterImage, metadata_version: int, left: list[Left], notes: list[str]) -> Iterator[SetFeature]:
    yield SetFeature(METADATA_VERSION, metadata_version)
    for name, level in read.features.items():
        known = _FEATURES.get(name)
        if name == METADATA_VERSION:
            continue
        if name == ELR_VERSION:
            notes.append(f"{name} begins switched off; raise it again when every broker has come")
        elif known is None or level > known.max_level:
            left.append(Left(f"level {level} of the feature {name}", "nobody here knows it"))
        else:
            yield SetFeature(name, level)


# --- topics -----------------------------------------------------------------------------------------------------------


def _topics(read: ClusterImage, notes: list[str]) -> list[Change]:
    deleted = read.stored(DELETION_ASKED)
    topics = [topic for topic in read.topics_by_name.values() if topic.name not in deleted]
    notes += _about(topics)
    return [CreateTopic(_migrated(topic, read.cluster_id)) for topic in topics]


def _migrated(topic: Topic, cluster_id: str) -> Topic:
    topic_id = _made_id(cluster_id, "topic", topic.name) if topic.id == ZERO_UUID else topic.id
    return replace(topic, id=topic_id, partitions=tuple(map(_unled, topic.partitions)))


def _about(topics: list[Topic]) -> Iterator[str]:
    """What an administrator should know of them."""
    without_id = [topic.name for topic in topics if topic.id == ZERO_UUID]
    if without_id:
        yield f"{_several(without_id, 'topic')} had no id and got one: {_listed(without_id)}"
    partitions = [(f"{topic.name}-{index}", each) for topic in topics for index, each in enumerate(topic.partitions)]
    if together := sum(len(each.isr) > 1 for _, each in partitions):
        yield (
            f"{together} partitions have several brokers in sync, so these were not stopped one after the other: all "
            "of them must come back before such a partition is led"
        )
    if eligible := sum(not each.isr and bool(each.elr) for _, each in partitions):
        yield f"{eligible} partitions with nobody in sync have those in sync now that were eligible to lead"
    nobody = [name for name, each in partitions if not each.isr and not each.elr and each.leader_epoch != NO_STATE]
    if nobody:
        yield f"nobody is in sync of {_listed(nobody)}: ottla elect --unclean, when their brokers are there"


def _unled(partition: Partition) -> Partition:
    """The same with nobody leading it."""
    if partition.leader_epoch == NO_STATE:
        everybody = tuple(each for each in partition.replicas if each not in partition.adding) or partition.replicas
        partition = replace(partition, isr=everybody, leader_epoch=0, partition_epoch=0)
    return replace(
        partition,
        isr=partition.isr or partition.elr,
        leader=NO_LEADER,
        directories=(MIGRATING_DIRECTORY,) * len(partition.replicas),
        elr=(),
        last_known_elr=(),
    )


def _requests(read: ClusterImage) -> Iterator[Left]:
    """What somebody had asked of a controller."""
    deleted = sorted(read.stored(DELETION_ASKED))
    if deleted:
        yield Left(
            f"{_several(deleted, 'topic')} whose deletion was asked for: {_listed(deleted)}",
            "deleted; what their brokers still have of them is set aside when they start",
        )
    for event in requests_in(read):
        if isinstance(event, ReassignmentAsked) and event.targets:
            names = [str(name) for name, _ in event.targets]
            yield Left(f"moves that were asked for and not begun: {_listed(names)}", "ask again: ottla reassign")
        elif isinstance(event, ElectionAsked) and event.partitions:
            names = [str(name) for name in event.partitions]
            yield Left(f"elections that were asked for: {_listed(names)}", "ask again: ottla elect")


# --- settings ---------------------------------------------------------------------------------------------------------


def _settings(image: ClusterImage, read: ClusterImage, secrets: Secrets, left: list[Left]) -> Iterator[Change]:
    gone = []
    for resource, values in read.configs.items():
        if resource.type is ResourceType.TOPIC and image.topic(resource.name) is None:
            if read.topic(resource.name) is None:
                gone.append(resource.name)
            continue
        kept = values
        if resource.type is ResourceType.BROKER:
            kept = dict(_decoded(resource, values, secrets, left))
        if kept:
            yield AlterConfig(resource, tuple(kept.items()))
    if gone:
        left.append(Left(f"settings of {_several(gone, 'topic')}: {_listed(gone)}", "there is no such topic"))


def _decoded(
    resource: ConfigResource, values: Mapping[str, str], secrets: Secrets, left: list[Left]
) -> Iterator[tuple[str, str]]:
    for name, text in values.items():
        if not secrets.is_secret(name):
            yield name, text
            continue
        try:
            yield name, secrets.decode(text)
        except OttlaError as problem:
            whose = f"broker {resource.name}" if resource.name else "all brokers"
            left.append(Left(f"the secret {name} of {whose}", f"{problem}; else set it again: ottla config set"))


def _unread(found: Found, read: ClusterImage) -> Iterator[Left]:
    """What stands in a node and in no image."""
    for name in topic_names(found.nodes):
        if read.topic(name) is None:
            yield Left(f"topic {name}", "it has no partitions")
    for path, node in sorted(found.nodes.items()):
        if is_entity(path):
            entity = path.removeprefix(paths.CONFIG + "/")
            names = read_config(entity, node.data).keys() - texts_of(read, entity).keys()
            yield from (
                Left(f"{name} of {path}", "it makes no sense, or nobody here knows it") for name in sorted(names)
            )


# --- access -----------------------------------------------------------------------------------------------------------


def _rules(read: ClusterImage, left: list[Left]) -> Iterator[Change]:
    for binding in read.acl_bindings():
        if binding.entry.operation in _UNKNOWN or binding.entry.permission in _UNKNOWN:
            left.append(Left(f"a rule of {binding.entry.principal} about {_pattern(binding)}", "nobody here knows it"))
        else:
            words = (read.cluster_id, "acl", *map(str, binding.pattern), *map(str, binding.entry))
            yield CreateAcl(binding, _made_id(*words))


def _pattern(binding: AclBinding) -> str:
    of, kind, name = binding.pattern
    return f"{of.name} {name} ({kind.name})"


def _tokens(read: ClusterImage, left: list[Left]) -> Iterator[Change]:
    """As the newest version says them; older ones are read."""
    for token_id, text in read.stored(TOKEN).items():
        try:
            yield SetStoredValue(StoredKey(TOKEN, token_id), token_text(read_token(token_id, text)))
        except DamagedToken as problem:
            left.append(Left(f"delegation token {token_id}", str(problem)))


# --- small parts ------------------------------------------------------------------------------------------------------


def _made_id(*words: str) -> bytes:
    """An id that every machine makes of the same words."""
    numbers = count()

    def drawn(size: int) -> bytes:
        text = "\0".join((*words, str(next(numbers))))
        return hashlib.sha256(text.encode()).digest()[:size]

    return random_uuid(drawn)


def _several(names: list[str], noun: str) -> str:
    return f"{len(names)} {noun}{'s' * (len(names) != 1)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
