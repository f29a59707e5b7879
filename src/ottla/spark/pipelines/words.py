"""How a word of a pipeline's file is declared: a field of a dataclass with its sentence (definition.py has them)."""

from __future__ import annotations

import dataclasses
from typing import Any


def word(
    sentence: str, default: Any = dataclasses.MISSING, *, choices: tuple[str, ...] = (), short: bool = False
) -> Any:
    """A field with its sentence; `short` means that this one value may stand for the whole mapping."""
    metadata = {"doc": sentence, "choices": choices, "short": short}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def words_of(section: type[Any]) -> list[tuple[str, str, str]]:
    """(word, default, sentence) of every field, as the file has them."""
    rows = []
    for field in dataclasses.fields(section):
        if field.default_factory is not dataclasses.MISSING or field.default is None or field.default == ():
            default = ""
        elif field.default is dataclasses.MISSING:
            default = "needed"
        else:
            default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        rows.append((field.name.rstrip("_"), default, str(field.metadata["doc"])))
    return rows
