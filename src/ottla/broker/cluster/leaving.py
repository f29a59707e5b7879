"""Work that leaving a cluster needs, and that cannot be done while the metadata store is out of reach.

A controller without its store answers nobody, and calls of the store wait for a connection far longer than whoever
stops a broker waits for it. A connection may also be open and silent. So the store is asked something small again and
again, and when it has not answered for AWAY_LIMIT_MS, the work is abandoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from ottla.clock import Clock
from ottla.errors import OttlaError

AWAY_LIMIT_MS: Final = 5_000.0
ASK_EVERY_MS: Final = 500.0


async def while_reachable(
    work: Coroutine[object, None, None], ask_store: Callable[[], Awaitable[object]], clock: Clock
) -> bool:
    """Do the work; False when it was abandoned."""
    loop = asyncio.get_running_loop()
    working, watching = loop.create_task(work), loop.create_task(_until_away(ask_store, clock))
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _until_away(ask_store: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Return when the store has not answered for AWAY_LIMIT_MS."""
    away_ms = clock.monotonic_ms() + AWAY_LIMIT_MS
    while (left_ms := away_ms - clock.monotonic_ms()) > 0:
        try:
            async with clock.timeout(left_ms):
                await ask_store()
            away_ms = clock.monotonic_ms() + AWAY_LIMIT_MS
        except (OttlaError, TimeoutError):
            pass
        await clock.sleep(ASK_EVERY_MS)
