"""The loop beside the lifecycle machine: what it sends, and that silence and news do what the machine means."""

from __future__ import annotations

import asyncio
from random import Random

from ottla.broker.cluster.kraft.lifecycle import BrokerLifecycle, BrokerState, Event, LifecycleSettings
from ottla.broker.cluster.kraft.lifecycle_loop import LifecycleLoop
from ottla.errors import BrokerNotAvailable
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.testing.clock import ManualClock

EPOCH = 40


class Controller:
    """Answers a broker, or is silent."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked: list[object] = []
        self.is_silent = False
        self.events: list[Event] = []
        registration = BrokerRegistrationRequest(
            broker_id=7, cluster_id="c", incarnation_id=b"i" * 16, listeners=[], features=[], log_dirs=[b"1" * 16]
        )
        settings = LifecycleSettings(2_000.0, 9_000.0, 60_000.0, 30_000.0)
        lifecycle = BrokerLifecycle(registration, settings, Random(1), self.clock.monotonic_ms())
        self.loop = LifecycleLoop(lifecycle, self.ask, self.clock, self.events.append)

    async def ask(self, request):
        self.asked.append(request)
        if self.is_silent:
            raise BrokerNotAvailable("the active controller is not known yet")
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(error_code=0, broker_epoch=EPOCH)
        return BrokerHeartbeatResponse(
            error_code=0,
            is_caught_up=request.current_metadata_offset >= EPOCH,
            is_fenced=request.want_fence,
            should_shut_down=request.want_shut_down,
        )

    async def pass_time(self, for_ms: int) -> None:
        for _ in range(for_ms // 10):
            await self.clock.advance(10)

    @property
    def heartbeats(self) -> list[BrokerHeartbeatRequest]:
        return [each for each in self.asked if isinstance(each, BrokerHeartbeatRequest)]


def test_a_broker_comes_lives_and_leaves() -> None:
    async def work() -> None:
        controller = Controller()
        loop = controller.loop
        loop.start()
        await controller.pass_time(100)
        assert len(controller.heartbeats) > 5, "it beats fast until it has caught up"
        loop.applied(EPOCH)
        await controller.pass_time(30)
        assert loop.lifecycle.state is BrokerState.RECOVERY
        loop.ready()
        await controller.pass_time(20)
        assert controller.events == [Event.REGISTERED, Event.CAUGHT_UP, Event.UNFENCED]
        before = len(controller.heartbeats)
        await controller.pass_time(10_000)
        assert len(controller.heartbeats) - before == 5, "every broker.heartbeat.interval.ms"
        leaving = asyncio.ensure_future(loop.shut_down())
        await controller.pass_time(100)
        assert leaving.done()
        assert controller.events[-1] is Event.MAY_STOP
        await loop.stop()

    asyncio.run(work())


def test_a_failed_directory_is_reported_at_once_and_not_with_the_next_beat() -> None:
    async def work() -> None:
        controller = Controller()
        loop = controller.loop
        loop.applied(EPOCH)
        loop.start()
        loop.ready()
        await controller.pass_time(100)
        loop.directories_failed([b"1" * 16])
        await controller.pass_time(20)
        assert controller.heartbeats[-1].offline_log_dirs == [b"1" * 16]
        await loop.stop()

    asyncio.run(work())


def test_silence_is_asked_again_and_ends_a_start_that_never_registers() -> None:
    async def work() -> None:
        controller = Controller()
        controller.is_silent = True
        controller.loop.start()
        await controller.pass_time(1_000)
        assert 2 < len(controller.asked) < 8
        await controller.pass_time(60_000)
        assert controller.events == [Event.MUST_STOP]
        assert "could not register" in controller.loop.lifecycle.failure
        await controller.loop.until(lambda: False)  # there is nothing to wait for any more
        await controller.loop.stop()

    asyncio.run(work())
