"""Which level of metadata.version is which release of Kafka, and which levels of other features belong to it.

release_of_level(29)                "4.2-IV1"
level_of_release("4.1")             27: of several the last
levels_of_release("4.0")            {"metadata.version": 25, "kraft.version": 1, ...}
"""

from __future__ import annotations

from typing import Final

METADATA: Final = "metadata.version"
LATEST: Final = "4.3-IV0"
RELEASES: Final = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0"),
)
"""From level 7 on."""
FIRST_LEVEL: Final = 7
FEATURES: Final = {
    "kraft.version": ("3.3-IV3", "3.9-IV0"),
    "transaction.version": ("3.3-IV3", "4.0-IV2", "4.0-IV2"),
    "group.version": ("3.3-IV3", "4.0-IV0"),
    "eligible.leader.replicas.version": ("3.3-IV3", "4.1-IV0"),
    "share.version": ("3.3-IV3", "4.2-IV0"),
    "streams.version": ("3.3-IV3", "4.2-IV1"),
}
"""From which release on a new cluster has each level of a feature."""
DEPENDENCIES: Final = {("eligible.leader.replicas.version", 1): 23}
"""The level of metadata.version that a level of a feature needs."""


def release_of_level(level: int) -> str | None:
    place = level - FIRST_LEVEL
    return RELEASES[place] if 0 <= place < len(RELEASES) else None


def level_of_release(text: str) -> int:
    """The level of 4.2-IV1, 4.2 or 4.2.3; ValueError for one that does not exist."""
    wanted = ".".join(text.split(".")[:2])
    found = [
        FIRST_LEVEL + place
        for place, release in enumerate(RELEASES)
        if release == wanted or release.partition("-")[0] == wanted
    ]
    if not found:
        raise ValueError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {', '.join(RELEASES)}")
    return found[-1]


def levels_of_release(text: str) -> dict[str, int]:
    """All levels of a new cluster of that release."""
    metadata = level_of_release(text)
    found = {METADATA: metadata}
    for name, releases in FEATURES.items():
        found[name] = max(level for level, since in enumerate(releases) if level_of_release(since) <= metadata)
    return found
