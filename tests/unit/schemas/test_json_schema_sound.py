"""What our rules let pass is sound: a value that the old schema accepted is accepted by the new one.

Schemas are made at random from a seed, two that resemble each other are compared, and where our rules say that the
second reads what the first wrote, jsonschema is asked about every value of a small world. The other direction is not
asked: rules that can be computed refuse some pairs that would do.

One thing is left to whoever writes schemas, as in Confluent's registry: that the choices of a oneOf exclude each other.
So the new schema is judged with anyOf in the place of oneOf.
"""

import json
import random

import pytest

pytest.importorskip("jsonschema")
from jsonschema.validators import Draft7Validator, Draft202012Validator
from tests.unit.schemas.steps import steps

from ottla.schemas.json_schema.format import JsonSchemaFormat

JSON = JsonSchemaFormat()
MODERN = "https://json-schema.org/draft/2020-12/schema"
NAMES = ("a", "b", "s_c")
LEAVES = (None, True, 0, 1, 2, 4, 1.5, -1, "", "a", "ab", "abc")
PAIRS = 150
PAIRS_LONG = 60_000


def values():
    """A world that is small enough to be asked about whole."""
    yield from LEAVES
    yield from ([], [0], ["a"], [0, "a"], [0, 0], [1.5, 2], [0, "a", None], [{}], [{"a": 1}])
    for one in LEAVES[1:8:2]:
        for other in (1, "ab", {"a": 1}):
            yield from ({"a": one}, {"b": other}, {"a": one, "b": other}, {"s_c": other, "a": one}, {"a": other})
    yield from ({}, {"a": {"b": 1}}, {"a": {"b": "a"}}, {"a": {"a": 1, "b": 2}}, {"a": 1, "b": 2, "s_c": 3})


VALUES = list(values())


