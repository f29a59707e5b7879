"""JSON as Apache's tools write it: without spaces, and names in the order of Java's HashMap where they use one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.cli.kafka.java_maps import hash_order


def hashed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields in the order of a HashMap."""
    return {name: fields[name] for name in hash_order(fields)}


def java_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
