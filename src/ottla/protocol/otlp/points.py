"""One number of a client: which metric, about what, how much, and since when it counts."""

from __future__ import annotations

import enum

from ottla.light_tuples import NamedTuple

Attributes = tuple[tuple[str, str], ...]
"""Names and values, in order of their names."""


class Counts(enum.Enum):
    """What a number means."""

    NOW = "gauge"
    """How much there is."""
    SINCE_LAST_PUSH = "delta"
    """How much there was more since the push before."""
    SINCE_START = "cumulative"
    """How much there was since the client began."""


class Point(NamedTuple):
    name: str
    attributes: Attributes
    value: float
    counts: Counts = Counts.NOW
    time_ns: int = 0
    start_ns: int = 0
