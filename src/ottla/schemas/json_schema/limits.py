"""Limits of a JSON schema: lengths, numbers, sizes, patterns. A reader's may be wider than the writer's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.schemas.model import Problem

if TYPE_CHECKING:
    from ottla.schemas.json_schema.nodes import Node

UPPER: Final = {
    "maxLength": "MAX_LENGTH",
    "maximum": "MAXIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "maxItems": "MAX_ITEMS",
    "maxProperties": "MAX_PROPERTIES",
}
LOWER: Final = {
    "minLength": "MIN_LENGTH",
    "minimum": "MINIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "minItems": "MIN_ITEMS",
    "minProperties": "MIN_PROPERTIES",
}


def compare_limits(reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    for keyword, name in (*UPPER.items(), *LOWER.items()):
        wanted, written = reader.get(keyword), writer.get(keyword)
        if wanted is None or wanted is False or (keyword.startswith("min") and wanted == 0 and keyword != "minimum"):
            continue
        if written is None or written is False:
            yield Problem(f"{name}_ADDED", f"{path}/{keyword}", f"{keyword} is {wanted} now, and was not limited")
        elif keyword in UPPER and wanted < written:
            yield Problem(f"{name}_DECREASED", f"{path}/{keyword}", f"{keyword} is {wanted} now, and was {written}")
        elif keyword in LOWER and wanted > written:
            yield Problem(f"{name}_INCREASED", f"{path}/{keyword}", f"{keyword} is {wanted} now, and was {written}")
    yield from _pattern(reader.get("pattern"), writer.get("pattern"), path)
    yield from _multiple(reader.get("multipleOf"), writer.get("multipleOf"), path)


def _pattern(wanted: Any, written: Any, path: str) -> Iterator[Problem]:
    if wanted is not None and wanted != written:
        name = "PATTERN_ADDED" if written is None else "PATTERN_CHANGED"
        yield Problem(name, f"{path}/pattern", "another pattern is wanted than before")


def _multiple(wanted: Any, written: Any, path: str) -> Iterator[Problem]:
    if wanted is None:
        return
    if written is None:
        yield Problem("MULTIPLE_OF_ADDED", f"{path}/multipleOf", f"only multiples of {wanted} are accepted")
    elif written % wanted != 0:
        name = "MULTIPLE_OF_EXPANDED" if wanted % written == 0 else "MULTIPLE_OF_CHANGED"
        yield Problem(name, f"{path}/multipleOf", f"not all multiples of {written} are multiples of {wanted}")
