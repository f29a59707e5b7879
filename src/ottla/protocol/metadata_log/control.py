"""Control records of the metadata log: who leads and votes, and where a snapshot begins and ends.

Each is the value of a record in a control batch; its key has its number (records/control.py). The version
is the first field of the message itself:

    value  int16 version, then the other fields of that version

A version that we do not know is UnknownMetadataRecord, as everywhere in this log.
"""

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.errors import MalformedMessage
from ottla.protocol import first_uses
from ottla.protocol.metadata_log.frame import UnknownMetadataRecord
from ottla.protocol.schema import ZERO_UUID, Buffer, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, since


class Voter(Struct):
    voter_id: Int32
    voter_directory_id: Uuid = since(1, default=ZERO_UUID)


class LeaderChangeMessage(Message, versions="0-1", flexible=0, record_type=2):
    """The first record of every epoch. Kafka 4.3 writes version 0, without directory ids."""

    version: Int16 = 0
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]


class SnapshotHeaderRecord(Message, versions="0", flexible=0, record_type=3):
    version: Int16 = 0
    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Message, versions="0", flexible=0, record_type=4):
    version: Int16 = 0


class KRaftVersionRecord(Message, versions="0", flexible=0, record_type=5):
    """The level of kraft.version, which is no FeatureLevelRecord: it holds as soon as it is appended."""

    version: Int16 = 0
    k_raft_version: Int16


class VoterEndpoint(Struct):
    name: String
    host: String
    port: UInt16


class KRaftVersionFeature(Struct):
    min_supported_version: Int16
    max_supported_version: Int16


class VoterNode(Struct):
    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[VoterEndpoint]
    k_raft_version_feature: KRaftVersionFeature


class VotersRecord(Message, versions="0", flexible=0, record_type=6):
    """All voters there are from here on; like KRaftVersionRecord it holds as soon as it is appended."""

    version: Int16 = 0
    voters: list[VoterNode]


ControlMessage: TypeAlias = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)

KINDS: Final[Mapping[int, type[ControlMessage]]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}
_VERSION: Final = struct.Struct(">h")


def encode_control(message: ControlMessage) -> bytes:
    """The value of the control record, at the version that the message itself says."""
    return b"".join(first_uses.encode(message, message.version))


def decode_control(number: int, value: Buffer | None) -> ControlMessage:
    """The value of a control record of that number."""
    kind = KINDS.get(number)
    if kind is None:
        raise UnknownMetadataRecord(f"a control record of type {number}; known here are {', '.join(map(str, KINDS))}")
    if value is None or len(value) < _VERSION.size:
        raise MalformedMessage(f"the value of a {kind.__name__} has no room for its version")
    version: int = _VERSION.unpack_from(value)[0]
    if version not in kind.versions:
        raise UnknownMetadataRecord(f"a {kind.__name__} of version {version}; known here are {kind.versions}")
    return first_uses.decode(kind, version, value)
