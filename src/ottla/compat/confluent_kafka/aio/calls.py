"""Callbacks of a program with an event loop: called on the loop, awaited when they are coroutines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

COMMON: Final = ("error_cb", "throttle_cb", "stats_cb", "oauth_cb")


def on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], first: Any = None) -> Callable[..., Any]:
    """Call it on the loop from another thread and wait for what it returns; `first` replaces the first argument."""

    async def call(arguments: tuple[Any, ...]) -> Any:
        found = callback(*arguments)
        return await found if inspect.isawaitable(found) else found

    def called(*arguments: Any) -> Any:
        shown = arguments if first is None else (first, *arguments[1:])
        return asyncio.run_coroutine_threadsafe(call(shown), loop).result()

    return called


def wrapped(conf: dict[str, Any], loop: asyncio.AbstractEventLoop, names: Iterable[str]) -> dict[str, Any]:
    """The configuration with its callbacks called on the loop."""
    return {name: on_loop(loop, value) if name in names and callable(value) else value for name, value in conf.items()}
