"""How a metadata record stands in the log: as the value of a record without a key.

    uvarint frame version (1), uvarint type of the record, uvarint its version, then its fields at that version

Nothing may follow. Stop, never skip: a type or version we do not know is UnknownMetadataRecord, because what it says
would be missing from everything that is decided afterwards. metadata.version exists so that this does not happen.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from ottla.errors import MalformedMessage, OttlaError
from ottla.protocol import first_uses
from ottla.protocol.primitives import Reader, write_uvarint
from ottla.protocol.schema import Buffer, Message

FRAME_VERSION: Final = 1

M = TypeVar("M", bound=Message)


class UnknownMetadataRecord(OttlaError):
    """The metadata log has a record that this version of Ottla does not know, so it stops here and changes nothing.
    Start a version that knows the metadata.version of this cluster."""


def encode_frame(record: Message, version: int) -> bytes:
    """The record as it stands in the log."""
    if record.record_type is None:
        raise TypeError(f"{type(record).__name__} is no record of the metadata log")
    lead = map(write_uvarint, (FRAME_VERSION, record.record_type, version))
    return b"".join((*lead, *first_uses.encode(record, version)))


def decode_frame(kinds: Mapping[int, type[M]], value: Buffer | None) -> tuple[M, int]:
    """The record and its version; `kinds` are the classes of all types."""
    if value is None:
        raise MalformedMessage("a record of the metadata log has no value")
    reader = Reader(value)
    frame_version, number, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    if frame_version != FRAME_VERSION:
        raise UnknownMetadataRecord(
            f"frame version {frame_version}; known is {FRAME_VERSION}, that of Kafka 3.0 and up"
        )
    kind = kinds.get(number)
    if kind is None:
        raise UnknownMetadataRecord(f"a record of type {number} version {version}; no such type is known here")
    if version not in kind.versions:
        raise UnknownMetadataRecord(f"a {kind.__name__} of version {version}; known here are {kind.versions}")
    return first_uses.decode(kind, version, memoryview(value)[reader.position :]), version
