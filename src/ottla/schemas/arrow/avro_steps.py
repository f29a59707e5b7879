"""How records of one schema of Avro become columns of another: a table of steps, for the twins that read.

    plan = AvroPlan(writer, reader, kind)      resolved schemas (schemas/avro/types.py), and the reader's column
    plan.steps[plan.root]                      one Step for each value in the writer's record, in its order
    plan.nodes                                 the columns; a struct's children stand behind each other

1. Everything that Avro's rules decide for two schemas is decided here, once: which field is which, what the writer
   lacks and the reader has a default for, which numbers become wider, which branch of a union fits.
2. What cannot be read (a branch, a symbol, a whole record) is a step that refuses with a sentence: records that do not
   come to it are read.
3. What a value means is what the writer says, if both say something: milliseconds become microseconds. A decimal of
   another scale is refused, as Avro has it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from ottla.light_tuples import NamedTuple
from ottla.schemas.avro.types import AvroField, AvroType

SKIPPED: Final = -1
"""The column of what the reader does not have."""


class AvroOp(IntEnum):
    """What a step does with the writer's bytes; the twins know these numbers."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    FIXED = 8
    ENUM = 9
    RECORD = 10
    ARRAY = 11
    MAP = 12
    UNION = 13
    DEFAULT = 14
    REFUSED = 15
    MEMBER = 16


class Step(NamedTuple):
    """`column` is where its value goes. `size` is that of a fixed, or which member of a union it is, `micros` how many
    a unit of a time has. `texts` are the symbols of an enum (empty: refused), the bytes of a default, or why it is
    refused."""

    op: AvroOp
    column: int
    children: tuple[int, ...] = ()
    size: int = 0
    micros: int = 1
    texts: tuple[bytes, ...] = ()


class Node(NamedTuple):
    """A column, and where its children begin."""

    kind: pa.DataType
    first_child: int
    child_count: int


PLAIN: Final[Mapping[str, AvroOp]] = {
    "null": AvroOp.NULL,
    "boolean": AvroOp.BOOLEAN,
    "int": AvroOp.INT,
    "long": AvroOp.LONG,
    "float": AvroOp.FLOAT,
    "double": AvroOp.DOUBLE,
    "bytes": AvroOp.BYTES,
    "string": AvroOp.STRING,
    "fixed": AvroOp.FIXED,
}
PROMOTED: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
NAMED: Final = ("record", "enum", "fixed")
MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")
MICROS: Final = ("timestamp-micros", "local-timestamp-micros")


