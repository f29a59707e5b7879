"""Which confluent-kafka this package stands in for: programs compare these numbers. `ottla.__version__` is ours."""

from __future__ import annotations

from typing import Final

CONFLUENT_KAFKA: Final = "2.16.1"
LIBRDKAFKA: Final = "2.16.0"


def version() -> str:
    """The version of confluent-kafka whose names are here."""
    return CONFLUENT_KAFKA


def libversion() -> tuple[str, int]:
    """Text and number of the librdkafka that belongs to it."""
    major, minor, patch = (int(part) for part in LIBRDKAFKA.split("."))
    return LIBRDKAFKA, major << 24 | minor << 16 | patch << 8 | 0xFF
