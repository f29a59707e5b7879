"""The middle of a share consumer: what both faces share. It runs on a loop, and lets a caller's thread take records.

Decisions are in_flight.py, requests.py and membership.py; here requests are sent, and whoever waits is told. Shared
between the caller and the loop, under one lock: the records in flight and what was fetched. What only the caller may do
waits in `attention` until its next call: errors to raise, callbacks of acknowledgements.

1. `news` is called on the loop whenever a waiting poll should look again.
2. Everything that waits is a coroutine for the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from ottla.client.background import Background
from ottla.client.consumer.heap import keep_heap
from ottla.client.deadline import Deadline
from ottla.client.network import NetworkClient
from ottla.client.share.commits import CommitResult, PendingCommit, notices
from ottla.client.share.group import ShareGroup
from ottla.client.share.in_flight import AcknowledgeType, Held, InFlight, NotHeld, Outcome, State
from ottla.client.share.metrics import ShareMetrics
from ottla.client.share.reader import ShareReader
from ottla.client.share.records import RecordOwner, ShareRecord
from ottla.client.share.requests import ACQUIRE_MODES, Demand, ShareAnswer, ShareLimits, ShareOrder, ShareRequests
from ottla.client.share.settings import ShareConsumerSettings
from ottla.clock import Clock, SystemClock
from ottla.errors import OttlaError
from ottla.net.link import Transport
from ottla.values import Node, random_uuid, uuid_to_text

log = logging.getLogger(__name__)


class ShareCore(Background):
    """One share consumer, without a face."""

    def __init__(
        self,
        settings: ShareConsumerSettings,
        owner: RecordOwner,
        *,
        news: Callable[[], None],
        wake_loop: Callable[[], None],
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(clock or SystemClock(), news, wake_loop)
        keep_heap()
        self.settings = settings
        self.lock = threading.Lock()
        self.in_flight = InFlight()
        self.reader = ShareReader(self.in_flight, self.lock, owner, settings)
        self.demand = Demand()
        self._is_last_demand = False
        self.wants_notices = False  # somebody has a callback for acknowledgements
        self.sends_acks = False  # workers want every acknowledgement on its way at once
        self.metrics = ShareMetrics(settings.client_id)
        self.member_id = uuid_to_text(random_uuid(os.urandom if random is None else random.randbytes))
        self.network: NetworkClient
        self.requests: ShareRequests
        self.group: ShareGroup
        self._world: dict[str, Any] = {"transport": transport, "clock": clock, "random": random}
        self._answered = asyncio.Event()
        self._commits: list[PendingCommit] = []
        self._dead_waiting: deque[tuple[ShareRecord, BaseException | None]] = deque()
        self._dead_writing = 0
        self._seen_failure: OttlaError | None = None
        self._is_closing = False
        self._dead_letters = None
        if settings.share_dead_letter_topic is not None:
            from ottla.client.share.dead_letters import DeadLetters

            self._dead_letters = DeadLetters(settings, **self._world)
            self.reader.dead_letter_after(settings.share_dead_letter_deliveries, self.dead_letter)

    # --- life, on the loop ---

    async def start(self) -> None:
        assert self.settings.group_id is not None, "checked by the settings"
        self.network = NetworkClient.from_settings(self.settings, **self._world)
        self.network.measure(self.metrics.registry, "consumer", self.settings.client_id)
        self.network.metadata.want_only(())
        self.requests = ShareRequests(
            self.in_flight,
            self.network.metadata,
            limits_of(self.settings),
            group_id=self.settings.group_id,
            member_id=self.member_id,
        )
        self.group = ShareGroup(self, self.settings.group_id, self.member_id)
        await self.network.start()
        self.network.on_update(self.wake)
        self._start_steps("ottla-share-consumer")

    async def close(self, timeout_ms: float) -> None:
        """Send the last acknowledgements, leave the group and end everything that runs."""
        if self._is_closing:
            return
        deadline = Deadline(self.clock, timeout_ms)
        try:
            await self.leave(deadline)
        except OttlaError as error:
            log.debug("a share consumer did not leave in order: %s", error)
        self._is_closing = True
        await self._end_tasks()
        if self._dead_letters is not None:
            await self._dead_letters.close(deadline.left_s())
        await self.network.close(timeout_ms=deadline.left_ms())
        with self.lock:
            self.reader.clear()

    async def leave(self, deadline: Deadline) -> None:
        """Send what was said of records, give the others back, and leave the group."""
        with self.lock:
            self.demand = Demand()
            self.reader.clear()
        await self._until(lambda: not (self._dead_waiting or self._dead_writing), deadline)
        await self._until(lambda: not self.requests.is_busy, deadline)
        with self.lock:
            orders = self.requests.goodbyes(self.clock.monotonic_ms())
        await asyncio.gather(*(self._send(order, deadline.left_ms()) for order in orders))
        self.group.leave()
        self.wake()
        await self._until(lambda: self.group.has_left, deadline)

    async def _until(self, condition: Callable[[], bool], deadline: Deadline) -> bool:
        """Look after every answer, until time is over."""
        while not condition():
            self._answered.clear()
            self.wake()
            try:
                async with self.clock.timeout(deadline.left_ms()):
                    await self._answered.wait()
            except TimeoutError:
                return condition()
        return True

    # --- what goes on in the background ---

    def note_answer(self) -> None:
        """Something was answered: whoever waits looks again."""
        self._answered.set()
        self.wake()

    def _step(self) -> float:
        try:
            self._raise_refusals()
            return min(self.group.step(), self._send_requests())
        except Exception as error:
            # A fault here would leave a consumer that silently stands still.
            log.exception("the share consumer failed in itself")
            self.fail(error)
            return self.clock.monotonic_ms() + 1_000

    def _raise_refusals(self) -> None:
        """What no waiting mends is raised by the next poll: a wrong login, a topic that may not be read."""
        failure = self.network.metadata.failure
        if failure is not self._seen_failure:
            self._seen_failure = failure
            if failure is not None and failure.invalid_configuration:
                self.fail(copy.copy(failure))
        for topic in self.group.topics:
            error = self.network.metadata.error_of(topic)
            if error is not None and error.invalid_configuration:
                self.fail(error)

    def _send_requests(self) -> float:
        now_ms = self.clock.monotonic_ms()
        while self._dead_waiting:
            self._dead_writing += 1
            self.spawn(self._dead_letter(*self._dead_waiting.popleft()))
        with self.lock:
            self._take_assignment()
            renew_ms = self.in_flight.renew_due(now_ms)
            orders = self.requests.plan(now_ms, self._may_ask, self._demand_now())
            if self._is_last_demand and self.requests.is_busy:
                self.demand, self._is_last_demand = Demand(), False
            due_ms = min(renew_ms, self.requests.next_due_ms(now_ms))
        for order in orders:
            self.spawn(self._send(order))
        if self.requests.needs_metadata:
            self.requests.needs_metadata = False
            self.network.wake()
        return due_ms

    def _take_assignment(self) -> None:
        assigned = self.group.assignment
        if assigned is not self.requests.assigned:
            gone = self.requests.assigned - assigned
            self.requests.assigned = assigned
            self.in_flight.release_buffered(gone)

    def _demand_now(self) -> Demand:
        wanted = self.demand if self.reader.is_empty else Demand()
        return wanted._replace(send_acks=self.sends_acks or bool(self._commits))

    def _may_ask(self, node: Node) -> bool:
        return not self.network.is_unreachable(node)

    async def _send(self, order: ShareOrder, timeout_ms: float | None = None) -> None:
        try:
            response = await self.network.send(order.node, order.request, version=order.version, timeout_ms=timeout_ms)
        except OttlaError as error:
            log.debug("no answer to a share request from broker %s: %s", order.node.id, error)
            with self.lock:
                answer = self.requests.failed(order, error, self.clock.monotonic_ms())
            if error.invalid_configuration:
                answer.errors.append(error)
        else:
            now_ms = self.clock.monotonic_ms()
            with self.lock:
                answer = self.requests.answered(order, response, now_ms)
                for piece in answer.pieces:
                    self.reader.add(piece)
            self.metrics.answered(order, response, now_ms)
        self._handle(answer)

    def _handle(self, answer: ShareAnswer) -> None:
        self._end_acks(answer.outcomes)
        for error in answer.errors:
            self.fail(error)
        if answer.pieces:
            asyncio.get_running_loop().call_soon(self._news)
        self.note_answer()

    def _end_acks(self, outcomes: list[Outcome]) -> None:
        for commit in self._commits:
            commit.answered(outcomes)
        self.metrics.acknowledged(outcomes, self.clock.monotonic_ms())
        for notice in notices(outcomes):
            if notice.error is not None:
                log.warning("acknowledgements of group %s failed: %s", self.settings.group_id, notice.error)
            if self.wants_notices:
                self.attention.append(notice)
                self._news()

    # --- what the application does, in its own thread ---

    def want(self, records: int, acquire_mode: int | None = None) -> None:
        """Somebody waits for so many records."""
        mode = ACQUIRE_MODES[self.settings.share_acquire_mode] if acquire_mode is None else acquire_mode
        with self.lock:
            self.demand, self._is_last_demand = Demand(records, mode), False
        self._wake_loop()

    def waited(self, found: bool) -> None:
        """Nobody waits any more. A poll that was too short for an answer still lets one fetch leave, for the next."""
        with self.lock:
            if found or self.requests.is_busy:
                self.demand = Demand()
            self._is_last_demand = bool(self.demand.records)

    def polled(self) -> None:
        """The application keeps pace."""
        self.group.polled(self.clock.monotonic_ms())

    def delivered(self, records: Iterable[ShareRecord]) -> list[ShareRecord]:
        """Those that are still ours are with the application now."""
        now_ms = self.clock.monotonic_ms()
        with self.lock:
            return [record for record in records if self.in_flight.deliver(record._held, now_ms)]

    def unacknowledged(self) -> list[Held]:
        """With the application, still ours, and nothing was said of it."""
        now_ms = self.clock.monotonic_ms()
        with self.lock:
            return [held for held in self.in_flight.unacknowledged() if held.locked_until_ms > now_ms]

    def accept_delivered(self) -> None:
        with self.lock:
            self.in_flight.accept_delivered()

    def acknowledge(self, held: Held, ack: AcknowledgeType) -> None:
        with self.lock:
            is_urgent = self.in_flight.acknowledge(held, ack)
        if self.sends_acks or is_urgent:
            self._wake_loop()

    def keep(self, held: Held) -> None:
        with self.lock:
            if held.state is State.GONE:
                raise NotHeld(f"{held.name} at offset {held.offset}")
            self.in_flight.keep(held, self.clock.monotonic_ms() + self.settings.share_renew_max_ms)
        self._wake_loop()

    # --- dead letters ---

    def is_dead(self, record: ShareRecord) -> bool:
        """Whether a record that is released now goes to the dead letters."""
        limit = self.settings.share_dead_letter_deliveries
        return self._dead_letters is not None and record.delivery_count >= limit

    def dead_letter(self, record: ShareRecord, cause: BaseException | None) -> None:
        """Write it to the dead letters, then reject it. From any thread."""
        with self.lock:
            now_ms = self.clock.monotonic_ms()
            if record._held.state is State.BUFFERED and not self.in_flight.deliver(record._held, now_ms):
                return
            self.in_flight.keep(record._held, now_ms + self.settings.share_renew_max_ms)
        self._dead_waiting.append((record, cause))
        self._wake_loop()

    async def _dead_letter(self, record: ShareRecord, cause: BaseException | None) -> None:
        assert self._dead_letters is not None, "asked only with a topic for them"
        ack = AcknowledgeType.REJECT
        try:
            await self._dead_letters.write(record, cause)
            log.warning("%s-%s@%s is a dead letter now: %r", record.topic, record.partition, record.offset, cause)
        except OttlaError as error:
            ack = AcknowledgeType.RELEASE
            log.error("a dead letter could not be written to %s: %s", self._dead_letters.topic, error)
        finally:
            self._dead_writing -= 1
        with contextlib.suppress(NotHeld):  # it comes again, and its copy too
            self.acknowledge(record._held, ack)
        self.note_answer()

    # --- what is waited for; on the loop ---

    async def commit(self, timeout_ms: float) -> CommitResult:
        """Send every acknowledgement; returns what became of them, by partition."""
        deadline = Deadline(self.clock, timeout_ms)
        await self._until(lambda: not (self._dead_waiting or self._dead_writing), deadline)
        with self.lock:
            acks = [held for held in self.in_flight if held.state in (State.ACKNOWLEDGED, State.SENDING)]
        commit = PendingCommit(acks)
        self._commits.append(commit)
        try:
            if not await self._until(lambda: commit.is_done, deadline):
                commit.time_out(timeout_ms)
        finally:
            self._commits.remove(commit)
        return commit.result

    def commit_in_background(self) -> None:
        self.spawn(self.commit(self.settings.call_timeout_ms))

    async def subscribe(self, topics: frozenset[str]) -> None:
        self.network.metadata.want_only(topics)
        self.group.subscribe(topics)
        self.network.wake()
        self.wake()


def limits_of(settings: ShareConsumerSettings) -> ShareLimits:
    return ShareLimits(
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        check_crcs=settings.check_crcs,
        retry_ms=settings.retry_backoff_ms,
    )
