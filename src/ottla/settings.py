"""The small language for settings: declared once, read by code, docs, command line and DescribeConfigs.

    class ProducerSettings(ClientSettings):
        linger_ms = setting("linger.ms", int, default=5, at_least=0, unit="ms", aliases=["queue.buffering.max.ms"],
                            doc="How long a batch may wait for more records before it is sent.")

    ProducerSettings({"linger.ms": "10"}).linger_ms          # 10, and mypy knows that it is an int

1. The truth is Kafka's dotted name. The attribute and the keyword are the same words with "_" for "." and "-".
2. Everything is checked when the object is made: unknown names (with the nearest one that exists), one setting written
   twice, type, bounds, choices, and `rules` between settings. All that is wrong is told at once (InvalidSettings); a
   rule that needs a refused value is not asked. After that the object never changes; `replaced` returns another one.
3. Texts are read as Java reads them: "true", "-1", "a, b"; no "5s" or "1k", so that a file (properties.py) means the
   same to Kafka.
4. An alias is another library's word for the same setting; giving both is an error. A synonym is a key of Kafka's
   own that counts when the setting itself is not set (log.retention.hours for log.retention.ms); the first one
   in the list wins.
5. A secret is a Password: neither it, nor a settings object, nor an error about it prints what it holds.
6. No text ever names code to be loaded: a CALLABLE is a Python object or one of the `names` of its declaration.
7. Reading `settings.linger_ms` is a plain attribute of the instance: it costs nothing on the record path.
8. A setting that changes nothing here says so in its declaration (`no_effect`): why, and what happens to who sets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Required,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from ottla.errors import InvalidConfig, InvalidSetting, InvalidSettings, UnknownSetting
from ottla.light_dataclasses import dataclass, field

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
Importance = Literal["high", "medium", "low"]
Dynamic = Literal["per-broker", "cluster-wide"]

Rule = Callable[[], Iterable[str] | None]
"""It gives sentences about what is wrong, or raises InvalidSetting."""

HIDDEN: Final = "[hidden]"
SHOWN_LIMIT: Final = 200


class Password:
    """A secret; `value` is the only way to see it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value: Final = value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash((Password, self.value))


# --- kinds of values -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kind(Generic[T]):
    """A type of Kafka's: its name there, words for people, and how a value becomes a T (ValueError if it cannot)."""

    name: str
    words: str
    parse: Callable[[object], T]


