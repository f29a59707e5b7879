"""Changes of the image to records of the metadata log: what a controller appends.

1. Every change is the records that `reading.Replay` makes it of again, at the versions that belong to the cluster's
   metadata.version.
2. What only a difference can say is told from the image before: a partition, a registration, the id of an access rule.
   A change that no record can say is IllegalChange, before anything is written.
3. SetController has no records: who leads is said by Raft itself. Requests that members of a cluster on ZooKeeper leave
   for their controller (store/requests.py) have none either, and are TypeError: there is nobody to leave them for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

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
from ottla.cluster.delegation_tokens import KIND as TOKEN
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.broker_records import broker_change_record, broker_record, controller_record
from ottla.cluster.metadata_log.image_changes import changes_for
from ottla.cluster.metadata_log.levels import partition_version
from ottla.cluster.metadata_log.partition_records import change_record, record_of
from ottla.cluster.model import (
    METADATA_VERSION,
    DelegationToken,
    Partition,
    QuotaEntity,
    ResourceType,
    ScramCredential,
    ScramKey,
)
from ottla.cluster.token_text import read_token
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log import MetadataRecord, encode_record
from ottla.protocol.metadata_log.access import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.protocol.metadata_log.brokers import UnregisterBrokerRecord
from ottla.protocol.metadata_log.settings import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    ProducerIdsRecord,
)
from ottla.protocol.metadata_log.topics import RemoveTopicRecord, TopicRecord


class VersionedRecord(NamedTuple):
    """A record, and the version that it is written at."""

    record: MetadataRecord
    version: int = 0

    def encode(self) -> bytes:
        return encode_record(self.record, self.version)


Written: TypeAlias = Iterator[VersionedRecord]


def records_for(changes: Iterable[Change], image: ClusterImage) -> Written:
    """The records of changes that are made one after the other to the image."""
    created: CreateTopic | None = None  # its partitions come behind its settings, as Kafka writes them
    for change in in_runs(changes):
        if created is not None and not _is_setting_of(change, created):
            yield from partition_records(created.topic.id, 0, created.topic.partitions, _level(image))
            created = None
        if isinstance(change, list):
            yield from _change_partitions(change, image)
            image = change_partitions(image, change)
            continue
        yield from _WRITERS[type(change)](change, image)
        image = apply(image, change)
        if isinstance(change, CreateTopic):
            created = change
    if created is not None:
        yield from partition_records(created.topic.id, 0, created.topic.partitions, _level(image))


def _is_setting_of(change: Change | list[ChangePartition], created: CreateTopic) -> bool:
    return isinstance(change, AlterConfig) and change.resource == (ResourceType.TOPIC, created.topic.name)


def snapshot_records(image: ClusterImage) -> Written:
    """Records that make the image out of nothing, in Kafka's order: the content of a snapshot.

    They are written at the level of the image's metadata.version: what that does not know is left out."""
    nothing_yet = ClusterImage(image.cluster_id, features=image.features)
    for change in changes_for(image):
        yield from _WRITERS[type(change)](change, nothing_yet)
        if isinstance(change, CreateTopic):
            topic = change.topic
            yield from partition_records(topic.id, 0, topic.partitions, _level(image))


def _level(image: ClusterImage) -> int:
    return image.feature(METADATA_VERSION)


def _register_broker(change: RegisterBroker, image: ClusterImage) -> Written:
    before = image.brokers.get(change.broker.id)
    changed = None if before is None else broker_change_record(before, change.broker)
    yield VersionedRecord(*(changed or broker_record(change.broker, _level(image))))


def _unregister_broker(change: UnregisterBroker, image: ClusterImage) -> Written:
    broker = image.brokers.get(change.broker_id)
    if broker is None:
        raise IllegalChange(f"broker {change.broker_id} cannot go, it is not registered")
    yield VersionedRecord(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))


def _register_controller(change: RegisterController, image: ClusterImage) -> Written:
    yield VersionedRecord(controller_record(change.controller))


def _set_controller(change: SetController, image: ClusterImage) -> Written:
    yield from ()


def _create_topic(change: CreateTopic, image: ClusterImage) -> Written:
    """The topic itself; its partitions come later."""
    yield VersionedRecord(TopicRecord(name=change.topic.name, topic_id=change.topic.id))


