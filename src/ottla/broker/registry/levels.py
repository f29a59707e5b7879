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
from ottla.broker.registry.records import StoredSchema
from ottla.broker.registry.requests import Outcome, Request, read_schema_of, wanted_version
from ottla.broker.registry.schemas import Steps
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


def check_register(known: Knowledge, subject: str, schema: SchemaText) -> Steps[None]:
    """Raise when a schema cannot be the next version of a subject."""
    level = known.state.level_of(subject)
    found = yield from _problems(known, level, schema, known.state.versions(subject))
    if found:
        raise errors.incompatible(subject, [*found, f"{{compatibility: '{level}'}}"])


def _problems(known: Knowledge, name: str, schema: SchemaText, versions: list[StoredSchema]) -> Steps[list[str]]:
    """Why a schema does not fit to these versions, as sentences; the newest is asked first."""
    level = LEVELS.get(name, LEVELS["BACKWARD"])
    for stored in reversed(versions if level.transitive else versions[-1:]):
        found = []
        if level.backward:
            found += yield from known.schemas.problems(schema, stored.schema)
        if level.forward:
            found += yield from known.schemas.problems(stored.schema, schema)
        yield None
        if found:
            shown = [str(each) for each in found[:SHOWN_MAX]]
            return [*shown, f"{{oldSchemaVersion: {stored.version}}}", f"{{oldSchema: '{stored.schema.text}'}}"]
    return []


def test_all(known: Knowledge, request: Request) -> Steps[Outcome]:
    """Would this schema be accepted as the next version?"""
    versions = known.state.versions(request.subject)
    return (yield from _tested(known, request, versions, known.state.level_of(request.subject)))


def test_one(known: Knowledge, request: Request) -> Steps[Outcome]:
    """Is this schema compatible with that version? At the level of the subject, but with that version alone. The latest
    of a subject that has none yet is compatible with everything."""
    wanted = wanted_version(request.path["version"])
    versions = [each for each in known.state.versions(request.subject) if wanted in (None, each.version)]
    if wanted is not None and not versions:
        raise errors.version_not_found(wanted)
    level = known.state.level_of(request.subject).removesuffix("_TRANSITIVE")
    return (yield from _tested(known, request, versions[-1:], level))


def _tested(known: Knowledge, request: Request, versions: list[StoredSchema], level: str) -> Steps[Outcome]:
    is_normalized = request.flag("normalize") or known.state.normalizes(request.subject)
    try:
        schema = yield from known.schemas.canonical(read_schema_of(request).schema, is_normalized=is_normalized)
    except errors.RegistryError as error:
        if error.code != errors.INVALID_SCHEMA or not request.flag("verbose"):
            raise
        return Outcome({"is_compatible": False, "messages": [error.message]})
    found = yield from _problems(known, level, schema, versions)
    if request.flag("verbose"):
        shown = [*found, f"{{compatibility: '{level}'}}"] if found else []
        return Outcome({"is_compatible": not found, "messages": shown})
    return Outcome({"is_compatible": not found})
