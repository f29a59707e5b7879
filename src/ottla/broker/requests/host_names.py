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
    found = await find_addresses(names, clock)
    return frozenset(name for name, addresses in found.items() if addresses)


async def find_addresses(names: Collection[str], clock: Clock) -> dict[str, frozenset[str]]:
    """The addresses of host names; none where there is no answer."""
    asked = sorted(names)[:NAMES_LIMIT]
    found = await asyncio.gather(*(_addresses(name, clock) for name in asked))
    return dict(zip(asked, found, strict=True))


async def _addresses(name: str, clock: Clock) -> frozenset[str]:
    try:
        async with clock.timeout(LOOK_UP_LIMIT_MS):
            found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return frozenset()
    return frozenset(str(each[4][0]) for each in found)