def _whole_number(bits: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError
        return value

    return parse


def _parse_float(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*", value):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < float("inf"):
        raise ValueError
    return float(value)


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError


def _parse_str(value: object) -> str:
    # acks=1 is how people write it in Python, though Kafka declares acks as a text.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError
    return value


def _parse_list(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError
    return tuple(part.strip() for part in parts if part.strip())


def _parse_password(value: object) -> Password:
    if isinstance(value, Password):
        return value
    if not isinstance(value, str):
        raise ValueError
    return Password(value)


def _parse_callable(value: object) -> Callable[..., Any]:
    if not callable(value):
        raise ValueError
    return value


INT: Final = Kind("INT", "a whole number", _whole_number(32))
SHORT: Final = Kind("SHORT", "a whole number", _whole_number(16))
LONG: Final = Kind("LONG", "a whole number", _whole_number(64))
DOUBLE: Final = Kind("DOUBLE", "a number", _parse_float)
BOOLEAN: Final = Kind("BOOLEAN", "true or false", _parse_bool)
STRING: Final = Kind("STRING", "a text", _parse_str)
LIST: Final = Kind("LIST", "a list of texts, or one text with commas", _parse_list)
PASSWORD: Final = Kind("PASSWORD", "a secret text", _parse_password)
CALLABLE: Final = Kind("CLASS", "a class or function", _parse_callable)

_KINDS: Final[Mapping[type, Kind[Any]]] = {int: INT, float: DOUBLE, bool: BOOLEAN, str: STRING, Password: PASSWORD}


# --- one setting -----------------------------------------------------------------------------------------------------


class _Required(Enum):
    REQUIRED = "required"


REQUIRED: Final = _Required.REQUIRED


@dataclass(frozen=True)
class Alias:
    """Another key for a setting; `translate` turns its value into the setting's (hours into ms)."""

    name: str
    translate: Callable[[Any], object] | None = None


NoEffectKind = Literal["tuning", "feature", "protection"]


@dataclass(frozen=True)
class NoEffect:
    """Why a setting of Kafka's changes nothing here, and what to use instead.

        tuning       how fast something runs that is not here (threads, buffers): accepted, with a warning at the start
        feature      something that is not here: a warning at the start, an error when it is changed while running
        protection   what would seem to protect somebody: an error in both cases

    Its default is always accepted: nobody is misled by it.
    """

    kind: NoEffectKind
    why: str
    instead: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.why}; {self.instead}" if self.instead else self.why


if TYPE_CHECKING:

    class Rules(TypedDict, Generic[T], total=False):
        """What a declaration may say besides name, type and default."""

        doc: Required[str]
        at_least: float
        at_most: float
        one_of: Sequence[object]
        check: Callable[[T], str | None]  # gives what is wrong, or None
        unit: str
        importance: Importance
        dynamic: Dynamic | None
        aliases: Sequence[str | Alias]
        synonyms: Sequence[str | Alias]
        names: Mapping[str, Any]
        no_effect: NoEffect


@overload
def setting(name: str, kind: type[T] | Kind[T], **rules: Unpack[Rules[T]]) -> Setting[T]: ...
@overload
def setting(name: str, kind: type[T] | Kind[T], *, default: None, **rules: Unpack[Rules[T]]) -> Setting[T | None]: ...
@overload
def setting(name: str, kind: type[T] | Kind[T], *, default: T, **rules: Unpack[Rules[T]]) -> Setting[T]: ...
def setting(name: str, kind: Any, *, default: Any = REQUIRED, **rules: Any) -> Any:
    """Declare a setting; without a default it is required. `int` is Kafka's 32-bit INT, LONG has 64 bits."""
    for key in ("aliases", "synonyms"):
        rules[key] = tuple(Alias(other) if isinstance(other, str) else other for other in rules.get(key, ()))
    return Setting(name, kind if isinstance(kind, Kind) else _KINDS[kind], default, **rules)


@dataclass(frozen=True, eq=False)
class Setting(Generic[T]):
    """One declaration. On the class it gives itself, on an object the value."""

    name: str
    kind: Kind[Any]
    default: T | _Required
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    one_of: Sequence[object] = ()
    check: Callable[[Any], str | None] | None = None
    unit: str = ""
    importance: Importance = "medium"
    dynamic: Dynamic | None = None
    aliases: tuple[Alias, ...] = ()
    synonyms: tuple[Alias, ...] = ()
    names: Mapping[str, Any] | None = None
    no_effect: NoEffect | None = None

    def __post_init__(self) -> None:
        if self.default is not REQUIRED:
            object.__setattr__(self, "default", self.accept(self.default))

    def __set_name__(self, owner: type, attribute: str) -> None:
        if attribute != self.attribute:
            raise TypeError(f"{self.name} must be declared as {self.attribute}, not as {attribute}")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Settings, owner: type) -> T: ...
    def __get__(self, instance: Settings | None, owner: type) -> Any:
        # Objects hold their values in __dict__, which Python looks at before a descriptor without __set__.
        if instance is None:
            return self
        raise RefusedValue(self.name)

    @cached_property
    def attribute(self) -> str:
        return _as_keyword(self.name)

    @property
    def sensitive(self) -> bool:
        return self.kind is PASSWORD

    @property
    def documentation(self) -> str:
        """What it does, and when it does nothing here, why."""
        return self.doc if self.no_effect is None else f"{self.doc} No effect here: {self.no_effect.sentence}."

    def is_default(self, value: object) -> bool:
        """Whether a text or value means the default; False for what cannot be read."""
        try:
            return self.accept(value) == self.default
        except InvalidSetting:
            return False

    @property
    def permitted(self) -> str:
        """What values it may have, in words."""
        words = self.kind.words
        if self.one_of:
            words = f"{'any' if self.kind is LIST else 'one'} of {', '.join(self.text(each) for each in self.one_of)}"
        if self.names is not None:
            words += f", or one of {', '.join(self.names)}"
        if self.at_least is not None:
            words += f", at least {self.at_least}"
        if self.at_most is not None:
            words += f", at most {self.at_most}"
        return f"{words} ({self.unit})" if self.unit else words

    def text(self, value: object) -> str:
        """A value as it is written in a .properties file; a secret stays hidden."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple | list):
            return ",".join(value)
        if self.kind is CALLABLE and not isinstance(value, str):
            known = next((name for name, named in (self.names or {}).items() if named is value), None)
            return known or str(getattr(value, "__qualname__", type(value).__qualname__))
        if isinstance(value, float):
            return _java_double(value)
        return str(value)

    def accept(self, value: object, key: str | None = None) -> T:
        """The checked value; InvalidSetting names the key the user wrote, the value and what is permitted."""
        if value is None and self.default is None:
            return self.default
        try:
            accepted = self.kind.parse(self._named(value))
        except ValueError:
            raise self._refusal(value, key, f"it must be {self.permitted}") from None
        if problem := self._problem(accepted):
            raise self._refusal(value, key, problem)
        return accepted  # type: ignore[no-any-return]

    def _named(self, value: object) -> object:
        return self.names.get(value, value) if self.names is not None and isinstance(value, str) else value

    def _problem(self, value: Any) -> str | None:
        chosen = value if self.kind is LIST else (value,)
        in_bounds = (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )
        if not in_bounds or (self.one_of and not all(each in self.one_of for each in chosen)):
            return f"it must be {self.permitted}"
        return self.check(value) if self.check else None

    def _refusal(self, value: object, key: str | None, problem: str) -> InvalidSetting:
        shown = HIDDEN if self.sensitive else repr(value)[:SHOWN_LIMIT]
        if self.no_effect is not None and self.no_effect.kind == "protection":
            problem = f"it would protect nobody: {self.no_effect.sentence}"
        return InvalidSetting(f"{key or self.name}={shown}; {problem}")


def _java_double(value: float) -> str:
    """As Java's Double.toString writes it: 0.5, 1.0E-4, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # few texts are of numbers with a fraction

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{first}.{rest}E{exponent + len(digits) - 1}"


# --- a group of settings ---------------------------------------------------------------------------------------------


class Source(Enum):
    """Where a value comes from."""

    DEFAULT = "default"
    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True)
