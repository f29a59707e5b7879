"""One at a time under a key, in the order of arrival.

Requests of one connection are worked on side by side, and a producer may have five on their way. When the first of
them must wait for the transaction coordinator, the others must not be appended before it: their sequences follow its.

1. `take` calls `begin(done)` at once when nobody has the turn, and otherwise when all who came before are done.
2. Whoever began calls `done` once, within `begin` or later. Nothing is kept for a key that nobody waits for.
3. However many wait, and even if all of them are done at once, the stack does not grow with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

Done = Callable[[], None]
Begin = Callable[[Done], None]


class _Line:
    __slots__ = ("is_calling", "is_taken", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Begin] = deque()
        self.is_taken = False
        self.is_calling = False


class Turns:
    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def is_taken(self, key: Hashable) -> bool:
        return key in self._lines

    def take(self, key: Hashable, begin: Begin) -> None:
        line = self._lines.setdefault(key, _Line())
        line.waiting.append(begin)
        self._call_next(key, line)

    def _call_next(self, key: Hashable, line: _Line) -> None:
        if line.is_calling:
            return  # the loop below, further up the stack, sees what has changed
        line.is_calling = True
        while line.waiting and not line.is_taken:
            line.is_taken = True
            line.waiting.popleft()(lambda: self._done(key, line))
        line.is_calling = False
        if not line.is_taken:
            del self._lines[key]

    def _done(self, key: Hashable, line: _Line) -> None:
        line.is_taken = False
        self._call_next(key, line)
