"""How a message is declared: one class, every version on its fields.

    class ProduceResponsePartition(Struct):
        index: Int32
        base_offset: Int64
        log_start_offset: Int64 = since(5, default=-1, ignorable=True)
        current_leader: LeaderIdAndEpoch = tagged(0, since=10, factory=LeaderIdAndEpoch)

    class ProduceResponse(Message, versions="3-13", flexible=9): ...

1. An annotation is the wire type, and for mypy the Python type: `Int32` is an int, `String | None` may be null,
   `list[Topic]` is an array of structs. `Uuid` is 16 raw bytes: a broker compares and
   hashes them all day.
2. A field without a default is on the wire in every version and must be given. A field that some version lacks has a
   default, and keeps it when such a version is decoded.
3. Written at a version that lacks a field, a value other than the default is an error (the peer would silently
   miss it), unless the field is `ignorable`.
4. Instances have slots, keyword-only constructors, field-wise equality, and a repr that hides secrets.
5. Tagged fields that we do not know are kept in `unknown_tags` (None when there are none) and written again.

Nothing here reads or writes bytes: codec.py walks these declarations, compiled.py makes flat functions of them.
"""

from collections.abc import Callable
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, Union, dataclass_transform, get_args, get_origin

from ottla.light_dataclasses import dataclass
from ottla.values import ZERO_UUID as ZERO_UUID