class WrittenValue:
    """A value as it was written, and under which key. It may be a secret, so it is not printed."""

    key: str
    value: object = field(repr=False)
    source: Source


@dataclass(frozen=True)
class Entry:
    """A setting with its value, as DescribeConfigs answers it. Values are texts; None when hidden or not set."""

    setting: Setting[Any]
    value: str | None
    source: Source
    synonyms: tuple[tuple[str, str | None, Source], ...]

    @property
    def read_only(self) -> bool:
        return self.setting.dynamic is None


class RefusedValue(Exception):
    """A rule asks for a value that was refused; while an object is being made, and not after it."""


class Settings:
    """A group of settings: declare them in the body of a subclass, combine groups by inheriting from several."""

    _declared: ClassVar[Mapping[str, Setting[Any]]] = {}
    _slots: ClassVar[Mapping[str, tuple[str, Alias | None]]] = {}
    _defaults: ClassVar[Mapping[str, Any]] = {}
    _written: Mapping[str, WrittenValue]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        by_attribute = {
            name: each for c in reversed(cls.__mro__) for name, each in vars(c).items() if isinstance(each, Setting)
        }
        cls._declared = {each.name: each for each in by_attribute.values()}
        cls._slots = _slots_of(cls._declared.values())
        cls._defaults = {name: each.default for name, each in by_attribute.items()}

    def __init__(self, dotted: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        if dotted is not None and not isinstance(dotted, Mapping):
            raise TypeError(f"settings are a mapping of names to values, or keywords, not {dotted!r}")
        refusals: list[InvalidConfig] = []
        self._fill(self._gather(dotted or {}, keywords, Source.STATIC, refusals), refusals)

    @classmethod
    def load(
        cls, properties: Path | None = None, environment: Mapping[str, str] | None = None, **keywords: object
    ) -> Self:
        """From a .properties file, over it the environment, over both the keywords."""
        from ottla.properties import read_environment, read_properties

        layers: list[Mapping[str, object]] = [{} if properties is None else read_properties(properties)]
        layers.append({} if environment is None else read_environment(environment))
        refusals: list[InvalidConfig] = []
        values: dict[str, WrittenValue] = {}
        for dotted, words in [*((layer, {}) for layer in layers), ({}, keywords)]:
            values |= cls._gather(dotted, words, Source.STATIC, refusals)
        return cls._made(values, refusals)

    def replaced(
        self, dotted: Mapping[str, object] | None = None, /, *, source: Source = Source.STATIC, **keywords: object
    ) -> Self:
        """Another object with these changes. A dynamic change of a setting that cannot change is refused."""
        refusals: list[InvalidConfig] = []
        changes = self._gather(dotted or {}, keywords, source, refusals)
        for slot, each in changes.items():
            if source is Source.DYNAMIC and not any(fed.dynamic for fed in self._fed_by(slot)):
                refusals.append(
                    InvalidSetting(f"{each.key} cannot change while running; set it in the file and restart")
                )
        return self._made({**self._written, **changes}, refusals)

    def rules(self) -> Iterator[Rule]:
        """Rules between settings; every one is asked, whatever the others said. A subclass adds its own."""
        yield self.validate

    def validate(self) -> None:
        """The rule of a group that has one, or rules that follow from each other: a subclass overrides this and raises
        InvalidSetting."""

    @classmethod
    def declared(cls) -> tuple[Setting[Any], ...]:
        """All declarations, in the order of the class bodies."""
        return tuple(cls._declared.values())

    @classmethod
    def setting_of(cls, key: str) -> Setting[Any] | None:
        """The declaration behind a key."""
        return cls._declared.get(key)

    def written(self, source: Source) -> dict[str, object]:
        """The values that come from there, by name and as they were written."""
        return {slot: each.value for slot, each in self._written.items() if each.source is source}

    def source(self, name: str) -> Source:
        """Where the value of a setting, by its dotted name, comes from."""
        found = self._in_effect(self._declared[name])
        return Source.DEFAULT if found is None else found[1].source

    def entries(self) -> list[Entry]:
        """Everything about every setting, for DescribeConfigs and the console."""
        return [self._entry(each) for each in self._declared.values()]

    def written_entries(self) -> list[Entry]:
        """As `entries`, but only what is not left to its default."""
        return [self._entry(each) for each in self._declared.values() if self._in_effect(each) is not None]

    def as_dict(self) -> dict[str, object]:
        """Dotted names and values; secrets are Passwords and stay hidden when printed."""
        return {name: self.__dict__[each.attribute] for name, each in self._declared.items()}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings do not change; use replaced({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("settings do not change")

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        return type(other) is type(self) and isinstance(other, Settings) and other.as_dict() == self.as_dict()

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.as_dict().values())))

    def __repr__(self) -> str:
        changed = [each for each in self._declared.values() if self._in_effect(each) is not None]
        shown = ", ".join(f"{each.name}={each.text(self.__dict__[each.attribute])}" for each in changed)
        return f"{type(self).__name__}({shown})"

    @classmethod
    def _fed_by(cls, slot: str) -> Iterator[Setting[Any]]:
        for each in cls._declared.values():
            if slot == each.name or slot in (other.name for other in each.synonyms):
                yield each

    @classmethod
    def _made(cls, values: Mapping[str, WrittenValue], refusals: list[InvalidConfig] | None = None) -> Self:
        made = cls.__new__(cls)
        made._fill(values, [] if refusals is None else refusals)
        return made

    @classmethod
    def _gather(
        cls,
        dotted: Mapping[str, object],
        keywords: Mapping[str, object],
        source: Source,
        refusals: list[InvalidConfig],
    ) -> dict[str, WrittenValue]:
        """Values by the slot they fill: the setting's name, or a synonym's. Names that nobody knows and one slot filled
        twice are added to the refusals."""
        spelled = {_as_keyword(key): key for key in cls._slots} if keywords else {}
        values: dict[str, WrittenValue] = {}
        pairs = [(key, key, value) for key, value in dotted.items()]
        for written, key, value in [
            *pairs,
            *((word, spelled.get(word, word), value) for word, value in keywords.items()),
        ]:
            try:
                if key not in cls._slots:
                    raise cls._unknown(written, spelled if written in keywords else cls._slots)
                slot, alias = cls._slots[key]
                if slot in values:
                    raise InvalidSetting(
                        f"{values[slot].key} and {written} are the same setting; give only one of them"
                    )
                values[slot] = WrittenValue(written, _translated(alias, value, written), source)
            except InvalidConfig as refusal:
                refusals.append(refusal)
        return values

    @classmethod
    def _unknown(cls, written: str, known: Iterable[str]) -> UnknownSetting:
        """What is said about a name that is no setting."""
        return _unknown(written, known)

    def _fill(self, values: Mapping[str, WrittenValue], refusals: list[InvalidConfig]) -> None:
        """Work out every value, ask the rules, and raise what was refused, before or here."""
        # Most settings have their default, and an object is made several times in the start of a broker: only what is
        # written is worked out.
        own = self.__dict__
        own["_written"] = values
        own.update(self._defaults)
        written = values.keys()
        for each in self._declared.values():
            if each.default is REQUIRED or each.name in written or each.synonyms:
                try:
                    own[each.attribute] = self._value(each)
                except InvalidConfig as refusal:
                    del own[each.attribute]
                    refusals.append(refusal)
        refusals += self._broken_rules()
        if refusals:
            raise InvalidSettings.of(refusals)

    def _broken_rules(self) -> Iterator[InvalidConfig]:
        for rule in self.rules():
            try:
                yield from map(InvalidSetting, rule() or ())
            except InvalidConfig as refusal:
                yield refusal
            except RefusedValue:
                continue  # what it would say follows from the first mistake

    def _value(self, each: Setting[Any]) -> Any:
        found = self._in_effect(each)
        if found is not None:
            alias, written = found
            return each.accept(_translated(alias, written.value, written.key), written.key)
        if each.default is REQUIRED:
            raise InvalidSetting(f"{each.name} is missing; it must be {each.permitted}")
        return each.default

    def _in_effect(self, each: Setting[Any]) -> tuple[Alias | None, WrittenValue] | None:
        return next(self._candidates(each), None)

    def _candidates(self, each: Setting[Any]) -> Iterator[tuple[Alias | None, WrittenValue]]:
        if each.name in self._written:
            yield None, self._written[each.name]
        yield from ((other, self._written[other.name]) for other in each.synonyms if other.name in self._written)

    def _entry(self, each: Setting[Any]) -> Entry:
        def shown(value: object) -> str | None:
            return None if value is None or each.sensitive else each.text(value)

        levels = [
            (alias.name if alias else each.name, shown(written.value), written.source)
            for alias, written in self._candidates(each)
        ]
        if each.default is not REQUIRED:
            levels.append((each.name, shown(each.default), Source.DEFAULT))
        return Entry(each, shown(self.__dict__[each.attribute]), self.source(each.name), tuple(levels))


