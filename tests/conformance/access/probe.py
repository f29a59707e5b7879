"""One request of the matrix, and the topics that most of them name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.access.building import API_OF_NAME
from tests.conformance.access.rules import GHOST, HIDDEN, OPEN, SHUT

TOPICS = (OPEN, SHUT, GHOST, HIDDEN)


@dataclass(frozen=True)
class Probe:
    """One request; `since` and `until` are the versions that can say it."""

    api: str
    name: str
    values: Mapping[str, Any]
    since: int = 0
    until: int = 99
    restores: bool = False

    @property
    def versions(self) -> range:
        advertised = API_OF_NAME[self.api].advertised
        return range(max(self.since, advertised.min), min(self.until, advertised.max) + 1)
