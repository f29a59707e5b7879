"""What only the controller decides is passed on to it, once, and its answer waits until it can be seen here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.forwarding import Forwarder, forwarding_client_id
from ottla.broker.requests.running import Running
from ottla.cluster.changes import CreateTopic, SetController, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition, Topic
from ottla.errors import ConnectionClosed, NotController, UnsupportedVersion
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.testing.clock import ManualClock

LIMIT_MS = 1_000
VERSION = 7
CLICKS = CreateTopic(Topic("clicks", b"c" * 16, (Partition((0,), (0,), 0, 0),)))


class Controllers:
    """Answers with what is next in the list; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.client_ids: list[str] = []

    async def send(self, broker_id: int, request: Any, *, timeout_ms: float, at_most: int, client_id: str) -> Any:
        self.asked.append(broker_id)
        self.client_ids.append(client_id)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def response(error_code: int = 0) -> CreateTopicsResponse:
    result = CreatableTopicResult(name="clicks", topic_id=b"c" * 16, error_code=error_code, error_message=None)
    return CreateTopicsResponse(topics=[result])


class Bench:
    def __init__(self, *answers: Any, is_controller: bool = False) -> None:
        self.clock = ManualClock()
        self.broker = SimpleNamespace(
            id=1,
            clock=self.clock,
            image=apply_all(ClusterImage("cluster"), [SetController(2, 7)]),
            member=SimpleNamespace(role=SimpleNamespace(is_active=is_controller)),
        )
        self.controllers = Controllers(*answers)
        broker: Any = self.broker
        controllers: Any = self.controllers
        self.forwarder = Forwarder(broker, controllers, limit_ms=LIMIT_MS)

    def forward(self, client_id: str = "a client") -> Running[Any]:
        topic = CreatableTopic(name="clicks", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        context: Any = SimpleNamespace(client_id=client_id, api_version=VERSION, charges=None)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        return Running(self.forwarder.answer(request, context))

    def show(self) -> None:
        self.broker.image = apply_all(self.broker.image, [CLICKS])


def on_a_loop(test: Any) -> Any:
    return lambda: asyncio.run(test())


@on_a_loop
async def test_the_controllers_answer_waits_until_the_topic_can_be_seen_here() -> None:
    bench = Bench(response())
    running = bench.forward()
    await bench.clock.advance(500)
    assert (bench.controllers.asked, running.is_done) == ([2], False)
    bench.show()
    await bench.clock.advance(100)
    assert running.result() == response()


@pytest.mark.parametrize("client_id", [forwarding_client_id(0), forwarding_client_id(7)])
def test_what_was_passed_on_to_us_is_not_passed_on_again(client_id: str) -> None:
    async def run() -> None:
        bench = Bench(response())
        bench.show()
        assert bench.forward(client_id).result() is None
        assert bench.controllers.asked == []

    asyncio.run(run())


@on_a_loop
async def test_the_controller_asks_nobody() -> None:
    bench = Bench(response(), is_controller=True)
    assert bench.forward().result() is None
    assert bench.controllers.asked == []


@on_a_loop
async def test_a_controller_that_is_none_any_more_or_away_is_looked_for_again() -> None:
    bench = Bench(response(NotController.code), ConnectionClosed("away"), response())
    bench.show()
    running = bench.forward()
    await bench.clock.advance(500)
    assert running.result() == response()
    assert bench.controllers.asked == [2, 2, 2]


@on_a_loop
async def test_when_no_controller_is_found_in_time_the_broker_answers_itself() -> None:
    bench = Bench(response(NotController.code))
    running = bench.forward()
    await bench.clock.advance(LIMIT_MS - 100)
    assert not running.is_done
    await bench.clock.advance(200)
    assert running.result() is None


@on_a_loop
async def test_what_the_controller_cannot_read_is_answered_here() -> None:
    bench = Bench(UnsupportedVersion("too new"))
    assert bench.forward().result() is None
