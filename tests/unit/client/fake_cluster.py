"""Brokers in memory that say what a test wants: answers, silence, hang-ups, logins.

async def scenario(cluster: FakeCluster) -> None:
    cluster.brokers[1].answers["Heartbeat"] = lambda request: HeartbeatResponse(error_code=27)
    client = cluster.client()
    ...

run(scenario)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from tests.patience import HANG_S

from ottla.client.network import NetworkClient
from ottla.client.settings import ClientSettings
from ottla.errors import OttlaError
from ottla.net.framing import frame_prefix
from ottla.net.link import Link
from ottla.protocol.api import APIS, api_of
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.list_groups import ListGroupsResponse
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.schema import Message
from ottla.testing.clock import ManualClock
from ottla.testing.network import MemoryNetwork

Answer = Callable[[Message], Message | None]


class Login(Protocol):
    """The broker's half of one login."""

    is_complete: bool

    def answer(self, request: Message) -> Message: ...


class FakeBroker:
    """One broker of a FakeCluster, at host "b<id>"; every connection is one object of class Door."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.requests: list[Message] = []
        self.doors: list[Door] = []
        self.answers: dict[str, Answer] = {}
        self.hangs_up_on: set[str] = set()
        self.offered = dict(APIS)
        self.listener: Any = None
        self.login: Callable[[], Login] | None = None

    async def open(self) -> None:
        self.listener = await self.cluster.network.serve(f"b{self.id}", 9092, self._door)

    def shut(self) -> None:
        self.listener.close()
        for door in self.doors:
            if door.link is not None:
                door.link.abort()

    def _door(self) -> Door:
        self.doors.append(Door(self))
        return self.doors[-1]

    def answer(self, request: Message) -> Message | None:
        name = api_of(request).name
        if name in self.answers:
            return self.answers[name](request)
        if name == "ApiVersions":
            keys = [
                ApiVersion(api_key=api.key, min_version=api.versions.min, max_version=api.versions.max)
                for api in self.offered.values()
            ]
            finalized = [FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=1)]
            return ApiVersionsResponse(
                error_code=0, api_keys=keys, finalized_features=finalized, finalized_features_epoch=3
            )
        if isinstance(request, MetadataRequest):
            return self.cluster.describe(request)
        return {"ListGroups": ListGroupsResponse(error_code=0, groups=[])}.get(name, HeartbeatResponse(error_code=0))

    def asked(self, name: str) -> int:
        return sum(api_of(request).name == name for request in self.requests)


class Door:
    """The broker's end of one connection."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.link: Link | None = None
        self._login = None if broker.login is None else broker.login()

    def opened(self, link: Link) -> None:
        self.link = link

    def frame_received(self, frame: memoryview) -> None:
        assert self.link is not None
        header, request = decode_request(frame)
        self.broker.requests.append(request)
        if api_of(request).name in self.broker.hangs_up_on:
            self.link.close()
            return
        response = self._answer(request)
        if response is not None:
            version, correlation_id = header.request_api_version, header.correlation_id
            parts = encode_response(response, version=version, correlation_id=correlation_id)
            self.link.write([frame_prefix(parts), *parts])

    def _answer(self, request: Message) -> Message | None:
        if self._login is not None and isinstance(request, SaslHandshakeRequest | SaslAuthenticateRequest):
            return self._login.answer(request)
        assert self._login is None or self._login.is_complete or isinstance(request, ApiVersionsRequest)
        return self.broker.answer(request)

    def writable_changed(self, writable: bool) -> None:
        """Answers are small."""

    def closed(self, error: OttlaError | None) -> None:
        self.link = None


class FakeCluster:
    """Some brokers, and what they say about themselves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = MemoryNetwork(clock=self.clock, random=random.Random(1))
        self.brokers: dict[int, FakeBroker] = {}
        self.topics: dict[str, int] = {}
        self.advertised: dict[int, str] = {}
        self.controller_id: int | None = None  # the lowest id unless a test says otherwise

    async def add(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.brokers[node_id] = FakeBroker(self, node_id)
            self.advertised[node_id] = f"b{node_id}"
            await self.brokers[node_id].open()

    def describe(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [str(each.name) for each in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=i, host=host, port=9092) for i, host in self.advertised.items()],
            cluster_id="fake",
            controller_id=min(self.advertised) if self.controller_id is None else self.controller_id,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name, partitions=[])
        leader = self.topics[name]
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
        )
        return MetadataResponseTopic(error_code=0, name=name, partitions=[partition])

    def client(self, **settings: object) -> NetworkClient:
        chosen = ClientSettings(**{"bootstrap_servers": "b1:9092", **settings})
        return NetworkClient.from_settings(chosen, transport=self.network, clock=self.clock, random=random.Random(2))

    async def asked_in_vain(self, awaitable: Awaitable[Any], advance_ms: float = 40_000) -> BaseException:
        """What an awaitable raises while time passes."""
        task = asyncio.ensure_future(awaitable)
        for _ in range(int(advance_ms // 100)):
            if task.done():
                break
            await self.clock.advance(100)
        assert task.done(), "it waits longer than it should"
        error = task.exception()
        assert error is not None
        return error


def run(scenario: Callable[[FakeCluster], Awaitable[None]]) -> None:
    async def whole() -> None:
        cluster = FakeCluster()
        await cluster.add(1, 2)
        async with asyncio.timeout(HANG_S):
            await scenario(cluster)
        await cluster.network.close()
        leftovers = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert leftovers == [], "a closed client leaves no task behind"

    asyncio.run(whole())
