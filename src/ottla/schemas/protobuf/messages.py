"""Messages of a Protobuf schema as classes that read and write them, made while the program runs.

1. A file is linked in a pool of its own: schemas of two subjects may have types of the same name.
2. A record says which message it is by indexes (ottla.schemas.framing), people by a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.schemas.protobuf.format import ProtobufFormat


class NoSuchMessage(LookupError):
    """The schema has no such message."""


def linked_file(text: str, imports: Mapping[str, str]) -> Any:
    """The file that a schema describes, with those it imports; InvalidSchema when it is none."""
    from google.protobuf.descriptor_pool import DescriptorPool

    parsed = ProtobufFormat().parse(text, imports)
    pool = DescriptorPool()
    for each in (*parsed.files.values(), parsed.file):
        pool.AddSerializedFile(each.SerializeToString())
    return pool.FindFileByName(parsed.file.name)


def message_at(file: Any, indexes: Sequence[int]) -> Any:
    """The message at a place of a file, from the outside in."""
    try:
        found = list(file.message_types_by_name.values())[indexes[0]]
        for index in indexes[1:]:
            found = found.nested_types[index]
    except IndexError:
        raise NoSuchMessage(f"the schema has no message at {list(indexes)}") from None
    return found


def message_named(file: Any, name: str | None) -> Any:
    """The message of this name, full or without its package; the first one without a name."""
    if name is None:
        return message_at(file, (0,))
    for full in (name, f"{file.package}.{name}"):
        try:
            found = file.pool.FindMessageTypeByName(full)
        except KeyError:
            continue
        if found.file.name == file.name:
            return found
    raise NoSuchMessage(f"the schema has no message {name!r}; it has {', '.join(file.message_types_by_name) or 'none'}")


def indexes_of(message: Any) -> list[int]:
    """The place of a message in its file, from the outside in."""
    around = message.containing_type
    siblings = message.file.message_types_by_name.values() if around is None else around.nested_types
    index = [each.full_name for each in siblings].index(message.full_name)
    return [index] if around is None else [*indexes_of(around), index]


def class_of(message: Any) -> Any:
    """The class of a message's values."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(message)
