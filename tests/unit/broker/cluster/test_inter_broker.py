"""Connections between brokers whose login needs something beforehand (a token, a ticket): order, time and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.broker.cluster.inter_broker import InterBroker
from ottla.broker.security.own_login import OwnLogin
from ottla.clock import SystemClock
from ottla.cluster.model import Endpoint
from ottla.errors import NotConnected
from ottla.net.node import NodeConnection
from ottla.net.sasl.authenticator import SaslAuthenticator
from ottla.net.sasl.plain import PlainClient
from ottla.net.transport import TcpTransport
from ottla.protocol.messages.heartbeat import HeartbeatRequest


class _NoNetwork(TcpTransport):
    async def connect(self, *arguments: Any, **named: Any) -> Any:
        raise AssertionError("nobody may connect here")


def inter_broker(prepare: Callable[[str], Awaitable[None]]) -> InterBroker:
    login = OwnLogin(lambda _: SaslAuthenticator(PlainClient("broker", "secret")), prepare)
    endpoint = Endpoint("SASL_PLAINTEXT", "broker-1.example", 9092, "SASL_PLAINTEXT")
    return InterBroker(0, {1: endpoint}.get, transport=_NoNetwork(), clock=SystemClock(), random=Random(1), login=login)


def request(number: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


def test_requests_keep_their_order_while_something_is_fetched_for_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, waiting, left = [], [], []

    async def prepare(host: str) -> None:
        hosts.append(host)
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    async def send(self: NodeConnection, message: HeartbeatRequest, **_: Any) -> None:
        left.append(message.generation_id)

    async def story() -> None:
        brokers = inter_broker(prepare)
        sent = [asyncio.ensure_future(brokers.send(1, request(each), timeout_ms=HANG_S * 1000)) for each in range(3)]
        while len(left) < 3:
            await asyncio.sleep(0)
            for each in reversed(waiting):  # the last one first, if several were under way
                if not each.done():
                    each.set_result(None)
        await asyncio.gather(*sent)
        await brokers.close()

    monkeypatch.setattr(NodeConnection, "send", send)
    asyncio.run(asyncio.wait_for(story(), HANG_S))
    assert left == [0, 1, 2]
    assert set(hosts) == {"broker-1.example"}


def test_what_a_login_needs_is_awaited_no_longer_than_the_request() -> None:
    async def story() -> None:
        brokers = inter_broker(lambda _: asyncio.Event().wait())  # type: ignore[arg-type,return-value]
        with pytest.raises(NotConnected, match=r"broker-1\.example .* within 1 ms"):
            await brokers.send(1, request(1), timeout_ms=1)
        await brokers.close()

    asyncio.run(asyncio.wait_for(story(), HANG_S))


def test_who_waited_for_a_ticket_does_not_connect_after_the_end() -> None:
    async def story() -> None:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def prepare(_: str) -> None:
            begun.set()
            await goes_on.wait()

        brokers = inter_broker(prepare)
        sent = asyncio.ensure_future(brokers.send(1, request(1), timeout_ms=HANG_S * 1000))
        await begun.wait()
        await brokers.close()
        goes_on.set()
        with pytest.raises(NotConnected, match="closed"):
            await sent

    asyncio.run(asyncio.wait_for(story(), HANG_S))
