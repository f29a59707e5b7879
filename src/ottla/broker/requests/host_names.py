"""Which host names have an address: asked of the system, without holding up the loop.

At most NAMES_LIMIT names are looked up at once and LOOK_UP_LIMIT_MS waited for; a name that has no answer by then has
none.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from typing import Final

from ottla.broker.requests.answers import Later

NAMES_LIMIT: Final = 100
LOOK_UP_LIMIT_MS: Final = 5_000

_running: Final[set[asyncio.Task[None]]] = set()  # a task that nobody holds may be collected before it is done


def is_address(text: str) -> bool:
    """Whether it is an address as it stands."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def look_up(names: Collection[str]) -> Later[frozenset[str]]:
    """Those of the names that have an address."""
    later: Later[frozenset[str]] = Later()
    task = asyncio.get_running_loop().create_task(_look_up(sorted(names)[:NAMES_LIMIT], later))
    _running.add(task)
    task.add_done_callback(_running.discard)
    return later


async def _look_up(names: list[str], later: Later[frozenset[str]]) -> None:
    found = await asyncio.gather(*map(_has_address, names))
    later.give(frozenset(name for name, is_there in zip(names, found, strict=True) if is_there))


async def _has_address(name: str) -> bool:
    asked = asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    try:
        return bool(await asyncio.wait_for(asked, LOOK_UP_LIMIT_MS / 1000))
    except (OSError, UnicodeError, TimeoutError):
        return False