class AvroPlan:
    """How records of `writer` become values of `reader`, whose column is `kind`."""

    def __init__(self, writer: AvroType, reader: AvroType, kind: pa.DataType) -> None:
        self.steps: list[Step] = []
        self.nodes: list[Node] = _nodes(kind)
        self._passed_over: dict[int, int] = {}
        self.root = self._read(writer, reader, 0)

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _refuse(self, why: str) -> int:
        return self._add(Step(AvroOp.REFUSED, SKIPPED, texts=(why.encode(),)))

    def _read(self, writer: AvroType, reader: AvroType, column: int) -> int:
        if writer.kind == "union":
            branches = tuple(self._read(branch, reader, column) for branch in writer.branches)
            return self._add(Step(AvroOp.UNION, column, branches))
        if reader.kind == "union":
            branch = _branch(writer, reader)
            if branch is None:
                return self._refuse(f"the reader has no {_shown(writer)} there")
            members = [member for member in reader.branches if member.kind != "null"]
            if branch.kind == "null" or len(members) == 1 or not pa.types.is_struct(self.nodes[column].kind):
                return self._read(writer, branch, column)
            return self._member(writer, branch, members.index(branch), column)
        if not _fits(writer, reader, is_exact=False):
            return self._refuse(f"it is {_shown(writer)} where the reader has {_shown(reader)}")
        return self._fitting(writer, reader, column)

    def _member(self, writer: AvroType, branch: AvroType, index: int, column: int) -> int:
        """A union of several types is a struct of them: one has the value, the others are null."""
        value = self._read(writer, branch, self.nodes[column].first_child + index)
        return self._add(Step(AvroOp.MEMBER, column, (value,), size=index))

    def _fitting(self, writer: AvroType, reader: AvroType, column: int) -> int:
        node = self.nodes[column]
        match writer.kind:
            case "record":
                return self._record(writer, reader, column)
            case "array":
                item = self._read(_items(writer), _items(reader), node.first_child)
                return self._add(Step(AvroOp.ARRAY, column, (item,)))
            case "map":
                entries = self.nodes[node.first_child]
                key = self._add(Step(AvroOp.STRING, entries.first_child))
                value = self._read(_items(writer), _items(reader), entries.first_child + 1)
                return self._add(Step(AvroOp.MAP, column, (key, value)))
            case "enum":
                default = reader.default if reader.default in reader.symbols else ""
                symbols = [symbol if symbol in reader.symbols else default or "" for symbol in writer.symbols]
                return self._add(Step(AvroOp.ENUM, column, texts=tuple(symbol.encode() for symbol in symbols)))
        if writer.logical == reader.logical == "decimal" and writer.scale != reader.scale:
            return self._refuse(f"its decimal has scale {writer.scale}, and the reader's {reader.scale}")
        return self._add(Step(PLAIN[writer.kind], column, size=writer.size, micros=_micros(writer, reader)))

    def _record(self, writer: AvroType, reader: AvroType, column: int) -> int:
        """The writer's fields in their order, then what the reader has beside them."""
        columns = {field.name: self.nodes[column].first_child + index for index, field in enumerate(reader.fields)}
        read_as = _read_as(writer, reader)
        children = []
        for theirs in writer.fields:
            ours = read_as.get(theirs.name)
            if ours is None:
                children.append(self._pass(theirs.type))
            else:
                children.append(self._read(theirs.type, ours.type, columns[ours.name]))
        found = {ours.name for ours in read_as.values()}
        for field in (field for field in reader.fields if field.name not in found):
            if not field.has_default:
                return self._refuse(f"the writer has no field {field.name}, for which the reader has no default")
            children.append(self._default(field, columns[field.name]))
        return self._add(Step(AvroOp.RECORD, column, tuple(children)))

    def _default(self, field: AvroField, column: int) -> int:
        try:
            content = encoded_default(field.type, field.default)
        except (ValueError, TypeError, KeyError, AttributeError, struct.error):
            return self._refuse(f"the default of {field.name} is none of its type")
        return self._add(Step(AvroOp.DEFAULT, column, (self._read(field.type, field.type, column),), texts=(content,)))

    def _pass(self, writer: AvroType) -> int:
        """What the reader does not have. It may contain itself: the step is known before those inside are."""
        if id(writer) in self._passed_over:
            return self._passed_over[id(writer)]
        number = self._passed_over[id(writer)] = self._add(Step(AvroOp.NULL, SKIPPED))
        match writer.kind:
            case "record":
                step = Step(AvroOp.RECORD, SKIPPED, tuple(self._pass(field.type) for field in writer.fields))
            case "union":
                step = Step(AvroOp.UNION, SKIPPED, tuple(map(self._pass, writer.branches)))
            case "array":
                step = Step(AvroOp.ARRAY, SKIPPED, (self._pass(_items(writer)),))
            case "map":
                key = self._add(Step(AvroOp.STRING, SKIPPED))
                step = Step(AvroOp.MAP, SKIPPED, (key, self._pass(_items(writer))))
            case "enum":
                step = Step(AvroOp.ENUM, SKIPPED, texts=tuple(symbol.encode() for symbol in writer.symbols))
            case _:
                step = Step(PLAIN[writer.kind], SKIPPED, size=writer.size)
        self.steps[number] = step
        return number


# -- columns -----------------------------------------------------------------------------------------------------------


def _nodes(kind: pa.DataType) -> list[Node]:
    """The columns of a type; number 0 is the whole."""
    nodes = [Node(kind, 0, 0)]
    for number, node in enumerate(nodes):  # which grows meanwhile
        children = _children(node.kind)
        nodes[number] = Node(node.kind, len(nodes), len(children))
        nodes.extend(Node(child, 0, 0) for child in children)
    return nodes


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    if pa.types.is_map(kind):
        return [pa.struct([kind.key_field, kind.item_field])]
    return [kind.value_type] if pa.types.is_list(kind) else []


