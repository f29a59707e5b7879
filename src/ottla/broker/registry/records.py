"""The records of _schemas: JSON, as Confluent's registry writes them, so that either can go on with the other's topic.

    {"keytype":"SCHEMA","subject":"clicks-value","version":1,"magic":1}    the schema; null: permanently deleted
    {"keytype":"CONFIG","subject":null,"magic":0}                          compatibility; null is the global one
    {"keytype":"MODE","subject":null,"magic":0}                            mode
    {"keytype":"DELETE_SUBJECT","subject":"clicks-value","magic":0}        all versions up to one are soft-deleted
    {"keytype":"NOOP","magic":0}                                           nothing; ours has the highest id that ever
    was

1. Keys are compared as bytes when the topic is compacted: their members stand in Confluent's order, without spaces.
2. Confluent's registry reads no value of a NOOP. Ours keeps the highest id there when schemas are permanently deleted,
   so that an id never comes back with another schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from ottla.cluster.topic_names import SCHEMAS
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.schemas.model import AVRO, Reference, SchemaText

Json: TypeAlias = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None

TOPIC: Final = SCHEMAS
SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP"


class Record(NamedTuple):
    """Bytes of the topic."""

    key: bytes
    value: bytes | None


class Key(NamedTuple):
    """Which kind of record, about which subject; `subject` None is the global one."""

    kind: str
    subject: str | None = None
    version: int = 0


@dataclass(frozen=True)
class Config:
    """Of a subject, or of all; None and "" are what stands above it. Metadata and rules are JSON text."""

    level: str | None = None
    normalize: bool | None = None
    group: str = ""
    alias: str = ""
    default_metadata: str = ""
    override_metadata: str = ""
    default_rule_set: str = ""
    override_rule_set: str = ""


CONFIG_OBJECTS: Final = {
    "defaultMetadata": "default_metadata",
    "overrideMetadata": "override_metadata",
    "defaultRuleSet": "default_rule_set",
    "overrideRuleSet": "override_rule_set",
}
CONFIG_TEXTS: Final = {"compatibilityGroup": "group", "alias": "alias", **CONFIG_OBJECTS}


@dataclass(frozen=True)
class StoredSchema:
    """One version of one subject."""

    subject: str
    version: int
    id: int
    schema: SchemaText
    is_deleted: bool = False


class UnreadableRecord(ValueError):
    """A record of the topic that is none of ours."""


# -- writing -----------------------------------------------------------------------------------------------------------


def schema_record(stored: StoredSchema) -> Record:
    schema = stored.schema
    value: dict[str, object] = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    if schema.kind != AVRO:
        value["schemaType"] = schema.kind
    if schema.references:
        value["references"] = [each._asdict() for each in schema.references]
    if schema.metadata:
        value["metadata"] = json.loads(schema.metadata)
    if schema.rule_set:
        value["ruleSet"] = json.loads(schema.rule_set)
    value |= {"schema": schema.text, "deleted": stored.is_deleted}
    return Record(_key(Key(SCHEMA, stored.subject, stored.version)), _json(value))


def schema_tombstone(stored: StoredSchema) -> Record:
    return Record(_key(Key(SCHEMA, stored.subject, stored.version)), None)


def config_record(subject: str | None, config: Config) -> Record:
    value: dict[str, object] = {"subject": subject, "compatibilityLevel": config.level, **config_value(config)}
    return Record(_key(Key(CONFIG, subject)), _json(value))


def config_value(config: Config) -> dict[str, Json]:
    """All that is said beside the level, with the names of requests, answers and records."""
    made: dict[str, Json] = {} if config.normalize is None else {"normalize": config.normalize}
    for name, attribute in CONFIG_TEXTS.items():
        if found := getattr(config, attribute):
            made[name] = json.loads(found) if name in CONFIG_OBJECTS else found
    return made


def mode_record(subject: str | None, mode: str) -> Record:
    return Record(_key(Key(MODE, subject)), _json({"subject": subject, "mode": mode}))


def tombstone(kind: str, subject: str | None) -> Record:
    return Record(_key(Key(kind, subject)), None)


def delete_subject_record(subject: str, version: int) -> Record:
    return Record(_key(Key(DELETE_SUBJECT, subject)), _json({"subject": subject, "version": version}))


def highest_id_record(highest_id: int) -> Record:
    return Record(_json({"keytype": NOOP, "magic": 0}), _json({"maxId": highest_id}))


def _key(key: Key) -> bytes:
    made: dict[str, object] = {"keytype": key.kind, "subject": key.subject}
    if key.kind == SCHEMA:
        made["version"] = key.version
    return _json(made | {"magic": 1 if key.kind == SCHEMA else 0})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# -- reading -----------------------------------------------------------------------------------------------------------


def read_key(content: bytes | memoryview | None) -> Key:
    found = read_object(content)
    kind, subject, version = found.get("keytype"), found.get("subject"), found.get("version", 0)
    if not isinstance(kind, str) or not (subject is None or isinstance(subject, str)) or not isinstance(version, int):
        raise UnreadableRecord("its key names no kind, subject and version")
    return Key(kind, subject, version)


def read_schema(content: bytes | memoryview) -> StoredSchema:
    found = read_object(content)
    subject, version, schema_id, text = (found.get(name) for name in ("subject", "version", "id", "schema"))
    if not (isinstance(subject, str) and isinstance(version, int) and isinstance(schema_id, int)):
        raise UnreadableRecord("a schema without subject, version or id")
    if not isinstance(text, str):
        raise UnreadableRecord("a schema without its text")
    schema = SchemaText(
        kind=str(found.get("schemaType") or AVRO),
        text=text,
        references=read_references(found.get("references")),
        metadata=_text(found.get("metadata")),
        rule_set=_text(found.get("ruleSet")),
    )
    return StoredSchema(subject, version, schema_id, schema, found.get("deleted") is True)


def read_config(found: Mapping[str, object]) -> Config:
    """A configuration as it stands in a record or a request; UnreadableRecord names what is none."""
    level, normalize = found.get("compatibilityLevel") or found.get("compatibility"), found.get("normalize")
    if not (level is None or isinstance(level, str)) or not (normalize is None or isinstance(normalize, bool)):
        raise UnreadableRecord("compatibility is a text, normalize is true or false")
    texts: dict[str, str] = {}
    for name, attribute in CONFIG_TEXTS.items():
        value = found.get(name)
        if value is not None and not isinstance(value, dict if name in CONFIG_OBJECTS else str):
            raise UnreadableRecord(f"{name} is {'an object' if name in CONFIG_OBJECTS else 'a text'}")
        texts[attribute] = _text(value or None) if name in CONFIG_OBJECTS else str(value or "")
    return Config(level, normalize, **texts)


def read_references(value: object) -> tuple[Reference, ...]:
    """References as they stand in requests and records."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UnreadableRecord("references are a list")
    made = []
    for each in value:
        name, subject, version = (each.get(x) if isinstance(each, dict) else None for x in Reference._fields)
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            raise UnreadableRecord("a reference has a name, a subject and a version")
        made.append(Reference(name, subject, version))
    return tuple(made)


def _text(value: object) -> str:
    return "" if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def read_object(content: bytes | memoryview | None) -> Mapping[str, object]:
    try:
        found = json.loads(bytes(content or b""))
    except (ValueError, RecursionError):
        raise UnreadableRecord("it is no JSON") from None
    if not isinstance(found, dict):
        raise UnreadableRecord("it is no JSON object")
    return found
