"""Compatibility levels and modes, of all subjects and of one.

1. What is not served is refused: validation of names and rules, say, would be ignored otherwise. What a request does
   not say stays as it was.
2. IMPORT can be set where there are no schemas yet, or with force=true: ids that are said by somebody else could meet
   those that were given out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.registry import errors, records
from ottla.broker.registry.levels import LEVELS
from ottla.broker.registry.records import Config
from ottla.broker.registry.requests import Json, Outcome, Request, plain_subject
from ottla.broker.registry.schemas import Steps
from ottla.broker.registry.state import DEFAULT_LEVEL, DEFAULT_MODE
from ottla.light_dataclasses import replace

if TYPE_CHECKING:
    from ottla.broker.registry.operations import Knowledge

MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
CONFIG_FIELDS: Final = ("level", "normalize", *records.CONFIG_TEXTS.values())
SERVED: Final = ("compatibility", "compatibilityLevel", "normalize", *records.CONFIG_TEXTS)


def _subject(request: Request) -> str | None:
    return plain_subject(request.path["subject"]) if "subject" in request.path else None


# -- compatibility -----------------------------------------------------------------------------------------------------


def get_config(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject, state = _subject(request), known.state
    found = state.configs.get(subject)
    if subject is not None and found is None:
        if not request.flag("defaultToGlobal"):
            raise errors.no_subject_level(subject)
        found = state.configs.get(None)
    return Outcome(_config_value(found or Config(), "compatibilityLevel"))


def _config_value(config: Config, name: str) -> dict[str, Json]:
    return {name: config.level or DEFAULT_LEVEL, **records.config_value(config)}


def put_config(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject, found = _subject(request), request.object()
    for name, value in found.items():
        if name not in SERVED and value is not None:
            raise errors.malformed(f"{name} is not served by this registry; there are {', '.join(SERVED)}")
    try:
        sent = records.read_config(found)
    except records.UnreadableRecord as error:
        raise errors.malformed(str(error)) from None
    if sent == Config() or (sent.level is not None and sent.level.upper() not in LEVELS):
        raise errors.invalid_level(sent.level)
    new = _over(known.state.configs.get(subject, Config()), sent)
    return Outcome(_config_value(new, "compatibility"), (records.config_record(subject, new),))


def _over(before: Config, sent: Config) -> Config:
    """What was sent, and what was there where nothing was."""
    said = {name: value for name in CONFIG_FIELDS if (value := getattr(sent, name)) not in (None, "")}
    if sent.level is not None:
        said["level"] = sent.level.upper()
    return replace(before, **said)


def delete_config(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject = _subject(request)
    found = known.state.configs.get(subject)
    if found is None:
        if subject is None:
            return Outcome(_config_value(Config(), "compatibility"))
        raise errors.no_subject_level(subject)
    return Outcome(_config_value(found, "compatibility"), (records.tombstone(records.CONFIG, subject),))


# -- mode --------------------------------------------------------------------------------------------------------------


def get_mode(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject, state = _subject(request), known.state
    if subject is not None and subject not in state.modes and not request.flag("defaultToGlobal"):
        raise errors.no_subject_mode(subject)
    return Outcome({"mode": state.mode_of(subject)})


def put_mode(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject, mode = _subject(request), request.object().get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise errors.invalid_mode(mode)
    if mode.upper() == "IMPORT" and not request.flag("force") and _has_schemas(known, subject):
        raise errors.not_permitted("Cannot import since found existing subjects; force=true does it all the same")
    return Outcome({"mode": mode.upper()}, (records.mode_record(subject, mode.upper()),))


def _has_schemas(known: Knowledge, subject: str | None) -> bool:
    return bool(known.state.subjects) if subject is None else bool(known.state.versions(subject))


def delete_mode(known: Knowledge, request: Request) -> Steps[Outcome]:
    yield None
    subject = _subject(request)
    found = known.state.modes.get(subject)
    if found is None:
        if subject is not None:
            raise errors.no_subject_mode(subject)
        found = DEFAULT_MODE
    made = [records.tombstone(records.MODE, subject)]
    if subject is None and request.flag("recursive"):
        made += [records.tombstone(records.MODE, each) for each in known.state.modes if each is not None]
    return Outcome({"mode": found}, tuple(made))