# -- Avro's rules ------------------------------------------------------------------------------------------------------


def _branch(writer: AvroType, reader: AvroType) -> AvroType | None:
    """The branch of the reader's union for a type of the writer: its own, else the first that it can become."""
    same = [branch for branch in reader.branches if _fits(writer, branch, is_exact=True)]
    wider = [branch for branch in reader.branches if _fits(writer, branch, is_exact=False)]
    return next((branch for branch in same if branch.name == writer.name), next(iter([*same, *wider]), None))


def _fits(writer: AvroType, reader: AvroType, *, is_exact: bool) -> bool:
    if writer.kind != reader.kind:
        return not is_exact and reader.kind in PROMOTED.get(writer.kind, ())
    if writer.kind not in NAMED:
        return True
    names = {reader.short_name, *(alias.rpartition(".")[2] for alias in reader.aliases)}
    return writer.short_name in names and writer.size == reader.size


def _read_as(writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
    """The reader's field for the writer's by their names: its own name first, then the names that it had before."""
    written = {field.name for field in writer.fields}
    read_as = {field.name: field for field in reader.fields if field.name in written}
    for field in reader.fields:
        if field.name not in written:
            before = next((alias for alias in field.aliases if alias in written and alias not in read_as), None)
            if before is not None:
                read_as[before] = field
    return read_as


def _items(kind: AvroType) -> AvroType:
    assert kind.items is not None, "arrays and maps have items"
    return kind.items


def _micros(writer: AvroType, reader: AvroType) -> int:
    for kind in (writer, reader):
        if kind.logical in MILLIS and reader.logical in (*MILLIS, *MICROS):
            return 1_000
        if kind.logical in MICROS:
            return 1
    return 1


def _shown(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name}" if kind.name else kind.kind


# -- defaults ----------------------------------------------------------------------------------------------------------


def encoded_default(kind: AvroType, value: Any) -> bytes:
    """A default, which stands in a schema as JSON, as a record would have it. ValueError and others when it is none."""
    match kind.kind:
        case "null":
            if value is not None:
                raise ValueError("a default of null is null")
            return b""
        case "union":
            return _union_default(kind, value)
        case "boolean":
            return struct.pack("<?", _checked(value, bool))
        case "int" | "long":
            return written_long(_checked(value, int))
        case "float":
            return struct.pack("<f", _checked(value, int, float))
        case "double":
            return struct.pack("<d", _checked(value, int, float))
        case "string":
            return _sized(_checked(value, str).encode())
        case "bytes":
            return _sized(_checked(value, str).encode("latin-1"))
        case "fixed":
            content: bytes = _checked(value, str).encode("latin-1")
            if len(content) != kind.size:
                raise ValueError("a default of a fixed has its size")
            return content
        case "enum":
            return written_long(kind.symbols.index(value))
        case "array":
            items = [encoded_default(_items(kind), item) for item in _checked(value, list)]
        case "map":
            pairs = _checked(value, dict).items()
            items = [_sized(name.encode()) + encoded_default(_items(kind), item) for name, item in pairs]
        case _:
            fields = [(field.type, value.get(field.name, field.default)) for field in kind.fields]
            return b"".join(encoded_default(*field) for field in fields)
    return (written_long(len(items)) + b"".join(items) if items else b"") + b"\0"


def _union_default(kind: AvroType, value: Any) -> bytes:
    """That of the first branch, as Avro has it; later releases of Avro take any, and so do we."""
    for index, branch in enumerate(kind.branches):
        try:
            return written_long(index) + encoded_default(branch, value)
        except (ValueError, TypeError, KeyError, AttributeError, struct.error):
            continue
    raise ValueError("no branch has this default")


def _checked(value: Any, *types: type) -> Any:
    if type(value) not in types:
        raise TypeError(f"{value!r} is no default of its type")
    return value


def _sized(content: bytes) -> bytes:
    return written_long(len(content)) + content


def written_long(value: int) -> bytes:
    """A number as Avro writes it."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} has more than 64 bits")
    left, content = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        content.append(left & 0x7F | 0x80)
        left >>= 7
    content.append(left)
    return bytes(content)
