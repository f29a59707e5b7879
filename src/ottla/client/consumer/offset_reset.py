"""auto.offset.reset: where to begin when there is no position, or when the position is not in the log any more.

earliest, latest                 the first offset, or the one after the last
by_duration:PT36H                the first record of the last 36 hours; an ISO 8601 duration up to days (KIP-1106)
none                             raise NoOffsetForPartition or OffsetOutOfRange, the user decides
"""

from __future__ import annotations

import re
from typing import Final, Literal

from ottla.light_dataclasses import dataclass

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
BY_DURATION: Final = "by_duration:"

Strategy = Literal["earliest", "latest", "by_duration", "none"]

# Kafka's words and librdkafka's for the same.
_SAME: Final[dict[str, Strategy]] = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "none",
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """A strategy, and how far back it goes if it goes by time."""

    strategy: Strategy
    duration_ms: int = 0

    @property
    def decides(self) -> bool:
        """Whether the consumer may go on by itself."""
        return self.strategy != "none"

    def timestamp(self, now_ms: int) -> int:
        """What to ask ListOffsets for. `now_ms` is wall time."""
        if self.strategy == "earliest":
            return EARLIEST_TIMESTAMP
        if self.strategy == "latest":
            return LATEST_TIMESTAMP
        if self.strategy == "by_duration":
            return max(0, now_ms - self.duration_ms)
        raise ValueError("auto.offset.reset=none asks nobody; the user decides")


EARLIEST: Final = ResetPolicy("earliest")
LATEST: Final = ResetPolicy("latest")


def parse_reset(text: str) -> ResetPolicy:
    """The policy that a setting names; ValueError says what it may be."""
    plain = text.strip().lower()
    if plain in _SAME:
        return ResetPolicy(_SAME[plain])
    if plain.startswith(BY_DURATION):
        return ResetPolicy("by_duration", _duration_ms(text.strip()[len(BY_DURATION) :]))
    raise ValueError("it must be earliest, latest, none or by_duration:<ISO 8601 duration>, such as by_duration:P1D")


def reset_problem(text: str) -> str | None:
    """What is wrong with a value of auto.offset.reset, if anything."""
    try:
        parse_reset(text)
    except ValueError as error:
        return str(error)
    return None


def _duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groupdict().values()):
        raise ValueError(f"{text[:40]!r} is no ISO 8601 duration; write P1D for a day, PT90M for ninety minutes")
    whole = ((int(found["days"] or 0) * 24 + int(found["hours"] or 0)) * 60 + int(found["minutes"] or 0)) * 60_000
    return whole + int(float(found["seconds"] or 0) * 1000)
