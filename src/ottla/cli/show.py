"""How values of records and of the wire are shown to people: bytes, times, durations, sizes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

SHOWN_LIMIT: Final = 120
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def shown_bytes(data: bytes | None, limit: int | None = SHOWN_LIMIT) -> str | None:
    """Text when it is text, else hexadecimal; cut with its length told when it is long."""
    if data is None:
        return None
    head = data if limit is None else data[:limit]
    try:
        text = head.decode("utf-8", errors="strict" if len(head) == len(data) else "ignore")
    except UnicodeDecodeError:
        text = "0x" + head.hex()
    return text if len(head) == len(data) else f"{text}... ({len(data)} bytes)"


def shown_time(timestamp_ms: int | None) -> str | None:
    """A time in UTC with milliseconds; None for no time."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def shown_size(size_bytes: float) -> str:
    """Bytes in the unit that reads best."""
    for unit in _UNITS[:-1]:
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} {_UNITS[-1]}"


def shown_duration(seconds: float | None) -> str | None:
    """Seconds, minutes, hours or days, whichever reads best."""
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return None
