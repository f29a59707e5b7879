"""A thousand consumer groups without a thousand clients: each member is a coroutine with a connection of its own.

A member joins (classic protocol, as confluent-kafka's and Java's defaults do), is the leader of its group of one, gives
itself the topic, commits an offset, and sends heartbeats every HEARTBEAT_S, as clients do by default.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, Final

from bench.scale.asking import Connection, open_many

from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

HEARTBEAT_S: Final = 3.0
SESSION_MS: Final = 45_000
AGAIN_S: Final = 0.1
WAIT_AND_ASK_AGAIN: Final = (14, 15, 16)  # the coordinator loads, is not there yet, is elsewhere
MEMBER_ID_REQUIRED: Final = 79
SUBSCRIPTION: Final = b"\x00\x00\x00\x00\x00\x01\x00\x04walk\xff\xff\xff\xff"
ASSIGNMENT: Final = b"\x00\x00\x00\x00\x00\x01\x00\x04walk\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"


class Refused(Exception):
    """The broker answered with an error that a member does not expect."""


class Member:
    """The only member of its group."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._id = ""
        self._generation = -1

    async def join(self) -> None:
        while (answer := await self._ask_to_join()).error_code:
            if answer.error_code == MEMBER_ID_REQUIRED:
                self._id = answer.member_id
            elif answer.error_code in WAIT_AND_ASK_AGAIN:
                await asyncio.sleep(AGAIN_S)
            else:
                raise Refused(f"join: error {answer.error_code}")
        self._id, self._generation = answer.member_id, answer.generation_id
        mine = SyncGroupRequestAssignment(member_id=self._id, assignment=ASSIGNMENT)
        _accept(
            "sync",
            await self._connection.ask(
                SyncGroupRequest(
                    group_id=self._group,
                    generation_id=self._generation,
                    member_id=self._id,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=[mine],
                ),
                5,
            ),
        )

    async def _ask_to_join(self) -> Any:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        return await self._connection.ask(request, 9)

    async def commit(self) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=None)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._id,
            topics=[OffsetCommitRequestTopic(name="walk", partitions=[partition])],
        )
        answer = await self._connection.ask(request, 8)
        _accept("commit", answer.topics[0].partitions[0])

    async def live(self, first_s: float) -> None:
        """Heartbeats until it is cancelled, the first one after `first_s`."""
        await asyncio.sleep(first_s)
        while True:
            request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._id)
            _accept("heartbeat", await self._connection.ask(request, 4))
            await asyncio.sleep(HEARTBEAT_S)


def _accept(what: str, answer: Any) -> None:
    if answer.error_code:
        raise Refused(f"{what}: error {answer.error_code}")


async def groups(task: dict[str, Any]) -> dict[str, Any]:
    """Prints how long joining and committing took all together, then lives until stdin ends."""
    names = [f"group-{number}" for number in range(task["groups"])]
    connections = await open_many(task["port"], len(names))
    await _wait_for_coordinator(connections[0], names[0])
    members = [Member(*each) for each in zip(connections, names, strict=True)]
    await Member(await Connection.open(task["port"]), "the first group of all").join()
    started = time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    joined = time.perf_counter()
    await asyncio.gather(*(member.commit() for member in members))
    print(json.dumps({"join_s": joined - started, "commit_s": time.perf_counter() - joined}), flush=True)
    living = asyncio.gather(
        *(member.live(HEARTBEAT_S * number / len(members)) for number, member in enumerate(members))
    )
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([living, ended], return_when=asyncio.FIRST_COMPLETED)
    if living.done():
        await living
    living.cancel()
    return {"groups": len(members)}


async def _wait_for_coordinator(connection: Connection, group: str) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[group])
    while (await connection.ask(request, 4)).coordinators[0].error_code:  # noqa: ASYNC110 - only the broker knows
        await asyncio.sleep(AGAIN_S)
