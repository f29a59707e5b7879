"""From bootstrap.servers to the nodes a client begins with.

With client.dns.lookup=resolve_canonical_bootstrap_servers_only a name stands for the full names of all its addresses:
behind one round-robin name there may be brokers whose certificates (or Kerberos names) know only their own. Otherwise a
name stands for itself, and connecting tries its addresses one after the other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from ottla.client.metadata import bootstrap_nodes
from ottla.values import Address, Node


async def canonical_nodes(addresses: Sequence[Address]) -> tuple[Node, ...]:
    """The full names behind the names; a name that cannot be resolved stays, so that connecting says why."""
    found: list[Address] = []
    for address in addresses:
        found += await _canonical(address)
    return bootstrap_nodes(dict.fromkeys(found))


async def _canonical(address: Address) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        places = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        names = [await loop.getnameinfo((str(place[4][0]), address.port), socket.NI_NAMEREQD) for place in places]
    except (OSError, UnicodeError):
        return [address]
    return [Address(name, address.port) for name, _ in names] or [address]
