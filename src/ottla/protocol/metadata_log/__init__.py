"""The records of Kafka's cluster metadata log, as Kafka 4.3 writes and reads them, at every version.

frame.py says how one stands in the log, control.py has those in control batches; the others have one theme each. Which
version is written is decided by who knows the cluster's metadata.version (cluster/metadata_log/levels.py).
"""

from collections.abc import Mapping
from typing import Final, TypeAlias, get_args

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
from ottla.protocol.metadata_log.frame import UnknownMetadataRecord, decode_frame, encode_frame
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
from ottla.protocol.metadata_log.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
)
from ottla.protocol.schema import Buffer

__all__ = ["KINDS", "MetadataRecord", "UnknownMetadataRecord", "decode_record", "encode_record"]

MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
)

KINDS: Final[Mapping[int, type[MetadataRecord]]] = {kind.record_type: kind for kind in get_args(MetadataRecord)}
"""The class of every type; 6, 13 and 16 were never released."""


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """The record as it stands in the log."""
    return encode_frame(record, version)


def decode_record(value: Buffer | None) -> tuple[MetadataRecord, int]:
    """A record of the log and its version; UnknownMetadataRecord when it is from a newer Kafka."""
    return decode_frame(KINDS, value)
