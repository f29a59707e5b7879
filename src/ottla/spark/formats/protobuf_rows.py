"""Protobuf records as columns.

    valueSchema         schemaRegistryUrl    records are                            read as
    .proto, or a file   -                    bare messages                          valueMessage of valueSchema
    -                   given                framed, of a message they name         valueMessage of the newest schema
    .proto, or a file   given                framed, of a message they name         valueMessage of valueSchema

1. A record is read with the reader's message, by Protobuf's rules: fields are their numbers, those that the reader does
   not have are passed over, those that were not written have their default or are NULL.
2. The message is the first of its file unless keyMessage or valueMessage name another. A framed record says which
   message of which schema it is: one of another name is bad.
3. The newest schema is that of the subject <topic>-key or <topic>-value when the query is planned; it goes along with
   the column (formats.py), as Avro's does.
4. A record that does not decode or names a schema that the registry does not know is bad. A registry that does not
   answer is a failure of the task, not of the record.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import DataType

from ottla.client.schema_registry.registry import SchemaNotFound, SchemaRegistry
from ottla.errors import OttlaError
from ottla.schemas.framing import UnframedRecord, read_indexes, schema_id_of
from ottla.schemas.model import PROTOBUF, InvalidSchema, SchemaLibraryMissing
from ottla.schemas.protobuf.values import reader_of
from ottla.spark.formats.formats import Decoded, Side, message_name, schema_text
from ottla.spark.formats.protobuf_types import UnreadableProtobufSchema, spark_type
from ottla.spark.option_table import InvalidOption

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions

SCHEMA_FILE_BYTES_MAX: Final = 16_777_216
UNKNOWN_MAX: Final = 10_000
REGISTRIES_MAX: Final = 16
PLANNED: Final = '{"schema":'
"""So begins what goes along with a column; no .proto text does."""


class ProtobufMissing(OttlaError):
    """protobuf is not installed. Install it where Spark runs: pip install 'ottla[registry]'."""


def planned_schema(options: SourceOptions, side: Side) -> str:
    """The schema to read with, and its message, as JSON: what goes along with the column. One that came along stays."""
    known = schema_text(options, side)
    if known is not None and known.startswith(PLANNED):
        return known
    text, imports = _chosen_schema(options, side)
    message = _message(text, imports, message_name(options, side))
    return json.dumps({"schema": text, "imports": imports, "message": message.full_name})


def planned_type(planned: str) -> DataType:
    """What values of a planned schema are in Spark."""
    return spark_type(planned_message(planned))


def planned_message(planned: str) -> Any:
    found = json.loads(planned)
    return _message(found["schema"], found["imports"], found["message"])


def _message(text: str, imports: dict[str, str], name: str | None) -> Any:
    try:
        from ottla.schemas.protobuf.messages import NoSuchMessage, linked_file, message_named
    except ImportError as error:
        raise ProtobufMissing from error
    try:
        return message_named(linked_file(text, imports), name)
    except SchemaLibraryMissing as error:
        raise ProtobufMissing from error
    except (InvalidSchema, NoSuchMessage) as error:
        raise UnreadableProtobufSchema(str(error)) from None


def _chosen_schema(options: SourceOptions, side: Side) -> tuple[str, dict[str, str]]:
    text = schema_text(options, side)
    if text:
        return (text if "{" in text else _from_file(text, side)), {}
    if options.schema_registry_url is None:
        raise InvalidOption(f"{side}Format=protobuf needs {side}Schema (a .proto text or file), or schemaRegistryUrl")
    if options.topics.pattern is not None:
        raise InvalidOption(f"with subscribePattern {side}Format=protobuf needs {side}Schema: topics may come and go")
    registry = registry_at(options.schema_registry_url)
    found = [registry.latest(f"{topic}-{side}")[1] for topic in options.topics.names]
    if any(each.kind != PROTOBUF for each in found):
        raise InvalidOption(f"the newest schema of {side}s is not Protobuf, but {found[0].kind}")
    if any((each.text, each.references) != (found[0].text, found[0].references) for each in found):
        raise InvalidOption(f"the topics have different schemas; say what to read with {side}Schema")
    return found[0].text, registry.imports(found[0])


@functools.lru_cache(maxsize=REGISTRIES_MAX)
def registry_at(url: str) -> SchemaRegistry:
    """One registry of this process: its schemas are kept for the next task."""
    try:
        return SchemaRegistry(url)
    except ValueError as error:
        raise InvalidOption(f"schemaRegistryUrl: {error}") from None


def _from_file(path: str, side: Side) -> str:
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(SCHEMA_FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{side}Schema is neither a .proto text nor a file that can be read: {error}") from None
    if len(text) > SCHEMA_FILE_BYTES_MAX:
        raise InvalidOption(f"the file of {side}Schema is larger than {SCHEMA_FILE_BYTES_MAX} bytes")
    return text


class ProtobufRows:
    """Decodes columns of Protobuf records."""

    def __init__(self, planned: str, kind: pyarrow.DataType, registry: SchemaRegistry | None) -> None:
        from ottla.schemas.protobuf.messages import class_of

        message = planned_message(planned)
        self._name = message.full_name
        self._class = class_of(message)
        self._convert = reader_of(message)
        self._kind = kind
        self._registry = registry
        self._files: dict[int, Any] = {}
        self._checked: set[tuple[int, tuple[int, ...]]] = set()
        self._unknown: dict[int, str] = {}

    @classmethod
    def for_side(cls, options: SourceOptions, side: Side, kind: pyarrow.DataType) -> ProtobufRows:
        url = options.schema_registry_url
        return cls(planned_schema(options, side), kind, None if url is None else registry_at(url))

    def decode(self, column: pyarrow.Array) -> Decoded:
        import pyarrow as pa

        found: list[Any] = []
        problems: dict[int, str] = {}
        for row, content in enumerate(column.to_pylist()):
            try:
                found.append(None if content is None else self._read(content))
            except ValueError as error:
                found.append(None)
                problems[row] = str(error)
        return Decoded(pa.array(found, type=self._kind), problems)

    def _read(self, content: bytes) -> Any:
        from google.protobuf.message import DecodeError

        position = 0
        if self._registry is not None:
            number = schema_id_of(content)
            indexes, position = read_indexes(content)
            self._check_message(number, indexes)
        try:
            return self._convert(self._class.FromString(content[position:]))
        except (DecodeError, OverflowError) as error:
            raise ValueError(f"it does not decode as {self._name} ({error})") from None

    def _check_message(self, number: int, indexes: tuple[int, ...]) -> None:
        """A record of another message would decode to nonsense."""
        if (number, indexes) in self._checked:
            return
        from ottla.schemas.protobuf.messages import NoSuchMessage, message_at

        try:
            written = message_at(self._file(number), indexes).full_name
        except NoSuchMessage as error:
            raise ValueError(str(error)) from None
        if written != self._name:
            raise ValueError(f"it is a message {written}, not {self._name}")
        self._checked.add((number, indexes))

    def _file(self, number: int) -> Any:
        if number in self._unknown:
            raise UnframedRecord(self._unknown[number])
        if number not in self._files:
            self._files[number] = self._asked_file(number)
        return self._files[number]

    def _asked_file(self, number: int) -> Any:
        from ottla.schemas.protobuf.messages import linked_file

        assert self._registry is not None, "only framed records name their schema"
        try:
            schema = self._registry.schema(number)
            if schema.kind == PROTOBUF:
                return linked_file(schema.text, self._registry.imports(schema))
            why = f"it names schema {number}, which is {schema.kind}"
        except SchemaNotFound as error:
            why = f"it names a schema that is not there: {error.detail}"
        if len(self._unknown) < UNKNOWN_MAX:
            self._unknown[number] = why
        raise UnframedRecord(why)
