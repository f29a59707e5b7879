"""AvroColumns: records of Avro into a column, by a plan of steps. The readable twin.

    columns = AvroColumns(AvroPlan(writer, reader, kind))
    columns.read(column, skipped_bytes)     a value for each row that can be read, null for the others
    columns.value(content)                  the value of one record; UnreadableRecord says what is wrong with it

1. All bytes of a record must be used, and none beyond them. What it may claim is bounded (avro/record_bytes.py).
2. Numbers are checked: an int has 32 bits, a date or a time is one of the years 1 to 9999, a decimal has no more digits
   than its column. Texts are UTF-8.
3. No Python object for a value in the native twin, which has no value(): the careful reader is this one.
"""

from __future__ import annotations

import datetime
import struct
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from ottla.schemas.arrow.avro_steps import SKIPPED, AvroOp, AvroPlan, Step
from ottla.schemas.avro.record_bytes import RecordBytes, UnreadableRecord

RECORD_VALUES_MAX: Final = 2_000_000
EPOCH: Final = datetime.datetime(1970, 1, 1)
FIRST_DAY: Final = (datetime.date.min - EPOCH.date()).days
LAST_DAY: Final = (datetime.date.max - EPOCH.date()).days
FIRST_MICRO: Final = FIRST_DAY * 86_400_000_000
LAST_MICRO: Final = (LAST_DAY + 1) * 86_400_000_000 - 1
EXACT: Final = Context(prec=60)


class AvroColumns:
    """Reads columns of records with one plan; made once for many."""

    def __init__(self, plan: AvroPlan) -> None:
        self._plan = plan

    def read(self, column: pa.Array, skipped_bytes: int = 0) -> pa.Array:
        """The rows of a column of bytes, without so many at the front of each."""
        values: list[Any] = []
        for content in column.to_pylist():
            try:
                values.append(None if content is None else self.value(content[skipped_bytes:]))
            except UnreadableRecord:
                values.append(None)
        return pa.array(values, type=self._plan.nodes[0].kind)

    def value(self, content: bytes) -> Any:
        """The value that these bytes are."""
        reading = _Reading(content, self._plan)
        try:
            value = reading.step(self._plan.root, 0)
        except UnreadableRecord as error:
            raise UnreadableRecord(f"it does not decode ({error})") from None
        if reading.left:
            raise UnreadableRecord(f"{reading.left} bytes are left after the record")
        return value


class _Reading(RecordBytes):
    def __init__(self, content: bytes, plan: AvroPlan) -> None:
        super().__init__(content, RECORD_VALUES_MAX)
        self._plan = plan

    def step(self, number: int, depth: int) -> Any:
        """The value of a step; what is passed over is read, too, and has none."""
        self.count_value(depth)
        step = self._plan.steps[number]
        match step.op:
            case AvroOp.RECORD:
                return self._record(step, depth + 1)
            case AvroOp.UNION:
                return self.step(step.children[self.index(len(step.children), "branch")], depth + 1)
            case AvroOp.ARRAY:
                return [self.step(step.children[0], depth + 1) for _ in self._items()]
            case AvroOp.MAP:
                return [tuple(self.step(child, depth + 1) for child in step.children) for _ in self._items()]
            case AvroOp.MEMBER:
                value = self.step(step.children[0], depth + 1)
                names = [field.name for field in self._plan.nodes[step.column].kind]
                return {name: value if index == step.size else None for index, name in enumerate(names)}
            case AvroOp.ENUM:
                return self._symbol(step)
            case AvroOp.DEFAULT:
                return _Reading(step.texts[0], self._plan).step(step.children[0], depth + 1)
            case AvroOp.REFUSED:
                raise UnreadableRecord(step.texts[0].decode())
        value = self._plain(step)
        return value if value is None or step.column == SKIPPED else self._fitted(step, value)

    def _record(self, step: Step, depth: int) -> dict[str, Any] | None:
        values = {self._plan.steps[child].column: self.step(child, depth) for child in step.children}
        if step.column == SKIPPED:
            return None
        node = self._plan.nodes[step.column]
        return {field.name: values[node.first_child + index] for index, field in enumerate(node.kind)}

    def _items(self) -> Any:
        while count := self.block():
            yield from range(count)

    def _symbol(self, step: Step) -> str:
        text = step.texts[self.index(len(step.texts), "symbol")]
        if not text:
            raise UnreadableRecord("it has a symbol that the reader has not")
        return text.decode()

    def _plain(self, step: Step) -> Any:
        match step.op:
            case AvroOp.NULL:
                return None
            case AvroOp.BOOLEAN:
                return self._boolean()
            case AvroOp.INT:
                value = self.long()
                if not -(1 << 31) <= value < 1 << 31:
                    raise UnreadableRecord(f"{value} is no int of 32 bits")
                return value
            case AvroOp.LONG:
                return self.long()
            case AvroOp.FLOAT:
                return struct.unpack("<f", self.take(4))[0]
            case AvroOp.DOUBLE:
                return struct.unpack("<d", self.take(8))[0]
            case AvroOp.FIXED:
                return self.take(step.size)
            case AvroOp.STRING:
                return self.text()
        return self.take(self.long())

    def _boolean(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            raise UnreadableRecord(f"{byte} is no boolean")
        return byte == 1

    def _fitted(self, step: Step, value: Any) -> Any:
        """A value as its column has it."""
        kind = self._plan.nodes[step.column].kind
        if pa.types.is_floating(kind):
            return float(value)
        if pa.types.is_date(kind):
            if not FIRST_DAY <= value <= LAST_DAY:
                raise UnreadableRecord(f"day {value} is in none of the years 1 to 9999")
            return EPOCH.date() + datetime.timedelta(days=value)
        if pa.types.is_timestamp(kind):
            if not FIRST_MICRO <= value * step.micros <= LAST_MICRO:
                raise UnreadableRecord(f"the time {value} is in none of the years 1 to 9999")
            zone = None if kind.tz is None else datetime.UTC
            return (EPOCH + datetime.timedelta(microseconds=value * step.micros)).replace(tzinfo=zone)
        if pa.types.is_decimal(kind):
            return _decimal(kind, value)
        if pa.types.is_string(kind) and isinstance(value, bytes):
            return _text(value)
        if pa.types.is_binary(kind) and isinstance(value, str):
            return value.encode()
        return value


def _decimal(kind: pa.Decimal128Type, content: bytes) -> Decimal:
    unscaled = int.from_bytes(content, "big", signed=True)
    if abs(unscaled) >= 10**kind.precision:
        raise UnreadableRecord(f"a decimal in it has more than {kind.precision} digits")
    return Decimal(unscaled).scaleb(-kind.scale, context=EXACT)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableRecord(f"a text in it is not UTF-8 ({error.reason})") from None
