"""Fetch waits until there are min_bytes to read, something went wrong, or its time is over."""

from __future__ import annotations

from collections.abc import Callable


class WaitingFetch:
    """An operation of the purgatory, watched under the partitions it reads.

    `try_answer(force)` reads and answers if there is enough (or anyway, when forced); it says whether it did.
    """

    def __init__(self, try_answer: Callable[[bool], bool]) -> None:
        self._try_answer = try_answer

    def try_complete(self) -> bool:
        return self._try_answer(False)

    def expire(self) -> None:
        self._try_answer(True)
