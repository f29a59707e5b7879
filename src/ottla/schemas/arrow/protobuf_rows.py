"""Columns of Protobuf records.

1. A record is read with the reader's message, by Protobuf's rules: fields are their numbers, those that the reader does
   not have are passed over, those that were not written have their default or are null.
2. A framed record says which message of which schema it is; `schema_of` knows the schema. One of another name is bad:
   it would decode to nonsense.
3. The native leaf reads whole columns where a message is plain (protobuf_columns.py); the rest, and all of it where
   none was built, is read by Protobuf's library, message by message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import OttlaError
from ottla.schemas.arrow.decoded import Decoded, decode_each, decode_rest, read_groups
from ottla.schemas.arrow.protobuf_choice import IS_QUICK, ProtobufColumns
from ottla.schemas.arrow.protobuf_columns import ProtobufPlan
from ottla.schemas.arrow.protobuf_types import UnreadableProtobufSchema
from ottla.schemas.framing import FRAME_BYTES, read_indexes, schema_id_of
from ottla.schemas.model import InvalidSchema, SchemaLibraryMissing, WholeSchema
from ottla.schemas.protobuf.values import reader_of

SchemaOf = Callable[[int], WholeSchema]

FIRST_MESSAGE = b"\0"
ONE_INDEX = b"\2"
"""How indexes begin that name the first message of a file, and another one that is in no message."""


class ProtobufMissing(OttlaError):
    """protobuf is not installed. Install it where records are read: pip install 'ottla[registry]'."""


def message_of(schema: WholeSchema, name: str | None) -> Any:
    """The message of this name in a schema, the first one without a name."""
    try:
        from ottla.schemas.protobuf.messages import NoSuchMessage, linked_file, message_named
    except ImportError as error:
        raise ProtobufMissing from error
    try:
        return message_named(linked_file(*schema), name)
    except SchemaLibraryMissing as error:
        raise ProtobufMissing from error
    except (InvalidSchema, NoSuchMessage) as error:
        raise UnreadableProtobufSchema(str(error)) from None


class ProtobufRows:
    """Decodes columns of records of one message; with `schema_of` each names the schema that wrote it."""

    def __init__(self, message: Any, kind: pa.DataType, schema_of: SchemaOf | None) -> None:
        from ottla.schemas.protobuf.messages import class_of

        self._name = message.full_name
        self._class = class_of(message)
        self._convert = reader_of(message)
        self._kind = kind
        self._columns = ProtobufColumns(ProtobufPlan(message, kind)) if IS_QUICK else None
        self._schema_of = schema_of
        self._files: dict[int, Any] = {}
        self._checked: set[tuple[int, tuple[int, ...]]] = set()

    def decode(self, column: pa.Array) -> Decoded:
        if self._columns is None:
            return decode_each(column, self._kind, self._read)
        quick = self._columns.read(column) if self._schema_of is None else self._read_framed(column)
        return decode_rest(column, quick, self._read)

    def _read_framed(self, column: pa.Array) -> pa.Array:
        """Null where a message is not plain, or its frame is a longer one than those of most: then it is read alone."""
        is_first = pc.equal(pc.binary_slice(column, FRAME_BYTES, FRAME_BYTES + 1), FIRST_MESSAGE)
        is_outer = pc.equal(pc.binary_slice(column, FRAME_BYTES, FRAME_BYTES + 1), ONE_INDEX)
        frames = pc.case_when(
            pc.make_struct(is_first, is_outer),
            pc.binary_slice(column, 0, FRAME_BYTES + 1),
            pc.binary_slice(column, 0, FRAME_BYTES + 2),
        )
        return read_groups(column, frames, self._kind, self._read_writer)

    def _read_writer(self, frame: bytes, column: pa.Array) -> pa.Array:
        assert self._columns is not None, "there is a leaf"
        try:
            if self._message_begins(frame) == len(frame):
                return self._columns.read(column, len(frame))
        except ValueError:
            pass
        return pa.nulls(len(column), self._kind)

    def _message_begins(self, content: bytes) -> int:
        """Behind the frame, which names our message; ValueError when it does not."""
        if self._schema_of is None:
            return 0
        schema_id = schema_id_of(content)
        indexes, position = read_indexes(content)
        if (schema_id, indexes) not in self._checked:
            self._check_message(self._file(schema_id, self._schema_of), indexes)
            self._checked.add((schema_id, indexes))
        return position

    def _read(self, content: bytes) -> Any:
        from google.protobuf.message import DecodeError

        position = self._message_begins(content)
        try:
            return self._convert(self._class.FromString(content[position:]))
        except (DecodeError, OverflowError) as error:
            raise ValueError(f"it does not decode as {self._name} ({error})") from None

    def _file(self, schema_id: int, schema_of: SchemaOf) -> Any:
        from ottla.schemas.protobuf.messages import linked_file

        if schema_id not in self._files:
            self._files[schema_id] = linked_file(*schema_of(schema_id))
        return self._files[schema_id]

    def _check_message(self, file: Any, indexes: tuple[int, ...]) -> None:
        from ottla.schemas.protobuf.messages import NoSuchMessage, message_at

        try:
            written = message_at(file, indexes).full_name
        except NoSuchMessage as error:
            raise ValueError(str(error)) from None
        if written != self._name:
            raise ValueError(f"it is a message {written}, not {self._name}")
