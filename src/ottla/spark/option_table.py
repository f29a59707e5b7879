"""The small language for options of format("ottla"): each is declared once, with its default and a sentence.

    Option("minPartitions", whole(1), None, Where.READ, "At least so many tasks ...")

1. Names differ only without regard to case, as Spark does: it hands over lower-case names only.
2. A name that nobody declared is an error that names the nearest one. Options that Spark itself puts there pass, and
   so do those that begin with "kafka.": they are settings of the Kafka client and are checked as such.
3. A value that cannot be read is an error that says what it must be. Values of client settings never appear in an
   error of ours: some of them are secrets.
4. Times and sizes are written as in Spark's own options: "15m", "30s", "64m"; a bare number is milliseconds or bytes.
"""

from __future__ import annotations

import difflib
import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.settings import Settings

T = TypeVar("T")

CLIENT_PREFIX: Final = "kafka."
SPARKS_OWN: Final = frozenset({"path", "paths", "checkpointlocation", "queryname", "outputmode", "mode", "__paths__"})
SHOWN_LIMIT: Final = 120
INT64_MAX: Final = 2**63 - 1

_TIME_UNITS_MS: Final[Mapping[str, float]] = {
    "": 1,
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_SIZE_POWERS: Final[Mapping[str, int]] = {
    unit: power
    for letter, power in {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}.items()
    for unit in (letter, f"{letter}b")
}


class InvalidOption(OttlaError):
    """An option of format("ottla") is not right. All options with their defaults are in docs/spark.md."""

    invalid_configuration = True


class Where(enum.Enum):
    """Which kind of query an option is for."""

    READ = "read"
    STREAM = "read, streaming only"
    BATCH = "read, batch only"
    WRITE = "write"
    BATCH_WRITE = "write, batch only"
    BOTH = "read and write"


@dataclass(frozen=True)
class Option(Generic[T]):
    """One declaration. `read` makes the value of its text; a ValueError says what the text must be."""

    name: str
    read: Callable[[str], T]
    default: T | None
    where: Where
    doc: str
    default_text: str = ""

    def value(self, text: str) -> T:
        try:
            return self.read(text.strip())
        except ValueError as problem:
            shown = text if len(text) <= SHOWN_LIMIT else text[:SHOWN_LIMIT] + "..."
            raise InvalidOption(f"{self.name}={shown!r}; it must be {problem}") from None


# --- how texts are read ----------------------------------------------------------------------------------------------


def text(value: str) -> str:
    if not value:
        raise ValueError("a text that is not empty")
    return value


def truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def whole(at_least: int, at_most: int = INT64_MAX) -> Callable[[str], int]:
    """A whole number from `at_least` on."""

    def read(value: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", value) or not at_least <= int(value) <= at_most:
            raise ValueError(f"a whole number, at least {at_least}")
        return int(value)

    return read


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words, in any case."""

    def read(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return value.lower()

    return read


def milliseconds(value: str) -> int:
    """A time as Spark writes it: 500, 500ms, 30s, 15m, 1h, 1d."""
    found = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", value.lower())
    if found is None or found[2] not in _TIME_UNITS_MS:
        raise ValueError("a time such as 500ms, 30s, 15m or 1h")
    return int(int(found[1]) * _TIME_UNITS_MS[found[2]])


def size_bytes(value: str) -> int:
    """A size as Spark writes it: 1000, 64k, 64kb, 1g; at least one byte."""
    found = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", value.lower())
    power = None if found is None else _SIZE_POWERS.get(found[2])
    if found is None or power is None or int(found[1]) < 1:
        raise ValueError("a size such as 1000, 64k, 512m or 1g")
    return int(found[1]) << power


def json_object(value: str) -> dict[str, Any]:
    """A JSON object in which no name comes twice: of two, one would be forgotten in silence."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("JSON in which no name comes twice")
        return found

    try:
        found = json.loads(value, object_pairs_hook=once)
    except (json.JSONDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError('a JSON object, such as {"topic": ...}')
    return found


# --- reading all of them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptionValues:
    """The options of one query, by lower-case name."""

    texts: Mapping[str, str]

    @classmethod
    def checked(cls, options: Mapping[str, str], table: Iterable[Option[Any]]) -> OptionValues:
        """These options with checked names; `table` are the allowed ones."""
        texts = {str(name).lower(): str(value) for name, value in options.items()}
        known = {each.name.lower(): each.name for each in table}
        for name in texts:
            if name not in known and name not in SPARKS_OWN and not name.startswith(CLIENT_PREFIX):
                raise InvalidOption(f"there is no option {name!r}{_nearest(name, known)}")
        return cls(texts)

    def __contains__(self, option: Option[Any]) -> bool:
        return option.name.lower() in self.texts

    def get(self, option: Option[T]) -> T | None:
        """The value of the query, or the default."""
        written = self.texts.get(option.name.lower())
        return option.default if written is None else option.value(written)

    def required(self, option: Option[T]) -> T:
        """The same for an option that has a default."""
        value = self.get(option)
        assert value is not None, f"{option.name} has a default"
        return value

    def client_settings(self) -> dict[str, str]:
        """What is meant for the Kafka client, without the prefix."""
        size = len(CLIENT_PREFIX)
        return {name[size:]: value for name, value in self.texts.items() if name.startswith(CLIENT_PREFIX)}


def _nearest(name: str, known: Mapping[str, str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    if found:
        return f" (did you mean {known[found[0]]}?)"
    return "; settings of the Kafka client begin with kafka."


def names_of(settings: type[Settings]) -> frozenset[str]:
    """Every name that a kind of client takes, other libraries' words for the same included."""
    declared = settings.declared()
    return frozenset(name for each in declared for name in (each.name, *(alias.name for alias in each.aliases)))
