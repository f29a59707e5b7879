"""Metadata and rules of a schema that the configuration of its subject adds: a data contract, in Confluent's words.

    what is registered = defaults of the subject, under what the schema says, under what the subject overrides

1. A schema that says nothing of its metadata (or of its rules) has those of the version before it.
2. Merged metadata: properties of a name are replaced, tags of a path and names of sensitive properties are put
   together. Merged rules: a rule of the same name is replaced where it stood, another one is added.
3. `compatibilityGroup` names a property: only versions with the same value of it are compared with each other, so that
   a new value begins anew (rules of migration lead from one to the other, which is the serializers' work).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ottla.broker.registry.records import Config
from ottla.schemas.model import SchemaText

RULES: Final = ("migrationRules", "domainRules", "encodingRules")


def with_contract(schema: SchemaText, config: Config, previous: SchemaText | None) -> SchemaText:
    """The schema with what its subject adds to it."""
    said = schema.metadata or ("" if previous is None else previous.metadata)
    metadata = merged_metadata(merged_metadata(config.default_metadata, said), config.override_metadata)
    rules = schema.rule_set or ("" if previous is None else previous.rule_set)
    rule_set = merged_rules(merged_rules(config.default_rule_set, rules), config.override_rule_set)
    return SchemaText(schema.kind, schema.text, schema.references, metadata, rule_set)


def group_value(schema: SchemaText, group: str) -> object:
    """What a schema says of the property that its subject is grouped by; None where it says nothing."""
    return _object(_object(_read(schema.metadata)).get("properties")).get(group)


def merged_metadata(under: str, over: str) -> str:
    """Texts of JSON; the second one counts more."""
    if not (under and over):
        return under or over
    old, new = _read(under), _read(over)
    made: dict[str, object] = {**old, **new}
    if "properties" in old and "properties" in new:
        made["properties"] = {**_object(old["properties"]), **_object(new["properties"])}
    if "tags" in old and "tags" in new:
        paths = {**_object(old["tags"]), **_object(new["tags"])}
        made["tags"] = {path: _union(_object(old["tags"]).get(path), _object(new["tags"]).get(path)) for path in paths}
    if "sensitive" in old and "sensitive" in new:
        made["sensitive"] = _union(old["sensitive"], new["sensitive"])
    return _written(made)


def merged_rules(under: str, over: str) -> str:
    if not (under and over):
        return under or over
    old, new = _read(under), _read(over)
    made: dict[str, object] = {**old, **new}
    for kind in RULES:
        if kind in old and kind in new:
            made[kind] = _merged_by_name(_list(old[kind]), _list(new[kind]))
    return _written(made)


def _merged_by_name(old: list[object], new: list[object]) -> list[object]:
    by_name = {_object(each).get("name"): each for each in new}
    kept = [by_name.pop(_object(each).get("name"), each) for each in old]
    return [*kept, *by_name.values()]


def _union(old: object, new: object) -> list[str]:
    return sorted({str(each) for each in [*_list(old), *_list(new)]})


def _read(text: str) -> Mapping[str, object]:
    return _object(json.loads(text)) if text else {}


def _written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
