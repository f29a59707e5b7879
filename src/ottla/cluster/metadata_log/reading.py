"""Records of the metadata log to changes of the image.

    replay = Replay(image)
    for record in records_of_a_batch: replay.add(record)
    changes = replay.changes()

1. What records say builds on the image and on the records before them: a PartitionChangeRecord is only a difference,
   and a topic comes as one record for itself and one for each partition. So the records of one batch, or of one
   transaction, are read together, and what comes out says what is true afterwards, as all changes do.
2. A topic and its partitions are one CreateTopic. Of a topic that was there already, every partition that changed is
   one ChangePartition, and new ones are one AddPartitions, however many records there were.
3. A record that contradicts what is known is IllegalChange; numbers that mean nothing here are, too. Nothing is
   skipped.
4. NoOpRecord says nothing. ZkMigrationStateRecord is what 3.x left, and means nothing any more, as in Kafka 4. Begin,
   End and Abort are not for here: loader.py has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, TypeVar

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
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
    UnregisterBroker,
)
from ottla.cluster.delegation_tokens import token_key
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.broker_records import broker_of, changed_broker, controller_of
from ottla.cluster.metadata_log.levels import check_level
from ottla.cluster.metadata_log.partition_records import merged, partition_of
from ottla.cluster.model import (
    METADATA_VERSION,
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    DelegationToken,
    Partition,
    ResourceType,
    ScramCredential,
    ScramKey,
    Topic,
)
from ottla.cluster.token_text import token_text
from ottla.light_dataclasses import replace
from ottla.protocol import metadata_log as records
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.metadata_log.access import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.protocol.metadata_log.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.protocol.metadata_log.settings import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
)
from ottla.protocol.metadata_log.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.protocol.metadata_log.transactions import NoOpRecord, ZkMigrationStateRecord
from ottla.values import uuid_to_text

E = TypeVar("E", bound=IntEnum)


class _OpenTopic:
    """A topic that records are about: its partitions as they are after the records read so far."""

    def __init__(self, name: str, topic_id: bytes, partitions: tuple[Partition, ...], *, is_new: bool) -> None:
        self.name = name
        self.id = topic_id
        self.before = partitions
        self.partitions = list(partitions)
        self.is_removed = False
        self._is_new = is_new

    def put(self, index: int, partition: Partition) -> None:
        if index < len(self.partitions):
            self.partitions[index] = partition
        elif index == len(self.partitions):
            self.partitions.append(partition)
        else:
            raise IllegalChange(f"topic {self.name!r} gets partition {index}, but has only {len(self.partitions)}")

    def partition(self, index: int) -> Partition:
        if not 0 <= index < len(self.partitions):
            raise IllegalChange(f"topic {self.name!r} has no partition {index}")
        return self.partitions[index]

    def changes(self) -> Iterator[Change]:
        if self.is_removed:
            return
        if self._is_new:
            yield CreateTopic(Topic(self.name, self.id, tuple(self.partitions)))
            return
        for index, (before, after) in enumerate(zip(self.before, self.partitions, strict=False)):
            if after is not before:
                yield ChangePartition(self.id, index, after)
        if added := tuple(self.partitions[len(self.before) :]):
            yield AddPartitions(self.id, added)


class Replay:
    """See above; one for each batch or transaction."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._entries: list[Change | _OpenTopic] = []
        self._topics: dict[bytes, _OpenTopic | None] = {}  # None: it was removed
        self._created: dict[str, bytes] = {}
        self._brokers: dict[int, Broker | None] = {}
        self._acls: dict[bytes, AclBinding | None] = {}

    def add(self, record: records.MetadataRecord) -> None:
        """Read one more record."""
        read = _READERS.get(type(record))
        if read is None:
            raise IllegalChange(f"{type(record).__name__} is about the log, not about the cluster")
        read(self, record)

    def changes(self) -> Iterator[Change]:
        """What the records say, in order."""
        for entry in self._entries:
            if isinstance(entry, _OpenTopic):
                yield from entry.changes()
            else:
                yield entry

    # --- topics -------------------------------------------------------------------------------------------------------

    def _open(self, topic_id: bytes) -> _OpenTopic:
        if topic_id not in self._topics:
            topic = self._image.topic_by_id(topic_id)
            if topic is not None:
                self._put_topic(_OpenTopic(topic.name, topic_id, topic.partitions, is_new=False))
        opened = self._topics.get(topic_id)
        if opened is None:
            raise IllegalChange(f"there is no topic with id {uuid_to_text(topic_id)}")
        return opened

    def _put_topic(self, topic: _OpenTopic) -> None:
        self._topics[topic.id] = topic
        self._entries.append(topic)

    def _topic(self, record: TopicRecord) -> None:
        if self._topics.get(record.topic_id) is not None or record.topic_id in self._image.names_by_id:
            raise IllegalChange(f"topic {record.name!r} comes with the id of a topic that is there")
        self._put_topic(_OpenTopic(record.name, record.topic_id, (), is_new=True))
        self._created[record.name] = record.topic_id

    def _partition(self, record: PartitionRecord) -> None:
        self._open(record.topic_id).put(record.partition_id, partition_of(record))

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._open(record.topic_id)
        topic.put(record.partition_id, merged(topic.partition(record.partition_id), record))

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._open(record.topic_id)
        topic.is_removed = True
        self._topics[record.topic_id] = None
        if record.topic_id in self._image.names_by_id:
            self._entries.append(RemoveTopic(record.topic_id))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic_name:
            self._clear_elr_of(self._id_of(record.topic_name))
            return
        for topic_id in {**dict.fromkeys(self._image.names_by_id), **self._topics}:
            self._clear_elr_of(topic_id)

    def _id_of(self, name: str) -> bytes:
        topic_id = self._created.get(name) or self._image.topic_id(name)
        if topic_id is None or self._topics.get(topic_id, self) is None:
            raise IllegalChange(f"there is no topic {name!r} whose eligible leader replicas could go")
        return topic_id

    def _clear_elr_of(self, topic_id: bytes) -> None:
        opened = self._topics[topic_id] if topic_id in self._topics else self._image.topic_by_id(topic_id)
        if opened is None or not any(partition.elr or partition.last_known_elr for partition in opened.partitions):
            return  # so that topics without one are not opened: a cluster may have many
        topic = self._open(topic_id)
        for index, partition in enumerate(topic.partitions):
            if partition.elr or partition.last_known_elr:
                nothing = PartitionChangeRecord(topic_id=topic_id, eligible_leader_replicas=[], last_known_elr=[])
                topic.put(index, merged(partition, nothing))

    # --- brokers and controllers --------------------------------------------------------------------------------------

    def _broker(self, broker_id: int, epoch: int) -> Broker:
        broker: Broker | None = self._brokers.get(broker_id, self._image.brokers.get(broker_id))
        if broker is None:
            raise IllegalChange(f"broker {broker_id} is not registered")
        if broker.epoch != epoch:
            raise IllegalChange(f"broker {broker_id} has epoch {broker.epoch}, and a record is about {epoch}")
        return broker

    def _put_broker(self, broker: Broker) -> None:
        self._brokers[broker.id] = broker
        self._entries.append(RegisterBroker(broker))

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._put_broker(broker_of(record))

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        self._put_broker(changed_broker(self._broker(record.broker_id, record.broker_epoch), record))

    def _fence(self, record: FenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id, record.epoch), fenced=True))

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id, record.epoch), fenced=False))

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = None
        self._entries.append(UnregisterBroker(record.broker_id))

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._entries.append(RegisterController(controller_of(record)))

    # --- settings -----------------------------------------------------------------------------------------------------

    def _config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(_known(ResourceType, record.resource_type), record.resource_name)
        self._entries.append(AlterConfig(resource, ((record.name, record.value),)))

    def _feature(self, record: FeatureLevelRecord) -> None:
        if record.name == METADATA_VERSION:
            check_level(record.feature_level)
        self._entries.append(SetFeature(record.name, record.feature_level))

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        self._entries.append(SetQuota(entity, record.key, None if record.remove else record.value))

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._entries.append(AllocateProducerIds(record.broker_id, record.broker_epoch, record.next_producer_id))

    # --- access -------------------------------------------------------------------------------------------------------

    def _acl(self, record: AccessControlEntryRecord) -> None:
        binding = AclBinding(
            AclPattern(
                _known(AclResource, record.resource_type),
                _known(PatternType, record.pattern_type),
                record.resource_name,
            ),
            AclEntry(
                record.principal,
                record.host,
                _known(AclOperation, record.operation),
                _known(AclPermission, record.permission_type),
            ),
        )
        self._acls[record.id] = binding
        self._entries.append(CreateAcl(binding, record.id))

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        binding = self._acls.get(record.id, self._image.acls_by_id.get(record.id))
        if binding is None:
            raise IllegalChange(f"there is no access rule with id {uuid_to_text(record.id)}")
        self._acls[record.id] = None
        self._entries.append(RemoveAcl(binding))

    def _scram(self, record: UserScramCredentialRecord) -> None:
        credential = ScramCredential(
            record.iterations, bytes(record.salt), bytes(record.stored_key), bytes(record.server_key)
        )
        self._entries.append(SetScramCredential(ScramKey(record.name, record.mechanism), credential))

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._entries.append(SetScramCredential(ScramKey(record.name, record.mechanism), None))

    def _token(self, record: DelegationTokenRecord) -> None:
        token = DelegationToken(
            id=record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_ms=record.issue_timestamp,
            expiry_ms=record.expiration_timestamp,
            max_ms=record.max_timestamp,
        )
        self._entries.append(SetStoredValue(token_key(token.id), token_text(token)))

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._entries.append(SetStoredValue(token_key(record.token_id), None))

    def _nothing(self, record: NoOpRecord | ZkMigrationStateRecord) -> None:
        pass


