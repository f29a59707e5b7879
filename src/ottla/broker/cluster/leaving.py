"""Work that leaving a cluster needs, and that cannot be done while the metadata store is out of reach.

A controller without its store answers nobody, and calls of the store wait for a connection far longer than whoever
stops a broker waits for it. So the work is given up when the store has been out of reach for AWAY_LIMIT_MS on end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.clock import Clock

AWAY_LIMIT_MS: Final = 3_000.0
STEP_MS: Final = 100.0


async def while_reachable(work: Coroutine[Any, Any, None], is_connected: Callable[[], bool], clock: Clock) -> bool:
    """Do the work; False when it was given up."""
    task = asyncio.get_running_loop().create_task(work)
    reached_ms = clock.monotonic_ms()
    try:
        while not task.done():
            if is_connected():
                reached_ms = clock.monotonic_ms()
            elif clock.monotonic_ms() - reached_ms >= AWAY_LIMIT_MS:
                return False
            try:
                async with clock.timeout(STEP_MS):
                    await asyncio.shield(task)
            except TimeoutError:
                continue
        task.result()
        return True
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
