"""Amounts of bytes and plain numbers as people write them.

1048576      1MB = 1,000,000 bytes      1MiB = 1,048,576 bytes      500kB/s      1.5GB

Units of a thousand end with B, units of 1024 with iB; a lone M is refused, because people mean both by it.
"""

from __future__ import annotations

import math
import re
from typing import Final

_UNITS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1_000**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1_024**power for power, letter in enumerate("kmgt", start=1)},
}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*)(?:/s)?")


def bytes_of(text: str) -> float:
    """A number of bytes; ValueError says how to write one."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError("write bytes as 1048576, 500kB, 1MB (a million) or 1MiB (1,048,576)")
    return float(found[1]) * _UNITS[found[2]]


def number_of(text: str) -> float:
    """A number that is not below zero; ValueError says how to write one."""
    try:
        number = float(text.strip().removesuffix("%").removesuffix("/s"))
    except ValueError:
        raise ValueError("write a number, such as 10 or 0.5") from None
    if not math.isfinite(number) or number < 0:
        raise ValueError("write a number that is not below zero")
    return number


def written(amount: float) -> str:
    """A number without needless decimals, and with commas."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,}"
