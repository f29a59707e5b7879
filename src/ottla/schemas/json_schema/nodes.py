"""Schemas inside a JSON schema, and where a $ref leads from them.

1. Until draft 7 nothing beside a $ref counts. Since 2019-09 it does: such a schema is a product of both.
2. Since 2019-09 unevaluatedProperties and unevaluatedItems close a content model together with what stands beside them
   (allOf, $ref, ...). Whether such a schema is the same as another is decided by its text and the texts of all that it
   refers to.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

from ottla.budget import Budget
from ottla.light_dataclasses import dataclass

UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
SEEN_THROUGH: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "contains")
LOOKUP_STEPS: Final = 50  # what it costs to find what a $ref names


@dataclass(frozen=True, eq=False)
class Node:
    """A schema, who finds what it refers to, and whether it is of a draft since 2019-09."""

    value: Any
    resolver: Any
    is_modern: bool = False

    def of(self, value: Any) -> Node:
        """A schema inside this one."""
        if isinstance(value, dict) and "$id" in value:
            from referencing.jsonschema import DRAFT7, specification_with

            dialect = specification_with(value.get("$schema", ""), default=DRAFT7)
            resolver = self.resolver.in_subresource(dialect.create_resource(value))
            return Node(value, resolver, is_modern(value, self.is_modern))
        return Node(value, self.resolver, self.is_modern)

    def followed(self, budget: Budget) -> Node:
        """What a $ref leads to, for as long as there is nothing but one."""
        node, seen = self, set[str]()
        while isinstance(node.value, dict) and isinstance(ref := node.value.get("$ref"), str):
            if node.is_modern and _beside_ref(node):
                return node
            if ref in seen:
                return Node(True, node.resolver, node.is_modern)
            seen.add(ref)
            node = node.target(ref, budget)
        return node

    def target(self, ref: str, budget: Budget) -> Node:
        budget.spend(LOOKUP_STEPS + len(ref))
        found = self.resolver.lookup(ref)
        return Node(found.contents, found.resolver, is_modern(found.contents, self.is_modern))

    def get(self, name: str, default: Any = None) -> Any:
        return self.value.get(name, default) if isinstance(self.value, dict) else default


def is_modern(value: Any, default: bool = False) -> bool:
    """Whether a schema is of 2019-09 or later; one that does not say so is as the one around it."""
    dialect = value.get("$schema") if isinstance(value, dict) else None
    return "json-schema.org/draft/20" in dialect if isinstance(dialect, str) else default


def _beside_ref(node: Node) -> dict[str, Any]:
    """What counts beside a $ref."""
    from ottla.schemas.json_schema.compatibility import ANNOTATIONS

    return {name: each for name, each in node.value.items() if name != "$ref" and name not in ANNOTATIONS}


def with_ref_as_product(node: Node) -> Node:
    """The same with its $ref among the schemas of an allOf."""
    if not node.is_modern or node.get("$ref") is None:
        return node
    return Node({"allOf": [{"$ref": node.value["$ref"]}, _beside_ref(node)]}, node.resolver, True)


def sees_through(node: Node) -> bool:
    """Whether it has an unevaluated keyword whose meaning depends on what stands beside it."""
    if not isinstance(node.value, dict) or not any(node.get(name, True) not in (True, {}) for name in UNEVALUATED):
        return False
    return not node.is_modern or any(name in node.value for name in SEEN_THROUGH)


def without_unevaluated(node: Node) -> Node:
    """The same, or more than the same: without an unevaluated keyword that cannot be compared."""
    if not sees_through(node):
        return node
    rest = {name: each for name, each in node.value.items() if name not in UNEVALUATED}
    return Node(rest, node.resolver, node.is_modern)


def same_value(one: Any, other: Any, budget: Budget) -> bool:
    """Whether two values of JSON are the same one: 1 is 1.0, and neither of them is true, as deep as it may be."""
    budget.spend()
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other, repeat(budget)))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(each, other[name], budget) for name, each in one.items())
    return bool(one == other)


def is_same(one: Node, other: Node, budget: Budget) -> bool:
    """Whether two schemas, and all that they refer to, have the same text."""
    left, seen = [(one, other)], set[tuple[int, int]]()
    while left:
        one, other = left.pop()
        if (id(one.value), id(other.value)) in seen:
            continue
        if not same_value(one.value, other.value, budget) or one.is_modern != other.is_modern:
            return False
        seen.add((id(one.value), id(other.value)))
        left += [(one.target(ref, budget), other.target(ref, budget)) for ref in _refs(one.value)]
    return True


def _refs(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left.extend(each)
        elif isinstance(each, dict):
            if isinstance(each.get("$ref"), str):
                yield each["$ref"]
            left.extend(each.values())
