"""Where to begin reading a topic, as people write it after `-o`.

beginning   end   stored            the oldest record, behind the newest, what the group has committed
1000                                this offset, in every partition
-100                                so many records before the end, in every partition
@2026-11-01T00:00:00Z   @-2h        the first record at or after a time; kcat's s@1767225600000 too
"""

from __future__ import annotations

import enum

from ottla.cli.moments import milliseconds
from ottla.clock import Clock
from ottla.light_dataclasses import dataclass


class Kind(enum.Enum):
    """What a place is measured from."""

    BEGINNING = "beginning"
    END = "end"
    STORED = "stored"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Where:
    """A place in every partition."""

    kind: Kind
    amount: int = 0


_NAMES = {
    "beginning": Kind.BEGINNING,
    "earliest": Kind.BEGINNING,
    "start": Kind.BEGINNING,
    "end": Kind.END,
    "latest": Kind.END,
    "stored": Kind.STORED,
}


def parse_where(text: str, clock: Clock | None = None) -> Where:
    """The place that `text` names; ValueError says how to write one."""
    if text in _NAMES:
        return Where(_NAMES[text])
    if text.isdigit():
        return Where(Kind.OFFSET, int(text))
    if text.startswith("-") and text[1:].isdigit():
        return Where(Kind.BEFORE_END, int(text[1:]))
    if text.startswith(("@", "s@")):
        return Where(Kind.TIME, milliseconds(text.removeprefix("s"), clock))
    raise ValueError("write beginning, end, stored, an offset, -100 for the last hundred, or @ and a time")
