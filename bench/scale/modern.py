"""Thousands of members of consumer groups (KIP-848) without thousands of clients: each member is a coroutine.

A member joins, says what it has as soon as that changed, and sends a heartbeat whenever the broker's interval is over,
as Java's and librdkafka's consumers do. Members share connections; each of them has one heartbeat on its way.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from typing import Any, Final

from bench.scale.asking import Connection, open_many

from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

CONNECTIONS: Final = 100
REBALANCE_MS: Final = 300_000
AGAIN_S: Final = 0.1
WAIT_AND_ASK_AGAIN: Final = (14, 15, 16)  # the coordinator loads, is not there yet, is elsewhere


class Refused(Exception):
    """The broker answered with an error that a member does not expect."""


class Line:
    """A connection that several members use, one after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()

    async def ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        async with self._turn:
            return await self._connection.ask(request, 1)


class Member:
    def __init__(self, line: Line, group: str, topic: str) -> None:
        self._line, self._group, self._topic = line, group, topic
        self._id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.interval_s = 5.0
        self._must_acknowledge = False

    @property
    def partitions(self) -> int:
        return sum(len(each.partitions) for each in self.owned)

    async def beat(self) -> bool:
        """One heartbeat; whether the next one is due at once."""
        joins = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=[self._topic] if joins else None,
            topic_partitions=[] if joins else self.owned if self._must_acknowledge else None,
        )
        answer = await self._line.ask(request)
        if answer.error_code in WAIT_AND_ASK_AGAIN:
            await asyncio.sleep(AGAIN_S)
            return True
        if answer.error_code:
            raise Refused(f"heartbeat: error {answer.error_code} {answer.error_message}")
        self.epoch, self.interval_s = answer.member_epoch, answer.heartbeat_interval_ms / 1e3
        self._must_acknowledge = answer.assignment is not None and not joins
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
        return self._must_acknowledge


class Gathering:
    """All members; they have their share when every group has all partitions and nobody more than his part."""

    def __init__(self, members: int, groups: int, partitions: int) -> None:
        self._wanted = groups * partitions
        self._most = -(-partitions * groups // members)
        self._owned = 0
        self._with_too_many = 0
        self.is_shared_out = asyncio.Event()

    async def live(self, member: Member, first_s: float) -> None:
        await asyncio.sleep(first_s)
        while True:
            before = member.partitions
            is_due = await member.beat()
            self._count(before, -1)
            self._count(member.partitions, 1)
            if self._owned == self._wanted and not self._with_too_many:
                self.is_shared_out.set()
            if not is_due:
                await asyncio.sleep(member.interval_s)

    def _count(self, partitions: int, sign: int) -> None:
        self._owned += sign * partitions
        self._with_too_many += sign * (partitions > self._most)


async def modern(task: dict[str, Any]) -> dict[str, Any]:
    """Prints how long it took until all had their share, then lives until stdin ends."""
    groups = [f"modern-{number}" for number in range(task["groups"])]
    connections = await open_many(task["port"], min(CONNECTIONS, task["members"]))
    await _wait_for_coordinator(connections[0], groups[0])
    lines = [Line(each) for each in connections]
    members = [
        Member(lines[number % len(lines)], groups[number % len(groups)], task["topic"])
        for number in range(task["members"])
    ]
    gathering = Gathering(len(members), len(groups), task["partitions"])
    started = time.perf_counter()
    spread_s = task["spread_s"] / len(members)
    living = asyncio.gather(*(gathering.live(each, spread_s * number) for number, each in enumerate(members)))
    shared = asyncio.ensure_future(gathering.is_shared_out.wait())
    await asyncio.wait([living, shared], return_when=asyncio.FIRST_COMPLETED)
    if living.done():
        await living
    print(json.dumps({"shared_s": time.perf_counter() - started}), flush=True)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([living, ended], return_when=asyncio.FIRST_COMPLETED)
    if living.done():
        await living
    living.cancel()
    return {"members": len(members)}


async def _wait_for_coordinator(connection: Connection, group: str) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[group])
    while (await connection.ask(request, 4)).coordinators[0].error_code:  # noqa: ASYNC110 - only the broker knows
        await asyncio.sleep(AGAIN_S)
