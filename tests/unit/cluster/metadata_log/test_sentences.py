"""Every record of the metadata log is told as a sentence, and none has a secret in it."""

from __future__ import annotations

import pytest
from tests.golden.metadata.reading import golden_records

from ottla.cluster.changes import CreateTopic, apply
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.sentences import sentence
from ottla.cluster.model import Partition, Topic
from ottla.protocol.metadata_log import decode_record
from ottla.protocol.metadata_log.access import AccessControlEntryRecord, UserScramCredentialRecord
from ottla.protocol.metadata_log.brokers import BrokerRegistrationChangeRecord
from ottla.protocol.metadata_log.settings import ClientQuotaRecord, ConfigRecord, EntityData
from ottla.protocol.metadata_log.topics import PartitionChangeRecord, RemoveTopicRecord
from ottla.protocol.metadata_log.transactions import ZkMigrationStateRecord

ID = b"orders".ljust(16, b".")
IMAGE = apply(ClusterImage("c"), CreateTopic(Topic("orders", ID, (Partition((1, 2), (1, 2), 1),))))
RECORDS = {
    "orders-0: broker 2 leads in a new epoch; in sync are 2": PartitionChangeRecord(
        partition_id=0, topic_id=ID, leader=2, isr=[2]
    ),
    "orders-0: there is no leader; nobody is in sync; eligible as leaders besides are 1, 2": PartitionChangeRecord(
        partition_id=0, topic_id=ID, leader=-1, isr=[], eligible_leader_replicas=[1, 2]
    ),
    "orders-0: replicas are on 1, 2, 3; a reassignment is adding 3 and removing 2": PartitionChangeRecord(
        partition_id=0, topic_id=ID, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[2]
    ),
    "orders-0: no reassignment is under way": PartitionChangeRecord(partition_id=0, topic_id=ID, adding_replicas=[]),
    "topic AQEBAQEBAQEBAQEBAQEBAQ (gone) is deleted": RemoveTopicRecord(topic_id=bytes([1] * 16)),
    "Broker 3: fenced": BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=1, fenced=1),
    "Broker 3: unfenced, in controlled shutdown": BrokerRegistrationChangeRecord(
        broker_id=3, broker_epoch=1, fenced=-1, in_controlled_shutdown=1
    ),
    "retention.ms of topic orders is set to 5": ConfigRecord(
        resource_type=2, resource_name="orders", name="retention.ms", value="5"
    ),
    "retention.ms of topic orders is the default again": ConfigRecord(
        resource_type=2, resource_name="orders", name="retention.ms", value=None
    ),
    "ssl.keystore.password of broker 1 is set": ConfigRecord(
        resource_type=4, resource_name="1", name="ssl.keystore.password", value="hidden"
    ),
    "min.insync.replicas of all brokers is set": ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="1"
    ),
    "producer_byte_rate of user by default, client-id app is limited to 1000": ClientQuotaRecord(
        entity=[
            EntityData(entity_type="user", entity_name=None),
            EntityData(entity_type="client-id", entity_name="app"),
        ],
        key="producer_byte_rate",
        value=1000.0,
        remove=False,
    ),
    "User:alice may not write topic beginning with orders from 10.0.0.1": AccessControlEntryRecord(
        id=ID,
        resource_type=2,
        resource_name="orders",
        pattern_type=4,
        principal="User:alice",
        host="10.0.0.1",
        operation=4,
        permission_type=2,
    ),
    "User alice gets a password for SCRAM-SHA-256": UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"hidden", stored_key=b"hidden", server_key=b"hidden", iterations=4096
    ),
    "Zk migration state": ZkMigrationStateRecord(zk_migration_state=0),
}


@pytest.mark.parametrize("said", RECORDS)
def test_a_record_is_told(said):
    assert sentence(RECORDS[said], IMAGE) == said


def test_every_record_of_apache_is_told():
    for _, _, name, value in golden_records():
        record, _ = decode_record(value)
        said = sentence(record, IMAGE)
        assert said, name
        assert "Record" not in said
