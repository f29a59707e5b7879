"""`asyncio.gather` with the same steps on every version of Python.

CPython 3.12 counts futures that are done already at once, 3.11 in the loop's next turn. A turn more or less is another
order of everything that follows, so a seed would have two histories. While a simulation runs, whoever gathers waits for
a future of its own in place of each that is done: no version sees one that is.
"""

from __future__ import annotations

import asyncio
from typing import Any

real_gather = asyncio.gather


def gather(*awaitables: Any, return_exceptions: bool = False) -> asyncio.Future[list[Any]]:
    """As `asyncio.gather`."""
    futures = [_not_done(asyncio.ensure_future(each)) for each in awaitables]
    return real_gather(*futures, return_exceptions=return_exceptions)


def _not_done(future: asyncio.Future[Any]) -> asyncio.Future[Any]:
    if not future.done():
        return future
    loop = asyncio.get_running_loop()
    later: asyncio.Future[Any] = loop.create_future()
    loop.call_soon(_copy, future, later)
    return later


def _copy(done: asyncio.Future[Any], later: asyncio.Future[Any]) -> None:
    if later.done():
        return
    if done.cancelled():
        later.cancel()
    elif (error := done.exception()) is not None:
        later.set_exception(error)
    else:
        later.set_result(done.result())
