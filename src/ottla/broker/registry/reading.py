"""Questions: subjects, versions, ids. Nothing is changed by them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.broker.registry.errors import invalid_subject, schema_not_found, subject_not_found, version_not_found
from ottla.broker.registry.records import StoredSchema
from ottla.broker.registry.requests import (
    DEFAULT_CONTEXT,
    Json,
    Outcome,
    Request,
    page,
    plain_subject,
    schema_value,
    stored_value,
    wanted_version,
)
from ottla.broker.registry.schemas import Steps
from ottla.broker.registry.state import RegistryState
from ottla.schemas.model import KINDS, PROTOBUF, SchemaText

if TYPE_CHECKING:
    from ottla.broker.registry.operations import Knowledge

ALL_CONTEXTS = ":*:"


def types(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    return Outcome(list(KINDS))


def contexts(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    prefix = request.query.get("contextPrefix", "")
    return Outcome(page([each for each in (DEFAULT_CONTEXT,) if each.startswith(prefix)], request))


def subjects(known: Knowledge, request: Request) -> Steps[Outcome]:
    """Names of subjects: those that have a version that is not deleted, all with deleted=true."""
    prefix, found = _prefix(request), list[Json]()
    for name in sorted(known.state.subjects):
        if name.startswith(prefix) and _is_listed(known.state, name, request):
            found.append(name)
        yield None
    return Outcome(page(found, request))


def _is_listed(state: RegistryState, subject: str, request: Request) -> bool:
    has_some = any(not each.is_deleted for each in state.subjects[subject].values())
    return not has_some if request.flag("deletedOnly") else has_some or request.flag("deleted")


def _prefix(request: Request) -> str:
    prefix = request.query.get("subjectPrefix", "")
    if prefix == ALL_CONTEXTS or not prefix:
        return ""
    return plain_subject(prefix) if prefix.startswith(":.") and prefix != ":.:" else prefix.removeprefix(":.:")


def schemas(known: Knowledge, request: Request) -> Steps[Outcome]:
    """All versions of all subjects."""
    prefix, found = _prefix(request), list[Json]()
    for name in sorted(known.state.subjects):
        if name.startswith(prefix):
            versions = known.state.versions(name, deleted=request.flag("deleted"))
            for stored in versions[-1:] if request.flag("latestOnly") else versions:
                found.append(stored_value(stored))
                yield None
        yield None
    return Outcome(page(found, request))


def versions(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject = known.subject_of(request)
    found = known.state.versions(subject, deleted=request.flag("deleted") or request.flag("deletedOnly"))
    if request.flag("deletedOnly"):
        found = [each for each in found if each.is_deleted]
    if not found:
        raise subject_not_found(subject)
    return Outcome(page([each.version for each in found], request))


def version(known: Knowledge, request: Request) -> Steps[Outcome]:
    stored = find_version(
        known.state, known.subject_of(request), request.path["version"], deleted=request.flag("deleted")
    )
    text = yield from formatted(known, stored.schema, request)
    return Outcome(stored_value(stored, text))


def version_schema(known: Knowledge, request: Request) -> Steps[Outcome]:
    """The schema alone, as it is."""
    stored = find_version(
        known.state, known.subject_of(request), request.path["version"], deleted=request.flag("deleted")
    )
    text = yield from formatted(known, stored.schema, request)
    return Outcome(_bare(stored.schema, text))


def find_version(state: RegistryState, subject: str, text: str, *, deleted: bool = False) -> StoredSchema:
    """A version of a subject; raises what the registry answers where it is not there."""
    wanted = wanted_version(text)
    found = state.versions(subject, deleted=deleted)
    if not found:
        raise subject_not_found(subject)
    if wanted is None:
        return found[-1]
    for each in found:
        if each.version == wanted:
            return each
    raise version_not_found(wanted)


def referenced_by(known: Knowledge, request: Request) -> Steps[Outcome]:
    """The ids of the schemas that refer to a version."""
    yield None
    stored = find_version(known.state, known.subject_of(request), request.path["version"], deleted=True)
    users = known.state.used_by(stored.subject, stored.version, deleted=request.flag("deleted"))
    return Outcome(page(sorted({each.id for each in users}), request))


def latest_with_metadata(known: Knowledge, request: Request) -> Steps[Outcome]:
    """The newest version whose metadata has all of these properties: ?key=a&value=1&key=b&value=2."""
    subject, wanted = known.subject_of(request), list(zip(request.texts("key"), request.texts("value"), strict=False))
    found = known.state.versions(subject, deleted=request.flag("deleted"))
    if not found:
        raise subject_not_found(subject)
    for stored in reversed(found):
        properties = json.loads(stored.schema.metadata or "{}").get("properties", {})
        if all(str(properties.get(key)) == value for key, value in wanted):
            text = yield from formatted(known, stored.schema, request)
            return Outcome(stored_value(stored, text))
    raise schema_not_found()


# -- by id -------------------------------------------------------------------------------------------------------------


def by_id(known: Knowledge, request: Request) -> Steps[Outcome]:
    stored = _of_id(known.state, request)
    text = yield from formatted(known, stored.schema, request)
    value = schema_value(stored.schema, text)
    if request.text("subject"):
        value = {**value, "subject": stored.subject, "version": stored.version}
    if request.flag("fetchMaxId"):
        value["maxId"] = known.state.highest_id
    return Outcome(value)


def by_id_schema(known: Knowledge, request: Request) -> Steps[Outcome]:
    stored = _of_id(known.state, request)
    text = yield from formatted(known, stored.schema, request)
    return Outcome(_bare(stored.schema, text))


def by_guid(known: Knowledge, request: Request) -> Steps[Outcome]:
    stored = known.state.by_guid(request.path["guid"])
    if stored is None:
        raise schema_not_found(request.path["guid"])
    text = yield from formatted(known, stored.schema, request)
    return Outcome({**schema_value(stored.schema, text), "id": stored.id})


def ids_of_guid(known: Knowledge, request: Request) -> Steps[Outcome]:
    """The ids under which a schema is known; there is one context, so there is one."""
    yield None
    stored = known.state.by_guid(request.path["guid"])
    if stored is None:
        raise schema_not_found(request.path["guid"])
    return Outcome([{"context": DEFAULT_CONTEXT, "id": stored.id}])


def subjects_of_id(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    places = _places(known.state, request)
    return Outcome(page(sorted({each.subject for each in places}), request))


def versions_of_id(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    found: list[Json] = [{"subject": each.subject, "version": each.version} for each in _places(known.state, request)]
    return Outcome(page(found, request))


def _places(state: RegistryState, request: Request) -> list[StoredSchema]:
    _of_id(state, request)
    wanted = request.text("subject")
    return [
        each
        for each in state.places_of(_id(request))
        if (request.flag("deleted") or not each.is_deleted) and (wanted is None or each.subject == wanted)
    ]


def _id(request: Request) -> int:
    text = request.path["id"]
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise schema_not_found(text[:20])
    return int(text)


def _of_id(state: RegistryState, request: Request) -> StoredSchema:
    """A place of an id: in the subject that was named, if it is there."""
    schema_id = _id(request)
    found = state.by_id(schema_id)
    if found is None:
        raise schema_not_found(schema_id)
    subject = request.text("subject")
    if subject is not None and subject.startswith(":.") and not subject.startswith(":.:"):
        raise invalid_subject(subject, "contexts are not supported; there is the default one")
    inside = (each for each in state.places_of(schema_id) if each.subject == subject and not each.is_deleted)
    return next(inside, found)


def formatted(known: Knowledge, schema: SchemaText, request: Request) -> Steps[str | None]:
    """Another form of a schema, if one was asked for: descriptors of Protobuf, Avro with its references inside."""
    wanted = request.text("format")
    if wanted == "serialized" and schema.kind == PROTOBUF:
        from ottla.schemas.protobuf.format import ParsedProtobuf

        parsed = yield from known.schemas.parse(schema)
        assert isinstance(parsed, ParsedProtobuf), "of this kind"
        return parsed.serialized
    if wanted == "resolved" and schema.references and schema.kind != PROTOBUF:
        from ottla.schemas.resolved import resolved

        return resolved(schema.kind, schema.text, known.schemas.imports_of(schema))
    yield None
    return None


def _bare(schema: SchemaText, text: str | None) -> Json:
    """A schema as JSON where it is JSON, as text where it is not."""
    shown = schema.text if text is None else text
    if schema.kind == PROTOBUF:
        return shown
    try:
        value: Json = json.loads(shown)
    except ValueError:
        return shown
    return value
