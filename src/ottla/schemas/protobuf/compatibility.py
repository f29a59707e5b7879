"""Whether messages of one .proto file can be read with another: Confluent's rules.

1. A field is its number; its name may change. It may be added or removed unless it is required.
2. A type may become another that has the same form on the wire: int32, int64, uint32, uint64, bool and enums; sint32
   and sint64; string and bytes; fixed32 and sfixed32; fixed64 and sfixed64.
3. Fields that could be written together may not come to exclude each other: one field may move into a new oneof,
   several may not, nor one into a oneof that was there, nor two oneofs into one. A field may not leave a oneof by being
   removed, unless the whole oneof goes.
4. A message may not be removed, and the package may not change. Enums and their values may.
5. repeated and singular may change for strings, bytes and messages, of which the last one counts, and not for numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.budget import Budget
from ottla.light_dataclasses import dataclass
from ottla.schemas.model import Problem

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

    File = tuple[FileDescriptorProto, Mapping[str, FileDescriptorProto]]

MESSAGE: Final = 11
REQUIRED: Final = 2
STEPS: Final = 10  # of looking at a field or a message
REPEATED: Final = 3
_WIRE: Final = {
    **dict.fromkeys((3, 4, 5, 8, 13, 14), "a whole number"),
    **dict.fromkeys((17, 18), "a signed number"),
    **dict.fromkeys((9, 12), "text or bytes"),
    **dict.fromkeys((7, 15), "32 fixed bits"),
    **dict.fromkeys((6, 16), "64 fixed bits"),
    1: "double",
    2: "float",
    10: "a group",
}


def problems(reader: File, writer: File, budget: Budget) -> Sequence[Problem]:
    """Why messages that `writer` describes cannot be read with `reader`; BudgetExceeded when that takes too long."""
    new, old = _Types.of(reader), _Types.of(writer)
    found = []
    if new.package != old.package:
        found.append(Problem("PACKAGE_CHANGED", "#/", f"package {old.package!r} became {new.package!r}"))
    comparison = _Comparison(new, old, budget)
    found += comparison.messages(reader[0].message_type, writer[0].message_type, "#/")
    return found


@dataclass(frozen=True, eq=False)
class _Types:
    """Every message that a file can name, by its full name with a leading dot, and the package it is in."""

    package: str
    messages: Mapping[str, tuple[DescriptorProto, str]]

    @classmethod
    def of(cls, file: File) -> _Types:
        found: dict[str, tuple[DescriptorProto, str]] = {}
        for each in (*file[1].values(), file[0]):
            prefix = f".{each.package}" if each.package else ""
            for message in each.message_type:
                _collect(message, prefix, each.package, found)
        return cls(file[0].package, found)

    def local_name(self, type_name: str) -> str:
        known = self.messages.get(type_name)
        return type_name.removeprefix(f".{known[1]}." if known[1] else ".") if known is not None else type_name


def _collect(message: Any, prefix: str, package: str, found: dict[str, tuple[Any, str]]) -> None:
    name = f"{prefix}.{message.name}"
    found[name] = message, package
    for nested in message.nested_type:
        _collect(nested, name, package, found)


class _Comparison:
    def __init__(self, new: _Types, old: _Types, budget: Budget) -> None:
        self._budget = budget
        self._new, self._old = new, old
        self._seen: set[tuple[str, str]] = set()

    def messages(self, new: Any, old: Any, path: str) -> Iterator[Problem]:
        self._budget.spend(STEPS * (len(new) + len(old)))
        by_name = {each.name: each for each in new}
        for message in old:
            where = f"{path}{message.name}"
            if message.options.map_entry:
                continue
            if message.name not in by_name:
                yield Problem("MESSAGE_REMOVED", where, f"message {message.name} is gone")
            else:
                yield from self._message(by_name[message.name], message, where)

    def _message(self, new: DescriptorProto, old: DescriptorProto, path: str) -> Iterator[Problem]:
        self._budget.spend(STEPS * (1 + len(new.field) + len(old.field)))
        yield from _oneofs(new, old, path)
        numbers = {each.number: each for each in new.field}
        before = {each.number: each for each in old.field}
        for number in sorted({*numbers, *before}):
            where = f"{path}/{number}"
            if number not in numbers:
                if before[number].label == REQUIRED:
                    yield Problem("REQUIRED_FIELD_REMOVED", where, f"the required field {before[number].name} is gone")
            elif number not in before:
                if numbers[number].label == REQUIRED:
                    yield Problem("REQUIRED_FIELD_ADDED", where, f"the field {numbers[number].name} is required")
            else:
                yield from self._field(numbers[number], before[number], where)
        yield from self.messages(new.nested_type, old.nested_type, f"{path}/")

    def _field(self, new: FieldDescriptorProto, old: FieldDescriptorProto, path: str) -> Iterator[Problem]:
        new_entry, old_entry = _map_entry(self._new, new), _map_entry(self._old, old)
        if (new_entry is None) != (old_entry is None) or (new.type == MESSAGE) != (old.type == MESSAGE):
            yield Problem("FIELD_KIND_CHANGED", path, f"the field {old.name} is of another kind")
        elif new_entry is not None and old_entry is not None:
            for each, before in zip(new_entry.field, old_entry.field, strict=True):
                yield from self._field(each, before, f"{path}/{before.name}")
        elif new.type == MESSAGE:
            yield from self._named(new, old, path)
        else:
            yield from _scalar(new, old, path)

    def _named(self, new: FieldDescriptorProto, old: FieldDescriptorProto, path: str) -> Iterator[Problem]:
        if self._new.local_name(new.type_name) != self._old.local_name(old.type_name):
            sentence = f"the field {old.name} is {new.type_name.lstrip('.')}, and was {old.type_name.lstrip('.')}"
            yield Problem("FIELD_NAMED_TYPE_CHANGED", path, sentence)
            return
        pair = new.type_name, old.type_name
        if pair in self._seen or new.type_name not in self._new.messages or old.type_name not in self._old.messages:
            return
        self._seen.add(pair)
        inner, before = self._new.messages[new.type_name][0], self._old.messages[old.type_name][0]
        if any(True for _ in self._message(inner, before, path)):
            sentence = f"{old.type_name.lstrip('.')}, the type of {old.name}, cannot be read any more"
            yield Problem("FIELD_NAMED_TYPE_CHANGED", path, sentence)


def _scalar(new: FieldDescriptorProto, old: FieldDescriptorProto, path: str) -> Iterator[Problem]:
    if _WIRE[new.type] != _WIRE[old.type]:
        sentence = f"the field {old.name} is {_WIRE[new.type]}, and was {_WIRE[old.type]}"
        yield Problem("FIELD_SCALAR_KIND_CHANGED", path, sentence)
    elif (new.label == REPEATED) != (old.label == REPEATED) and _WIRE[new.type] != "text or bytes":
        yield Problem("FIELD_NUMERIC_LABEL_CHANGED", path, f"the number {old.name} is repeated in one of the two only")


def _map_entry(types: _Types, field: FieldDescriptorProto) -> DescriptorProto | None:
    found = types.messages.get(field.type_name) if field.type == MESSAGE else None
    return found[0] if found is not None and found[0].options.map_entry else None


def _oneof_of(message: DescriptorProto) -> dict[int, str]:
    """The oneof of every field that is in one; an optional field of proto3 is in none that anybody wrote."""
    return {
        each.number: message.oneof_decl[each.oneof_index].name
        for each in message.field
        if each.HasField("oneof_index") and not each.proto3_optional
    }


def _oneofs(new: DescriptorProto, old: DescriptorProto, path: str) -> Iterator[Problem]:
    now, before = _oneof_of(new), _oneof_of(old)
    there = {each.number for each in old.field}
    members: dict[str, list[int]] = {name: [] for name in sorted(set(now.values()))}
    for number, name in now.items():
        if number in there:
            members[name].append(number)
    for name, numbers in members.items():
        # Fields exclude each other already if they come from one oneof; a plain field comes alone.
        if len({before.get(number, number) for number in numbers}) < 2:
            continue
        if sum(number not in before for number in numbers) > 1:
            yield Problem("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}", f"several fields moved into oneof {name}")
        else:
            yield Problem("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{name}", f"a field moved into oneof {name}")
    yield from _removed_from_oneofs(new, before, set(now.values()), path)


def _removed_from_oneofs(
    new: DescriptorProto, before: Mapping[int, str], names: set[str], path: str
) -> Iterator[Problem]:
    kept = {each.number for each in new.field}
    alive = names | {name for number, name in before.items() if number in kept}
    for number, name in sorted(before.items()):
        if number not in kept and name in alive:
            yield Problem("ONEOF_FIELD_REMOVED", f"{path}/{name}/{number}", f"oneof {name} lost field {number}")
