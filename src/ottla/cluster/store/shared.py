"""What all shared stores have in common: who may change what, and how a member takes in what is true already.

1. Registrations and elections are not written by a commit: the broker's own `register` and `stand` did that. When a
   controller commits them, they only enter its image.
2. Brokers, topics, partitions, features, producer ids and requests to the controller are the controller's. Everybody
   may change settings, quotas, credentials and what the image only keeps.
3. `take_in` is lenient where `apply` is strict: a member that is not controller has no topics in its image, and what
   it hears of may be gone already. It never hears a contradiction, only something late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    IllegalChange,
    RegisterController,
    RemoveAcl,
    RemoveTopic,
    SetController,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
    UnregisterBroker,
    apply,
    change_partitions,
    in_runs,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import AclBinding, Partition, ResourceType
from ottla.cluster.store.requests import is_request
from ottla.light_dataclasses import replace

T = TypeVar("T")

_OF_THE_CONTROLLER: Final = (
    CreateTopic,
    RemoveTopic,
    AddPartitions,
    ChangePartition,
    SetFeature,
    AllocateProducerIds,
    RegisterController,
)


def is_for_the_controller(change: Change) -> bool:
    """Whether only the controller may commit it."""
    if isinstance(change, SetStoredValue):
        return is_request(change.key)
    return isinstance(change, _OF_THE_CONTROLLER)


def news_for_all(before: ClusterImage, after: ClusterImage) -> Iterator[Change]:
    """What a member must hear of by ConfigChanged whose image was replaced by a newer one."""
    for feature in after.features.differences(before.features):
        yield SetFeature(feature, after.feature(feature))
    for resource in after.configs.differences(before.configs):
        yield AlterConfig(resource, tuple(_edits(before.config(resource), after.config(resource)).items()))
    for entity in after.quotas.differences(before.quotas):
        edits = _edits(before.quotas.get(entity, {}), after.quotas.get(entity, {}))
        yield from (SetQuota(entity, key, value) for key, value in edits.items())
    for user in after.scram_credentials.differences(before.scram_credentials):
        yield SetScramCredential(user, after.scram_credentials.get(user))
    for pattern in after.acls.differences(before.acls):
        old, new = before.acls.get(pattern, ()), after.acls.get(pattern, ())
        yield from (RemoveAcl(AclBinding(pattern, each)) for each in old if each not in new)
        yield from (CreateAcl(AclBinding(pattern, each)) for each in new if each not in old)
    for key in after.stored_values.differences(before.stored_values):
        if not is_request(key):
            yield SetStoredValue(key, after.stored_values.get(key))


def _edits(before: Mapping[str, T], after: Mapping[str, T]) -> dict[str, T | None]:
    return {key: after.get(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)}


def take_in(image: ClusterImage, changes: Iterable[Change]) -> ClusterImage:
    """The image with what is true; see 3."""
    for change in in_runs(changes):
        if isinstance(change, list):
            image = change_partitions(image, [each for each in change if image.topic_by_id(each.topic_id) is not None])
        else:
            image = _take_in(image, change)
    return image


def _take_in(image: ClusterImage, change: Change) -> ClusterImage:
    match change:
        case AlterConfig(resource) if resource.type is ResourceType.TOPIC and resource.name not in image.topics_by_name:
            return _with_config(image, change)
        case UnregisterBroker(broker_id) if broker_id not in image.brokers:
            return image
        case SetController(_, epoch) if epoch < image.controller_epoch:
            return image
        case RemoveTopic(topic_id) if image.topic_by_id(topic_id) is None:
            return image
    return apply(image, change)


def _with_config(image: ClusterImage, change: AlterConfig) -> ClusterImage:
    values = {**image.config(change.resource), **{name: value for name, value in change.values if value is not None}}
    for name, value in change.values:
        if value is None:
            values.pop(name, None)
    kept = MappingProxyType(dict(sorted(values.items())))
    configs = image.configs.put(change.resource, kept) if kept else image.configs.without(change.resource)
    return replace(image, change_number=image.change_number + 1, configs=configs)


def check_partition_epochs(image: ClusterImage, changes: Iterable[Change]) -> None:
    """Every change of a partition counts its epoch up by one, because the store counts its writes."""
    for change in changes:
        if isinstance(change, ChangePartition):
            before = partition_before(image, change)
            if before is not None and change.partition.partition_epoch != before.partition_epoch + 1:
                raise IllegalChange(
                    f"partition {change.index} of {image.names_by_id[change.topic_id]!r} goes from partition epoch "
                    f"{before.partition_epoch} to {change.partition.partition_epoch}, not to the next one"
                )
        elif isinstance(change, CreateTopic | AddPartitions):
            added = change.topic.partitions if isinstance(change, CreateTopic) else change.partitions
            if any(each.partition_epoch for each in added):
                raise IllegalChange("a new partition begins with partition epoch 0")
        image = take_in(image, [change])


def partition_before(image: ClusterImage, change: ChangePartition) -> Partition | None:
    """The partition as the image has it, before the change."""
    topic = image.topic_by_id(change.topic_id)
    if topic is None or not 0 <= change.index < len(topic.partitions):
        return None
    return topic.partitions[change.index]
