"""keyFormat and valueFormat of the sink: columns as records of a schema registry.

    binary     string or binary, as it is (the default)
    avro       any column, written with an Avro schema
    json       any column, as JSON that was checked against a JSON schema
    protobuf   a struct, written as a message of a Protobuf schema

1. The schema is the newest of the subject <topic>-key or <topic>-value, asked once per process and subject. keySchema
   or valueSchema name another one, which is registered there first; the registry refuses one that is not compatible.
2. Records begin with the number of their schema, as Confluent's serializers write them and every client reads them.
3. NULL is a tombstone. A row that does not fit the schema fails its task, with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.client.schema_registry.serde import RegistrySerializer
from ottla.errors import OttlaError
from ottla.schemas.framing import write_indexes
from ottla.schemas.model import PROTOBUF, SchemaText
from ottla.spark.sink.options import SinkFormat, SinkOptions

if TYPE_CHECKING:
    import pyarrow

SERIALIZERS_MAX: Final = 32

Plain = Callable[[Any], Any]


class UnfitRow(OttlaError):
    """A row cannot be written with the schema of its topic. Change the column, or register a schema that it fits."""


class RowMessages(RegistrySerializer):
    """Dicts as messages of a Protobuf schema."""

    def __init__(self, text: str, url: str, message: str | None, *, latest: bool) -> None:
        super().__init__(url, latest=latest)
        self._text = text
        self._message = message

    def schema(self) -> SchemaText:
        return SchemaText(PROTOBUF, self._text)

    def prepare(self, schema: SchemaText) -> Any:
        from ottla.schemas.protobuf.messages import class_of, indexes_of, linked_file, message_named

        message = message_named(linked_file(schema.text, self.registry.imports(schema)), self._message)
        return class_of(message), write_indexes(indexes_of(message))

    def encode(self, value: Any, prepared: Any) -> bytes:
        from ottla.schemas.protobuf.values import fill

        kind, indexes = prepared
        content: bytes = fill(kind(), value).SerializeToString()
        return bytes(indexes) + content


@functools.lru_cache(maxsize=SERIALIZERS_MAX)
def serializer_of(chosen: SinkFormat) -> RegistrySerializer:
    """One of this process: it knows the schemas of its subjects."""
    assert chosen.registry_url is not None, "checked with the options"
    text, is_latest = chosen.schema or "", not chosen.schema
    if chosen.name == "protobuf":
        return RowMessages(text, chosen.registry_url, chosen.message, latest=is_latest)
    if chosen.name == "json":
        from ottla.client.schema_registry.json_format import JsonSerializer

        return JsonSerializer(text, chosen.registry_url, latest=is_latest)
    from ottla.client.schema_registry.avro import AvroSerializer

    return AvroSerializer(text, chosen.registry_url, latest=is_latest)


def encoded(batch: pyarrow.RecordBatch, options: SinkOptions) -> pyarrow.RecordBatch:
    """The same rows with keys and values as bytes."""
    for side, chosen in options.formats.items():
        if chosen.name != "binary" and side in batch.schema.names:
            index = batch.schema.get_field_index(side)
            batch = batch.set_column(index, side, _column(batch, side, chosen, options.topic))
    return batch


def _column(batch: pyarrow.RecordBatch, side: str, chosen: SinkFormat, topic: str | None) -> pyarrow.Array:
    import pyarrow as pa

    column, serializer = batch.column(side), serializer_of(chosen)
    plain = plain_of(column.type)
    topics = batch.column("topic").to_pylist() if topic is None else [topic] * batch.num_rows
    made: list[bytes | None] = []
    for value, name in zip(column.to_pylist(), topics, strict=True):
        made.append(None if value is None else _written(serializer, plain(value), f"{name}-{side}"))
    return pa.array(made, type=pa.binary())


def _written(serializer: RegistrySerializer, value: Any, subject: str) -> bytes:
    try:
        return serializer.write(value, subject)
    except OttlaError:
        raise
    except Exception as error:  # the libraries of the formats raise whatever they stumble over
        raise UnfitRow(f"with the schema of {subject}: {type(error).__name__}: {error}") from error


def plain_of(kind: pyarrow.DataType) -> Plain:
    """What makes dicts of the pairs that Arrow has for maps."""
    import pyarrow.types as types

    if types.is_map(kind):
        inner = plain_of(kind.item_type)
        return lambda value: None if value is None else {key: inner(each) for key, each in value}
    if types.is_struct(kind):
        fields = [(kind.field(index).name, plain_of(kind.field(index).type)) for index in range(kind.num_fields)]
        return lambda value: None if value is None else {name: each(value[name]) for name, each in fields}
    if types.is_list(kind) or types.is_large_list(kind):
        item = plain_of(kind.value_type)
        return lambda value: None if value is None else [item(each) for each in value]
    return _same


def _same(value: Any) -> Any:
    return value
