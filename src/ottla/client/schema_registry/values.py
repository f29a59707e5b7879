"""Values of Python types as plain ones, which encoders write, and back.

    to_plain(Click("ada"))                       {"user": "ada"}
    from_plain(Click, {"user": "ada"})           Click("ada")

1. For JSON (`is_json`) a pydantic model and a msgspec struct know it themselves, with their own checks; dataclasses are
   done here: times, UUIDs and decimals are text, an enum is its value.
2. For Avro all are done here: times, UUIDs and decimals stay what they are, fastavro writes them; an enum is its name.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import sys
import types
import uuid
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ottla.client.schema_registry.fields import MISSING, fields_of, is_msgspec, is_pydantic, is_record


def to_plain(value: Any, *, is_json: bool = False) -> Any:
    kind = type(value)
    if is_json and is_pydantic(kind):
        return value.model_dump(mode="json", by_alias=True)
    if is_json and is_msgspec(kind):
        return sys.modules["msgspec"].to_builtins(value)
    if is_record(kind):
        return {each.name: to_plain(getattr(value, each.attribute), is_json=is_json) for each in fields_of(kind)}
    if isinstance(value, enum.Enum):
        return value.value if is_json else value.name
    if isinstance(value, dict):
        return {key: to_plain(each, is_json=is_json) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(each, is_json=is_json) for each in value]
    return _json_value(value) if is_json else value


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def from_plain(kind: Any, value: Any, *, is_json: bool = False) -> Any:
    """A value of this type; what does not fit raises TypeError or ValueError, or what the type's library raises."""
    if is_json and is_pydantic(kind):
        return kind.model_validate(value)
    if is_json and is_msgspec(kind):
        return sys.modules["msgspec"].convert(value, kind, strict=False)
    if is_record(kind):
        return _record(kind, value, is_json)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return from_plain(arguments[0], value, is_json=is_json)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, is_json)
    if origin in (list, tuple, set, frozenset):
        return origin(from_plain(arguments[0], each, is_json=is_json) for each in value)
    if origin is dict:
        return {key: from_plain(arguments[1], each, is_json=is_json) for key, each in value.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value) if is_json else kind[value]
    return _scalar(kind, value, is_json)


def _record(kind: Any, value: Any, is_json: bool) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
    by_name = {}
    for each in fields_of(kind):
        if each.name in value:
            # pydantic takes values by the names under which they are written, the others by their attributes.
            name = each.name if is_pydantic(kind) else each.attribute
            by_name[name] = from_plain(each.hint, value[each.name], is_json=is_json)
        elif each.default is MISSING:
            raise ValueError(f"{kind.__name__} needs {each.name}")
    return kind.model_validate(by_name) if is_pydantic(kind) else kind(**by_name)


def _one_of(kinds: tuple[Any, ...], value: Any, is_json: bool) -> Any:
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return from_plain(kind, value, is_json=is_json)
        except (TypeError, ValueError, KeyError):
            continue
    raise TypeError(f"{type(value).__name__} is none of {', '.join(str(each) for each in kinds)}")


def _scalar(kind: Any, value: Any, is_json: bool) -> Any:
    if kind is Any or get_origin(kind) is Literal:
        return value
    if is_json and isinstance(value, str):
        if kind in (datetime.datetime, datetime.date, datetime.time):
            return kind.fromisoformat(value)
        if kind in (uuid.UUID, decimal.Decimal):
            return kind(value)
        if kind is bytes:
            return base64.b64decode(value)
    if kind is float and isinstance(value, int):
        return float(value)
    if isinstance(kind, type) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
    return value
