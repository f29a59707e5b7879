"""Carries out what the sender plans: the thin part that has a loop, a clock and a network.

1. A turn is made when somebody wakes it, when an answer came, when metadata changed, and when the plan asked for it.
   Answers that come together share one turn.
2. A caller's thread wakes it only when that changes something: not while a turn is due anyway, and not while every
   node with something to send has all requests it may have in flight, because then the next answer makes the turn.
   Each wake-up of a thread costs the caller the interpreter lock.
3. Every request that is sent ends in `Outcomes`, exactly once, whatever happens; so does every batch of it.
4. A fault of ours in a turn is logged and fails nobody's records: the next turn tries again, a little later.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.client.network import NetworkClient
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sending.outcomes import Outcomes
from ottla.client.producer.sending.sender import Ask, Connect, Decision, Fail, RefreshMetadata, Send, Sender, WakeAt
from ottla.client.producer.transactions.states import PlannedRequest
from ottla.errors import OttlaError, UnknownServerError
from ottla.protocol.api import api_of
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import ZERO_UUID

log = logging.getLogger(__name__)

TOPIC_ID_VERSION: Final = 13
FAULT_WAIT_MS: Final = 100.0


class SenderLoop:
    """Turns and requests of one producer, on one event loop."""

    def __init__(
        self,
        sender: Sender,
        outcomes: Outcomes,
        network: NetworkClient,
        metrics: ProducerMetrics,
        *,
        acks: int,
        request_timeout_ms: int,
        linger_ms: float,
        wake: Callable[[Callable[[], None]], None],
    ) -> None:
        self._sender = sender
        self._outcomes = outcomes
        self._network = network
        self._metrics = metrics
        self._acks = acks
        self._request_timeout_ms = request_timeout_ms
        self._linger_ms = linger_ms
        self._wake_loop = wake  # call_soon_threadsafe of the loop
        self._turn_is_due = False
        self._armed_ms = math.inf
        self._timer: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting: set[int] = set()
        self._is_stopped = False
        self.on_turn: Callable[[], None] = _nothing
        sender.accumulator.on_new_batch = self.new_batch
        network.on_update(self.turn_soon)

    # --- who wakes it ---

    def new_batch(self, was_full: bool) -> None:
        """A caller opened a batch, and closed a full one before; any thread."""
        if self._turn_is_due:
            return
        if was_full:
            if self._sender.is_saturated:
                return
        elif self._armed_ms <= self._network.clock.monotonic_ms() + self._linger_ms:
            return
        self._turn_is_due = True
        self._wake_loop(self._turn)

    def wake(self) -> None:
        """Something changed that only a turn can see; any thread."""
        if not self._turn_is_due:
            self._turn_is_due = True
            self._wake_loop(self._turn)

    def turn_soon(self) -> None:
        """The same, from the loop itself."""
        if not self._turn_is_due and not self._is_stopped:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        """No more turns; requests under way end by the network's end."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    async def drained(self) -> None:
        """Wait for the requests that are under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- a turn ---

    def _turn(self) -> None:
        if self._is_stopped:
            return
        self._turn_is_due = False
        now_ms = self._network.clock.monotonic_ms()
        wake_ms = math.inf
        try:
            for decision in self._sender.plan(now_ms):
                if type(decision) is WakeAt:
                    wake_ms = decision.ms
                else:
                    self._act(decision, now_ms)
        except Exception:
            log.exception("a turn of the sender failed; it is tried again in %.0f ms", FAULT_WAIT_MS)
            wake_ms = now_ms + FAULT_WAIT_MS
        if wake_ms < self._armed_ms:
            self._arm(wake_ms)
        self.on_turn()

    def _act(self, decision: Decision, now_ms: float) -> None:
        match decision:
            case Send():
                self._start(self._carry(decision, now_ms))
            case Fail():
                self._outcomes.give_up(decision.batch, decision.error, is_unknown=decision.is_unknown)
                self.turn_soon()
            case Ask():
                self._start(self._ask(decision.planned))
            case Connect():
                if decision.node.id not in self._connecting:
                    self._connecting.add(decision.node.id)
                    self._start(self._connect(decision))
            case RefreshMetadata():
                self._network.metadata.request_update()
                self._network.wake()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _arm(self, wake_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ms = wake_ms
        self._timer = asyncio.get_running_loop().create_task(self._sleep_until(wake_ms))

    async def _sleep_until(self, wake_ms: float) -> None:
        clock = self._network.clock
        await clock.sleep(wake_ms - clock.monotonic_ms())
        self._timer = None
        self._armed_ms = math.inf
        self.turn_soon()

    # --- requests ---

    async def _carry(self, send: Send, now_ms: float) -> None:
        """One produce request from its bytes to its end."""
        clock = self._network.clock
        try:
            request, at_most = self._request_of(send)
            # The metadata may have forgotten a topic when the answer comes: a broker that was just started knows none.
            names = {topic.topic_id: topic.name for topic in request.topic_data}
            self._metrics.sending(send.batches, now_ms)
            answer = self._network.send(
                send.node,
                request,
                at_most=at_most,
                timeout_ms=self._request_timeout_ms,
                expects_response=self._acks != 0,
            )
            del request  # it refers to the buffers, which are to be used again once the answer is here
            response = await answer
            ended_ms = clock.monotonic_ms()
            if response is None:
                self._outcomes.not_asked(send)
            else:
                self._metrics.latency.record(ended_ms - now_ms, ended_ms)
                self._metrics.throttle.record(response.throttle_time_ms, ended_ms)
                self._outcomes.answered(send, response, ended_ms, names)
        except OttlaError as error:
            self._outcomes.not_answered(send, error, clock.monotonic_ms())
            self._network.wake()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("a produce request to %s failed in itself", send.node)
            fault = UnknownServerError(f"{type(error).__name__}: {error}")
            self._outcomes.not_answered(send, fault, clock.monotonic_ms())
        finally:
            self.turn_soon()

    def _request_of(self, send: Send) -> tuple[ProduceRequest, int | None]:
        metadata = self._network.metadata
        manager = self._sender.transactions
        is_transactional = manager is not None and manager.is_transactional
        topics: dict[str, TopicProduceData] = {}
        at_most = None if manager is None else manager.produce_version_limit
        for batch in send.batches:
            topic = topics.get(batch.delivery.topic)
            if topic is None:
                topic_id = metadata.topic_id(batch.delivery.topic) or ZERO_UUID
                if topic_id == ZERO_UUID:
                    at_most = min(TOPIC_ID_VERSION - 1, TOPIC_ID_VERSION if at_most is None else at_most)
                topic = TopicProduceData(name=batch.delivery.topic, topic_id=topic_id, partition_data=[])
                topics[batch.delivery.topic] = topic
            stamp = batch.stamp
            if stamp is None:
                records = batch.seal(-1, -1, -1, False)
            else:
                records = batch.seal(stamp.producer_id, stamp.epoch, stamp.base_sequence, is_transactional)
            if batch.is_compressed:
                ratios = self._sender.accumulator.ratios
                ratios.update(batch.delivery.topic, batch.compression, batch.compression_ratio)
            topic.partition_data.append(PartitionProduceData(index=batch.delivery.partition, records=records))
        request = ProduceRequest(
            transactional_id=manager.transactional_id if manager is not None else None,
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, at_most

    async def _connect(self, connect: Connect) -> None:
        try:
            await self._network.ready(connect.node, timeout_ms=self._request_timeout_ms)
        except OttlaError as error:
            log.info("nothing can be sent to %s: %s", connect.node, error)
            self._network.metadata.request_update()
            self._network.wake()
            if error.invalid_configuration:
                self._refuse_all(connect, error)
        finally:
            self._connecting.discard(connect.node.id)
            self.turn_soon()

    def _refuse_all(self, connect: Connect, error: OttlaError) -> None:
        """No waiting will make this node take records: tell whoever waits for it."""
        for batch in self._sender.accumulator.take_all(lambda batch: batch.queue.leader == connect.node):
            self._outcomes.give_up(batch, error, is_unknown=False)

    # --- requests of transactions ---

    async def _ask(self, planned: PlannedRequest) -> None:
        manager = self._sender.transactions
        assert manager is not None, "only a manager plans such requests"
        clock = self._network.clock
        try:
            response = await self._asked(planned)
            manager.set_features(self._network.features.get("transaction.version", 0))
            forget = manager.answered(planned, response, clock.monotonic_ms())
        except OttlaError as error:
            forget = manager.failed(planned, error, clock.monotonic_ms())
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("%s failed in itself", planned.kind.name)
            fault = UnknownServerError(f"{type(error).__name__}: {error}")
            forget = manager.failed(planned, fault, clock.monotonic_ms())
        finally:
            self.turn_soon()
        if forget and planned.to != "any" and planned.coordinator_key is not None:
            self._network.coordinator_gone(planned.to, planned.coordinator_key)

    async def _asked(self, planned: PlannedRequest) -> object:
        manager = self._sender.transactions
        assert manager is not None, "only a manager plans such requests"
        if planned.to == "any" or planned.coordinator_key is None:
            return await self._network.ask_any(planned.request, at_most=planned.at_most)
        node = await self._network.coordinator(planned.to, planned.coordinator_key)
        versions = await self._network.ready(node, is_patient=False)  # another broker may be coordinator by now
        if planned.to == "transaction":
            manager.coordinator_ready(versions.choose(api_of(InitProducerIdRequest)))
            manager.set_features(self._network.features.get("transaction.version", 0))
        return await self._network.send(node, planned.request, at_most=planned.at_most)


def _nothing() -> None:
    return
