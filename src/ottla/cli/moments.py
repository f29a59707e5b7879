"""Times as people write them on a command line.

2026-11-01T12:30:00Z    2026-11-01T12:30    2026-11-01        a date without a zone is in local time
1767225600000                                                  milliseconds since 1970
-90s  -15m  -2h  -7d                                           so long ago
"""

from __future__ import annotations

import re
from typing import Final

from ottla.clock import Clock, SystemClock

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = r"-(\d+(?:\.\d+)?)(ms|s|m|h|d)"


def duration_ms(text: str) -> int:
    """A length of time such as 90s, 15m, 2h or 7d, or Java's PT2H; ValueError says how to write it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if found is not None:
        return round(float(found[1]) * _UNITS_MS[found[2]])
    java = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.strip())
    if java is not None and any(java.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in java.groups())
        return round(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)
    raise ValueError("write a length of time as 90s, 15m, 2h or 7d")


def milliseconds(text: str, clock: Clock | None = None) -> int:
    """A moment in milliseconds since 1970; ValueError says how to write one."""
    text = text.strip().removeprefix("@")
    if (ago := re.fullmatch(_AGO, text)) is not None:
        return (clock or SystemClock()).now_ms() - round(float(ago[1]) * _UNITS_MS[ago[2]])
    if text.isdigit() and len(text) > 8:
        return int(text)
    from datetime import datetime

    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise ValueError("write a time as 2026-11-01T12:30:00Z, -2h, or milliseconds since 1970") from None
