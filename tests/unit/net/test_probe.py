"""Whether somebody listens: only a machine that says so counts for no."""

from __future__ import annotations

import asyncio
from random import Random

from ottla.clock import SystemClock
from ottla.net.link import LinkEvents
from ottla.net.probe import nothing_listens
from ottla.net.transport import TcpTransport
from ottla.testing.clock import ManualClock
from ottla.testing.network import MemoryNetwork


class Silent:
    def opened(self, link: object) -> None: ...
    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: object) -> None: ...


def make_events() -> LinkEvents:
    return Silent()


def test_a_port_that_somebody_has_and_one_that_was_closed() -> None:
    async def story() -> None:
        transport, clock = TcpTransport(), SystemClock()
        listener = await transport.serve("127.0.0.1", 0, make_events)
        (host, port), *_ = listener.addresses
        assert not await nothing_listens(transport, clock, host, port, limit_ms=5_000)
        listener.close()
        is_refused = False
        for _ in range(100):  # who comes while it closes may be let in and cut off
            is_refused = is_refused or await nothing_listens(transport, clock, host, port, limit_ms=5_000)
        assert is_refused

    asyncio.run(story())


def test_a_machine_that_does_not_answer_says_nothing() -> None:
    async def story() -> None:
        clock = ManualClock()
        network = MemoryNetwork(clock=clock, random=Random(1))
        listener = await network.serve("there", 9092, make_events)
        network.swallow(*listener.addresses[0])
        asked = asyncio.ensure_future(nothing_listens(network, clock, "there", 9092, limit_ms=1_000))
        await clock.advance(999)
        assert not asked.done()
        await clock.advance(2)
        assert not await asked

    asyncio.run(story())


def test_a_name_that_nobody_knows_says_nothing() -> None:
    async def story() -> None:
        assert not await nothing_listens(TcpTransport(), SystemClock(), "no.such.host.invalid", 1, limit_ms=5_000)

    asyncio.run(story())