MISSING: Any = object()
FOREVER = 1 << 15  # versions are int16: no version is ever above
WALKED = 8  # so many are made before a constructor is compiled


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included."""

    min: int
    max: int = FOREVER

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max

    def __iter__(self) -> Any:
        return iter(range(self.min, self.max + 1))

    def __str__(self) -> str:
        if self.max == FOREVER:
            return f"{self.min}+"
        return f"{self.min}" if self.min == self.max else f"{self.min}-{self.max}"

    @classmethod
    def parse(cls, text: str) -> "Versions":
        low, dash, high = text.partition("-")
        return cls(int(low), int(high) if dash else int(low))


@dataclass(frozen=True, slots=True)
class Primitive:
    """A wire type that is not built of others. `format` is its struct letter, None when its size varies."""

    name: str
    format: str | None
    zero: Any


INT8 = Primitive("int8", "b", 0)
INT16 = Primitive("int16", "h", 0)
UINT16 = Primitive("uint16", "H", 0)
INT32 = Primitive("int32", "i", 0)
UINT32 = Primitive("uint32", "I", 0)
INT64 = Primitive("int64", "q", 0)
FLOAT64 = Primitive("float64", "d", 0.0)
BOOL = Primitive("bool", "?", False)
UUID = Primitive("uuid", "16s", ZERO_UUID)
STRING = Primitive("string", None, "")
BYTES = Primitive("bytes", None, b"")
RECORDS = Primitive("records", None, b"")

Buffer: TypeAlias = bytes | bytearray | memoryview

Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
UInt16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
UInt32 = Annotated[int, UINT32]
Int64 = Annotated[int, INT64]
Float64 = Annotated[float, FLOAT64]
Bool = Annotated[bool, BOOL]
Uuid = Annotated[bytes, UUID]
String = Annotated[str, STRING]
Bytes = Annotated[bytes, BYTES]
# A run of record batches: decoded as a view into the frame, never copied. Encoders take anything with a len(),
# a slice of a file too, and pass it on as it is.
Records = Annotated[Any, RECORDS]


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: "WireType"


WireType: TypeAlias = "Primitive | ArrayOf | StructType"


@dataclass(frozen=True, slots=True)
class Field:
    """One field as declared. `present` and `nullable` say in which versions; None means in none."""

    name: str
    type: WireType
    present: Versions
    nullable: Versions | None
    tag: int | None
    default: Any
    factory: Callable[[], Any] | None
    ignorable: bool
    secret: bool
    compact: bool  # False only for the client id of the request header, which keeps its old length for ever

    @property
    def required(self) -> bool:
        return self.default is MISSING and self.factory is None

    def make_default(self) -> Any:
        if self.factory is not None:
            return self.factory()
        return self.default

    def null_at(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable


@dataclass(frozen=True, slots=True)
class _Declared:
    """What since() and tagged() leave in a class body until the class is made."""

    since: int = 0
    until: int = FOREVER
    tag: int | None = None
    nullable_since: int | None = None
    nullable_until: int = FOREVER
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    ignorable: bool = False
    secret: bool = False
    compact: bool = True


def since(
    version: int,
    *,
    until: int = FOREVER,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    nullable_since: int | None = None,
    nullable_until: int = FOREVER,
    ignorable: bool = False,
    secret: bool = False,
    compact: bool = True,
) -> Any:
    """A field that came with `version` (and left after `until`)."""
    return _Declared(
        since=version,
        until=until,
        default=default,
        factory=factory,
        nullable_since=nullable_since,
        nullable_until=nullable_until,
        ignorable=ignorable,
        secret=secret,
        compact=compact,
    )


def tagged(
    tag: int,
    *,
    since: int = 0,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    ignorable: bool = False,
) -> Any:
    """An optional field in the tag section of its struct; not written while it has its default."""
    return _Declared(since=since, tag=tag, default=default, factory=factory, ignorable=ignorable)


def secret(*, default: Any = MISSING) -> Any:
    """A field whose value is never shown."""
    return _Declared(secret=True, default=default)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, tagged, secret))
class StructType(type):
    """Makes a class with slots, a keyword-only constructor and a `fields` table out of annotations."""

    fields: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> "StructType":
        annotations = {
            field: hint for field, hint in _annotations(namespace).items() if get_origin(hint) is not ClassVar
        }
        declared = {field: namespace.pop(field, _Declared()) for field in annotations}
        fields = tuple(_field(field, annotations[field], declared[field]) for field in annotations)
        namespace["__slots__"] = tuple(annotations) if bases else (*annotations, "unknown_tags")
        namespace["fields"] = fields
        if fields:
            namespace["__init__"] = _first_constructor(name, fields)
        return super().__new__(mcs, name, bases, namespace, **kwargs)


def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
    """The evaluated annotations of a class body; since Python 3.14 they wait in a function."""
    if "__annotations__" in namespace:
        found: dict[str, Any] = namespace["__annotations__"]
        return found
    annotate = namespace.get("__annotate_func__") or namespace.get("__annotate__")
    return {} if annotate is None else dict(annotate(1))  # 1: as values


def _field(name: str, hint: Any, declared: Any) -> Field:
    if not isinstance(declared, _Declared):
        declared = _Declared(default=declared)
    hint, may_be_null = _without_none(hint)
    present = Versions(declared.since, declared.until)
    nullable = None
    if may_be_null:
        low = declared.since if declared.nullable_since is None else declared.nullable_since
        nullable = Versions(low, min(declared.nullable_until, declared.until))
    return Field(
        name=name,
        type=_wire_type(hint),
        present=present,
        nullable=nullable,
        tag=declared.tag,
        default=declared.default,
        factory=declared.factory,
        ignorable=declared.ignorable,
        secret=declared.secret,
        compact=declared.compact,
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not type(None)]
        if len(rest) != 1:
            raise TypeError(f"a field has one wire type, perhaps `| None`: {hint!r}")
        return rest[0], True
    return hint, False


def _wire_type(hint: Any) -> WireType:
    if isinstance(hint, StructType):
        return hint
    if get_origin(hint) is list:
        return ArrayOf(_wire_type(get_args(hint)[0]))
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Primitive):
            return extra
    raise TypeError(f"not a wire type: {hint!r}")


def _first_constructor(name: str, fields: tuple[Field, ...]) -> Any:
    """Makes the first few by walking the fields, then writes the constructor: most messages that a process loads it
    never makes, and a command makes one or two of a kind."""
    made = 0

    def first(self: Any, **values: Any) -> None:
        nonlocal made
        made += 1
        if made > WALKED or not _fill(self, fields, values):
            owner: Any = next(base for base in type(self).__mro__ if base.__dict__.get("fields") is fields)
            constructor = owner.__init__ = _constructor(name, fields)
            constructor(self, **values)

    return first


def _fill(struct: Any, fields: tuple[Field, ...], values: dict[str, Any]) -> bool:
    """Set every field; False if the written constructor has to say what is wrong with these values."""
    known = 0
    for field in fields:
        if field.name in values:
            setattr(struct, field.name, values[field.name])
            known += 1
        elif field.required:
            return False
        else:
            setattr(struct, field.name, field.make_default())
    struct.unknown_tags = None
    return known == len(values)


def _constructor(name: str, fields: tuple[Field, ...]) -> Any:
    """A plain keyword-only __init__, written out so that it is as fast as one written by hand."""
    scope: dict[str, Any] = {"MISSING": MISSING}
    arguments, lines = [], []
    for index, field in enumerate(fields):
        if field.required:
            arguments.append(field.name)
            lines.append(f" self.{field.name} = {field.name}")
        elif field.factory is not None:
            scope[f"make_{index}"] = field.factory
            arguments.append(f"{field.name}=MISSING")
            lines.append(f" self.{field.name} = make_{index}() if {field.name} is MISSING else {field.name}")
        else:
            scope[f"default_{index}"] = field.default
            arguments.append(f"{field.name}=default_{index}")
            lines.append(f" self.{field.name} = {field.name}")
    lines.append(" self.unknown_tags = None")
    source = f"def __init__(self, *, {', '.join(arguments)}):\n" + "\n".join(lines)
    exec(compile(source, f"<constructor of {name}>", "exec"), scope)
    return scope["__init__"]


def shown(field: Field, value: Any) -> str:
    """How a value is printed: secrets not at all, records by their size."""
    if field.secret and value:
        return "<secret>"
    if field.type is RECORDS and value is not None:
        return f"<{len(value)} bytes>"
    return repr(value)


class Struct(metaclass=StructType):
    """A group of fields that travel together."""

    fields: ClassVar[tuple[Field, ...]]

    if TYPE_CHECKING:  # a slot; told to mypy as a property so that constructors do not ask for it

        @property
        def unknown_tags(self) -> dict[int, bytes] | None: ...

        @unknown_tags.setter
        def unknown_tags(self, tags: dict[int, bytes] | None) -> None: ...

    def __init__(self) -> None:
        self.unknown_tags = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return (self.unknown_tags or None) == (other.unknown_tags or None) and all(
            getattr(self, field.name) == getattr(other, field.name) for field in self.fields
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{field.name}={shown(field, getattr(self, field.name))}" for field in self.fields]
        if self.unknown_tags:
            parts.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


class Message(Struct):
    """A struct that is sent or stored on its own, with the versions it has."""

    versions: ClassVar[Versions]
    flexible_since: ClassVar[int]
    record_type: ClassVar[int | None]  # the number that leads a stored key; None for what is not a stored key

    def __init_subclass__(
        cls, versions: str = "0", flexible: int | None = None, record_type: int | None = None
    ) -> None:
        cls.versions = Versions.parse(versions)
        cls.flexible_since = FOREVER if flexible is None else flexible
        cls.record_type = record_type
