"""The channel to one broker: order, patience, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.clock import SystemClock
from ottla.cluster.controller import broker_channel
from ottla.cluster.controller.broker_channel import BrokerChannel
from ottla.cluster.controller.orders import Order
from ottla.errors import RequestTimedOut, StaleBrokerEpoch
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def metadata(number: int) -> Order:
    return Order(1, 7, UpdateMetadataRequest(controller_id=number, controller_epoch=1, live_brokers=[]))


def stop(number: int) -> Order:
    return Order(1, 7, StopReplicaRequest(controller_id=number, controller_epoch=1))


class Far:
    """A broker far away: answers as the script says, and remembers what came."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.failures: list[Exception] = []
        self.code = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answered: list[int] = []
        self.behind = 0
        self.pauses: list[float] = []

    async def send(self, broker_id: int, request: Any) -> Any:
        await self.gate.wait()
        self.came.append(request.controller_id)
        if self.failures:
            raise self.failures.pop(0)
        if isinstance(request, StopReplicaRequest):
            return StopReplicaResponse(error_code=self.code, partition_errors=[])
        return UpdateMetadataResponse(error_code=self.code)

    def channel(self) -> BrokerChannel:
        pauses = self.pauses

        class NotingClock(SystemClock):
            async def sleep(self, duration_ms: float) -> None:
                pauses.append(duration_ms)

        def fell_behind() -> None:
            self.behind += 1

        def answered(order: Order, response: Any) -> None:
            self.answered.append(order.request.controller_id)  # type: ignore[attr-defined]

        return BrokerChannel(1, 7, self.send, answered, fell_behind, NotingClock())


def with_channel(story: Callable[[Far, BrokerChannel], Awaitable[None]]) -> None:
    async def begin() -> None:
        far = Far()
        channel = far.channel()
        await story(far, channel)
        await asyncio.gather(channel.close(), return_exceptions=True)

    asyncio.run(begin())


async def rest(channel: BrokerChannel) -> None:
    for _ in range(5000):
        await asyncio.sleep(0)
        if channel.is_idle:
            return
    raise AssertionError("the channel does not come to rest")


def test_orders_arrive_in_order() -> None:
    async def story(far: Far, channel: BrokerChannel) -> None:
        for number in range(5):
            channel.put(metadata(number))
        await rest(channel)
        assert far.came == far.answered == [0, 1, 2, 3, 4]

    with_channel(story)


def test_an_order_without_an_answer_is_sent_again_before_any_other() -> None:
    async def story(far: Far, channel: BrokerChannel) -> None:
        far.failures = [OSError("cut"), RequestTimedOut(), EOFError()]
        channel.put(metadata(0))
        channel.put(metadata(1))
        await rest(channel)
        assert far.came == [0, 0, 0, 0, 1]
        assert far.answered == [0, 1]
        assert far.pauses == [50, 100, 200]

    with_channel(story)


def test_the_pauses_grow_up_to_a_limit() -> None:
    async def story(far: Far, channel: BrokerChannel) -> None:
        far.failures = [OSError("cut") for _ in range(10)]
        channel.put(metadata(0))
        await rest(channel)
        assert max(far.pauses) == broker_channel.LONGEST_PAUSE_MS

    with_channel(story)


def test_an_order_for_an_older_registration_is_over_and_nobody_is_told() -> None:
    async def story(far: Far, channel: BrokerChannel) -> None:
        far.code = StaleBrokerEpoch.code
        channel.put(metadata(0))
        await rest(channel)
        assert far.came == [0]
        assert far.answered == []

    with_channel(story)


def test_a_broker_that_is_gone_gets_nothing_more() -> None:
    async def story(far: Far, channel: BrokerChannel) -> None:
        far.gate.clear()
        channel.put(metadata(0))
        channel.put(metadata(1))
        await asyncio.sleep(0)
        await asyncio.gather(channel.close(), return_exceptions=True)
        far.gate.set()
        await asyncio.sleep(0)
        assert far.came == []

    with_channel(story)


def test_beyond_the_limit_only_stops_are_kept_and_the_broker_is_told_everything_later() -> None:
    async def story(far: Far, channel: BrokerChannel) -> None:
        far.gate.clear()
        channel.put(metadata(0))
        await asyncio.sleep(0)
        channel.put(stop(1))
        for number in range(2, 2 + broker_channel.WAITING_LIMIT):
            channel.put(metadata(number))
        assert far.behind == 0
        far.gate.set()
        await rest(channel)
        await asyncio.sleep(0)
        assert far.came == [0, 1, 1 + broker_channel.WAITING_LIMIT]
        assert far.behind == 1

    with_channel(story)