class Schemas:
    """Makes schemas, and others that differ a little."""

    def __init__(self, seed, is_modern):
        self.random = random.Random(seed)
        self.is_modern = is_modern
        self.has_refs = True

    def schema(self, depth=2):
        if self.random.random() < 0.08:
            return self.random.choice([True, {}])
        kinds = [self.plain, self.string, self.number] + [self.object, self.object, self.array, self.combined] * (
            depth > 0
        )
        return self.random.choice(kinds)(depth)

    def plain(self, depth):
        kinds = ["null", "boolean", "integer", "number", "string", "object", "array"]
        return self.random.choice([
            {"type": self.random.choice(kinds)},
            {"type": self.random.sample(kinds, 2)},
            {"enum": self.random.sample(LEAVES, self.random.randint(1, 3))},
            {"const": self.random.choice(LEAVES)},
            {"not": self.schema(0) if depth else {"type": "string"}},
        ])  # fmt: skip

    def string(self, depth):
        return self.some({"type": "string"}, {"minLength": self.small(), "maxLength": self.small(), "pattern": "a"})

    def number(self, depth):
        limits = {"minimum": self.small(), "maximum": self.small(), "exclusiveMinimum": self.small(),
                  "multipleOf": self.random.choice([1, 2, 4])}  # fmt: skip
        return self.some({"type": self.random.choice(["integer", "number"])}, limits)

    def object(self, depth):
        part = self.schema(depth - 1)
        rest = {
            "properties": {
                name: self.schema(depth - 1) for name in self.random.sample(NAMES, self.random.randint(0, 2))
            },
            "required": self.random.sample(NAMES, self.random.randint(0, 2)),
            "additionalProperties": self.random.choice([False, True, part]),
            "patternProperties": {"^s_": self.schema(depth - 1)},
            "minProperties": self.small(),
            "maxProperties": self.small(),
            "dependencies": {"a": self.random.choice([["b"], part])},
        }
        if self.is_modern:
            rest["unevaluatedProperties"] = self.random.choice([False, part])
        return self.some({"type": "object"}, rest)

    def array(self, depth):
        part = self.schema(depth - 1)
        places = [self.schema(depth - 1) for _ in range(self.random.randint(1, 2))]
        rest = {"minItems": self.small(), "maxItems": self.small(), "uniqueItems": True}
        if self.is_modern:
            rest |= {"prefixItems": places, "items": self.random.choice([False, part]), "unevaluatedItems": part}
        else:
            rest |= {"items": self.random.choice([part, places]), "additionalItems": self.random.choice([False, part])}
        return self.some({"type": "array"}, rest)

    def combined(self, depth):
        word = self.random.choice(["allOf", "anyOf", "oneOf"])
        made = {word: [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]}
        beside = self.schema(depth - 1) if self.random.random() < 0.4 else {}
        if self.has_refs and self.random.random() < 0.2:
            made["$ref"] = "#/definitions/t"
        return made | (beside if isinstance(beside, dict) else {})

    def small(self):
        return self.random.randint(0, 3)

    def some(self, always, maybe):
        """What stands there always but for one time in eight, and a third of the rest."""
        made = dict(always) if self.random.random() < 0.88 else {}
        return made | {name: each for name, each in maybe.items() if self.random.random() < 0.35}

    def changed(self, schema):
        """The same with a part that is another: what has changed little may fit."""
        if not isinstance(schema, dict) or self.random.random() < 0.25:
            return self.schema(1)
        made = dict(schema)
        for name in self.random.sample(sorted(made), min(len(made), self.random.choice([1, 1, 2]))):
            made |= self.changed_word(name, made.pop(name))
        if self.random.random() < 0.2:
            more = self.schema(1)
            made |= {} if not isinstance(more, dict) else dict(list(more.items())[:1])
        return made

    def changed_word(self, name, value):
        if self.random.random() < 0.4 or name == "$ref":
            return {}
        if name == "dependencies":
            return {name: {"a": self.schema(0)}}
        if name in ("properties", "patternProperties"):
            return {name: {key: self.changed(each) for key, each in value.items() if self.random.random() < 0.8}}
        if name in ("allOf", "anyOf", "oneOf", "prefixItems") or (name == "items" and isinstance(value, list)):
            kept = [self.changed(each) if self.random.random() < 0.4 else each for each in value]
            return {name: (kept + [self.schema(0)] * self.small())[: self.random.randint(1, 4)]}
        if name in ("allOf", "anyOf", "oneOf") and self.random.random() < 0.5:
            return {self.random.choice(["allOf", "anyOf", "oneOf"]): value}
        if isinstance(value, bool) or name == "pattern":
            return {}
        if isinstance(value, int):
            return {name: self.small() + (name == "multipleOf")}
        if isinstance(value, dict):
            return {name: self.schema(0) if name == "not" else self.changed(value)}
        return {name: value}

    def whole(self, schema):
        """With what a $ref can lead to."""
        made = dict(schema) if isinstance(schema, dict) else {}
        self.has_refs = False  # what a $ref leads to has none, so that no schema is inside itself
        target = self.schema(1)
        self.has_refs = True
        return made | {"definitions": {"t": target}} | ({"$schema": MODERN} if self.is_modern else {})


def with_any(value):
    """The same with anyOf for oneOf."""
    if isinstance(value, list):
        return [with_any(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_any(each) for name, each in value.items()}
    choices = made.pop("oneOf", None)
    if choices is not None:
        made["allOf"] = [*made.get("allOf", ()), {"anyOf": choices}]
    return made


def unsound(seed):
    """A value that was accepted and is not, where our rules say that all is well; and whether they said so."""
    is_modern = seed % 2 == 1
    making = Schemas(seed, is_modern)
    old = making.whole(making.schema())
    new = making.whole(making.changed(old)) if making.random.random() < 0.9 else making.whole(old)
    if making.random.random() < 0.8:
        new["definitions"] = old["definitions"]
    if JSON.problems(*(JSON.parse(json.dumps(each), {}) for each in (new, old)), steps()):
        return False, None
    judge = Draft202012Validator if is_modern else Draft7Validator
    accepted, before = judge(with_any(new)).is_valid, judge(old).is_valid
    try:
        broken = [(value, old, new) for value in VALUES if before(value) and not accepted(value)]
    except TypeError:
        return False, None  # jsonschema itself stumbles over additionalItems beside items that are true
    return True, broken[0] if broken else None


def check(seeds):
    fitting = 0
    for seed in seeds:
        is_fitting, broken = unsound(seed)
        assert broken is None, f"seed {seed}: {broken[0]!r} was accepted by {broken[1]} and is not by {broken[2]}"
        fitting += is_fitting
    return fitting


def test_what_passes_is_accepted():
    assert check(range(PAIRS)) > PAIRS // 20


@pytest.mark.long
def test_what_passes_is_accepted_in_many_pairs():
    assert check(range(PAIRS, PAIRS_LONG)) > PAIRS_LONG // 20
