"""The changes an image can undergo: image + change = image.

1. A change says what is true afterwards, never how to get there ("the partition is like this now"), so that applying
   it needs no clock, no randomness and no look at anything but the image.
2. `apply` gives the next image, with the next change number. A change that contradicts the image (a second topic of
   that name, a partition of a topic that is not there) is IllegalChange: plans never make one, so it means a bug or a
   damaged log, and going on would make it worse.

How a change is written is in written.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from ottla.cluster.image import ClusterImage
from ottla.cluster.model import (
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    ControllerNode,
    Partition,
    QuotaEntity,
    ResourceType,
    ScramCredential,
    ScramKey,
    StoredKey,
    Topic,
)
from ottla.cluster.topic_names import collision_key
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field, replace


class IllegalChange(OttlaError):
    """A change contradicts what is known of the cluster, so it was not made.
    This is a bug in Ottla or a damaged metadata log; please report it with the log."""


# --- the changes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker is there, with these properties; it takes the place of an earlier registration."""

    broker: Broker


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """A broker is gone for good."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class RegisterController:
    """A controller is there, with these properties; it takes the place of an earlier registration."""

    controller: ControllerNode


@dataclass(frozen=True, slots=True)
class SetController:
    """Who gives orders from now on."""

    controller_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A topic is there, with all its partitions."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """A topic is gone, and its settings with it."""

    topic_id: bytes


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """A topic has these partitions after the ones it had."""

    topic_id: bytes
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class ChangePartition:
    """A partition is like this now."""

    topic_id: bytes
    index: int
    partition: Partition


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """Settings of a resource; None takes one away. A value may be a secret, so they are not printed."""

    resource: ConfigResource
    values: tuple[tuple[str, str | None], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetFeature:
    """The finalized level of a feature; 0 turns it off."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class SetQuota:
    """One quota of an entity; None takes it away."""

    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class SetScramCredential:
    """The credential of a user for a mechanism; None takes it away."""

    key: ScramKey
    credential: ScramCredential | None


@dataclass(frozen=True, slots=True)
class CreateAcl:
    """An access rule holds. It has an id where the truth is a metadata log."""

    binding: AclBinding
    id: bytes | None = None


@dataclass(frozen=True, slots=True)
class RemoveAcl:
    """An access rule does not hold any more."""

    binding: AclBinding


