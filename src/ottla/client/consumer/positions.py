"""Finds out where to read: committed offsets, earliest, latest and times, and whether a new leader agrees. On the loop.

What must be found out stands in subscription.py, how to ask in offset_lookups.py; here it is carried out, each kind by
one task at a time, and tried again until somebody knows. Errors that do not pass are told to poll().
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from threading import Lock
from typing import TypeVar

from ottla.client.connections import coordinator_node
from ottla.client.consumer.offset_lookups import (
    by_leader,
    epoch_ends,
    epochs_request,
    list_offsets_request,
    listed_offsets,
)
from ottla.client.consumer.offset_reset import LATEST_TIMESTAMP
from ottla.client.consumer.subscription import NoOffsetForPartition, State, Subscription
from ottla.client.network import NetworkClient
from ottla.errors import OttlaError, RequestTimedOut, UnsupportedVersion
from ottla.values import Node, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

T = TypeVar("T")
Committed = Callable[[frozenset[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]]

log = logging.getLogger(__name__)


def aside(network: NetworkClient, node: Node) -> Node:
    """A way to the same broker that is not behind a fetch: that may wait there for half a second. It is the one to the
    coordinator, unless somebody waits there too."""
    other = coordinator_node(node)
    return node if network.in_flight(other) or network.is_unreachable(other) else other


class Positions:
    """Looks up the positions of one consumer."""

    def __init__(
        self,
        network: NetworkClient,
        subscription: Subscription,
        lock: Lock,
        *,
        isolation: int,
        committed: Committed | None,
        fail: Callable[[OttlaError], None],
        moved: Callable[[], None],
    ) -> None:
        """`committed` asks the group, None when there is none; `moved` is called when partitions got positions."""
        self._network = network
        self._subscription = subscription
        self._lock = lock
        self._isolation = isolation
        self._committed = committed
        self._fail = fail
        self._moved = moved
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start_what_is_due(self) -> float:
        """Begin what must be found out; returns the time when something may be tried again."""
        now_ms = self._network.clock.monotonic_ms()
        with self._lock:
            due = {
                "initial": self._subscription.initializing(),
                "reset": self._subscription.awaiting(State.AWAIT_RESET, now_ms),
                "validation": self._subscription.awaiting(State.AWAIT_VALIDATION, now_ms),
            }
        work = {"initial": self._initialize, "reset": self._reset, "validation": self._validate}
        for kind, states in due.items():
            if states and kind not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._run(kind, work[kind]))
                self._tasks[kind] = task
        with self._lock:
            later = self._subscription.next_retry_ms()
        return max(later, now_ms) if not self._tasks else float("inf")

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, kind: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OttlaError as error:
            if error.retriable:
                log.info("positions are not known yet: %s", error)
            else:
                self._fail(error)
            await self._network.clock.sleep(self._network.backoff.delay_ms(0))
        finally:
            self._tasks.pop(kind, None)
            self._moved()

    # --- where to begin ---

    async def _initialize(self) -> None:
        with self._lock:
            turns = {state.name: state.turn for state in self._subscription.initializing()}
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            found = await self._committed(frozenset(turns))
        unknown: list[TopicPartition] = []
        with self._lock:
            for name, turn in turns.items():
                try:
                    self._subscription.initialized(name, turn, found.get(name))
                except NoOffsetForPartition:
                    unknown.append(name)
        if unknown:
            # One lookup per second is enough for an application that does not seek after being told.
            self._fail(NoOffsetForPartition(", ".join(map(str, unknown)), unknown))
            await self._network.clock.sleep(1_000)

    async def _reset(self) -> None:
        now_ms = self._network.clock.monotonic_ms()
        wall_ms = self._network.clock.now_ms()
        with self._lock:
            states = self._subscription.awaiting(State.AWAIT_RESET, now_ms)
            turns = {state.name: state.turn for state in states}
            wanted = {
                state.name: (state.reset or self._subscription.default_reset).timestamp(wall_ms) for state in states
            }
        found, refused = await self._list_once(wanted)
        # A time after the last record means the end.
        at_end = [name for name, each in found.items() if each is None]
        if at_end:
            ends, refused_ends = await self._list_once(dict.fromkeys(at_end, LATEST_TIMESTAMP))
            found, refused = {**found, **ends}, {**refused, **refused_ends}
        with self._lock:
            for name, each in found.items():
                if each is not None and self._subscription.reset_to(name, turns[name], each.offset, each.leader_epoch):
                    log.info("%s is read from offset %s", name, each.offset)
        self._put_off(turns, refused)

    async def _validate(self) -> None:
        now_ms = self._network.clock.monotonic_ms()
        with self._lock:
            states = self._subscription.awaiting(State.AWAIT_VALIDATION, now_ms)
            turns = {state.name: state.turn for state in states}
            epochs = {
                state.name: state.position.offset_epoch
                for state in states
                if state.position is not None and state.position.offset_epoch is not None
            }
        known, unknown = by_leader(epochs, self._network.metadata)
        refused: dict[TopicPartition, OttlaError] = dict.fromkeys(unknown, RequestTimedOut("no leader is known"))
        for node, names in known.items():
            refused.update(await self._validate_at(node, {name: epochs[name] for name in names}, turns))
        self._put_off(turns, refused)

    async def _validate_at(
        self, node: Node, epochs: Mapping[TopicPartition, int], turns: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OttlaError]:
        try:
            response = await self._network.send(
                aside(self._network, node), epochs_request(epochs, self._network.metadata)
            )
        except UnsupportedVersion:
            with self._lock:
                for name in epochs:
                    self._subscription.not_validated(name, turns[name])
            return {}
        except OttlaError as error:
            return dict.fromkeys(epochs, error)
        ends, errors = epoch_ends(response)
        for name, end in ends.items():
            with self._lock:
                truncation = self._subscription.validated(name, turns.get(name, -1), end.epoch, end.end_offset)
            if truncation is not None:
                self._fail(truncation)
                errors[name] = RequestTimedOut("the user decides")
        return errors

    def _put_off(self, turns: Mapping[TopicPartition, int], refused: Mapping[TopicPartition, OttlaError]) -> None:
        """Try these again later, or tell the user if that is pointless."""
        if not refused:
            return
        retry_at_ms = self._network.clock.monotonic_ms() + self._network.backoff.delay_ms(0)
        with self._lock:
            for name in refused:
                state = self._subscription.get(name)
                if state is not None and state.turn == turns.get(name):
                    state.retry_at_ms = retry_at_ms
        self._refresh_for(refused)
        for error in refused.values():
            if not error.retriable:
                self._fail(error)
                break

    def _refresh_for(self, refused: Mapping[TopicPartition, OttlaError]) -> None:
        if refused:
            self._network.metadata.request_update()
            self._network.wake()

    # --- ListOffsets ---

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The offset for each timestamp, tried again until everybody answered or the time is over."""
        clock = self._network.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        left = dict(timestamps)
        attempt = 0
        while left:
            answers, refused = await self._list_once(left, deadline_ms - clock.monotonic_ms())
            found.update(answers)
            left = {name: each for name, each in left.items() if name not in found}
            fatal = next((error for error in refused.values() if not error.retriable), None)
            if fatal is not None:
                raise fatal
            if left:
                wait_ms = self._network.backoff.delay_ms(attempt)
                if clock.monotonic_ms() + wait_ms >= deadline_ms:
                    raise self._too_late(left, refused)
                self._refresh_for(refused)
                await clock.sleep(wait_ms)
                attempt += 1
        return found

    def _too_late(
        self, left: Mapping[TopicPartition, int], refused: Mapping[TopicPartition, OttlaError]
    ) -> RequestTimedOut:
        name = next(iter(left))
        why = refused.get(name) or self._network.metadata.error_of(name.topic) or self._network.metadata.failure
        return RequestTimedOut(f"the offsets of {', '.join(map(str, list(left)[:5]))} could not be found out; {why}")

    async def _list_once(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> tuple[dict[TopicPartition, OffsetAndTimestamp | None], dict[TopicPartition, OttlaError]]:
        """One round, all leaders at the same time: what was found, and why the rest was not."""
        metadata = self._network.metadata
        known, unknown = by_leader(timestamps, metadata)
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        refused: dict[TopicPartition, OttlaError] = {
            name: metadata.error_of(name.topic) or RequestTimedOut(f"no leader of {name} is known") for name in unknown
        }

        async def ask(node: Node, names: list[TopicPartition]) -> None:
            request = list_offsets_request(
                {name: timestamps[name] for name in names},
                metadata,
                isolation=self._isolation,
                timeout_ms=int(min(timeout_ms or self._network.request_timeout_ms, 2**31 - 1)),
            )
            try:
                listed = listed_offsets(
                    await self._network.send(aside(self._network, node), request, timeout_ms=timeout_ms)
                )
                found.update(listed.found)
                refused.update(listed.errors)
            except OttlaError as error:
                refused.update(dict.fromkeys(names, error))

        await asyncio.gather(*(ask(node, names) for node, names in known.items()))
        return found, refused
