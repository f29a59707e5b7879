"""What clients ask and the controllers decide: passed on, asked again, answered; settings are tried here first."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ottla.broker.cluster.kraft.controllers import ActiveController, Addressed, Controllers
from ottla.broker.cluster.kraft.passing_on import PassingOn
from ottla.broker.cluster.visible import shows_answer
from ottla.broker.requests.context import RequestContext
from ottla.cluster.changes import AlterConfig, CreateTopic, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, Partition, ResourceType, Topic
from ottla.errors import BrokerNotAvailable, NotController, RequestTimedOut, UnknownServerError
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.envelope import EnvelopeResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.testing.clock import ManualClock
from ottla.values import Address

CONTEXT = RequestContext(api_version=1, client_id="tool", client_host="127.0.0.1")
RESOURCE = ConfigResource(ResourceType.TOPIC, "orders")
TOPIC = Topic("orders", b"t" * 16, (Partition((7,), (7,), 7),))


class Asked:
    """Controllers that answer what they are given, in turn."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.requests = []

    async def ask(self, envelope, timeout_ms):
        self.requests.append(decode_request(bytes(envelope.request_data))[1])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, EnvelopeResponse):
            return answer
        data = b"".join(map(bytes, encode_response(answer, version=1, correlation_id=0)))
        return EnvelopeResponse(error_code=0, response_data=data)


def passing_on(controllers, *, broker_id=7, image=None):
    clock = ManualClock()
    broker = SimpleNamespace(clock=clock, image=image or ClusterImage("c"), id=broker_id)
    return PassingOn(broker, controllers, limit_ms=1_000), clock


def run(work, clock):
    async def main():
        task = asyncio.ensure_future(work)
        for _ in range(200):
            await clock.advance(10)
            if task.done():
                break
        return await task

    return asyncio.run(main())


def test_a_controller_that_moved_or_is_away_is_asked_again_until_one_answers():
    answer = DeleteTopicsResponse(responses=[])
    controllers = Asked(BrokerNotAvailable("nobody is known"), EnvelopeResponse(error_code=NotController.code), answer)
    passing, clock = passing_on(controllers)
    request = DeleteTopicsRequest(topic_names=["x"], timeout_ms=5)
    assert run(passing.answer(request, CONTEXT), clock) == answer
    assert controllers.requests == [request] * 3


def test_what_the_controller_could_not_read_is_not_asked_again():
    passing, clock = passing_on(Asked(EnvelopeResponse(error_code=31)))
    with pytest.raises(UnknownServerError):
        run(passing.answer(DeleteTopicsRequest(topic_names=["x"], timeout_ms=5), CONTEXT), clock)


def test_there_is_an_end_to_asking():
    passing, clock = passing_on(Asked(*[BrokerNotAvailable("away")] * 100))
    with pytest.raises(RequestTimedOut, match="could not be passed on"):
        run(passing.answer(DeleteTopicsRequest(topic_names=["x"], timeout_ms=5), CONTEXT), clock)


def altered(*resources):
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=0, value=value)],
            )
            for kind, name, key, value in resources
        ],
        validate_only=False,
    )


def answers(*resources):
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_code=code)
            for kind, name, code in resources
        ]
    )


def test_levels_of_loggers_stay_here_and_settings_of_this_broker_are_tried_here_first(monkeypatch):
    tried = []

    async def handle(broker, request, context):
        tried.append(([each.resource_name for each in request.resources], request.validate_only))
        refused = [each for each in request.resources if each.configs[0].value == "wrong"]
        return answers(
            *((each.resource_type, each.resource_name, 40 if each in refused else 0) for each in request.resources)
        )

    monkeypatch.setattr("ottla.broker.requests.served.handler_of", lambda api: SimpleNamespace(handle=handle))
    image = apply_all(ClusterImage("c"), [CreateTopic(TOPIC), AlterConfig(RESOURCE, (("retention.ms", "5"),))])
    controllers = Asked(answers((2, "orders", 0), (4, "8", 42)))
    passing, clock = passing_on(controllers, image=image)
    request = altered(
        (8, "7", "root", "DEBUG"),
        (2, "orders", "retention.ms", "5"),
        (4, "7", "max.connections", "wrong"),
        (4, "8", "max.connections", "wrong"),
    )
    answer = run(passing.answer(request, CONTEXT), clock)
    assert tried == [(["7"], False), (["7"], True)]
    assert [each.resource_name for each in controllers.requests[0].resources] == ["orders", "8"]
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        ("7", 0),
        ("orders", 0),
        ("7", 40),
        ("8", 42),
    ]


def test_settings_are_visible_when_the_image_has_them():
    image = apply_all(ClusterImage("c"), [CreateTopic(TOPIC), AlterConfig(RESOURCE, (("retention.ms", "5"),))])
    answer = answers((2, "orders", 0))
    assert shows_answer(image, altered((2, "orders", "retention.ms", "5")), answer)
    assert not shows_answer(image, altered((2, "orders", "retention.ms", "6")), answer)
    assert shows_answer(image, altered((2, "orders", "retention.ms", "6")), answers((2, "orders", 40)))


# --- the connections ---


class Connections:
    """Nobody ever answers."""

    def __init__(self):
        self.asked = []

    async def send(self, number, request, *, timeout_ms):
        self.asked.append(number)
        await asyncio.Event().wait()


def test_nobody_waits_for_a_controller_that_is_not_the_active_one_any_more():
    async def work():
        active, connections = ActiveController(), Connections()
        addressed = Addressed("CONTROLLER", "PLAINTEXT")
        controllers = Controllers(connections, addressed, active)
        with pytest.raises(BrokerNotAvailable, match="not known yet"):
            await controllers.ask(DeleteTopicsRequest(topic_names=[], timeout_ms=5), 1_000)
        active.update(Address("one", 9093))
        asking = asyncio.ensure_future(controllers.ask(DeleteTopicsRequest(topic_names=[], timeout_ms=5), 1_000))
        await asyncio.sleep(0)
        active.update(Address("one", 9093))
        await asyncio.sleep(0)
        assert not asking.done(), "it is still there"
        active.update(Address("two", 9093))
        with pytest.raises(BrokerNotAvailable, match="not the active one any more"):
            await asking
        assert addressed.endpoint(connections.asked[0]).host == "one"

    asyncio.run(work())
