"""A .proto file to the descriptor that protobuf's own library works with.

1. The grammar is that of proto2 and proto3: messages, enums, oneofs, maps, extensions, services, options, reserved
   names and numbers. Groups and editions are refused in words.
2. Names of types stay as they are written; the library resolves them, and says what is wrong with numbers and names.
3. Options that the library knows are set; those of one's own are kept uninterpreted, as protoc would before linking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.schemas.model import InvalidSchema
from ottla.schemas.protobuf.options import Options
from ottla.schemas.protobuf.reading import Reading

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

SCALARS: Final = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "fixed64": 6,
    "fixed32": 7,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
    "sfixed32": 15,
    "sfixed64": 16,
    "sint32": 17,
    "sint64": 18,
}
LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}
FIELD_NUMBER_MAX: Final = 536_870_911
ENUM_NUMBER_MAX: Final = 2_147_483_647
DEPTH_MAX: Final = 64


def parse_proto(text: str, name: str) -> FileDescriptorProto:
    """The file; InvalidSchema says where it is not one."""
    return _Parser(Reading(text), name).file()


class _Parser:
    def __init__(self, reading: Reading, name: str) -> None:
        from google.protobuf import descriptor_pb2

        self._pb = descriptor_pb2
        self._read = reading
        self._options = Options(reading)
        self._file = descriptor_pb2.FileDescriptorProto(name=name)
        self._depth = 0

    def file(self) -> FileDescriptorProto:
        statements: dict[str, Callable[[], None]] = {
            "syntax": self._syntax,
            "edition": self._edition,
            "package": self._package,
            "import": self._import,
            "option": lambda: self._options.statement(self._file.options),
            "message": lambda: self._message(self._file.message_type.add()),
            "enum": lambda: self._enum(self._file.enum_type.add()),
            "service": self._service,
            "extend": lambda: self._extend(self._file.extension),
        }
        while not self._read.is_at_end:
            if self._read.takes(";"):
                continue
            word = self._read.name()
            if word not in statements:
                raise self._read.problem(f"{word} is no statement of a file")
            statements[word]()
        return self._file

    def _syntax(self) -> None:
        self._read.expect("=")
        syntax = self._read.string()
        if syntax not in ("proto2", "proto3"):
            raise self._read.problem(f"syntax {syntax!r} is not known; there are proto2 and proto3")
        if syntax == "proto3":
            self._file.syntax = syntax
        self._read.expect(";")

    def _edition(self) -> None:
        raise self._read.problem("editions are not supported; write proto2 or proto3")

    def _package(self) -> None:
        self._file.package = self._read.full_name()
        self._read.expect(";")

    def _import(self) -> None:
        kind = self._read.name() if self._read.peek() in ("public", "weak") else ""
        self._file.dependency.append(self._read.string())
        if kind == "public":
            self._file.public_dependency.append(len(self._file.dependency) - 1)
        elif kind == "weak":
            self._file.weak_dependency.append(len(self._file.dependency) - 1)
        self._read.expect(";")

    # -- messages ----------------------------------------------------------------------------------------------------

    def _message(self, message: DescriptorProto) -> None:
        message.name = self._read.name()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._read.problem(f"messages are nested more than {DEPTH_MAX} deep")
        self._read.expect("{")
        while not self._read.takes("}"):
            self._message_statement(message)
        self._depth -= 1
        self._add_presence_of_optionals(message)

    def _message_statement(self, message: DescriptorProto) -> None:
        if self._read.takes(";"):
            return
        statements: dict[str, Callable[[], object]] = {
            "message": lambda: self._message(message.nested_type.add()),
            "enum": lambda: self._enum(message.enum_type.add()),
            "oneof": lambda: self._oneof(message),
            "extend": lambda: self._extend(message.extension),
            "option": lambda: self._options.statement(message.options),
            "reserved": lambda: self._reserved(message, is_enum=False),
            "extensions": lambda: self._extensions(message),
            "map": lambda: self._map(message),
        }
        word = self._read.peek()
        if not word:
            self._read.next()  # raises: there is no more
        # A type may be called like a statement: then a name follows, not what the statement begins with.
        if word in statements and self._read.begins_statement(word):
            self._read.name()
            statements[word]()
        else:
            self._field(message.field.add(), self._file.syntax == "proto3")

    def _field(self, field: Any, is_proto3: bool, *, in_oneof: bool = False) -> None:
        word = self._read.peek()
        if word in LABELS and not in_oneof:
            field.label = LABELS[self._read.name()]
            field.proto3_optional = is_proto3 and word == "optional"
            if not field.proto3_optional:
                field.ClearField("proto3_optional")
        elif is_proto3 or in_oneof:
            field.label = LABELS["optional"]
        else:
            raise self._read.problem("a field of proto2 is optional, required or repeated")
        if self._read.peek() == "group":
            raise self._read.problem("groups are not supported; use a message")
        self._type(field)
        field.name = self._read.name()
        self._read.expect("=")
        field.number = self._read.number(FIELD_NUMBER_MAX)
        self._options.of_field(field)
        self._read.expect(";")

    def _type(self, field: Any) -> None:
        name = self._read.full_name(may_be_absolute=True)
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _map(self, message: DescriptorProto) -> None:
        field = message.field.add(label=LABELS["repeated"])
        self._read.expect("<")
        entry = message.nested_type.add()
        entry.options.map_entry = True
        key = entry.field.add(name="key", number=1, label=LABELS["optional"])
        self._type(key)
        self._read.expect(",")
        value = entry.field.add(name="value", number=2, label=LABELS["optional"])
        self._type(value)
        self._read.expect(">")
        field.name = self._read.name()
        entry.name = map_entry_name(field.name)
        field.type, field.type_name = 11, entry.name
        self._read.expect("=")
        field.number = self._read.number(FIELD_NUMBER_MAX)
        self._options.of_field(field)
        self._read.expect(";")

    def _oneof(self, message: DescriptorProto) -> None:
        oneof, index = message.oneof_decl.add(name=self._read.name()), len(message.oneof_decl) - 1
        self._read.expect("{")
        while not self._read.takes("}"):
            if self._read.takes(";"):
                continue
            if self._read.peek() == "option":
                self._read.name()
                self._options.statement(oneof.options)
            else:
                self._field(message.field.add(oneof_index=index), self._file.syntax == "proto3", in_oneof=True)

    def _add_presence_of_optionals(self, message: DescriptorProto) -> None:
        """An optional field of proto3 stands in a oneof of its own, behind all others."""
        for field in message.field:
            if field.proto3_optional:
                message.oneof_decl.add(name=f"_{field.name}")
                field.oneof_index = len(message.oneof_decl) - 1

    def _extend(self, fields: Any) -> None:
        extendee = self._read.full_name(may_be_absolute=True)
        self._read.expect("{")
        while not self._read.takes("}"):
            if not self._read.takes(";"):
                self._field(fields.add(extendee=extendee), self._file.syntax == "proto3")

    def _extensions(self, message: DescriptorProto) -> None:
        while True:
            start, end = self._read.number_range(FIELD_NUMBER_MAX)
            message.extension_range.add(start=start, end=end + 1)
            if not self._read.takes(","):
                break
        self._options.skip_list()
        self._read.expect(";")

    def _reserved(self, target: Any, *, is_enum: bool) -> None:
        limit = ENUM_NUMBER_MAX if is_enum else FIELD_NUMBER_MAX
        while True:
            if self._read.is_at_string:
                target.reserved_name.append(self._read.string())
            else:
                start, end = self._read.number_range(limit, may_be_negative=is_enum)
                target.reserved_range.add(start=start, end=end if is_enum else end + 1)
            if not self._read.takes(","):
                break
        self._read.expect(";")

    # -- enums and services ------------------------------------------------------------------------------------------

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._read.name()
        self._read.expect("{")
        while not self._read.takes("}"):
            if self._read.takes(";"):
                continue
            word = self._read.name()
            if word == "option" and self._read.peek() != "=":
                self._options.statement(enum.options)
            elif word == "reserved" and self._read.peek() != "=":
                self._reserved(enum, is_enum=True)
            else:
                self._read.expect("=")
                value = enum.value.add(name=word, number=self._read.number(ENUM_NUMBER_MAX, may_be_negative=True))
                self._options.of_value(value.options)
                self._read.expect(";")

    def _service(self) -> None:
        service = self._file.service.add(name=self._read.name())
        self._read.expect("{")
        while not self._read.takes("}"):
            if self._read.takes(";"):
                continue
            word = self._read.name()
            if word == "option":
                self._options.statement(service.options)
            elif word == "rpc":
                self._method(service.method.add())
            else:
                raise self._read.problem(f"{word} is no statement of a service")

    def _method(self, method: Any) -> None:
        method.name = self._read.name()
        for stream, kind in (("client_streaming", "input_type"), ("server_streaming", "output_type")):
            self._read.expect("(")
            if self._read.peek() == "stream" and self._read.peek(1) != ")":
                self._read.name()
                setattr(method, stream, True)
            setattr(method, kind, self._read.full_name(may_be_absolute=True))
            self._read.expect(")")
            if kind == "input_type" and self._read.name() != "returns":
                raise self._read.problem("a method returns something")
        if self._read.takes("{"):
            while not self._read.takes("}"):
                if not self._read.takes(";"):
                    if self._read.name() != "option":
                        raise self._read.problem("a method has options only")
                    self._options.statement(method.options)
        else:
            self._read.expect(";")


def map_entry_name(field: str) -> str:
    """The message behind a map field, as protoc names it."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


__all__ = ["InvalidSchema", "map_entry_name", "parse_proto"]
