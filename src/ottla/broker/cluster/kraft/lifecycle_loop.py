"""The loop beside the lifecycle machine: what it says goes to the active controller, what it hears is told onwards.

    loop = LifecycleLoop(lifecycle, ask, clock, heard)
    loop.start()
    loop.ready(); loop.applied(offset); loop.directories_failed(ids)
    await loop.shut_down()                         # until the controller lets it go, or it has waited for long enough

A request that the controller does not answer, also because nobody knows who it is, is no answer for the machine, which
asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from ottla.broker.cluster.kraft.lifecycle import BrokerLifecycle, BrokerState, Event, Response
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationResponse
from ottla.protocol.schema import Message

log = logging.getLogger(__name__)


class LifecycleLoop:
    """See the module. Belongs to the broker's loop."""

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        ask: Callable[[Message], Awaitable[Message]],
        clock: Clock,
        heard: Callable[[Event], None],
    ) -> None:
        self.lifecycle = lifecycle
        self._ask = ask
        self._clock = clock
        self._heard = heard
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="broker lifecycle")

    async def stop(self) -> None:
        """Say no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- what happens to the broker -----------------------------------------------------------------------------------

    def applied(self, offset: int) -> None:
        self.lifecycle.applied(offset)

    def ready(self) -> None:
        self.lifecycle.ready(self._clock.monotonic_ms())
        self._news.set()

    def directories_failed(self, ids: Collection[bytes]) -> None:
        self.lifecycle.directories_failed(ids, self._clock.monotonic_ms())
        self._news.set()

    def directories_cordoned(self, ids: Collection[bytes]) -> None:
        self.lifecycle.directories_cordoned(ids, self._clock.monotonic_ms())
        self._news.set()

    async def shut_down(self) -> None:
        """Hand everything over; return when nobody counts on this broker any more."""
        self._notify(self.lifecycle.begin_shutdown(self._clock.monotonic_ms()))
        self._news.set()
        await self.until(lambda: self.lifecycle.state is BrokerState.SHUTTING_DOWN)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when it is so, or when the machine has come to its end."""
        while not condition() and self.lifecycle.state is not BrokerState.SHUTTING_DOWN:
            self._changed.clear()
            await self._changed.wait()

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        clock, lifecycle = self._clock, self.lifecycle
        while (wake_ms := lifecycle.wake_ms()) is not None:
            self._news.clear()
            if (request := lifecycle.request(clock.monotonic_ms())) is not None:
                answer = await self._answer(request)
                self._notify(lifecycle.answered(answer, clock.monotonic_ms()))
                continue
            self._notify(lifecycle.passed(clock.monotonic_ms()))
            await self._sleep(wake_ms - clock.monotonic_ms())

    async def _answer(self, request: Message) -> Response | None:
        try:
            answer = await self._ask(request)
        except OttlaError as error:
            log.info("%s was not answered by the active controller: %s", type(request).__name__, error)
            return None
        assert isinstance(answer, BrokerRegistrationResponse | BrokerHeartbeatResponse)
        return answer

    async def _sleep(self, for_ms: float) -> None:
        """Until then, or until there are news."""
        try:
            async with self._clock.timeout(max(for_ms, 0.0)):
                await self._news.wait()
        except TimeoutError:
            pass

    def _notify(self, events: Sequence[Event]) -> None:
        for event in events:
            self._heard(event)
        self._changed.set()
