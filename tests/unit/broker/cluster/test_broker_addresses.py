"""Who sends from a broker's address is a broker; nobody else is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from ottla.broker.cluster.broker_addresses import REFRESH_EVERY_MS, BrokerAddresses
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.endpoints import parse_networks
from ottla.cluster.model import Broker, Endpoint
from ottla.cluster.store.interface import NoSession
from ottla.errors import InvalidSetting
from ottla.testing.clock import ManualClock

NAMES = {
    "one.example": ["10.0.0.1"],
    "two.example": ["10.0.0.2", "fd00::2"],
    "localhost": ["127.0.0.1", "::1"],
    "on-debian": ["127.0.1.1"],
}


def broker(broker_id: int, *hosts: str) -> Broker:
    endpoints = tuple(Endpoint(f"L{number}", host, 9092, "PLAINTEXT") for number, host in enumerate(hosts))
    return Broker(broker_id, endpoints)


class Cluster:
    """The registered brokers and a name server; counts how often the first are read."""

    def __init__(self, *brokers: Broker) -> None:
        self.brokers: Iterable[Broker] = brokers
        self.names = dict(NAMES)
        self.reads = 0
        self.is_away = False
        self.clock = ManualClock()
        self.addresses = BrokerAddresses(self.read, clock=self.clock, resolve=self.resolve)

    async def read(self) -> Iterable[Broker]:
        self.reads += 1
        if self.is_away:
            raise NoSession("there is no connection")
        return self.brokers

    async def resolve(self, host: str) -> list[str]:
        if host not in self.names:
            raise OSError("no such host")
        return self.names[host]


@pytest.mark.parametrize(
    ("hosts", "address", "is_a_brokers"),
    [
        (["10.0.0.7"], "10.0.0.7", True),
        (["10.0.0.7"], "10.0.0.8", False),
        (["10.0.0.7"], "::ffff:10.0.0.7", True),
        (["one.example"], "10.0.0.1", True),
        (["two.example"], "fd00::2", True),
        (["two.example"], "fd00::2%eth0", True),
        (["one.example", "10.9.9.9"], "10.9.9.9", True),
        (["one.example"], "127.0.0.1", False),
        (["localhost"], "127.0.0.1", True),
        (["127.0.0.1"], "127.0.0.2", True),
        (["127.0.0.1"], "::1", True),
        (["on-debian"], "127.0.0.1", True),
        (["localhost"], "10.0.0.1", False),
        (["localhost"], "unknown", False),
        (["no.such.host"], "10.0.0.1", False),
    ],
)
def test_an_address_is_a_brokers_when_an_advertised_host_resolves_to_it(
    hosts: list[str], address: str, is_a_brokers: bool
) -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, *hosts))
        await cluster.addresses.refresh()
        assert cluster.addresses.includes(address) is is_a_brokers

    asyncio.run(story())


def test_nobody_is_a_broker_before_the_registered_ones_are_read() -> None:
    async def story() -> None:
        assert not Cluster(broker(1, "127.0.0.1")).addresses.includes("127.0.0.1")

    asyncio.run(story())


def test_a_broker_that_has_just_registered_is_admitted() -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, "10.0.0.1"))
        await cluster.addresses.refresh()
        cluster.brokers = [broker(1, "10.0.0.1"), broker(2, "two.example")]
        assert not cluster.addresses.includes("10.0.0.2")
        assert await cluster.addresses.admits("10.0.0.2")
        assert cluster.addresses.includes("10.0.0.2")

    asyncio.run(story())


def test_a_broker_that_is_gone_or_has_moved_is_not_found_at_its_old_address() -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, "one.example"), broker(2, "10.0.0.5"))
        await cluster.addresses.refresh()
        cluster.brokers = [broker(1, "one.example")]
        cluster.names["one.example"] = ["10.0.0.9"]
        assert await cluster.addresses.admits("10.0.0.9")
        assert not cluster.addresses.includes("10.0.0.1")
        assert not cluster.addresses.includes("10.0.0.5")

    asyncio.run(story())


def test_strangers_do_not_make_us_read_more_than_once_a_second() -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, "10.0.0.1"))
        assert not any(await asyncio.gather(*(cluster.addresses.admits("10.6.6.6") for _ in range(20))))
        assert cluster.reads == 1
        asking = [asyncio.ensure_future(cluster.addresses.admits("10.6.6.6")) for _ in range(20)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert cluster.reads == 1
        await cluster.clock.advance(REFRESH_EVERY_MS)
        assert not any(await asyncio.gather(*asking))
        assert cluster.reads == 2

    asyncio.run(story())


def test_what_is_known_stays_while_the_brokers_cannot_be_read() -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, "10.0.0.1"))
        await cluster.addresses.refresh()
        cluster.is_away = True
        assert await cluster.addresses.admits("10.0.0.1")
        assert not await cluster.addresses.admits("10.6.6.6")
        assert cluster.addresses.includes("10.0.0.1")

    asyncio.run(story())


def test_a_name_that_cannot_be_resolved_now_keeps_its_address() -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, "one.example"))
        await cluster.addresses.refresh()
        del cluster.names["one.example"]
        await cluster.addresses.refresh()
        assert cluster.addresses.includes("10.0.0.1")

    asyncio.run(story())


def test_closing_ends_a_refresh_that_waits_and_whoever_asked_is_told_what_is_known() -> None:
    async def story() -> None:
        cluster = Cluster(broker(1, "10.0.0.1"))
        await cluster.addresses.admits("10.6.6.6")
        asking = asyncio.ensure_future(cluster.addresses.admits("10.6.6.6"))
        await asyncio.sleep(0)
        await cluster.addresses.close()
        assert not await asking
        assert cluster.reads == 1

    asyncio.run(story())


@pytest.mark.parametrize(("address", "expected"), [("192.168.7.1", True), ("192.168.8.1", False), ("fd01::9", True)])
def test_networks_that_are_named_are_brokers_addresses_too(address: str, expected: bool) -> None:
    networks = parse_networks("ottla.broker.networks", ["192.168.7.0/24", "fd01::/64"])
    addresses = BrokerAddresses(Cluster().read, clock=ManualClock(), networks=networks)
    assert addresses.includes(address) is expected


def test_what_is_no_network_is_refused_at_start() -> None:
    with pytest.raises(InvalidSetting, match=r"ottla\.broker\.networks"):
        BrokerSettings({"ottla.broker.networks": "10.0.0.0/8,everywhere"})
