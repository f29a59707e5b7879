"""Changes of subjects: schemas are registered, looked up and deleted.

1. A schema that a subject has already is not registered again: its id is the answer.
2. A new version must be compatible with the last one, or with all, as the level of the subject says (levels.py).
3. Deleted is first soft: the version is not listed any more, and can still be read by its id. Permanently deleted can
   only be what is soft-deleted and not used by another schema.
4. In IMPORT mode ids and versions are said by whoever imports, and nothing is checked for compatibility.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.registry import errors, records
from ottla.broker.registry.contracts import with_contract
from ottla.broker.registry.levels import check_register, newest_schema
from ottla.broker.registry.reading import find_version, formatted
from ottla.broker.registry.records import Record, StoredSchema
from ottla.broker.registry.requests import Outcome, Request, Sent, read_schema_of, stored_value, wanted_version
from ottla.broker.registry.schemas import Steps
from ottla.broker.registry.state import RegistryState, digest_of, guid_of
from ottla.schemas.model import SchemaText

if TYPE_CHECKING:
    from ottla.broker.registry.operations import Knowledge

ID_MAX: Final = (1 << 31) - 1


def register(known: Knowledge, request: Request) -> Steps[Outcome]:
    state, subject, sent = known.state, known.subject_of(request), read_schema_of(request)
    _check_mode(state, subject)
    _check_id(state, subject, sent)
    is_normalized = request.flag("normalize") or state.normalizes(subject)
    schema = yield from known.schemas.canonical(sent.schema, is_normalized=is_normalized)
    if state.mode_of(subject) == "IMPORT":
        return _imported(state, subject, schema, sent)
    schema, same = _as_it_would_be(state, subject, schema)
    if same is not None:
        return Outcome(_registered(same))
    newest = max(state.subjects.get(subject, {}), default=0)
    if sent.version and sent.version != newest + 1:
        raise errors.invalid_schema(f"version {sent.version} is not the next one, {newest + 1}")
    yield from check_register(known, subject, schema)
    schema_id = state.id_of(schema)
    stored = StoredSchema(subject, newest + 1, state.highest_id + 1 if schema_id is None else schema_id, schema)
    if stored.id > ID_MAX:
        raise errors.store_failed("there are no ids left")
    return Outcome(_registered(stored), (records.schema_record(stored),))


def _as_it_would_be(
    state: RegistryState, subject: str, schema: SchemaText, *, deleted: bool = False
) -> tuple[SchemaText, StoredSchema | None]:
    """A schema as the subject has it, or would have it (contracts.py); and the version that it is already."""
    same = state.same(subject, schema, deleted=deleted)
    if same is not None:
        return schema, same
    whole = with_contract(schema, state.config_of(subject), newest_schema(state, subject))
    return whole, None if whole == schema else state.same(subject, whole, deleted=deleted)


def _registered(stored: StoredSchema) -> dict[str, int | str]:
    return {"id": stored.id, "version": stored.version, "guid": guid_of(stored.schema)}


def _imported(state: RegistryState, subject: str, schema: SchemaText, sent: Sent) -> Outcome:
    newest = max(state.subjects.get(subject, {}), default=0)
    stored = StoredSchema(subject, sent.version or newest + 1, sent.id, schema)
    there = state.by_id(stored.id)
    if stored.id > ID_MAX or (there is not None and digest_of(there.schema) != digest_of(schema)):
        raise errors.not_permitted(f"Overwrite new schema with id {stored.id} is not permitted.")
    return Outcome(_registered(stored), (records.schema_record(stored),))


def _check_mode(state: RegistryState, subject: str) -> None:
    if state.mode_of(subject).startswith("READONLY"):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")


def _check_id(state: RegistryState, subject: str, sent: Sent) -> None:
    """Whoever imports says the id, and nobody else does."""
    is_import = state.mode_of(subject) == "IMPORT"
    if sent.id and not is_import:
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if is_import and not sent.id:
        raise errors.not_permitted(f"Subject {subject} is not in read-write mode")


def look_up(known: Knowledge, request: Request) -> Steps[Outcome]:
    """The version of a subject that is the schema that was sent."""
    state, subject, deleted = known.state, known.subject_of(request), request.flag("deleted")
    sent = read_schema_of(request)
    if not state.versions(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    is_normalized = request.flag("normalize") or state.normalizes(subject)
    schema = yield from known.schemas.canonical(sent.schema, is_normalized=is_normalized)
    _, found = _as_it_would_be(state, subject, schema, deleted=deleted)
    if found is None:
        raise errors.schema_not_found()
    text = yield from formatted(known, found.schema, request)
    return Outcome(stored_value(found, text))


# -- deleting ----------------------------------------------------------------------------------------------------------


def delete_subject(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    state, subject = known.state, known.subject_of(request)
    _check_mode(state, subject)
    everything = state.versions(subject, deleted=True)
    if not everything:
        raise errors.subject_not_found(subject)
    left = [each for each in everything if not each.is_deleted]
    if request.flag("permanent"):
        if left:
            raise errors.subject_not_soft_deleted(subject)
        _check_unused(state, everything)
        made = [records.schema_tombstone(each) for each in everything]
        return Outcome([each.version for each in everything], (*_with_highest_id(state), *made))
    if not left:
        raise errors.subject_soft_deleted(subject)
    _check_unused(state, left)
    made = [records.delete_subject_record(subject, everything[-1].version), *_forget_settings(state, subject)]
    return Outcome([each.version for each in left], tuple(made))


def delete_version(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    state, subject, is_permanent = known.state, known.subject_of(request), request.flag("permanent")
    _check_mode(state, subject)
    wanted = wanted_version(request.path["version"])
    text = request.path["version"] if wanted is None else str(wanted)
    stored = find_version(state, subject, text, deleted=wanted is not None)
    if is_permanent and not stored.is_deleted:
        raise errors.version_not_soft_deleted(subject, stored.version)
    if not is_permanent and stored.is_deleted:
        raise errors.version_soft_deleted(subject, stored.version)
    _check_unused(state, [stored])
    if is_permanent:
        return Outcome(stored.version, (*_with_highest_id(state), records.schema_tombstone(stored)))
    gone = StoredSchema(stored.subject, stored.version, stored.id, stored.schema, True)
    is_last = len(state.versions(subject)) == 1
    made = [records.schema_record(gone), *(_forget_settings(state, subject) if is_last else ())]
    return Outcome(stored.version, tuple(made))


def _check_unused(state: RegistryState, gone: list[StoredSchema]) -> None:
    for each in gone:
        if state.used_by(each.subject, each.version):
            raise errors.reference_exists(each.subject, each.version)


def _with_highest_id(state: RegistryState) -> tuple[Record, ...]:
    """Before the last record of an id goes, the topic says which ids there were."""
    return (records.highest_id_record(state.highest_id),)


def _forget_settings(state: RegistryState, subject: str) -> list[Record]:
    made = [records.tombstone(records.MODE, subject)] if subject in state.modes else []
    return [*made, *([records.tombstone(records.CONFIG, subject)] if subject in state.configs else [])]
