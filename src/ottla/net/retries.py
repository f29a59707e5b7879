"""How long to wait before trying again.

The wait doubles from the first to the longest and is spread by a fifth to either side, so that a thousand clients
that lost the same broker do not come back in the same instant. Chance comes in as an argument.
"""

from __future__ import annotations

from typing import Final, Protocol

JITTER: Final = 0.2
_DOUBLINGS_LIMIT: Final = 30


class RandomSource(Protocol):
    """The part of random.Random that we need."""

    def random(self) -> float:
        """A number from 0 up to but not including 1."""


def grown_ms(first_ms: float, most_ms: float, attempt: int, random: RandomSource, jitter: float = JITTER) -> float:
    """The wait after `attempt` earlier ones: doubled with each up to the most, then spread."""
    term_ms = min(first_ms * 2.0 ** min(attempt, _DOUBLINGS_LIMIT), most_ms)
    return term_ms * (1 + jitter * (2 * random.random() - 1))


class Backoff:
    """Waits that grow: `delay_ms(0)` before the first retry, `delay_ms(1)` before the second, and so on."""

    __slots__ = ("_random", "initial_ms", "max_ms")

    def __init__(self, initial_ms: float, max_ms: float, random: RandomSource) -> None:
        # A longest wait below the first one means that the wait does not grow (Java does the same).
        self.initial_ms = min(initial_ms, max_ms)
        self.max_ms = max_ms
        self._random = random

    def delay_ms(self, attempt: int) -> float:
        """The wait after `attempt` earlier retries."""
        if attempt < 0:
            raise ValueError(f"attempts are counted from 0, not from {attempt}")
        return grown_ms(self.initial_ms, self.max_ms, attempt, self._random)
