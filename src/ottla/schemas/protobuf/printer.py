"""A descriptor as the text of a .proto file: what people read, and what Java's clients parse.

1. What the parser reads from the text is the descriptor again: messages, fields, enums, oneofs, maps, reserved,
   services, and the options that descriptors know or that were kept uninterpreted.
2. Normalised, fields stand in the order of their numbers, and imports and options in that of their names. Messages stay
   where they are: records name them by their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.schemas.protobuf.parser import ENUM_NUMBER_MAX, FIELD_NUMBER_MAX, SCALARS
from ottla.schemas.protobuf.tokens import quoted

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

TYPE_NAMES: Final = {number: name for name, number in SCALARS.items()}
LABEL_NAMES: Final = {1: "optional", 2: "required", 3: "repeated"}
STRING, BYTES, ENUM = 9, 12, 14


def printed(file: FileDescriptorProto, *, is_normalized: bool = False) -> str:
    return "\n".join(_Printer(file, is_normalized).lines()) + "\n"


class _Printer:
    def __init__(self, file: FileDescriptorProto, is_normalized: bool) -> None:
        self._file = file
        self._is_proto3 = file.syntax == "proto3"
        self._is_normalized = is_normalized

    def lines(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
            yield from self._imports()
        if options := list(self._options(file.options)):
            yield ""
            yield from (f"option {each};" for each in options)
        for message in file.message_type:
            yield ""
            yield from self._message(message, "")
        for enum in file.enum_type:
            yield ""
            yield from self._enum(enum, "")
        yield from self._extensions(file.extension, "")
        for service in file.service:
            yield ""
            yield from self._service(service)

    def _imports(self) -> list[str]:
        file = self._file
        made = []
        for index, name in enumerate(file.dependency):
            kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
            made.append(f"import {kind}{quoted(name.encode())};")
        return sorted(made) if self._is_normalized else made

    # -- messages ----------------------------------------------------------------------------------------------------

    def _message(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}message {message.name} {{"
        inner = indent + "  "
        yield from (f"{inner}option {each};" for each in self._options(message.options, without=("map_entry",)))
        yield from self._reserved(message, inner, 1, FIELD_NUMBER_MAX)
        for each in message.extension_range:
            yield f"{inner}extensions {_range(each.start, each.end - 1, FIELD_NUMBER_MAX)};"
        entries = {each.name: each for each in message.nested_type if each.options.map_entry}
        yield from self._fields(message, entries, inner)
        for nested in message.nested_type:
            if not nested.options.map_entry:
                yield from self._message(nested, inner)
        for enum in message.enum_type:
            yield from self._enum(enum, inner)
        yield from self._extensions(message.extension, inner)
        yield f"{indent}}}"

    def _fields(self, message: DescriptorProto, entries: dict[str, DescriptorProto], indent: str) -> Iterator[str]:
        fields = sorted(message.field, key=lambda each: each.number) if self._is_normalized else list(message.field)
        begun: set[int] = set()
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield self._field(field, entries, indent)
            elif field.oneof_index not in begun:
                begun.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"{indent}oneof {oneof.name} {{"
                yield from (f"{indent}  option {each};" for each in self._options(oneof.options))
                for each in fields:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        yield self._field(each, entries, indent + "  ", in_oneof=True)
                yield f"{indent}}}"

    def _field(self, field: Any, entries: dict[str, DescriptorProto], indent: str, *, in_oneof: bool = False) -> str:
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.type_name else None
        if entry is not None:
            label, kind = "", f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
        else:
            is_plain = in_oneof or (self._is_proto3 and field.label == 1 and not field.proto3_optional)
            label, kind = "" if is_plain else LABEL_NAMES[field.label] + " ", _type(field)
        return f"{indent}{label}{kind} {field.name} = {field.number}{_listed(self._field_options(field))};"

    def _field_options(self, field: Any) -> Iterator[str]:
        if field.HasField("default_value"):
            is_text = field.type == STRING
            value = quoted(field.default_value.encode()) if is_text else field.default_value
            yield f"default = {chr(34) + value + chr(34) if field.type == BYTES else value}"
        if field.json_name and field.json_name != _json_name(field.name):
            yield f"json_name = {quoted(field.json_name.encode())}"
        yield from self._options(field.options)

    def _extensions(self, fields: Iterable[Any], indent: str) -> Iterator[str]:
        for field in fields:
            yield f"{indent}extend {field.extendee} {{"
            yield self._field(field, {}, indent + "  ")
            yield f"{indent}}}"

    def _reserved(self, target: Any, indent: str, width: int, limit: int) -> Iterator[str]:
        if target.reserved_range:
            ranges = ", ".join(_range(each.start, each.end - width, limit) for each in target.reserved_range)
            yield f"{indent}reserved {ranges};"
        if target.reserved_name:
            yield f"{indent}reserved {', '.join(quoted(each.encode()) for each in target.reserved_name)};"

    # -- enums and services ------------------------------------------------------------------------------------------

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}enum {enum.name} {{"
        inner = indent + "  "
        yield from (f"{inner}option {each};" for each in self._options(enum.options))
        yield from self._reserved(enum, inner, 0, ENUM_NUMBER_MAX)
        for value in enum.value:
            yield f"{inner}{value.name} = {value.number}{_listed(self._options(value.options))};"
        yield f"{indent}}}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from (f"  option {each};" for each in self._options(service.options))
        for method in service.method:
            asked = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = list(self._options(method.options))
            head = f"  rpc {method.name}({asked}) returns ({answered})"
            if options:
                yield head + " {"
                yield from (f"    option {each};" for each in options)
                yield "  }"
            else:
                yield head + ";"
        yield "}"

    # -- options -----------------------------------------------------------------------------------------------------

    def _options(self, options: Any, without: tuple[str, ...] = ()) -> list[str]:
        made = []
        for field, value in options.ListFields():
            if field.name == "uninterpreted_option":
                made += [f"{_option_name(each)} = {_option_value(each)}" for each in value]
            elif field.name not in without and not field.is_repeated and field.message_type is None:
                made.append(f"{field.name} = {_known_value(field, value)}")
        return sorted(made) if self._is_normalized else made


def _listed(options: Iterable[str]) -> str:
    made = ", ".join(options)
    return f" [{made}]" if made else ""


def _type(field: Any) -> str:
    return TYPE_NAMES.get(field.type, "") if not field.type_name else field.type_name


def _range(start: int, end: int, limit: int) -> str:
    return str(start) if start == end else f"{start} to {'max' if end >= limit else end}"


def _json_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _known_value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value.encode()) if isinstance(value, str) else str(value)


def _option_name(option: Any) -> str:
    return ".".join(f"({each.name_part})" if each.is_extension else each.name_part for each in option.name)


def _option_value(option: Any) -> str:
    for name, value in ((field.name, value) for field, value in option.ListFields() if field.name != "name"):
        if name == "string_value":
            return quoted(value)
        if name == "aggregate_value":
            return f"{{ {value} }}"
        return str(value)
    return '""'
