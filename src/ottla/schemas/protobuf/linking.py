"""A .proto file linked with those it imports, by protobuf's own library: names are resolved, errors are its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.schemas.model import InvalidSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

FILES_MAX: Final = 1_000


def linked(
    file: FileDescriptorProto, others: Mapping[str, FileDescriptorProto]
) -> tuple[FileDescriptorProto, dict[str, FileDescriptorProto]]:
    """The file and all that it imports, with names resolved. `others` are the references, by their names."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, made = DescriptorPool(), dict[str, Any]()
    _link(pool, file, others, made, ())
    resolved = made.pop(file.name)
    return resolved, made


def _link(
    pool: Any,
    file: FileDescriptorProto,
    others: Mapping[str, FileDescriptorProto],
    made: dict[str, Any],
    around: tuple[str, ...],
) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from ottla.schemas.protobuf.format import known_file

    for name in file.dependency:
        if name in (*around, file.name):
            raise InvalidSchema(f"{name} imports itself")
        if name not in made:
            found = others.get(name) or known_file(name)
            if found is None:
                raise InvalidSchema(f"{name} is imported and not known; a schema that has it must be a reference")
            if len(made) >= FILES_MAX:
                raise InvalidSchema(f"it imports more than {FILES_MAX} files")
            _link(pool, found, others, made, (*around, file.name))
    try:
        pool.AddSerializedFile(file.SerializeToString())
        resolved = FileDescriptorProto()
        pool.FindFileByName(file.name).CopyToProto(resolved)
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidSchema(f"it cannot be linked: {str(error).strip()}") from None
    made[file.name] = resolved
