"""What only the controller can do is passed on to it, as a broker of Apache Kafka 4 does; the client gets its answer.

1. A client may send what only the controller decides (`decided`) to any broker. One that is not controller
   asks the controller with the same request in the same version, over a connection for nothing else: a long answer
   holds nobody up.
2. A controller that changed, or cannot be reached, is looked for until `limit_ms` has passed (request.timeout.ms). Then
   the broker answers by itself, which is NOT_CONTROLLER.
3. A request that was passed on to us is not passed on again: two brokers that each believe the other to be controller
   would send it to and fro. It comes with a client id that only forwarders have, and that says whose request it is when
   it counts against a quota (quotas/forwarded.py).
4. When the controller has answered, the answer waits until our own view shows what was changed (visible.py).
5. No right is gained by it: the broker that passes a request on has asked what its client may do, and passes on only
   what is allowed (security/needs.py). An answer that the client may not see in full is cut by that broker, too.
6. Settings, quotas and credentials are written by every broker itself and need no controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.cluster.visible import shows_answer, wait_until
from ottla.broker.quotas.forwarded import FORWARDER, Client, client_of, forwarding_client_id
from ottla.broker.quotas.mutations import mutation_quota
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.errors import NotController, OttlaError
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.inter_broker import InterBroker

log = logging.getLogger(__name__)

RETRY_MS: Final = 100.0
R = TypeVar("R", bound=Message)
A = TypeVar("A", bound=Message)

_RESULTS: Final = ("topics", "responses", "results")


async def decided(
    broker: Broker, request: R, context: RequestContext, decide: Callable[[Broker, R, RequestContext], A | Work[A]]
) -> A:
    """The controller's answer; what `decide` answers where this broker is controller, or found none."""
    answer: A | None = await broker.link.forward(request, context)  # type: ignore[assignment]  # to this request
    return await awaited(decide(broker, request, context)) if answer is None else answer


class Forwarder:
    """Asks the controller what clients ask us; see the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, controllers: InterBroker, *, limit_ms: float) -> None:
        self._broker = broker
        self._controllers = controllers
        self._limit_ms = limit_ms

    async def answer(self, request: Message, context: RequestContext) -> Message | None:
        """The controller's answer; None when this broker must answer by itself."""
        if self._is_controller or context.client_id.startswith(FORWARDER):
            return None
        quota, client = None, None
        if context.charges is not None and context.charges.mutation is not None:
            quota = mutation_quota(context.charges, request, context.api_version, self._broker.clock.monotonic_ms)
            if quota.is_exhausted:
                return None  # our own plan says so, topic by topic
            client = client_of(context.principal, context.client_id)
        before = self._broker.image
        try:
            answer = await self.forward(request, context.api_version, client)
        except OttlaError:
            return None  # a controller that does not know the request, or not in a version that has room for it
        if answer is None or quota is None:
            return answer
        return quota.forwarded(answer, before, self._broker.image)

    async def forward(
        self, request: Message, version: int | None = None, client: Client | None = None
    ) -> Message | None:
        """The controller's answer; None when this broker became controller, or nobody was found in time."""
        clock, client_id = self._broker.clock, forwarding_client_id(self._broker.id, client)
        end_ms = clock.monotonic_ms() + self._limit_ms
        while (left_ms := end_ms - clock.monotonic_ms()) > 0:
            response = await self._ask(request, version, left_ms, client_id)
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

    async def _ask(self, request: Message, version: int | None, timeout_ms: float, client_id: str) -> Message | None:
        controller_id = self._broker.image.controller_id
        if controller_id in (self._broker.id, -1):
            return None
        try:
            answer: Message = await self._controllers.send(
                controller_id, request, timeout_ms=timeout_ms, at_most=version, client_id=client_id
            )
            return answer
        except OttlaError as error:
            log.info("%s could not be passed on to broker %d: %s", type(request).__name__, controller_id, error)
            if not error.retriable:
                raise
            return None


def is_from_no_controller(response: Message) -> bool:
    """Whether the broker that answered was not the controller (any more)."""
    results = [each for name in _RESULTS for each in getattr(response, name, ())]
    return any(getattr(each, "error_code", 0) == NotController.code for each in (response, *results))
