"""Protobuf among the formats: a .proto file or, as confluent-kafka sends it, the descriptor of one in base64.

1. protobuf's own library links a file with those it imports, and says what is wrong with it.
2. A text is stored as it came, with its comments; a descriptor as the text of the same file. Two texts are the same
   schema when their words are: comments and spaces do not matter.
3. Files of google/protobuf/ are part of the library; confluent/meta.proto and confluent/type/decimal.proto are known,
   as they are in Confluent's registry. All others must be references, named as they are imported.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ottla.budget import Budget
from ottla.light_dataclasses import dataclass, field
from ottla.schemas.model import InvalidSchema, Problem, SchemaLibraryMissing
from ottla.schemas.protobuf.known_files import KNOWN_FILES
from ottla.schemas.protobuf.tokens import words_of

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

FILE_NAME: Final = "schema.proto"
LIBRARY: Final = ("google/protobuf/", "google/type/", "google/rpc/", "google/api/")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True)
class ParsedProtobuf:
    """`file` has all its names resolved; `files` are those that it imports, by their names, and theirs."""

    text: str
    is_text: bool
    file: Any
    files: Mapping[str, Any] = field(default_factory=dict)

    @property
    def serialized(self) -> str:
        """The descriptor in base64: what confluent-kafka asks for with format=serialized."""
        content: bytes = self.file.SerializeToString(deterministic=True)
        return base64.b64encode(content).decode()


class ProtobufFormat:
    def __init__(self) -> None:
        try:
            import google.protobuf  # noqa: F401
        except ImportError:
            raise SchemaLibraryMissing("protobuf reads Protobuf schemas") from None

    def parse(self, text: str, imports: Mapping[str, str]) -> ParsedProtobuf:
        from ottla.schemas.protobuf.linking import linked

        others = {name: read_file(imported, name) for name, imported in imports.items()}
        is_text = not _is_descriptor(text)
        file, files = linked(read_file(text, FILE_NAME), others)
        return ParsedProtobuf(text.strip() + "\n", is_text, file, files)

    def canonical(self, parsed: ParsedProtobuf) -> str:
        from ottla.schemas.protobuf.printer import printed

        return parsed.text if parsed.is_text else printed(parsed.file)

    def normalized(self, parsed: ParsedProtobuf) -> str:
        from ottla.schemas.protobuf.printer import printed

        return printed(parsed.file, is_normalized=True)

    def identity(self, text: str) -> str:
        return words_of(text)

    def problems(self, reader: ParsedProtobuf, writer: ParsedProtobuf, budget: Budget) -> Sequence[Problem]:
        from ottla.schemas.protobuf.compatibility import problems

        return problems((reader.file, reader.files), (writer.file, writer.files), budget)


def _is_descriptor(text: str) -> bool:
    return _BASE64.fullmatch(text.strip()) is not None


def read_file(text: str, name: str) -> FileDescriptorProto:
    """The file that a text or a descriptor in base64 says, under this name."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    from ottla.schemas.protobuf.parser import parse_proto

    if not _is_descriptor(text):
        return parse_proto(text, name)
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (DecodeError, binascii.Error, ValueError):
        raise InvalidSchema("it is neither the text of a .proto file nor a descriptor in base64") from None
    file.name = name
    return file


def known_file(name: str) -> FileDescriptorProto | None:
    """A file that everybody may import without a reference; None when it is none of those."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from ottla.schemas.protobuf.parser import parse_proto

    if name in KNOWN_FILES:
        return parse_proto(KNOWN_FILES[name], name)
    if not name.startswith(LIBRARY) or not re.fullmatch(r"[a-z0-9_/]+\.proto", name):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
