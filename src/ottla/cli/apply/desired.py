"""What the tree of a file says: topics, settings, users, rules and quotas, checked.

    topics:                                     rules:
      clicks:                                     - {allow: alice, producer: true, topic: clicks}
        partitions: 6                             - {allow: bob, consumer: true, topic: clicks, group: billing}
        replication: 3                            - {deny: mallory, operation: [read], topic: logs-, prefixed: true}
        settings: {retention.ms: 86400000}      quotas:
    users:                                        - {client: loader, produce: 1MB}
      alice: {password: {env: ALICE_PASSWORD}}    - {default: [client], consume: 5MB}
    settings:
      broker: {all: {log.cleaner.threads: 2}}

1. The words of rules and quotas are the options of `ottla acl add` and `ottla quota set`, and mean the same: the same
   code reads them.
2. All faults are reported at once, each with its line, and a word that is not known with the nearest one.
3. A password or another secret in the file itself is refused, without repeating it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.cli.apply.reading import Place, ReadFile, Tree
from ottla.cli.apply.values import Desired, SecretSource, Setting, WantedTopic, WantedUser
from ottla.cli.output import Failure
from ottla.client.admin.access import AclBinding
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import ScramMechanism
from ottla.client.admin.quotas import EntityKey, key_of

SECTIONS: Final = ("topics", "settings", "users", "rules", "quotas")
SECRET: Final = re.compile(r"password|secret|jaas|keystore\.(key|certificate)|truststore\.certificates|private\.key")
CONFIG_KINDS: Final = {
    "broker": ConfigResourceType.BROKER,
    "group": ConfigResourceType.GROUP,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
}
MECHANISMS: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
RULE_LISTS: Final = (
    "allow", "deny", "operation", "host", "allow-host", "deny-host",
    "topic", "group", "transactional-id", "delegation-token", "user-principal",
)  # fmt: skip
RULE_SWITCHES: Final = ("cluster", "prefixed", "producer", "consumer", "idempotent")
FAULTS_LIMIT: Final = 20


def desired_of(file: ReadFile) -> Desired:
    """What the file wants; a Failure has all that is wrong with it."""
    reader = _Reader(file)
    desired = reader.desired()
    if reader.faults:
        more = len(reader.faults) - FAULTS_LIMIT
        lines = reader.faults[:FAULTS_LIMIT] + ([f"and {more} more"] if more > 0 else [])
        raise Failure("\n".join([f"{file.name} is not right; nothing was changed", *lines]))
    return desired


class _Fault(Exception):
    """Ends the reading of one entry; the others are still read."""


class _Reader:
    def __init__(self, file: ReadFile) -> None:
        self._file = file
        self.faults: list[str] = []

    def desired(self) -> Desired:
        root = self._file.tree
        if not isinstance(root, dict) or not root:
            self._fault((), f"a mapping with some of the words {', '.join(SECTIONS)} belongs here")
            return Desired()
        self._check_words(root, SECTIONS, ())
        sections: dict[str, Callable[[Tree], Any]] = {
            "topics": lambda tree: self._entries(tree, ("topics",), self._topic),
            "settings": self._settings,
            "users": lambda tree: self._entries(tree, ("users",), self._user),
            "rules": self._rules,
            "quotas": self._quotas,
        }
        found = {}
        for name in (name for name in sections if name in root):
            try:
                found[name] = sections[name](root[name])
            except _Fault:
                pass
        return Desired(**found)

    # --- topics and settings ---

    def _topic(self, name: str, tree: Tree, place: Place) -> WantedTopic:
        if name.startswith("__"):
            raise self._wrong(place, "this is a topic of the cluster itself; change its settings with ottla config")
        words = self._mapping(tree, place)
        self._check_words(words, ("partitions", "replication", "settings"), place)
        settings = self._values(words.get("settings", {}), (*place, "settings"))
        return WantedTopic(
            self._number(words, "partitions", place), self._number(words, "replication", place), settings
        )

    def _settings(self, tree: Tree) -> dict[ConfigResource, Mapping[str, Setting]]:
        found: dict[ConfigResource, Mapping[str, Setting]] = {}
        kinds = self._mapping(tree, ("settings",))
        self._check_words(kinds, CONFIG_KINDS, ("settings",))
        for kind in (word for word in kinds if word in CONFIG_KINDS):
            entries = self._entries(kinds[kind], ("settings", kind), lambda _, each, place: self._secrets(each, place))
            for name, values in entries.items():
                if kind == "broker" and name != "all" and not name.isdigit():
                    self._fault(("settings", kind, name), "a broker is named by its id, or `all` for every broker")
                found[ConfigResource(CONFIG_KINDS[kind], "" if (kind, name) == ("broker", "all") else name)] = values
        return found

    def _values(self, tree: Tree, place: Place) -> dict[str, str]:
        return {name: self._value(each, (*place, name)) for name, each in self._mapping(tree, place).items()}

    def _secrets(self, tree: Tree, place: Place) -> dict[str, Setting]:
        found: dict[str, Setting] = {}
        for name, each in self._mapping(tree, place).items():
            if isinstance(each, dict) or SECRET.search(name):
                found[name] = self._source(each, (*place, name))
            else:
                found[name] = self._value(each, (*place, name))
        return found

    def _value(self, tree: Tree, place: Place) -> str:
        """A text, or a list of texts with commas between them."""
        if isinstance(tree, list) and all(isinstance(each, str) for each in tree):
            return ",".join(map(str, tree))
        if not isinstance(tree, str):
            raise self._wrong(place, "a value, or a list of values, belongs here")
        return tree

    # --- users ---

    def _user(self, _: str, tree: Tree, place: Place) -> WantedUser:
        words = self._mapping(tree, place)
        self._check_words(words, ("password", "mechanisms", "iterations"), place)
        if "password" not in words:
            raise self._wrong(place, "a user has a password: {env: NAME}, or {file: PATH}")
        mechanisms = self._texts(words.get("mechanisms", "SCRAM-SHA-512"), (*place, "mechanisms"))
        for each in mechanisms:
            if each not in MECHANISMS:
                raise self._wrong((*place, "mechanisms"), f"there is no {each!r}; there is {', '.join(MECHANISMS)}")
        chosen = tuple(dict.fromkeys(MECHANISMS[each] for each in mechanisms))
        source = self._source(words["password"], (*place, "password"))
        return WantedUser(source, chosen, self._number(words, "iterations", place))

    def _source(self, tree: Tree, place: Place) -> SecretSource:
        if isinstance(tree, dict) and len(tree) == 1:
            ((kind, name),) = tree.items()
            if kind in ("env", "file") and isinstance(name, str) and name:
                return SecretSource(kind, name)
        raise self._wrong(
            place, "a secret does not belong in this file: write where it is found, {env: NAME} or {file: PATH}"
        )

    # --- rules and quotas ---

    def _rules(self, tree: Tree) -> frozenset[AclBinding]:
        from ottla.cli.acl_options import bindings_of

        found: set[AclBinding] = set()
        for options, place in self._options(tree, "rules", RULE_LISTS, RULE_SWITCHES, ()):
            options.resource_pattern_type = None
            try:
                found.update(bindings_of(options))
            except Failure as failure:
                self._fault(place, str(failure))
        return frozenset(found)

    def _quotas(self, tree: Tree) -> dict[EntityKey, Mapping[str, float]]:
        from ottla.cli.commands.quota import ENTITIES, LIMITS, check_fit, entity_of, limits_of

        found: dict[EntityKey, Mapping[str, float]] = {}
        single = (*ENTITIES, *(each.option for each in LIMITS))
        for options, place in self._options(tree, "quotas", ("default",), (), single):
            try:
                entity, limits = entity_of(options), limits_of(options)
                check_fit(entity, limits)
            except Failure as failure:
                self._fault(place, str(failure))
                continue
            if not entity or not limits or not set(options.default) <= set(ENTITIES):
                self._fault(place, f"a quota names whom ({', '.join(ENTITIES)}, default: [client]) and how much")
            elif key_of(entity) in found:
                self._fault(place, "this has quotas already, further up; write all of them there")
            found[key_of(entity)] = limits
        return found

    def _options(
        self, tree: Tree, section: str, lists: Iterable[str], switches: Iterable[str], single: Iterable[str]
    ) -> Iterable[tuple[argparse.Namespace, Place]]:
        """Each entry as the options of a command would be."""
        if not isinstance(tree, list):
            if tree not in ("", {}):
                self._fault((section,), "a list belongs here")
            return
        for number, each in enumerate(tree):
            place: Place = (section, str(number))
            try:
                words = self._mapping(each, place)
                self._check_words(words, (*lists, *switches, *single), place)
                values: dict[str, Any] = {word: self._texts(words.get(word, []), (*place, word)) for word in lists}
                values |= {word: self._switch(words.get(word, "false"), (*place, word)) for word in switches}
                values |= {word: self._value(words[word], place) if word in words else None for word in single}
            except _Fault:
                continue
            yield argparse.Namespace(**{word.replace("-", "_"): value for word, value in values.items()}), place

    # --- the parts of a tree ---

    def _entries(self, tree: Tree, place: Place, read: Callable[[str, Tree, Place], Any]) -> dict[str, Any]:
        """Each name with what is read of it; one that is wrong does not hide the faults of the others."""
        found = {}
        try:
            entries = self._mapping(tree, place)
        except _Fault:
            return {}
        for name, each in entries.items():
            try:
                found[name] = read(name, each, (*place, name))
            except _Fault:
                pass
        return found

    def _mapping(self, tree: Tree, place: Place) -> dict[str, Tree]:
        if tree == "":  # YAML's `clicks:` with nothing behind it
            return {}
        if not isinstance(tree, dict):
            raise self._wrong(place, "a mapping belongs here")
        return tree

    def _texts(self, tree: Tree, place: Place) -> list[str]:
        found = [tree] if isinstance(tree, str) else tree
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self._wrong(place, "a name, or a list of names, belongs here")
        return [str(each) for each in found]

    def _switch(self, tree: Tree, place: Place) -> bool:
        if tree not in ("true", "false"):
            raise self._wrong(place, "true or false belongs here")
        return tree == "true"

    def _number(self, words: Mapping[str, Tree], word: str, place: Place) -> int | None:
        text = words.get(word)
        if text is None:
            return None
        if not isinstance(text, str) or not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) < 1 << 31:
            raise self._wrong((*place, word), "a whole number above zero belongs here")
        return int(text)

    def _check_words(self, words: Mapping[str, Tree], known: Iterable[str], place: Place) -> None:
        names = list(known)
        for word in words:
            if word not in names:
                import difflib

                near = difflib.get_close_matches(word, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names)}"
                self._fault((*place, word), f"there is no such word; {hint}")

    def _wrong(self, place: Place, sentence: str) -> _Fault:
        self._fault(place, sentence)
        return _Fault()

    def _fault(self, place: Place, sentence: str) -> None:
        self.faults.append(f"{self._file.where(place)}: {sentence}")
