"""Compatibility: which earlier versions a schema is held against, and in which direction.

BACKWARD      consumers with the new schema read what was written with the last one    the default
FORWARD       consumers with the last schema read what is written with the new one
FULL          both
..._TRANSITIVE   the same with all versions, not only the last
NONE          nothing is checked
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.registry import errors
from ottla.broker.registry.contracts import group_value, with_contract
from ottla.broker.registry.records import StoredSchema
from ottla.broker.registry.requests import Outcome, Request, read_schema_of, wanted_version
from ottla.broker.registry.schemas import Steps, comparing
from ottla.broker.registry.state import RegistryState
from ottla.light_tuples import NamedTuple
from ottla.schemas.model import SchemaText

if TYPE_CHECKING:
    from ottla.broker.registry.operations import Knowledge

SHOWN_MAX: Final = 20


class Level(NamedTuple):
    backward: bool
    forward: bool
    transitive: bool


LEVELS: Final[dict[str, Level]] = {
    "NONE": Level(False, False, False),
    "BACKWARD": Level(True, False, False),
    "BACKWARD_TRANSITIVE": Level(True, False, True),
    "FORWARD": Level(False, True, False),
    "FORWARD_TRANSITIVE": Level(False, True, True),
    "FULL": Level(True, True, False),
    "FULL_TRANSITIVE": Level(True, True, True),
}


def newest_schema(state: RegistryState, subject: str) -> SchemaText | None:
    """The schema of the last version that is not deleted."""
    versions = state.versions(subject)
    return versions[-1].schema if versions else None


def check_register(known: Knowledge, subject: str, schema: SchemaText) -> Steps[None]:
    """Raise when a schema cannot be the next version of a subject."""
    level = known.state.level_of(subject)
    found = yield from _problems(known, level, schema, _group_of(known, subject, schema))
    if found:
        raise errors.incompatible(subject, [*found, f"{{compatibility: '{level}'}}"])


def _group_of(known: Knowledge, subject: str, schema: SchemaText) -> list[StoredSchema]:
    """The versions that a schema is compared with: all, or those of its group (contracts.py)."""
    versions, group = known.state.versions(subject), known.state.config_of(subject).group
    if not group:
        return versions
    return [each for each in versions if group_value(each.schema, group) == group_value(schema, group)]


def _problems(known: Knowledge, name: str, schema: SchemaText, versions: list[StoredSchema]) -> Steps[list[str]]:
    """Why a schema does not fit to these versions, as sentences; the newest is asked first."""
    level = LEVELS.get(name, LEVELS["BACKWARD"])
    budget = comparing()
    for stored in reversed(versions if level.transitive else versions[-1:]):
        found = []
        if level.backward:
            found += yield from known.schemas.problems(schema, stored.schema, budget)
        if level.forward:
            found += yield from known.schemas.problems(stored.schema, schema, budget)
        yield None
        if found:
            shown = [str(each) for each in found[:SHOWN_MAX]]
            return [*shown, f"{{oldSchemaVersion: {stored.version}}}", f"{{oldSchema: '{stored.schema.text}'}}"]
    return []


def test_all(known: Knowledge, request: Request) -> Steps[Outcome]:
    """Would this schema be accepted as the next version?"""
    return (yield from _tested(known, request, None, known.state.level_of(known.subject_of(request))))


def test_one(known: Knowledge, request: Request) -> Steps[Outcome]:
    """Is this schema compatible with that version? At the level of the subject, but with that version alone. The latest
    of a subject that has none yet is compatible with everything."""
    wanted, subject = wanted_version(request.path["version"]), known.subject_of(request)
    versions = [each for each in known.state.versions(subject) if wanted in (None, each.version)]
    if wanted is not None and not versions:
        raise errors.version_not_found(wanted)
    level = known.state.level_of(subject).removesuffix("_TRANSITIVE")
    return (yield from _tested(known, request, versions[-1:], level))


def _tested(known: Knowledge, request: Request, versions: list[StoredSchema] | None, level: str) -> Steps[Outcome]:
    """With these versions; None is those that registering would look at."""
    subject = known.subject_of(request)
    is_normalized = request.flag("normalize") or known.state.normalizes(subject)
    try:
        schema = yield from known.schemas.canonical(read_schema_of(request).schema, is_normalized=is_normalized)
    except errors.RegistryError as error:
        if error.code != errors.INVALID_SCHEMA or not request.flag("verbose"):
            raise
        return Outcome({"is_compatible": False, "messages": [error.message]})
    if versions is None:
        schema = with_contract(schema, known.state.config_of(subject), newest_schema(known.state, subject))
        versions = _group_of(known, subject, schema)
    found = yield from _problems(known, level, schema, versions)
    if request.flag("verbose"):
        shown = [*found, f"{{compatibility: '{level}'}}"] if found else []
        return Outcome({"is_compatible": not found, "messages": shown})
    return Outcome({"is_compatible": not found})
