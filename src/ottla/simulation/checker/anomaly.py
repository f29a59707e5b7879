"""Something that must not be."""

from __future__ import annotations

from ottla.light_tuples import NamedTuple


class Anomaly(NamedTuple):
    """Its name, and what was seen."""

    name: str
    story: str

    def __str__(self) -> str:
        return f"{self.name}: {self.story}"