def _known(of: type[E], number: int) -> E:
    try:
        return of(number)
    except ValueError:
        raise IllegalChange(f"{number} is no {of.__name__} that is known here") from None


_READERS: Final[Mapping[type, Callable[[Replay, Any], None]]] = {
    TopicRecord: Replay._topic,
    PartitionRecord: Replay._partition,
    PartitionChangeRecord: Replay._partition_change,
    RemoveTopicRecord: Replay._remove_topic,
    ClearElrRecord: Replay._clear_elr,
    RegisterBrokerRecord: Replay._register_broker,
    BrokerRegistrationChangeRecord: Replay._change_broker,
    FenceBrokerRecord: Replay._fence,
    UnfenceBrokerRecord: Replay._unfence,
    UnregisterBrokerRecord: Replay._unregister_broker,
    RegisterControllerRecord: Replay._register_controller,
    ConfigRecord: Replay._config,
    FeatureLevelRecord: Replay._feature,
    ClientQuotaRecord: Replay._quota,
    ProducerIdsRecord: Replay._producer_ids,
    AccessControlEntryRecord: Replay._acl,
    RemoveAccessControlEntryRecord: Replay._remove_acl,
    UserScramCredentialRecord: Replay._scram,
    RemoveUserScramCredentialRecord: Replay._remove_scram,
    DelegationTokenRecord: Replay._token,
    RemoveDelegationTokenRecord: Replay._remove_token,
    NoOpRecord: Replay._nothing,
    ZkMigrationStateRecord: Replay._nothing,
}
