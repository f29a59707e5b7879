"""One at a time under a key, in the order of arrival.

Requests of one connection are worked on side by side, and a producer may have five on their way. When the first of
them must wait for the transaction coordinator, the others must not be appended before it: their sequences follow its.

    async with turns.acquire(transactional_id):
        ...

1. Leaving the block, by whatever exit, lets the next one in. Nothing is kept for a key that nobody uses.
2. A turn that is free is acquired without waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class _Line:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Turns:
    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def is_held(self, key: Hashable) -> bool:
        return key in self._lines

    @asynccontextmanager
    async def acquire(self, key: Hashable) -> AsyncIterator[None]:
        line = self._lines.setdefault(key, _Line())
        line.users += 1
        try:
            async with line.lock:
                yield
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[key]
