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

from ottla.client.connections import WatchedConnection
from ottla.client.network import NetworkClient
from ottla.client.producer.batches.produce_frames import Accepted
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sending.carried import PRODUCE, Carried
from ottla.client.producer.sending.outcomes import Outcomes
from ottla.client.producer.sending.sender import Ask, Connect, Decision, Fail, RefreshMetadata, Send, Sender, WakeAt
from ottla.client.producer.transactions.states import PlannedRequest
from ottla.clock import Timer
from ottla.errors import NotConnected, OttlaError, UnknownServerError
from ottla.ordered_set import OrderedSet
from ottla.protocol.api import api_of
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.schema import ZERO_UUID
from ottla.records.compression import Compression

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
        self._timer: Timer | None = None
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._connecting: set[int] = set()
        self._topic_ids: dict[str, bytes] = {}  # as this version of the metadata knows them
        self._topic_ids_version = -1
        self._plain_terms = (None, acks, request_timeout_ms, False)
        self._is_compressed = sender.accumulator.compression is not Compression.NONE
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
        sends: list[Send] = []  # to the same node: they leave together
        try:
            for decision in self._sender.plan(now_ms):
                if type(decision) is Send and (not sends or sends[0].node is decision.node):
                    sends.append(decision)
                    continue
                if sends:
                    self._carry(sends, now_ms)
                    sends = []
                if type(decision) is WakeAt:
                    wake_ms = decision.ms
                elif type(decision) is Send:
                    sends = [decision]
                else:
                    self._act(decision)
            if sends:
                self._carry(sends, now_ms)
        except Exception:
            log.exception("a turn of the sender failed; it is tried again in %.0f ms", FAULT_WAIT_MS)
            wake_ms = now_ms + FAULT_WAIT_MS
        if wake_ms < self._armed_ms:
            self._arm(wake_ms)
        self.on_turn()

    def _act(self, decision: Decision) -> None:
        match decision:
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
        clock = self._network.clock
        self._timer = clock.call_later(wake_ms - clock.monotonic_ms(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._armed_ms = math.inf
        self.turn_soon()

    # --- requests ---

    def _carry(self, sends: list[Send], now_ms: float) -> None:
        """Write produce requests to one node; `Carried` hears of the end of each."""
        node = sends[0].node
        requests: list[Carried] = []
        try:
            at_most = self._name_topics(sends)
            connection = self._network.connection_to(node)
            version = connection.version_of(PRODUCE, at_most)
            requests = [Carried(self, send, now_ms, connection, version, self._topic_ids) for send in sends]
            if version is None:
                raise NotConnected(f"the connection to {node} was lost before a batch was written to it")
            if self._is_compressed:
                self._close_compressed(sends)
            self._metrics.sending(sends, now_ms)
        except Exception as error:
            for carried in requests or [Carried(self, send, now_ms) for send in sends]:
                carried.failed(error)
            return
        started = 0
        if self._acks != 0:
            started = self._network.start_exchanges(connection, requests, now_ms, self._request_timeout_ms)
        for carried in requests[started:]:
            self._start_request(carried, version)

    def _start_request(self, carried: Carried, version: int) -> None:
        try:
            self._network.start_request(
                carried.send.node,
                carried.written(),
                carried,
                version=version,
                timeout_ms=self._request_timeout_ms,
                expects_response=self._acks != 0,
            )
        except Exception as error:
            carried.failed(error)

    def _name_topics(self, sends: list[Send]) -> int | None:
        """Find the ids of the topics in the requests; gives the newest version that can name them."""
        manager = self._sender.transactions
        at_most = None if manager is None else manager.produce_version_limit
        metadata = self._network.metadata
        if metadata.version != self._topic_ids_version:
            # Another dictionary, never a changed one: requests on their way have the one they were written with.
            self._topic_ids, self._topic_ids_version = {}, metadata.version
        topic_ids = self._topic_ids
        for send in sends:
            for batch in send.batches:
                topic = batch.delivery.topic
                topic_id = topic_ids.get(topic)
                if topic_id is None:
                    topic_ids[topic] = topic_id = metadata.topic_id(topic) or ZERO_UUID
                if topic_id == ZERO_UUID:
                    at_most = min(TOPIC_ID_VERSION - 1, TOPIC_ID_VERSION if at_most is None else at_most)
        return at_most

    def _close_compressed(self, sends: list[Send]) -> None:
        for batch in [each for send in sends for each in send.batches]:
            if batch.is_compressed:
                batch.close()
                ratios = self._sender.accumulator.ratios
                ratios.update(batch.delivery.topic, batch.compression, batch.compression_ratio)

    def terms(self) -> tuple[str | None, int, int, bool]:
        """What every request says of its producer: transactional id, acks, time-out, whether it is transactional."""
        manager = self._sender.transactions
        if manager is None or manager.transactional_id is None:
            return self._plain_terms
        return manager.transactional_id, self._acks, self._request_timeout_ms, manager.is_transactional

    def minded(self, carried: Carried, connection: WatchedConnection, response: Any) -> None:
        """An answer came straight from the connection; the network has to know of it, too."""
        self._network.exchange_answered(connection, carried, response, carried.sent_ms)

    def explained(self, connection: WatchedConnection, error: Exception) -> Exception:
        return self._network.explained(connection, error)

    def ended(self, carried: Carried, response: Any) -> None:
        """The end of a request: its answer, or None when none was expected."""
        send, now_ms = carried.send, self._network.clock.monotonic_ms()
        if response is None:
            self._outcomes.not_asked(send)
            return
        self._metrics.answered(now_ms - carried.sent_ms, response.throttle_time_ms, now_ms)
        if type(response) is Accepted:
            self._outcomes.accepted(send, response)
        else:
            names = {topic_id: name for name, topic_id in carried.topic_ids.items()}
            self._outcomes.answered(send, response, now_ms, names)

    def not_ended(self, carried: Carried, error: Exception) -> None:
        """There is no answer; nobody knows whether the broker has the batches."""
        if not isinstance(error, OttlaError):
            log.error("a produce request to %s failed in itself", carried.send.node, exc_info=error)
            error = UnknownServerError(f"{type(error).__name__}: {error}")
        self._outcomes.not_answered(carried.send, error, self._network.clock.monotonic_ms())
        self._network.wake()

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
