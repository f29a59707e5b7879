"""Which version of a record is written at which level of metadata.version, as Kafka 4.3 does it.

A record at a version that came later would stop the nodes that are not upgraded yet, so this is not a matter of taste.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import OttlaError

MINIMUM: Final = 7
"""3.3-IV3, the first level of a log that we read."""
LATEST: Final = 30
"""4.3-IV0, the last one whose records we know."""

CONTROLLED_SHUTDOWN_SINCE: Final = 7
TRANSACTIONS_SINCE: Final = 13
DIRECTORIES_SINCE: Final = 17
ELR_SINCE: Final = 23
CORDONED_SINCE: Final = 30


class UnknownMetadataVersion(OttlaError):
    """The cluster's metadata.version is none that this version of Ottla knows, so it stops here and changes nothing.
    Start a version that knows it, or lower the level with kafka-features."""


def check_level(metadata_version: int) -> None:
    if not MINIMUM <= metadata_version <= LATEST:
        raise UnknownMetadataVersion(f"metadata.version {metadata_version}; known here are {MINIMUM} to {LATEST}")


def register_broker_version(metadata_version: int) -> int:
    return _newest(metadata_version, (0, CONTROLLED_SHUTDOWN_SINCE, 8, DIRECTORIES_SINCE, CORDONED_SINCE))


def partition_version(metadata_version: int) -> int:
    """Of PartitionRecord and of PartitionChangeRecord."""
    return _newest(metadata_version, (0, DIRECTORIES_SINCE, ELR_SINCE))


def _newest(metadata_version: int, since: tuple[int, ...]) -> int:
    return max(version for version, level in enumerate(since) if metadata_version >= level)
