"""JSON files that name partitions, as several of Kafka's tools read them: {"partitions": [{"topic": "t", ...}]}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ottla.cli.kafka.ends import fail


def read_json(path: str) -> Any:
    """What a JSON file says; None when it is no JSON; a file that cannot be read ends the command."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        fail(f"{path}\nThere is no such file.")  # Apache's say the path alone
    except OSError as error:
        fail(f"{path} ({error.strerror})")
    except ValueError:
        return None


def checked_version(data: Any) -> dict[str, Any]:
    """The object of a file of version 1; ValueError says in Java's words what is wrong with it."""
    if data is None:
        raise ValueError("The input string is not a valid JSON")
    version = field_of(data, "version", int) if isinstance(data, dict) and "version" in data else 1
    if version != 1:
        raise ValueError(f"Not supported version field value {version}")
    return data if isinstance(data, dict) else {}


def field_of(entry: Any, name: str, kind: type) -> Any:
    """A field of an object; ValueError says in Java's words what is wrong with it."""
    if not isinstance(entry, dict):
        raise ValueError(f"Expected JSON object, received {json.dumps(entry)}")
    if name not in entry:
        raise ValueError(f"No such field exists: `{name}`")
    found = entry[name]
    if not isinstance(found, kind) or isinstance(found, bool):
        expected = {int: "Int", str: "String", list: "array"}.get(kind, kind.__name__)
        raise ValueError(f"Expected `{expected}` value, received {json.dumps(found)}")
    return found
