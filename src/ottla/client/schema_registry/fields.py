"""The fields of a Python type, whatever made it: a dataclass, a pydantic model or a msgspec struct.

1. Neither pydantic nor msgspec is imported: a type of theirs can only be here when they are.
2. Names are those under which values are written: pydantic's aliases and msgspec's renames count.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Final, get_type_hints

from ottla.light_dataclasses import is_dataclass as is_light
from ottla.light_tuples import NamedTuple

MISSING: Final = object()


class TypeField(NamedTuple):
    """`default` is MISSING where there is none; a factory's is what it makes."""

    name: str
    attribute: str
    hint: Any
    default: Any = MISSING


def is_pydantic(kind: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def is_msgspec(kind: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_record(kind: Any) -> bool:
    """Whether a type has fields."""
    if not isinstance(kind, type):
        return False
    return dataclasses.is_dataclass(kind) or is_light(kind) or is_pydantic(kind) or is_msgspec(kind)


def fields_of(kind: type) -> list[TypeField]:
    if is_pydantic(kind):
        return _pydantic_fields(kind)
    if is_msgspec(kind):
        return _msgspec_fields(kind)
    hints = get_type_hints(kind, include_extras=True)
    return [
        TypeField(
            each.name, each.name, hints[each.name], _default(each.default, each.default_factory, dataclasses.MISSING)
        )
        for each in dataclasses.fields(kind)
        if each.init
    ]


def _default(value: Any, factory: Any, missing: Any) -> Any:
    if value is not missing:
        return value
    return MISSING if factory is missing else factory()


def _pydantic_fields(kind: Any) -> list[TypeField]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        TypeField(
            each.serialization_alias or each.alias or name,
            name,
            hints.get(name, each.annotation),
            MISSING if each.is_required() else each.get_default(call_default_factory=True),
        )
        for name, each in kind.model_fields.items()
    ]


def _msgspec_fields(kind: Any) -> list[TypeField]:
    msgspec = sys.modules["msgspec"]
    return [
        TypeField(
            each.encode_name, each.name, each.type, _default(each.default, each.default_factory, msgspec.NODEFAULT)
        )
        for each in msgspec.structs.fields(kind)
    ]
