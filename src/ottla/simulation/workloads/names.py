"""The names of all workloads, and how a seed draws some of them."""

from __future__ import annotations

from random import Random
from typing import Final

GROUPS: Final = ("group-eager", "group-cooperative", "group-consumer")
CLEANED: Final = ("compact", "retention", "cut")
LOADS: Final = ("numbers", "follow", *GROUPS, "transfers", "copy", "churn", "moves", *CLEANED)
ALWAYS: Final = ("numbers", "follow")
CHANCE: Final = 0.25


def drawn_loads(random: Random) -> tuple[str, ...]:
    """Numbers and their reader always run; of the others few at a time, so that a run is quick and its story short."""
    return tuple(name for name in LOADS if name in ALWAYS or random.random() < CHANCE)
