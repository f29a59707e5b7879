"""Orders to one broker: in order, one at a time, again and again until it answers or leaves.

1. The next order is sent when the one before was answered. No answer (a cut connection, a time-out): the same one is
   sent again after a pause that grows from 50 ms to 2 s. A broker applies an order that it has already without harm.
2. Only leaving ends it: the channel belongs to one registration (broker epoch), and its owner closes it when that is
   over. What still waits then is dropped; a new registration gets everything anyway.
3. At most WAITING_LIMIT orders wait. Beyond that all but StopReplica are dropped, and when the broker has caught up
   `fell_behind` is called: it gets everything again. StopReplica is kept, because nothing else repeats it.
4. An answer that the order was for another registration (STALE_BROKER_EPOCH) ends that order: the broker came back,
   and its new registration is on the way to us.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from ottla.clock import Clock
from ottla.cluster.controller.orders import Order
from ottla.cluster.model import Broker
from ottla.errors import OttlaError, StaleBrokerEpoch
from ottla.ordered_set import OrderedSet
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.schema import Message

log = logging.getLogger(__name__)

Send: TypeAlias = Callable[[int, Message], Awaitable[Any]]
"""Returns the broker's answer; raises when there is none, then it is tried again."""

WAITING_LIMIT: Final = 1_000
FIRST_PAUSE_MS: Final = 50.0
LONGEST_PAUSE_MS: Final = 2_000.0
_NO_ANSWER: Final = (OSError, EOFError, OttlaError)


class BrokerChannel:
    """`answered(order, response)` is called on the loop for every answer, and `fell_behind()` as in 3."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        send: Send,
        answered: Callable[[Order, Any], None],
        fell_behind: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self._send = send
        self._answered = answered
        self._fell_behind = fell_behind
        self._clock = clock
        self._waiting: deque[Order] = deque()
        self._has_dropped = False
        self._is_sending = False
        self._something_waits = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"orders to broker {broker_id}")

    @property
    def is_idle(self) -> bool:
        """Every order is answered."""
        return not self._waiting and not self._is_sending

    def put(self, order: Order) -> None:
        """Send it after those that wait."""
        if len(self._waiting) >= WAITING_LIMIT:
            self._drop()
        self._waiting.append(order)
        self._something_waits.set()

    def _drop(self) -> None:
        stops = [each for each in self._waiting if isinstance(each.request, StopReplicaRequest)]
        if len(stops) < len(self._waiting):
            log.warning("broker %d does not answer; it will get everything when it does", self.broker_id)
            self._has_dropped = True
            self._waiting = deque(stops)

    async def _run(self) -> None:
        while True:
            await self._something_waits.wait()
            while self._waiting:
                order = self._waiting.popleft()
                self._is_sending = True
                self._take(order, await self._sent(order))
                self._is_sending = False
            self._something_waits.clear()
            if self._has_dropped:
                self._has_dropped = False
                self._fell_behind()

    async def _sent(self, order: Order) -> Any:
        pause_ms = FIRST_PAUSE_MS
        while True:
            try:
                return await self._send(self.broker_id, order.request)
            except _NO_ANSWER as error:
                log.info("%s to broker %d: %s", type(order.request).__name__, self.broker_id, error)
            await self._clock.sleep(pause_ms)
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)

    def _take(self, order: Order, response: Any) -> None:
        if response.error_code == StaleBrokerEpoch.code:
            log.info("broker %d is not the one of epoch %d any more", self.broker_id, self.broker_epoch)
            return
        self._answered(order, response)

    def close(self) -> asyncio.Task[None]:
        """The broker is gone: what waits is dropped. Returns the task, which ends soon."""
        self._waiting.clear()
        self._task.cancel()
        return self._task


class BrokerChannels:
    """A channel for every registration of a broker. `fell_behind(broker_id, broker_epoch)` as in 3."""

    def __init__(
        self,
        send: Send,
        answered: Callable[[Order, Any], None],
        fell_behind: Callable[[int, int], None],
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._send = send
        self._answered = answered
        self._fell_behind = fell_behind
        self._channels: dict[int, BrokerChannel] = {}
        self._closing: OrderedSet[asyncio.Task[None]] = OrderedSet()

    @property
    def is_idle(self) -> bool:
        """Every order is answered."""
        return all(each.is_idle for each in self._channels.values())

    def follow(self, brokers: Mapping[int, Broker]) -> None:
        """Open channels to registrations that are new, close those to registrations that are over."""
        for broker_id, channel in list(self._channels.items()):
            if broker_id not in brokers or brokers[broker_id].epoch != channel.broker_epoch:
                self._close(broker_id)
        for broker_id, broker in brokers.items():
            if broker_id not in self._channels:
                behind = partial(self._fell_behind, broker_id, broker.epoch)
                channel = BrokerChannel(broker_id, broker.epoch, self._send, self._answered, behind, self._clock)
                self._channels[broker_id] = channel

    def put(self, orders: Iterable[Order]) -> None:
        """Send each to its broker, which is one of those that are followed."""
        for order in orders:
            self._channels[order.broker_id].put(order)

    def _close(self, broker_id: int) -> None:
        task = self._channels.pop(broker_id).close()
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def close(self) -> None:
        """Follow nobody; what waits is dropped."""
        self.follow({})

    async def closed(self) -> None:
        """Until nothing runs any more."""
        await asyncio.gather(*self._closing, return_exceptions=True)
