"""Which network addresses belong to registered brokers: who else may send what only brokers send each other?

1. An address is a broker's when one of the hosts that registered brokers advertise, on any listener, resolves to it.
   When one of them resolves to a loopback address, every loopback address is: brokers on one machine. So is every
   address of `networks` (ottla.broker.networks): brokers behind an address translation do not come from where they
   advertise themselves.
2. Names are resolved when the registered brokers are read, never while a request is being answered, and resolved again
   with them: a broker that moved is found at its new address.
3. `includes` decides at once, on what is known. `admits` reads the registered brokers again before it says no, at most
   once in REFRESH_EVERY_MS however many ask: a broker that registered a moment ago is not turned away, and strangers
   cannot make us ask more often.
4. What cannot be read or resolved leaves what is known as it is.

It is a fence, not a lock: who can send from a broker's machine passes. Where brokers do not log in (security/peers.py),
this keeps plain clients of a cluster from giving orders to its brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from ottla.clock import Clock
from ottla.cluster.model import Broker
from ottla.errors import OttlaError

log = logging.getLogger(__name__)

REFRESH_EVERY_MS: Final = 1_000.0
ADDRESSES_LIMIT: Final = 1_000
"""So many answers are remembered: a follower asks with every fetch, and reading an address costs forty calls."""

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network
Resolve: TypeAlias = Callable[[str], Awaitable[Iterable[str]]]
"""The addresses of a host name; OSError when there are none."""


class BrokerAddresses:
    """See the module. `registered` reads the brokers of the cluster. Belongs to the broker's loop."""

    def __init__(
        self,
        registered: Callable[[], Awaitable[Iterable[Broker]]],
        *,
        clock: Clock,
        networks: Sequence[IpNetwork] = (),
        resolve: Resolve | None = None,
    ) -> None:
        self._registered = registered
        self._clock = clock
        self._networks = networks
        self._resolve = resolve or _resolve_by_system
        self._by_host: dict[str, frozenset[IpAddress]] = {}
        self._addresses: frozenset[IpAddress] = frozenset()
        self._has_loopback = False
        self._included: dict[str, bool] = {}  # what was answered about addresses, since the last update
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_ms: float | None = None

    def includes(self, address: str) -> bool:
        """Whether the address is a broker's, as far as is known."""
        known = self._included.get(address)
        if known is None:
            known = self._is_included(address)
            if len(self._included) < ADDRESSES_LIMIT:
                self._included[address] = known
        return known

    def _is_included(self, address: str) -> bool:
        parsed = parse_address(address)
        if parsed is None:
            return False
        if parsed in self._addresses or (parsed.is_loopback and self._has_loopback):
            return True
        return any(parsed in network for network in self._networks)

    async def admits(self, address: str) -> bool:
        """As `includes`, but reads the registrations again before the answer is no."""
        if self.includes(address):
            return True
        refreshing = self._refreshing
        if refreshing is None:
            refreshing = self._refreshing = asyncio.get_running_loop().create_task(self._refresh_in_time())
        await asyncio.wait((refreshing,))
        if not refreshing.cancelled():  # as it is when the broker stops; that is no reason for a request to fail
            refreshing.result()
        return self.includes(address)

    async def refresh(self) -> None:
        """Read the registered brokers and resolve their hosts."""
        try:
            await self.update(await self._registered())
        except OttlaError as error:
            log.info("the registered brokers could not be read: %s", error)

    async def update(self, brokers: Iterable[Broker]) -> None:
        """These brokers are registered, and nobody else."""
        hosts = sorted({endpoint.host for broker in brokers for endpoint in broker.endpoints})
        found = await asyncio.gather(*(self._addresses_of(host) for host in hosts))
        self._by_host = dict(zip(hosts, found, strict=True))
        self._addresses = frozenset(address for addresses in found for address in addresses)
        self._has_loopback = any(address.is_loopback for address in self._addresses)
        self._included.clear()

    async def close(self) -> None:
        """End a refresh that is under way."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _refresh_in_time(self) -> None:
        try:
            if self._refreshed_ms is not None:
                await self._clock.sleep(self._refreshed_ms + REFRESH_EVERY_MS - self._clock.monotonic_ms())
            await self.refresh()
            self._refreshed_ms = self._clock.monotonic_ms()
        finally:
            self._refreshing = None

    async def _addresses_of(self, host: str) -> frozenset[IpAddress]:
        if (literal := parse_address(host)) is not None:
            return frozenset((literal,))
        try:
            found = await self._resolve(host)
        except OSError as error:
            log.info("the host %s of a broker cannot be resolved: %s", host, error)
            return self._by_host.get(host, frozenset())
        return frozenset(parsed for each in found if (parsed := parse_address(each)) is not None)


def parse_address(text: str) -> IpAddress | None:
    """An address; None for a host name. IPv4 that comes in IPv6's clothes is IPv4, and zones do not count."""
    try:
        parsed = ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return parsed if mapped is None else mapped


async def _resolve_by_system(host: str) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, None)
    return [str(address[0]) for *_, address in found]
