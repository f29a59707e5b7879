"""Carries plans out over the network: find the nodes, ask them at the same time, and again what may be asked again.

1. A call ends at the latest when its time is over; what is not done then fails with the last error it had.
2. Requests of a round go out together; a node that is slow delays nobody but its own keys, and the next round. No
   request takes longer than request.timeout.ms.
3. A topic or partition that does not exist is told after a moment, not when time is over. Nothing is made by asking.
4. Between rounds there is a back-off that grows. What was learnt from an error (the leader has moved, the coordinator
   is another) is used in the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, Final, TypeVar

from ottla.client.admin.plans import Plan, Route, Target, Work
from ottla.client.connections import broker_id
from ottla.client.metadata import Metadata
from ottla.client.network import NetworkClient
from ottla.errors import OttlaError, RequestTimedOut, UnknownTopicOrPartition
from ottla.net.retries import Backoff
from ottla.values import Node, TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ANY, _CONTROLLER = "any", "controller"
UNKNOWN_PATIENCE_MS: Final = 1_000
"""For so long a topic may be unknown before we believe it: one that was made just now is not known everywhere yet."""


class _Missing(Exception):
    """What a call is about is not there, and waiting longer would not help."""

    def __init__(self, error: OttlaError) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """Carries out one call after the other, or several at once."""

    def __init__(self, network: NetworkClient, *, backoff: Backoff) -> None:
        self._network = network
        self._backoff = backoff

    async def carry_out(self, plan: Plan[K, V], keys: Iterable[K], *, timeout_ms: float) -> dict[K, V]:
        """The value of each key; raises as the room's story says."""
        work = Work(plan, keys)
        await self.carry_on(work, timeout_ms=timeout_ms, deadline_ms=self._now_ms() + timeout_ms)
        return work.result()

    async def carry_on(self, work: Work[Any, Any], *, timeout_ms: float, deadline_ms: float) -> None:
        """Ask round after round until every key has ended; `timeout_ms` is what the call was given in all."""
        attempt = 0
        while work:
            await self._round(work, deadline_ms)
            if not work:
                break
            delay_ms = self._backoff.delay_ms(attempt)
            attempt += 1
            if self._now_ms() + delay_ms >= deadline_ms:
                name = type(work.plan).__name__
                work.time_is_over(RequestTimedOut(f"{name} was not answered within {timeout_ms:.0f} ms"))
                break
            await self._network.sleep(delay_ms)

    async def _round(self, work: Work[Any, Any], deadline_ms: float) -> None:
        by_node: dict[Node | str, list[Any]] = {}
        for key, node in zip(
            list(work.pending),
            await asyncio.gather(*(self._find(work, key, deadline_ms) for key in list(work.pending))),
            strict=True,
        ):
            if node is not None:
                by_node.setdefault(node, []).append(key)
        await asyncio.gather(
            *(
                self._ask(work, node, portion, deadline_ms)
                for node, keys in by_node.items()
                for portion in work.portions(keys)
            )
        )

    async def _find(self, work: Work[Any, Any], key: Any, deadline_ms: float) -> Node | str | None:
        """The node to ask about `key`; None when it cannot be found now, which the work then knows."""
        try:
            return await self._node_for(work.plan.route, work.plan.target(key), self._left_ms(deadline_ms))
        except _Missing as missing:
            work.refused(key, missing.error)
        except OttlaError as error:
            work.not_asked([key], error)
        return None

    async def _node_for(self, route: Route, target: Target, left_ms: float) -> Node | str:
        match route:
            case Route.ANY:
                return _ANY
            case Route.CONTROLLER:
                return _CONTROLLER
            case Route.LEADER:
                assert isinstance(target, TopicPartition), "the plan's target is a partition"
                return await self._leader(target, left_ms)
            case Route.GROUP:
                return await self._network.coordinator("group", str(target), timeout_ms=left_ms)
            case Route.TRANSACTION:
                return await self._network.coordinator("transaction", str(target), timeout_ms=left_ms)
            case Route.BROKER:
                return await self._broker(target, left_ms)

    async def _leader(self, partition: TopicPartition, left_ms: float) -> Node:
        metadata = self._network.metadata
        metadata.want(partition.topic, now_ms=self._now_ms())
        began_ms = self._now_ms()

        def leader(known: Metadata) -> Node | None:
            is_late = self._now_ms() - began_ms >= UNKNOWN_PATIENCE_MS
            if (error := _why_missing(known, partition)) is not None and (is_late or not error.retriable):
                raise _Missing(error)
            return known.leader_of(partition)

        return await self._network.wait_for(leader, timeout_ms=left_ms, what=f"the leader of {partition}")

    async def _broker(self, target: Target, left_ms: float) -> Node | str:
        if target is None:
            return _ANY
        assert isinstance(target, int), "the plan's target is a broker's id"
        if (node := self._network.metadata.node(target)) is not None:
            return node
        return await self._network.wait_for(
            lambda known: known.node(target), timeout_ms=left_ms, what=f"broker {target}"
        )

    async def _ask(self, work: Work[Any, Any], node: Node | str, keys: list[Any], deadline_ms: float) -> None:
        # A broker that does not answer must not cost the time of the whole call: another may know the answer.
        left_ms = min(self._left_ms(deadline_ms), self._network.request_timeout_ms)
        request, at_most = work.plan.request(keys, int(left_ms)), work.plan.at_most
        try:
            if node == _ANY:
                response = await self._network.ask_any(request, timeout_ms=left_ms, at_most=at_most)
            elif node == _CONTROLLER:
                response = await self._network.ask_controller(request, timeout_ms=left_ms, at_most=at_most)
            else:
                assert isinstance(node, Node)
                response = await self._network.send(node, request, timeout_ms=left_ms, at_most=at_most)
        except OttlaError as error:
            again = work.not_asked(keys, error)
        else:
            again = work.answered(keys, response, broker_id(node) if isinstance(node, Node) else None)
        self._learn(work.plan, again)

    def _learn(self, plan: Plan[Any, Any], again: Iterable[tuple[Any, OttlaError]]) -> None:
        for key, error in again:
            # A broken connection says nothing about who leads, but asking is the only way to find out.
            if error.refresh_metadata or plan.route in (Route.LEADER, Route.CONTROLLER):
                self._network.metadata.request_update()
            if plan.route is Route.GROUP:
                self._network.coordinator_gone("group", str(plan.target(key)))
            elif plan.route is Route.TRANSACTION:
                self._network.coordinator_gone("transaction", str(plan.target(key)))

    def _now_ms(self) -> float:
        return self._network.clock.monotonic_ms()

    def _left_ms(self, deadline_ms: float) -> float:
        return max(deadline_ms - self._now_ms(), 1.0)


def _why_missing(known: Metadata, partition: TopicPartition) -> OttlaError | None:
    """Why there is no such partition, as far as is known."""
    partitions = known.partitions_of(partition.topic)
    if partitions is None:
        return known.error_of(partition.topic)
    if partition.partition < len(partitions):
        return None
    return UnknownTopicOrPartition(f"{partition.topic} has {len(partitions)} partitions, none is {partition.partition}")
