"""Bootstrap names and what stands behind them, with a resolver that says what the test wants."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ottla.client.refreshing import canonical_nodes
from ottla.values import Address, Node


class Resolver:
    """Two brokers behind one name; a third name nobody knows; and an address without a name."""

    NAMES = {"10.0.0.1": "one.example", "10.0.0.2": "two.example"}
    BEHIND = {"kafka": ["10.0.0.1", "10.0.0.2"], "one.example": ["10.0.0.1"], "unnamed": ["10.0.0.9"]}

    async def getaddrinfo(self, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host not in self.BEHIND:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.BEHIND[host]]

    async def getnameinfo(self, address: tuple[str, int], flags: int) -> tuple[str, str]:
        assert flags == socket.NI_NAMEREQD
        if address[0] not in self.NAMES:
            raise socket.gaierror("no name")
        return self.NAMES[address[0]], str(address[1])


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: Address) -> tuple[Node, ...]:
    async def look() -> tuple[Node, ...]:
        loop, resolver = asyncio.get_running_loop(), Resolver()
        monkeypatch.setattr(loop, "getaddrinfo", resolver.getaddrinfo, raising=False)
        monkeypatch.setattr(loop, "getnameinfo", resolver.getnameinfo, raising=False)
        return await canonical_nodes(addresses)

    return asyncio.run(look())


def test_one_name_stands_for_all_brokers_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolve(monkeypatch, Address("kafka", 9092))
    assert found == (Node(-1, "one.example", 9092), Node(-2, "two.example", 9092))


def test_a_broker_that_is_named_twice_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolve(monkeypatch, Address("one.example", 9092), Address("kafka", 9092))
    assert [node.host for node in found] == ["one.example", "two.example"]


@pytest.mark.parametrize("host", ["nowhere", "unnamed"])
def test_a_name_that_leads_to_no_other_name_stays(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    assert resolve(monkeypatch, Address(host, 1)) == (Node(-1, host, 1),)
