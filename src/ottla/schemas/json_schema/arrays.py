"""Items of arrays: one schema for all, or one for each place (items as a list, prefixItems) and one for the rest.

As with objects: in an open list (nothing is said about the rest) a place cannot get a type of its own, and can lose it;
in a closed one it is the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.light_tuples import NamedTuple
from ottla.schemas.model import Problem

if TYPE_CHECKING:
    from ottla.schemas.json_schema.compatibility import Comparison
    from ottla.schemas.json_schema.nodes import Node


class _Items(NamedTuple):
    """The schemas of the first places, and that of the rest: True is anything, False is that there is none."""

    places: list[Any]
    rest: Any


def _items(node: Node) -> _Items:
    rest = node.get("unevaluatedItems", True)
    if isinstance(node.get("prefixItems"), list):
        return _Items(node.get("prefixItems"), node.get("items", rest))
    if isinstance(node.get("items"), list):
        return _Items(node.get("items"), node.get("additionalItems", rest))
    return _Items([], node.get("items", rest))


def compare_arrays(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    if reader.get("uniqueItems") and not writer.get("uniqueItems"):
        yield Problem("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items must be unique now")
    new, old = _items(reader), _items(writer)
    for index in range(max(len(new.places), len(old.places))):
        yield from _place(comparison, reader, writer, (new, old), index, f"{path}/items/{index}")
    if old.rest is False or new.rest is True:
        return
    if new.rest is False:
        yield Problem("ADDITIONAL_ITEMS_REMOVED", f"{path}/additionalItems", "there may be no more items")
    elif old.rest is True:
        yield Problem("ADDITIONAL_ITEMS_NARROWED", f"{path}/items", "not all items are accepted any more")
    else:
        yield from comparison.compare(reader.of(new.rest), writer.of(old.rest), f"{path}/items")


def _place(
    comparison: Comparison, reader: Node, writer: Node, both: tuple[_Items, _Items], index: int, path: str
) -> Iterator[Problem]:
    new, old = both
    wanted = new.places[index] if index < len(new.places) else new.rest
    written = old.places[index] if index < len(old.places) else old.rest
    if written is False or wanted is True:
        return
    if wanted is False:
        yield Problem("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, "there may be no item here any more")
    elif written is True and index >= len(old.places):
        yield Problem("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path, "anything may have been written here")
    else:
        yield from comparison.compare(reader.of(wanted), writer.of(written), path)