@cache
def _as_keyword(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _slots_of(declared: Iterable[Setting[Any]]) -> dict[str, tuple[str, Alias | None]]:
    """Which key fills which slot, after which translation."""
    every = list(declared)
    slots: dict[str, tuple[str, Alias | None]] = {each.name: (each.name, None) for each in every}
    for each in every:
        for alias in each.aliases:
            if alias.name in slots:
                raise TypeError(f"{alias.name} is an alias of {each.name} and already the name of something else")
            slots[alias.name] = (each.name, alias)
    for each in every:
        for other in each.synonyms:
            slots.setdefault(other.name, (other.name, None))
    return slots


def _translated(alias: Alias | None, value: object, key: str) -> object:
    if alias is None or alias.translate is None:
        return value
    try:
        return alias.translate(value)
    except (ValueError, TypeError) as cause:
        raise InvalidSetting(f"{key} cannot be translated: {type(cause).__name__}") from None


def _unknown(written: str, known: Iterable[str]) -> UnknownSetting:
    names = list(known)
    # The right words with "_" for "." are nearer than any other word that difflib may find.
    same_words = [name for name in names if _as_keyword(name) == _as_keyword(written)]
    import difflib

    nearest = same_words or difflib.get_close_matches(written[:SHOWN_LIMIT], names, n=1)
    hint = f" (did you mean {nearest[0]!r}?)" if nearest else ", nor one that is spelled like it"
    return UnknownSetting(f"{written[:SHOWN_LIMIT]!r}{hint}")
