"""What keys and values of topics are written as: from the words of a source or sink to options of format("ottla").

    format        source                                      sink
    json          SQL reads it (topic_columns.py)             SQL writes it (topic_records.py)
    string        text                                        text, or bytes as they are
    avro          valueFormat=avro                            valueFormat=avro
    protobuf      valueFormat=protobuf                        valueFormat=protobuf
    json_schema   valueFormat=json; with columns SQL          valueFormat=json

1. A schema is text or the name of a file beside the pipeline's. The file is read here: Spark may run elsewhere.
2. A registry is the source's or sink's own, else the pipeline's; the option `schemaRegistryUrl` says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.definition import REGISTERED_FORMATS, Pipeline, Sink, Source
from ottla.spark.pipelines.topic_columns import is_decoded

SCHEMA_FILES: Final = (".avsc", ".proto", ".json")
_CONNECTORS: Final = {"json_schema": "json"}
_REGISTRY: Final = "schemaRegistryUrl"


def source_options(source: Source, pipeline: Pipeline, directory: Path) -> dict[str, str]:
    """What the connector is told of the values that a source reads."""
    if not is_decoded(source):
        return {}
    options = _named("value", source.format, source.schema, source.message, directory)
    return options | registry_options(source, pipeline)


def sink_options(sink: Sink, pipeline: Pipeline, directory: Path) -> dict[str, str]:
    """What the connector is told of the keys and values that a sink writes."""
    options: dict[str, str] = {}
    if sink.format in REGISTERED_FORMATS:
        options |= _named("value", sink.format, sink.schema, sink.message, directory)
    if sink.key_format in REGISTERED_FORMATS:
        options |= _named("key", sink.key_format, sink.key_schema, None, directory)
    return options | registry_options(sink, pipeline) if options else {}


def registry_options(node: Source | Sink, pipeline: Pipeline) -> dict[str, str]:
    """The registry as an option, if there is one."""
    address = node.registry or option_of(node.options, _REGISTRY) or pipeline.registry
    return {_REGISTRY: address} if address else {}


def option_of(options: Mapping[str, str], name: str) -> str | None:
    """An option, whose name may be written in any case."""
    return {key.lower(): value for key, value in options.items()}.get(name.lower())


def _named(side: str, name: str | None, schema: str | None, message: str | None, directory: Path) -> dict[str, str]:
    options = {f"{side}Format": _CONNECTORS.get(str(name), str(name))}
    if schema is not None:
        options[f"{side}Schema"] = schema_text(schema, directory)
    if message is not None:
        options[f"{side}Message"] = message
    return options


def schema_text(schema: str, directory: Path) -> str:
    """A schema that is given as text or as a file; OSError and UnicodeDecodeError when the file cannot be read."""
    return (directory / schema).read_text() if is_schema_file(schema) else schema


def is_schema_file(schema: str) -> bool:
    """Whether this is the name of a file: schemas have brackets or spaces, or are words without an ending."""
    return schema.endswith(SCHEMA_FILES) and not set('{}"\n') & set(schema)


def format_faults(node: Source | Sink, pipeline: Pipeline, directory: Path) -> Iterator[tuple[str, str]]:
    """(word, sentence): what is missing for a format, or does not belong to it."""
    name = node.format
    has_registry = bool(registry_options(node, pipeline))
    for word, schema in _schemas(node):
        if schema is not None and is_schema_file(schema):
            try:
                schema_text(schema, directory)
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
                yield word, f"cannot read {schema}: {reason}"
    if node.message is not None and name != "protobuf":
        yield "message", "this is for format: protobuf"
    if isinstance(node, Sink):
        yield from _sink_faults(node, has_registry=has_registry)
    elif name in REGISTERED_FORMATS and node.schema is None and not has_registry:
        kind = "columns to read" if name == "json_schema" else "a schema to read with (text, or a file)"
        yield "format", f"{name} needs schema: {kind}; or registry: http://host:8081, whose newest schema is meant"


def _schemas(node: Source | Sink) -> list[tuple[str, str | None]]:
    return [("schema", node.schema), *([("key_schema", node.key_schema)] if isinstance(node, Sink) else [])]


def _sink_faults(sink: Sink, *, has_registry: bool) -> Iterator[tuple[str, str]]:
    sides = (
        ("format", sink.format, "schema", sink.schema),
        ("key_format", sink.key_format, "key_schema", sink.key_schema),
    )
    for word, name, schema_word, schema in sides:
        if name in REGISTERED_FORMATS and not has_registry:
            yield word, f"{name} is written with a schema of a registry: say registry: http://host:8081, or use json"
        if schema is not None and name not in REGISTERED_FORMATS:
            yield schema_word, f"this is for {word}: {', '.join(REGISTERED_FORMATS)}"
    if sink.key_format in REGISTERED_FORMATS and sink.key is None:
        yield "key_format", "there is no key: say key, SQL for the key of a record"
    if sink.format == "string" and sink.value is None:
        yield "format", "string needs value: SQL for the text; without it say json"
