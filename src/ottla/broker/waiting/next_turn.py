"""Calls that are made in the next turn of the loop, all of them by one callback of it; or a few in each turn.

Whoever commits what a hundred requests wait for must not answer them himself: an answer may let its connection be read
again, and what it reads may be the next request of the same partition. And a hundred callbacks of the loop cost more
than one. What a call raises is logged, and concerns no other.

With a limit, so many calls are made in a turn, and the loop looks at its sockets in between. A record that a hundred
consumers wait for does not keep its producer from sending the next one, and who is answered later gets both at once.
Whoever could do its work at once asks first whether there is room in this turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)


class NextTurn:
    def __init__(self, per_turn: int | None = None) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._per_turn = per_turn
        self._made = 0  # in this turn
        self._is_planned = False

    def has_room(self) -> bool:
        """Whether one more may be done in this turn, because nobody waits for it; it counts as done."""
        if self._per_turn is None:
            return True
        if self._calls:
            return False
        self._plan()
        self._made += 1
        return self._made <= self._per_turn

    def add(self, call: Callable[[], None]) -> None:
        self._plan()
        self._calls.append(call)

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """A new turn."""
        self._is_planned = False
        calls = self._calls
        self._made = len(calls) if self._per_turn is None else min(len(calls), self._per_turn)
        if self._per_turn is not None and self._made:
            self._plan()
        for call in [calls.popleft() for _ in range(self._made)]:
            try:
                call()
            except Exception:
                log.exception("a request that waited cannot be answered")
