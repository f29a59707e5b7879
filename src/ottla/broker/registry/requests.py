"""What a call of the REST interface brings, and what it is answered: values, without HTTP.

    Request      the parts of the path, the query, the body
    Outcome      a value that is written as JSON, and the records that must be committed before it is answered

1. A flag is true when it says so in any case: confluent-kafka writes True, Java true.
2. Contexts are refused in words. The default context has a name, ".", and may be named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.bounded_json import TooManyValues, read_json
from ottla.broker.registry.errors import RegistryError, invalid_schema, invalid_subject, invalid_version, malformed
from ottla.broker.registry.records import Json as Json
from ottla.broker.registry.records import Record, StoredSchema, UnreadableRecord, read_references
from ottla.broker.registry.state import guid_of
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.schemas.model import AVRO, KINDS, SchemaText

LATEST: Final = "latest"
VERSION_MAX: Final = (1 << 31) - 1
DEFAULT_CONTEXT: Final = "."
SUBJECT_CHARACTERS_MAX: Final = 4_096
REFERENCES_MAX: Final = 1_000


@dataclass(frozen=True)
class Request:
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    repeated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """All values of the parameters that came more than once; `query` has one of them."""

    @property
    def subject(self) -> str:
        return plain_subject(self.path["subject"])

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def text(self, name: str) -> str | None:
        return self.query.get(name) or None

    def texts(self, name: str) -> Sequence[str]:
        """All values of a parameter, in their order."""
        return self.repeated.get(name) or ([self.query[name]] if name in self.query else [])

    def number(self, name: str, default: int) -> int:
        try:
            return int(self.query.get(name) or default)
        except ValueError:
            raise RegistryError(404, f"{name} is no whole number") from None

    def object(self) -> Mapping[str, object]:
        """The JSON object that was sent."""
        try:
            found = read_json(self.body)
        except TooManyValues as error:
            raise RegistryError(413, f"Unable to process JSON: {error}") from None
        except (ValueError, RecursionError):
            raise RegistryError(400, "Unable to process JSON") from None
        if not isinstance(found, dict):
            raise malformed("the body is no JSON object")
        return found


class Outcome(NamedTuple):
    value: Json
    records: tuple[Record, ...] = ()


class Sent(NamedTuple):
    """A schema in the body of a request; `version` and `id` are 0 where they were not said."""

    schema: SchemaText
    version: int = 0
    id: int = 0


def plain_subject(subject: str) -> str:
    """The subject without the name of its context, which must be the default one."""
    if subject.startswith(":."):
        context, colon, rest = subject[1:].partition(":")
        if not colon or context != DEFAULT_CONTEXT:
            raise invalid_subject(subject, "contexts are not supported; there is the default one")
        subject = rest
    if not subject or len(subject) > SUBJECT_CHARACTERS_MAX or not subject.isprintable():
        raise invalid_subject(subject[:100], "it is empty, too long, or not printable")
    return subject


def wanted_version(text: str) -> int | None:
    """A version as it is asked for; None is the latest."""
    if text in (LATEST, "-1"):
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:11]) <= VERSION_MAX:
        raise invalid_version(text)
    return int(text)


def read_schema_of(request: Request) -> Sent:
    """The schema that was sent with this request."""
    found = request.object()
    kind, text = found.get("schemaType") or AVRO, found.get("schema")
    if kind not in KINDS:
        raise invalid_schema(f"Invalid schema type {kind}")
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("Empty schema")
    version, schema_id = found.get("version") or 0, found.get("id") or 0
    if not isinstance(version, int) or not isinstance(schema_id, int):
        raise malformed("version and id are whole numbers")
    if found.get("schemaTagsToAdd") or found.get("schemaTagsToRemove"):
        raise malformed("tags cannot be added to a schema by a request; write them into the schema")
    named = found.get("references")
    if isinstance(named, list) and len(named) > REFERENCES_MAX:
        raise invalid_schema(f"it refers to more than {REFERENCES_MAX} others")
    try:
        references = read_references(named)
    except UnreadableRecord as error:
        raise invalid_schema(str(error)) from None
    references = tuple(each._replace(subject=plain_subject(each.subject)) for each in references)
    schema = SchemaText(str(kind), text, references, _kept(found.get("metadata")), _kept(found.get("ruleSet")))
    return Sent(schema, max(0, version), max(0, schema_id))


def _kept(value: object) -> str:
    """Metadata and rules as text; what is empty is not there."""
    if not isinstance(value, dict):
        return ""
    said = {name: each for name, each in value.items() if each}
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False, sort_keys=True) if said else ""


def schema_value(schema: SchemaText, text: str | None = None) -> dict[str, Json]:
    """What an answer says of a schema; `text` is another form of it."""
    made: dict[str, Json] = {"guid": guid_of(schema)}
    if schema.kind != AVRO:
        made["schemaType"] = schema.kind
    made["schema"] = schema.text if text is None else text
    if schema.references:
        made["references"] = [{"name": x.name, "subject": x.subject, "version": x.version} for x in schema.references]
    if schema.metadata:
        made["metadata"] = json.loads(schema.metadata)
    if schema.rule_set:
        made["ruleSet"] = json.loads(schema.rule_set)
    return made


def stored_value(stored: StoredSchema, text: str | None = None) -> dict[str, Json]:
    """What an answer says of a version."""
    made: dict[str, Json] = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    made |= schema_value(stored.schema, text)
    return made | {"deleted": True} if stored.is_deleted else made


def page(found: Sequence[Json], request: Request) -> Sequence[Json]:
    """The part of a list that offset and limit ask for."""
    start, limit = max(0, request.number("offset", 0)), request.number("limit", -1)
    return found[start:] if limit < 0 else found[start : start + limit]
