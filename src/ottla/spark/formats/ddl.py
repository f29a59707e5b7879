"""Schemas as text: Spark's DDL ("id BIGINT, tags ARRAY<STRING>") and its JSON (df.schema.json()), read without a JVM.

Spark's own reader of DDL lives in the JVM, and the Python processes that plan and read a source have none.

    schema   column ["," column ...], or STRUCT "<" ... ">"
    column   name [":"] type ["NOT NULL"] ["COMMENT" 'text']        a name may stand in `backquotes`
    type     BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL[(p[,s])], STRING, BINARY, DATE, TIMESTAMP,
             TIMESTAMP_NTZ, ARRAY<type>, MAP<type, type>, STRUCT<name: type, ...>; and the words of Spark for the same
"""

from __future__ import annotations

import json
import re
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.errors import OttlaError

SIMPLE_TYPES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "byte": ByteType(),
    "tinyint": ByteType(),
    "short": ShortType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "bigint": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}
DECIMAL_WORDS: Final = frozenset({"decimal", "dec", "numeric"})
DECIMAL_DIGITS_MAX: Final = 38
DEPTH_MAX: Final = 64

_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|([A-Za-z0-9_]+)|(.))", re.DOTALL)


class UnreadableSchema(OttlaError):
    """A schema cannot be read. Write it as Spark does, "id BIGINT, tags ARRAY<STRING>", or as df.schema.json() gives
    it."""


def parse_schema(text: str) -> StructType:
    """The columns that a text names."""
    if text.lstrip().startswith("{"):
        return _from_json(text)
    words = _Words(text)
    if words.peek().lower() == "struct" and words.peek(1) == "<":
        found = words.type(0)
        assert isinstance(found, StructType), "it begins with STRUCT<"
    else:
        found = StructType(words.columns(0, end=""))
    words.expect("")
    if not found.fields:
        raise UnreadableSchema("it has no column")
    return found


def _from_json(text: str) -> StructType:
    try:
        return StructType.fromJson(json.loads(text))
    except Exception as error:  # Spark raises whatever it stumbles over
        raise UnreadableSchema(f"this is not the JSON of a Spark schema: {error}") from error


def as_nullable(kind: DataType) -> DataType:
    """The same type with NULL allowed everywhere: what comes from outside may leave out anything."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, as_nullable(each.dataType), True, each.metadata) for each in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(as_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(as_nullable(kind.keyType), as_nullable(kind.valueType), True)
    return kind


class _Words:
    """The words of a DDL text, read from the left."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[str, bool]] = []  # a word, and whether it is a name in backquotes or a text
        for match in _TOKEN.finditer(text):
            quoted, literal, word, sign = match.groups()
            if quoted is not None:
                self._found.append((quoted.replace("``", "`"), True))
            elif literal is not None:
                self._found.append((literal, True))
            elif (found := word or sign.strip()) != "":
                self._found.append((found, False))
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        return self._found[self._at + ahead][0] if self._at + ahead < len(self._found) else ""

    def _next(self) -> tuple[str, bool]:
        if self._at >= len(self._found):
            raise UnreadableSchema(f"{self._text[:200]!r} ends too early")
        self._at += 1
        return self._found[self._at - 1]

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            wanted = f"{sign!r} is expected" if sign else "it should end"
            raise UnreadableSchema(f"{wanted} where {self.peek()!r} stands in {self._text[:200]!r}")
        self._at += 1

    def columns(self, depth: int, end: str) -> list[StructField]:
        found: list[StructField] = []
        while self.peek() != end or not found:
            if found:
                self.expect(",")
            found.append(self._column(depth))
        return found

    def _column(self, depth: int) -> StructField:
        name, is_quoted = self._next()
        if not is_quoted and not name.isidentifier() and not name.isalnum():
            raise UnreadableSchema(f"{name!r} is no name of a column in {self._text[:200]!r}")
        if self.peek() == ":":
            self._at += 1
        kind = self.type(depth)
        nullable = True
        if self.peek().lower() == "not" and self.peek(1).lower() == "null":
            self._at += 2
            nullable = False
        metadata = {}
        if self.peek().lower() == "comment":
            self._at += 1
            metadata["comment"] = self._next()[0]
        return StructField(name, kind, nullable, metadata)

    def type(self, depth: int) -> DataType:
        if depth > DEPTH_MAX:
            raise UnreadableSchema(f"types are nested more than {DEPTH_MAX} deep")
        word = self._next()[0].lower()
        if word in SIMPLE_TYPES:
            return SIMPLE_TYPES[word]
        if word in DECIMAL_WORDS:
            return self._decimal()
        if word in ("varchar", "char"):
            self._numbers()
            return StringType()
        if word not in ("array", "map", "struct"):
            raise UnreadableSchema(
                f"{word!r} is no type; there are {', '.join(SIMPLE_TYPES)}, decimal, array, map, struct"
            )
        self.expect("<")
        found = self._nested(word, depth + 1)
        self.expect(">")
        return found

    def _nested(self, word: str, depth: int) -> DataType:
        if word == "array":
            return ArrayType(self.type(depth))
        if word == "struct":
            return StructType(self.columns(depth, end=">"))
        key = self.type(depth)
        self.expect(",")
        return MapType(key, self.type(depth))

    def _decimal(self) -> DecimalType:
        numbers = self._numbers() if self.peek() == "(" else [10]
        precision, scale = (numbers[0], numbers[1] if len(numbers) > 1 else 0)
        if len(numbers) > 2 or not max(scale, 1) <= precision <= DECIMAL_DIGITS_MAX:
            raise UnreadableSchema(f"DECIMAL has at most {DECIMAL_DIGITS_MAX} digits, and no more behind the point")
        return DecimalType(precision, scale)

    def _numbers(self) -> list[int]:
        self.expect("(")
        found = [self._number()]
        while self.peek() == ",":
            self._at += 1
            found.append(self._number())
        self.expect(")")
        return found

    def _number(self) -> int:
        word = self._next()[0]
        if not word.isdecimal():
            raise UnreadableSchema(f"{word!r} is no number in {self._text[:200]!r}")
        return int(word)
