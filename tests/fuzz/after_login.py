"""Frames after a login, for a broker in virtual time: any bytes get an answer, end the connection, or wait as a request
may; the broker goes on, answers others, and nothing is logged with a trace.

A frame may mean something, so a broker is used for RENEW_AFTER frames and then made anew: what it holds then is none of
the fuzzer's doing, and memory that still grows is a leak.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.fuzz.targets import Target, batches, message_seeds, request_frames
from tests.fuzz.virtual_broker import Caller, Finding, LockedCluster, VirtualBroker
from tests.unit.broker.security.logins import handshake, token

from ottla.broker.requests.served import SERVED_APIS
from ottla.protocol import compiled
from ottla.protocol.api import APIS
from ottla.protocol.header import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import Message
from ottla.simulation.cluster import PORT

RENEW_AFTER = 500
PER_CONNECTION = 20
LIMIT_S = 120.0
LOGIN_ID, ASK_ID = 7, 0x7EADBEEF
TOPICS = ("s", "sssss", "ledger")  # the names that made requests have


def framed(request: Message, version: int, correlation_id: int = 1) -> bytes:
    return b"".join(encode_request(request, version=version, correlation_id=correlation_id, client_id="fuzz"))


ASK = framed(ApiVersionsRequest(), 0, ASK_ID)
LOGIN = (bytes(handshake("PLAIN", 1)), bytes(token(b"\0alice\0secret", 1)))
TOPICS_WANTED = CreateTopicsRequest(
    topics=[
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]) for name in TOPICS
    ],
    timeout_ms=1_000,
)


def seeds() -> list[bytes]:
    """A valid request of every API and version that is served, requests that mean something here, and all that were
    captured from clients."""
    return [*_made(), *_meaningful(), *request_frames()]


def _made() -> Iterable[bytes]:
    for api in (APIS[key] for key in sorted(SERVED_APIS)):
        for version in range(api.versions.min, api.versions.max + 1):
            content = message_seeds(api.request, version, 1)[0]
            yield framed(compiled.decode(api.request, version, content), version)


def _meaningful() -> Iterable[bytes]:
    data = PartitionProduceData(index=0, records=batches()[0])
    topic = TopicProduceData(name="ledger", partition_data=[data])
    wanted = FetchTopic(
        topic="ledger", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9_999)]
    )
    yield framed(ProduceRequest(acks=-1, timeout_ms=500, topic_data=[topic]), 9)
    yield framed(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=9_999, topics=[wanted]), 11)
    yield framed(TOPICS_WANTED, 5)


class AfterLogin:
    """See the module."""

    def __init__(self) -> None:
        self._world: VirtualBroker | None = None
        self._caller: Caller | None = None
        self._frames = 0
        self.ended: Counter[str] = Counter()

    def feed(self, content: bytes) -> None:
        if self._world is None or self._frames >= RENEW_AFTER:
            self.renew()
        assert self._world is not None, "it was made"
        self._frames += 1
        try:
            self._world.run(self._one(self._world, content), LIMIT_S)
        except BaseException:
            self.close()
            raise

    def renew(self) -> None:
        self.close()
        self._world, self._frames = VirtualBroker(LockedCluster), 0
        self._world.run(self._make_topics(self._world), LIMIT_S)

    def close(self) -> None:
        if self._world is not None:
            self._world.close()
        self._world = self._caller = None

    async def _make_topics(self, world: VirtualBroker) -> None:
        caller = await self._logged_in(world)
        caller.send(framed(TOPICS_WANTED, 5, 2))
        if await caller.answer_to(2) != "answered":
            raise Finding("no topics could be made")

    async def _one(self, world: VirtualBroker, content: bytes) -> None:
        caller = self._caller
        if caller is None or caller.is_closed or self._frames % PER_CONNECTION == 0:
            caller = await self._logged_in(world)
        caller.heard.clear()
        caller.send(content)
        caller.send(ASK)
        outcome = await caller.answer_to(ASK_ID)
        self.ended[outcome] += 1
        if outcome == "waits":
            await self._check_others(world)
            caller.link.abort()
            self._caller = None

    async def _check_others(self, world: VirtualBroker) -> None:
        """Another client is answered, whatever this one waits for."""
        other = await self._logged_in(world, is_kept=False)
        other.send(ASK)
        if await other.answer_to(ASK_ID) != "answered":
            raise Finding("the broker does not answer others any more")
        other.link.abort()

    async def _logged_in(self, world: VirtualBroker, *, is_kept: bool = True) -> Any:
        if is_kept and self._caller is not None and not self._caller.is_closed:
            self._caller.link.abort()
        caller = Caller(world.loop)
        await world.machine.world().transport.connect("10.0.0.1", PORT, caller)
        for each in LOGIN:
            caller.heard.clear()
            caller.send(each)
            if await caller.answer_to(LOGIN_ID) != "answered":
                raise Finding(f"the login got no answer: {caller.heard}")
        if is_kept:
            self._caller = caller
        return caller


def after_login_target() -> Target:
    fuzzed = AfterLogin()
    return Target("frames after login", fuzzed.feed, (), lambda: random.Random(1).sample(found := seeds(), len(found)))
