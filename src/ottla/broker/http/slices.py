"""JSON that is written a slice at a time, so that a long list keeps nobody waiting.

An object's members and a list's items are written one after the other; what is small is written at once. After
SLICE_ITEMS items the next slice begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.broker.http.parts import Json

SLICE_ITEMS: Final = 200

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def slices(value: Json) -> Iterator[bytes]:
    """The text of a value. Lists are cut where they are the value itself, or a member of the outermost object."""
    if isinstance(value, Mapping) and any(_is_long(each) for each in value.values()):
        before = "{"
        for name, each in value.items():
            yield (before + _encode(name) + ":").encode()
            yield from slices(each) if _is_long(each) else [_encode(each).encode()]
            before = ","
        yield b"}"
    elif _is_long(value) and isinstance(value, Sequence):
        before = "["
        for start in range(0, len(value), SLICE_ITEMS):
            yield (before + _encode(value[start : start + SLICE_ITEMS])[1:-1]).encode()
            before = ","
        yield b"]"
    else:
        yield _encode(value).encode()


def _is_long(value: Json) -> bool:
    return isinstance(value, list | tuple) and len(value) > SLICE_ITEMS
