"""Calls of a store that wait for ZooKeeper: on a worker thread, so that the loop does not wait with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


async def on_pool(pool: Executor | None, call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """What the call returns; without a pool it is made at once."""
    if pool is None:
        return call(*arguments)
    return await asyncio.get_running_loop().run_in_executor(pool, call, *arguments)
