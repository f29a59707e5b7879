"""Times in the letters of Java's SimpleDateFormat: yyyy-MM-dd HH:mm:ss:SSS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

_LETTERS: Final = re.compile(r"'([^']*)'|([a-zA-Z])\2*|.", re.DOTALL)
_FORMS: Final[Mapping[str, Callable[[datetime, int], str]]] = {
    "y": lambda at, width: f"{at.year % 100:02d}" if width == 2 else f"{at.year:04d}",
    "M": lambda at, width: at.strftime("%B" if width > 3 else "%b") if width > 2 else str(at.month).zfill(width),
    "d": lambda at, width: str(at.day).zfill(width),
    "D": lambda at, width: str(at.timetuple().tm_yday).zfill(width),
    "H": lambda at, width: str(at.hour).zfill(width),
    "h": lambda at, width: str(at.hour % 12 or 12).zfill(width),
    "m": lambda at, width: str(at.minute).zfill(width),
    "s": lambda at, width: str(at.second).zfill(width),
    "S": lambda at, width: str(at.microsecond // 1000).zfill(width),
    "a": lambda at, width: "AM" if at.hour < 12 else "PM",
    "E": lambda at, width: at.strftime("%A" if width > 3 else "%a"),
    "Z": lambda at, width: at.strftime("%z"),
    "z": lambda at, width: at.strftime("%Z"),
    "X": lambda at, width: at.strftime("%z")[:3] if width == 1 else at.strftime("%z"),
}


def java_date(pattern: str, now_ms: int) -> str:
    """A time of this machine's zone; ValueError for a letter that Java does not have either, or that is not here."""
    at = datetime.fromtimestamp(now_ms / 1000).astimezone()
    parts = []
    for found in _LETTERS.finditer(pattern):
        text, letter = found[0], found[2]
        if text.startswith("'"):
            parts.append(found[1] or "'")
        elif letter is None:
            parts.append(text)
        elif letter in _FORMS:
            parts.append(_FORMS[letter](at, len(text)))
        else:
            raise ValueError(f"Illegal pattern character '{letter}'")
    return "".join(parts)
