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

from ottla.clock import Clock

NAMES_LIMIT: Final = 100
LOOK_UP_LIMIT_MS: Final = 5_000


def is_address(text: str) -> bool:
    """Whether it is an address as it stands."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


async def look_up(names: Collection[str], clock: Clock) -> frozenset[str]:
    """Those of the names that have an address."""
    asked = sorted(names)[:NAMES_LIMIT]
    found = await asyncio.gather(*(_has_address(name, clock) for name in asked))
    return frozenset(name for name, is_there in zip(asked, found, strict=True) if is_there)


async def _has_address(name: str, clock: Clock) -> bool:
    try:
        async with clock.timeout(LOOK_UP_LIMIT_MS):
            return bool(await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError, TimeoutError):
        return False
