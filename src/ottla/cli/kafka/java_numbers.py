"""Numbers as Java prints them.

java_double(10485760.0)     "1.048576E7"
java_double(200.0)          "200.0"
"""

from __future__ import annotations

import math
from typing import Final

PLAIN_FROM: Final = 1e-3
PLAIN_BEFORE: Final = 1e7


def java_double(number: float) -> str:
    """What Java's Double.toString says: plain from 0.001 up to ten million, else with an exponent."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or PLAIN_FROM <= abs(number) < PLAIN_BEFORE:
        return repr(float(number))
    mantissa, _, exponent = f"{_shortest(number)}".partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _shortest(number: float) -> str:
    """With an exponent and as few digits as say the number."""
    return next(text for digits in range(17) if float(text := f"{number:.{digits}e}") == number)