@dataclass(frozen=True, slots=True)
class SetStoredValue:
    """A value that the image only keeps (a delegation token); None takes it away."""

    key: StoredKey
    text: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """Producer ids below `next_producer_id` belong to brokers; the block that ends there to this one."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


Change: TypeAlias = (
    RegisterBroker
    | UnregisterBroker
    | RegisterController
    | SetController
    | CreateTopic
    | RemoveTopic
    | AddPartitions
    | ChangePartition
    | AlterConfig
    | SetFeature
    | SetQuota
    | SetScramCredential
    | CreateAcl
    | RemoveAcl
    | SetStoredValue
    | AllocateProducerIds
)


# --- image + change = image ------------------------------------------------------------------------------------------


def apply(image: ClusterImage, change: Change) -> ClusterImage:
    """The image after the change."""
    return _MOVES[type(change)](image, change)


def apply_all(image: ClusterImage, changes: Iterable[Change]) -> ClusterImage:
    """The image after all of them, in order."""
    for change in in_runs(changes):
        image = change_partitions(image, change) if isinstance(change, list) else apply(image, change)
    return image


def in_runs(changes: Iterable[Change]) -> Iterator[Change | list[ChangePartition]]:
    """The same, where partitions that change one after the other are one list: a topic has as many as thousands of
    them, and its entry in the image must not be made anew for each."""
    run: list[ChangePartition] = []
    for change in changes:
        if isinstance(change, ChangePartition):
            run.append(change)
            continue
        if run:
            yield run
            run = []
        yield change
    if run:
        yield run


def _next(image: ClusterImage, **changed: Any) -> ClusterImage:
    return replace(image, change_number=image.change_number + 1, **changed)


def _register_broker(image: ClusterImage, change: RegisterBroker) -> ClusterImage:
    return _next(image, brokers=image.brokers.put(change.broker.id, change.broker))


def _unregister_broker(image: ClusterImage, change: UnregisterBroker) -> ClusterImage:
    if change.broker_id not in image.brokers:
        raise IllegalChange(f"broker {change.broker_id} cannot go, it is not registered")
    return _next(image, brokers=image.brokers.without(change.broker_id))


def _register_controller(image: ClusterImage, change: RegisterController) -> ClusterImage:
    return _next(image, controllers=image.controllers.put(change.controller.id, change.controller))


def _set_controller(image: ClusterImage, change: SetController) -> ClusterImage:
    if change.controller_epoch < image.controller_epoch:
        raise IllegalChange(
            f"the controller epoch cannot go from {image.controller_epoch} to {change.controller_epoch}"
        )
    return _next(image, controller_id=change.controller_id, controller_epoch=change.controller_epoch)


def _create_topic(image: ClusterImage, change: CreateTopic) -> ClusterImage:
    topic = change.topic
    if topic.name in image.topics_by_name or topic.id in image.names_by_id:
        raise IllegalChange(f"topic {topic.name!r} or its id exists already")
    if not topic.partitions:
        raise IllegalChange(f"topic {topic.name!r} has no partitions")
    return _next(
        image,
        topics_by_name=image.topics_by_name.put(topic.name, topic),
        names_by_id=image.names_by_id.put(topic.id, topic.name),
        colliding_names=_with_collision(image, topic.name),
    )


def _with_collision(image: ClusterImage, name: str) -> Any:
    key = collision_key(name)
    return image.colliding_names if key is None else image.colliding_names.put(key, (*_like(image, key), name))


def _without_collision(image: ClusterImage, name: str) -> Any:
    key = collision_key(name)
    if key is None:
        return image.colliding_names
    others = tuple(other for other in _like(image, key) if other != name)
    return image.colliding_names.put(key, others) if others else image.colliding_names.without(key)


def _like(image: ClusterImage, key: str) -> tuple[str, ...]:
    names: tuple[str, ...] = image.colliding_names.get(key, ())
    return names


def _remove_topic(image: ClusterImage, change: RemoveTopic) -> ClusterImage:
    topic = _topic(image, change.topic_id)
    return _next(
        image,
        topics_by_name=image.topics_by_name.without(topic.name),
        names_by_id=image.names_by_id.without(topic.id),
        colliding_names=_without_collision(image, topic.name),
        configs=image.configs.without(ConfigResource(ResourceType.TOPIC, topic.name)),
    )


def _topic(image: ClusterImage, topic_id: bytes) -> Topic:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise IllegalChange(f"there is no topic with id {topic_id.hex()}")
    return topic


def _add_partitions(image: ClusterImage, change: AddPartitions) -> ClusterImage:
    topic = _topic(image, change.topic_id)
    return _with_partitions(image, topic, topic.partitions + change.partitions)


def _change_partition(image: ClusterImage, change: ChangePartition) -> ClusterImage:
    return change_partitions(image, [change])


def change_partitions(image: ClusterImage, changes: Sequence[ChangePartition]) -> ClusterImage:
    """The image after all of them, in order; every topic in it is made anew once."""
    by_topic: dict[bytes, list[Partition]] = {}
    topics = image.topics_by_name
    for change in changes:
        partitions = by_topic.get(change.topic_id)
        if partitions is None:
            partitions = by_topic[change.topic_id] = list(_topic(image, change.topic_id).partitions)
        if not 0 <= change.index < len(partitions):
            name = image.topic_name(change.topic_id)
            raise IllegalChange(f"topic {name!r} has no partition {change.index}")
        partitions[change.index] = change.partition
    for topic_id, partitions in by_topic.items():
        topic = _topic(image, topic_id)
        topics = topics.put(topic.name, replace(topic, partitions=tuple(partitions)))
    return replace(image, change_number=image.change_number + len(changes), topics_by_name=topics)


def _with_partitions(image: ClusterImage, topic: Topic, partitions: tuple[Partition, ...]) -> ClusterImage:
    return _next(image, topics_by_name=image.topics_by_name.put(topic.name, replace(topic, partitions=partitions)))


def _alter_config(image: ClusterImage, change: AlterConfig) -> ClusterImage:
    resource = change.resource
    if resource.type is ResourceType.TOPIC and resource.name not in image.topics_by_name:
        raise IllegalChange(f"there is no topic {resource.name!r} to set something for")
    values = _merged(image.config(resource), change.values)
    return _next(image, configs=image.configs.put(resource, values) if values else image.configs.without(resource))


T = TypeVar("T")


def _merged(present: Mapping[str, T], values: Iterable[tuple[str, T | None]]) -> Mapping[str, T]:
    merged = dict(present)
    for name, value in values:
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    # In order, so that an image that was read back equals, and is written like, the one that was kept.
    return MappingProxyType(dict(sorted(merged.items())))


def _set_feature(image: ClusterImage, change: SetFeature) -> ClusterImage:
    features = image.features
    return _next(
        image, features=features.put(change.name, change.level) if change.level else features.without(change.name)
    )


def _set_quota(image: ClusterImage, change: SetQuota) -> ClusterImage:
    values = _merged(image.quotas.get(change.entity, {}), [(change.key, change.value)])
    quotas = image.quotas
    return _next(image, quotas=quotas.put(change.entity, values) if values else quotas.without(change.entity))


def _set_scram_credential(image: ClusterImage, change: SetScramCredential) -> ClusterImage:
    kept = image.scram_credentials
    return _next(image, scram_credentials=_put_or_remove(kept, change.key, change.credential))


def _create_acl(image: ClusterImage, change: CreateAcl) -> ClusterImage:
    pattern, entry = change.binding
    image = _with_entries(image, pattern, {*image.acls.get(pattern, ()), entry})
    if change.id is None:
        return image
    return replace(
        image,
        acl_ids=image.acl_ids.put(change.binding, change.id),
        acls_by_id=image.acls_by_id.put(change.id, change.binding),
    )


def _remove_acl(image: ClusterImage, change: RemoveAcl) -> ClusterImage:
    pattern, entry = change.binding
    image = _with_entries(image, pattern, {*image.acls.get(pattern, ())} - {entry})
    acl_id = image.acl_ids.get(change.binding)
    if acl_id is None:
        return image
    return replace(image, acl_ids=image.acl_ids.without(change.binding), acls_by_id=image.acls_by_id.without(acl_id))


def _with_entries(image: ClusterImage, pattern: AclPattern, entries: set[AclEntry]) -> ClusterImage:
    # In order, so that an image that was read back equals the one that was kept.
    acls = image.acls.put(pattern, tuple(sorted(entries))) if entries else image.acls.without(pattern)
    return _next(image, acls=acls)


def _set_stored_value(image: ClusterImage, change: SetStoredValue) -> ClusterImage:
    return _next(image, stored_values=_put_or_remove(image.stored_values, change.key, change.text))


def _put_or_remove(entries: Any, key: Any, value: Any) -> Any:
    return entries.without(key) if value is None else entries.put(key, value)


def _allocate_producer_ids(image: ClusterImage, change: AllocateProducerIds) -> ClusterImage:
    if change.next_producer_id <= image.next_producer_id:
        raise IllegalChange(f"producer ids below {image.next_producer_id} are given away already")
    return _next(image, next_producer_id=change.next_producer_id)


_MOVES: Final[Mapping[type, Callable[[ClusterImage, Any], ClusterImage]]] = {
    RegisterBroker: _register_broker,
    UnregisterBroker: _unregister_broker,
    RegisterController: _register_controller,
    SetController: _set_controller,
    CreateTopic: _create_topic,
    RemoveTopic: _remove_topic,
    AddPartitions: _add_partitions,
    ChangePartition: _change_partition,
    AlterConfig: _alter_config,
    SetFeature: _set_feature,
    SetQuota: _set_quota,
    SetScramCredential: _set_scram_credential,
    CreateAcl: _create_acl,
    RemoveAcl: _remove_acl,
    SetStoredValue: _set_stored_value,
    AllocateProducerIds: _allocate_producer_ids,
}