def partition_records(topic_id: bytes, first: int, partitions: Iterable[Partition], level: int) -> Written:
    version = partition_version(level)
    for index, partition in enumerate(partitions, first):
        yield VersionedRecord(record_of(topic_id, index, partition, level), version)


def _remove_topic(change: RemoveTopic, image: ClusterImage) -> Written:
    yield VersionedRecord(RemoveTopicRecord(topic_id=change.topic_id))


def _add_partitions(change: AddPartitions, image: ClusterImage) -> Written:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        raise IllegalChange(f"there is no topic with id {change.topic_id.hex()}")
    yield from partition_records(topic.id, len(topic.partitions), change.partitions, _level(image))


def _change_partitions(run: Iterable[ChangePartition], image: ClusterImage) -> Written:
    """Changes of partitions one after the other; a partition may be among them more than once."""
    changed: dict[tuple[bytes, int], Partition] = {}
    level = _level(image)
    version = partition_version(level)
    for change in run:
        key = (change.topic_id, change.index)
        before = changed.get(key) or _partition(image, *key)
        yield VersionedRecord(change_record(*key, before, change.partition, level), version)
        changed[key] = change.partition


def _partition(image: ClusterImage, topic_id: bytes, index: int) -> Partition:
    topic = image.topic_by_id(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise IllegalChange(f"there is no partition {index} of a topic with id {topic_id.hex()}")
    return topic.partitions[index]


def _alter_config(change: AlterConfig, image: ClusterImage) -> Written:
    kind, name = change.resource
    for key, value in change.values:
        yield VersionedRecord(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))


def _set_feature(change: SetFeature, image: ClusterImage) -> Written:
    yield VersionedRecord(FeatureLevelRecord(name=change.name, feature_level=change.level))


def _set_quota(change: SetQuota, image: ClusterImage) -> Written:
    yield VersionedRecord(quota_record(change.entity, change.key, change.value))


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def _set_scram_credential(change: SetScramCredential, image: ClusterImage) -> Written:
    key = change.key
    if change.credential is None:
        yield VersionedRecord(RemoveUserScramCredentialRecord(name=key.user, mechanism=key.mechanism))
    else:
        yield VersionedRecord(scram_record(key, change.credential))


def scram_record(key: ScramKey, credential: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=key.user,
        mechanism=key.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _create_acl(change: CreateAcl, image: ClusterImage) -> Written:
    if change.id is None:
        raise IllegalChange("an access rule of the metadata log needs an id")
    (resource_type, pattern_type, name), (principal, host, operation, permission) = change.binding
    record = AccessControlEntryRecord(
        id=change.id,
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )
    yield VersionedRecord(record)


def _remove_acl(change: RemoveAcl, image: ClusterImage) -> Written:
    acl_id = image.acl_ids.get(change.binding)
    if acl_id is None:
        raise IllegalChange("an access rule cannot go that is not there, or has no id")
    yield VersionedRecord(RemoveAccessControlEntryRecord(id=acl_id))


def _set_stored_value(change: SetStoredValue, image: ClusterImage) -> Written:
    if change.key.kind != TOKEN:
        raise TypeError(f"no record of the metadata log says {change.key}")
    if change.text is None:
        yield VersionedRecord(RemoveDelegationTokenRecord(token_id=change.key.key))
    else:
        yield VersionedRecord(_token_record(read_token(change.key.key, change.text)))


def _token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expiry_ms,
        token_id=token.id,
    )


def _allocate_producer_ids(change: AllocateProducerIds, image: ClusterImage) -> Written:
    record = ProducerIdsRecord(
        broker_id=change.broker_id, broker_epoch=change.broker_epoch, next_producer_id=change.next_producer_id
    )
    yield VersionedRecord(record)


_WRITERS: Final[Mapping[type, Callable[[Any, ClusterImage], Written]]] = {
    RegisterBroker: _register_broker,
    UnregisterBroker: _unregister_broker,
    RegisterController: _register_controller,
    SetController: _set_controller,
    CreateTopic: _create_topic,
    RemoveTopic: _remove_topic,
    AddPartitions: _add_partitions,
    AlterConfig: _alter_config,
    SetFeature: _set_feature,
    SetQuota: _set_quota,
    SetScramCredential: _set_scram_credential,
    CreateAcl: _create_acl,
    RemoveAcl: _remove_acl,
    SetStoredValue: _set_stored_value,
    AllocateProducerIds: _allocate_producer_ids,
}
