"""What the registry knows: a replay of _schemas, nothing else. Plain code.

1. Everything changes by `replay`, record by record, in the order of the log; so what is known after a crash, or on
   another broker, is what was known before.
2. A schema has one id, in however many subjects it is: the id belongs to its kind, text, references, metadata and
   rules.
3. A record that cannot be read is passed over and counted: the topic can be written by others.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from ottla.broker.registry import records
from ottla.broker.registry.records import Config, Key, StoredSchema, UnreadableRecord
from ottla.errors import OttlaError
from ottla.schemas.model import PROTOBUF, SchemaText
from ottla.schemas.protobuf.tokens import words_of

log = logging.getLogger(__name__)

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"
DIGESTS_MAX: Final = 20_000
_digests: Final[dict[bytes, bytes]] = {}


def digest_of(schema: SchemaText) -> bytes:
    """The same for schemas that have the same id. Remembered by the bytes of the schema: finding the words of a large
    one takes a second, which is spent apart from the loop when it comes (schemas.py)."""
    whole = [schema.kind, schema.text, [list(each) for each in schema.references], schema.metadata, schema.rule_set]
    written = hashlib.md5(json.dumps(whole).encode(), usedforsecurity=False).digest()
    if schema.kind != PROTOBUF:
        return written
    found = _digests.get(written)
    if found is None:
        if len(_digests) >= DIGESTS_MAX:
            _digests.clear()
        found = _digests[written] = _digest_of_words(schema)
    return found


def _digest_of_words(schema: SchemaText) -> bytes:
    text = schema.text
    try:
        text = words_of(text)
    except OttlaError:
        pass  # written by somebody else, and not readable here: it is its text
    whole = [schema.kind, text, [list(each) for each in schema.references], schema.metadata, schema.rule_set]
    return hashlib.md5(json.dumps(whole).encode(), usedforsecurity=False).digest()


def guid_of(schema: SchemaText) -> str:
    return str(uuid.UUID(bytes=digest_of(schema)))


class RegistryState:
    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, StoredSchema]] = {}
        self.configs: dict[str | None, Config] = {}
        self.modes: dict[str | None, str] = {}
        self.highest_id = 0
        self.unreadable_count = 0
        self._ids: dict[int, dict[tuple[str, int], StoredSchema]] = {}
        self._ids_by_digest: dict[bytes, set[int]] = {}
        self._digests: dict[tuple[str, int], bytes] = {}
        """By subject and version: computed once, when they come."""
        self._users: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)

    # -- replay --------------------------------------------------------------------------------------------------------

    def replay(self, key: bytes | memoryview | None, value: bytes | memoryview | None) -> None:
        try:
            self._replay(records.read_key(key), value)
        except UnreadableRecord as error:
            self.unreadable_count += 1
            if self.unreadable_count == 1:
                log.warning("%s has a record that is passed over: %s", records.TOPIC, error)

    def _replay(self, key: Key, value: bytes | memoryview | None) -> None:
        replays: dict[str, Callable[[Key, bytes | memoryview | None], None]] = {
            records.SCHEMA: self._replay_schema,
            records.CONFIG: self._replay_config,
            records.MODE: self._replay_mode,
            records.DELETE_SUBJECT: self._replay_delete,
            records.NOOP: self._replay_highest_id,
            records.CLEAR_SUBJECT: lambda key, value: None,
        }
        if key.kind not in replays:
            raise UnreadableRecord(f"keytype {key.kind} is not known")
        replays[key.kind](key, value)

    def _replay_schema(self, key: Key, value: bytes | memoryview | None) -> None:
        self._remove(key.subject or "", key.version)
        if value is not None:
            self._add(records.read_schema(value))

    def _replay_config(self, key: Key, value: bytes | memoryview | None) -> None:
        if value is None:
            self.configs.pop(key.subject, None)
            return
        self.configs[key.subject] = records.read_config(records.read_object(value))

    def _replay_mode(self, key: Key, value: bytes | memoryview | None) -> None:
        mode = None if value is None else records.read_object(value).get("mode")
        if isinstance(mode, str):
            self.modes[key.subject] = mode
        else:
            self.modes.pop(key.subject, None)

    def _replay_delete(self, key: Key, value: bytes | memoryview | None) -> None:
        if value is None or key.subject is None:
            return
        last = records.read_object(value).get("version")
        for stored in list(self.subjects.get(key.subject, {}).values()):
            if isinstance(last, int) and stored.version <= last and not stored.is_deleted:
                digest = self._remove(stored.subject, stored.version)
                self._add(StoredSchema(stored.subject, stored.version, stored.id, stored.schema, True), digest)

    def _replay_highest_id(self, key: Key, value: bytes | memoryview | None) -> None:
        if value is not None and isinstance(found := records.read_object(value).get("maxId"), int):
            self.highest_id = max(self.highest_id, found)

    def _add(self, stored: StoredSchema, digest: bytes | None = None) -> None:
        place = stored.subject, stored.version
        self.subjects.setdefault(stored.subject, {})[stored.version] = stored
        self._ids.setdefault(stored.id, {})[place] = stored
        self._digests[place] = digest or digest_of(stored.schema)
        self._ids_by_digest.setdefault(self._digests[place], set()).add(stored.id)
        self.highest_id = max(self.highest_id, stored.id)
        for each in stored.schema.references:
            self._users[each.subject, each.version].add(place)

    def _remove(self, subject: str, version: int) -> bytes | None:
        """The digest of what was there."""
        stored = self.subjects.get(subject, {}).pop(version, None)
        if stored is None:
            return None
        digest = self._digests.pop((subject, version))
        if not self.subjects[subject]:
            del self.subjects[subject]
        places = self._ids[stored.id]
        del places[subject, version]
        if not places:
            del self._ids[stored.id]
            self._ids_by_digest[digest].discard(stored.id)
            if not self._ids_by_digest[digest]:
                del self._ids_by_digest[digest]
        for each in stored.schema.references:
            self._users[each.subject, each.version].discard((subject, version))
        return digest

    # -- questions -----------------------------------------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """The versions of a subject in their order; with `deleted` also those that are soft-deleted."""
        found = self.subjects.get(subject, {})
        return [found[version] for version in sorted(found) if deleted or not found[version].is_deleted]

    def by_id(self, schema_id: int) -> StoredSchema | None:
        """A place of this id, one that is not deleted if there is one."""
        places = self._ids.get(schema_id)
        if not places:
            return None
        return next((each for each in places.values() if not each.is_deleted), next(iter(places.values())))

    def places_of(self, schema_id: int) -> Iterator[StoredSchema]:
        return iter(self._ids.get(schema_id, {}).values())

    def id_of(self, schema: SchemaText) -> int | None:
        return min(self._ids_by_digest.get(digest_of(schema), ()), default=None)

    def same(self, subject: str, schema: SchemaText, *, deleted: bool = False) -> StoredSchema | None:
        """The newest version of a subject that is this schema."""
        places = [each for found in self._ids_by_digest.get(digest_of(schema), ()) for each in self.places_of(found)]
        inside = [each for each in places if each.subject == subject and (deleted or not each.is_deleted)]
        return max(inside, key=lambda each: each.version, default=None)

    def by_guid(self, guid: str) -> StoredSchema | None:
        try:
            found = self._ids_by_digest.get(uuid.UUID(guid).bytes)
        except ValueError:
            return None
        return None if not found else self.by_id(min(found))

    def used_by(self, subject: str, version: int, *, deleted: bool = False) -> list[StoredSchema]:
        """The versions that refer to this one; with `deleted` also those that are soft-deleted."""
        users = self._users.get((subject, version), ())
        found = [self.subjects[name][number] for name, number in sorted(users)]
        return [each for each in found if deleted or not each.is_deleted]

    def has_id(self, schema_id: int) -> bool:
        return schema_id in self._ids

    def config_of(self, subject: str) -> Config:
        """What holds for a subject: what it says itself, then what is said for all."""
        own, overall = self.configs.get(subject, Config()), self.configs.get(None, Config())
        return Config(
            own.level or overall.level or DEFAULT_LEVEL,
            overall.normalize if own.normalize is None else own.normalize,
            own.group or overall.group,
            own.alias,
            own.default_metadata or overall.default_metadata,
            own.override_metadata or overall.override_metadata,
            own.default_rule_set or overall.default_rule_set,
            own.override_rule_set or overall.override_rule_set,
        )

    def level_of(self, subject: str) -> str:
        return self.config_of(subject).level or DEFAULT_LEVEL

    def normalizes(self, subject: str) -> bool:
        return bool(self.config_of(subject).normalize)

    def alias_of(self, subject: str) -> str:
        """The subject that is meant by a name: another one where the name is an alias."""
        config = self.configs.get(subject)
        return config.alias if config is not None and config.alias else subject

    def mode_of(self, subject: str | None) -> str:
        overall = self.modes.get(None, DEFAULT_MODE)
        return overall if overall == "READONLY_OVERRIDE" else self.modes.get(subject, overall)
