"""The names of all workloads, and how a seed draws some of them."""

from __future__ import annotations

from random import Random
from typing import Final

GROUPS: Final = ("group-eager", "group-cooperative", "group-consumer")
CLEANED: Final = ("compact", "retention", "cut")
LOADS: Final = ("numbers", "follow", *GROUPS, "transfers", "copy", "churn", "moves", *CLEANED)
# Drawn apart from the others: seeds that became tests keep what they had drawn.
LATER: Final = ("spark-sink", "share-group")
ALL_LOADS: Final = (*LOADS, *LATER)
UPGRADE: Final = "upgrade"  # of clusters under controllers only
LATER_PART: Final = 1 / 12  # of all seeds, for each of them
ALWAYS: Final = ("numbers", "follow")
COUNTS: Final = (0, 1, 1, 1, 2, 2, 3)  # of workloads beside those that always run


def drawn_loads(random: Random) -> tuple[str, ...]:
    """Numbers and their reader always run; of the others few at a time, so that a run is quick and its story short."""
    others = [name for name in LOADS if name not in ALWAYS]
    chosen = random.sample(others, random.choice(COUNTS))
    return tuple(name for name in LOADS if name in ALWAYS or name in chosen)


def later_loads(seed: int) -> tuple[str, ...]:
    """What the seed has beside them, or, in short runs, instead of one of them."""
    random = Random(f"later loads {seed}")
    return tuple(name for name in LATER if random.random() < LATER_PART)
