"""What only the controller can do is passed on to it, as a broker of Apache Kafka 4 does; the client gets its answer.

1. A client may send these requests (FORWARDED) to any broker. One that is not controller asks the controller with the
   same request in the same version, over a connection for nothing else: a long answer holds nobody up.
2. A controller that changed, or cannot be reached, is looked for until `limit_ms` has passed (request.timeout.ms). Then
   the broker answers by itself, which is NOT_CONTROLLER.
3. A request that was passed on to us is not passed on again: two brokers that each believe the other to be controller
   would send it to and fro. It comes with a client id that only forwarders have.
4. When the controller has answered, the answer waits until our own view shows what was changed (visible.py).
5. Settings, quotas and credentials are written by every broker itself and need no controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.cluster.visible import shows_answer, wait_until
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.errors import NotController, OttlaError
from ottla.protocol.api import Api
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.inter_broker import InterBroker

log = logging.getLogger(__name__)

FORWARDED: Final = frozenset(
    {
        "create_topics",
        "delete_topics",
        "create_partitions",
        "alter_partition_reassignments",
        "list_partition_reassignments",
        "elect_leaders",
        "update_features",
    }
)
PREFIX: Final = "ottla-forwarder-"
RETRY_MS: Final = 100.0
_RESULTS: Final = ("topics", "responses", "results")


def forwarding_client_id(broker_id: int) -> str:
    return f"{PREFIX}{broker_id}"


def forwarding(api: Api, handle: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of an API, or one that asks the controller first where that is its affair."""
    if api.module not in FORWARDED:
        return handle

    def forward(broker: Broker, request: Any, context: RequestContext) -> Any:
        member = broker.member
        if member is None or member.role.is_active or context.client_id.startswith(PREFIX):
            return handle(broker, request, context)
        return member.forwarder.answer(request, context.api_version, lambda: handle(broker, request, context))

    return forward


class Forwarder:
    """Asks the controller what clients ask us; see the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, controllers: InterBroker, *, limit_ms: float) -> None:
        self._broker = broker
        self._controllers = controllers
        self._limit_ms = limit_ms
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, request: Any, version: int, by_ourselves: Callable[[], Any]) -> Later[Any]:
        """The controller's answer, or our own when there is none."""
        later: Later[Any] = Later()
        task = asyncio.get_running_loop().create_task(self._answer(request, version, by_ourselves, later))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return later

    async def close(self) -> None:
        """End what is under way; nobody is answered any more."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._controllers.close()

    async def _answer(self, request: Any, version: int, by_ourselves: Callable[[], Any], later: Later[Any]) -> None:
        try:
            response: Any = await self._forward_or_not(request, version)
            response = by_ourselves() if response is None else response
        except Exception as error:
            response = error  # it cannot be written, and that ends the connection
        if isinstance(response, Later):
            response.when_given(later.give)
        else:
            later.give(response)

    async def _forward_or_not(self, request: Message, version: int) -> Message | None:
        try:
            return await self.forward(request, version)
        except OttlaError:
            return None  # a controller that does not know the request, or not in a version that has room for it

    async def forward(self, request: Message, version: int) -> Message | None:
        """The controller's answer; None when this broker became controller, or nobody was found in time."""
        clock = self._broker.clock
        end_ms = clock.monotonic_ms() + self._limit_ms
        while (left_ms := end_ms - clock.monotonic_ms()) > 0:
            response = await self._ask(request, version, left_ms)
            if response is not None and not is_from_no_controller(response):
                await self._wait_until_visible(request, response)
                return response
            if self._is_controller:
                return None
            await clock.sleep(min(RETRY_MS, left_ms))
        return None

    async def _wait_until_visible(self, request: Message, response: Message) -> None:
        await wait_until(lambda: shows_answer(self._broker.image, request, response), self._broker.clock)

    @property
    def _is_controller(self) -> bool:
        member = self._broker.member
        return member is None or member.role.is_active

    async def _ask(self, request: Message, version: int, timeout_ms: float) -> Message | None:
        controller_id = self._broker.image.controller_id
        if controller_id in (self._broker.id, -1):
            return None
        try:
            answer: Message = await self._controllers.send(
                controller_id, request, timeout_ms=timeout_ms, at_most=version
            )
            return answer
        except OttlaError as error:
            log.info("%s could not be passed on to broker %d: %s", type(request).__name__, controller_id, error)
            if not error.retriable:
                raise
            return None


def is_from_no_controller(response: Any) -> bool:
    """Whether whoever answered was not controller (any more)."""
    results = [each for name in _RESULTS for each in getattr(response, name, ())]
    return any(getattr(each, "error_code", 0) == NotController.code for each in (response, *results))
