"""Overview, brokers and topics over HTTP."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.broker.console.needs import DESCRIBE_CLUSTER, DESCRIBE_GROUP, DESCRIBE_TOPIC, LIST_TOPIC
from ottla.broker.console.overview import broker_list, directories, overview
from ottla.broker.console.topics import LIST_LIMIT, SORTS, topic_detail, topic_list
from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Query, Reply, Route, may, reply
from ottla.cluster.topic_names import INTERNAL_TOPICS
from ottla.errors import raise_for_code
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.values import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.console.rates import History
    from ottla.broker.console.survey import Survey

CHANGE_LIMIT_MS: Final = 10_000


def overview_routes(history: History, survey: Survey) -> tuple[Route, ...]:
    async def read_overview(call: Call) -> Reply:
        found = await overview(call.broker, survey)
        if "after" in call.query:  # the page draws both at once: one question instead of two
            found["rates"] = history.rates(call.number("after", 0))
        return reply(found)

    async def read_brokers(call: Call) -> Reply:
        broker, counts, copies = call.broker, await survey.cluster(), await survey.copies()
        found = directories(broker, copies)
        return reply({"brokers": broker_list(broker, counts), "directories": found, "broker_id": broker.id})

    async def read_rates(call: Call) -> Reply:
        return reply(history.rates(call.number("after", 0)))

    async def read_lags(call: Call) -> Reply:
        return reply({"lag": history.lag_of(call.path["group"])})

    return (
        *ROUTES,
        Route(
            "GET",
            "/api/overview",
            read_overview,
            may(DESCRIBE_CLUSTER),
            "The cluster and this broker at a glance.",
            (Query("after", "Adds `rates`, as /api/rates has them: what came after this time in ms.", "integer"),),
        ),
        Route("GET", "/api/brokers", read_brokers, may(DESCRIBE_CLUSTER), "The brokers, and this one's directories."),
        Route("GET", "/api/rates", read_rates, may(DESCRIBE_CLUSTER), "What went through, in the last minutes.", SINCE),
        Route("GET", "/api/lag/{group:path}", read_lags, may(DESCRIBE_GROUP, "group"), "A group's lag before now."),
    )


async def read_topics(call: Call) -> Reply:
    sort = call.query.get("sort", "name")
    if sort not in SORTS:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"sort is one of {', '.join(SORTS)}")
    names = list(call.broker.image.topics())
    if call.query.get("internal") != "true":
        names = [name for name in names if name not in INTERNAL_TOPICS]
    visible = LIST_TOPIC.met_by(call.broker, call.context, names)
    found = await topic_list(
        call.broker,
        visible,
        contains=call.query.get("contains", ""),
        sort=sort,
        first=call.number("first", 0),
        limit=call.number("limit", 200, at_least=1, at_most=LIST_LIMIT),
    )
    return reply({"topics": found.topics, "total": found.total})


async def read_topic(call: Call) -> Reply:
    return reply(await topic_detail(call.broker, call.path["topic"]))


async def create_topic(call: Call) -> Reply:
    sent = call.json()
    name, partitions, factor = sent.get("name"), sent.get("partitions", -1), sent.get("replication_factor", -1)
    configs = sent.get("settings") or {}
    if not isinstance(name, str) or not isinstance(partitions, int) or not isinstance(factor, int):
        raise HttpError(HTTPStatus.BAD_REQUEST, "send name, partitions and replication_factor")
    if not isinstance(configs, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "settings are an object of texts")
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in configs.items()],
    )
    answer = await call.ask(CreateTopicsRequest(topics=[topic], timeout_ms=CHANGE_LIMIT_MS), CreateTopicsResponse)
    (result,) = answer.topics
    raise_for_code(result.error_code, result.error_message)
    return reply({"name": name}, HTTPStatus.CREATED)


async def delete_topic(call: Call) -> Reply:
    topic = DeleteTopicState(name=call.path["topic"], topic_id=ZERO_UUID)
    answer = await call.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=CHANGE_LIMIT_MS), DeleteTopicsResponse)
    (result,) = answer.responses
    raise_for_code(result.error_code, result.error_message)
    return reply({"deleted": call.path["topic"]})


LISTED: Final = (
    Query("contains", "Only topics whose names contain this."),
    Query("sort", f"By {', '.join(SORTS)}; all but the name largest first."),
    Query("internal", "true lists internal topics, too."),
    Query("first", "How many to pass over.", "integer"),
    Query("limit", f"How many, at most {LIST_LIMIT}.", "integer"),
)
SINCE: Final = (Query("after", "Only what came after this time, in ms since 1970.", "integer"),)
NEW: Final = {
    "name": "of the topic",
    "partitions": "how many; the broker's default without it",
    "replication_factor": "how many copies; the broker's default without it",
    "settings": "an object of texts",
}
ROUTES: Final = (
    Route("GET", "/api/topics", read_topics, KNOWN, "The topics that who asks may see.", LISTED),
    Route("POST", "/api/topics", create_topic, KNOWN, "Create a topic.", body=NEW),
    Route("GET", "/api/topics/{topic}", read_topic, may(DESCRIBE_TOPIC, "topic"), "A topic with its partitions."),
    Route("DELETE", "/api/topics/{topic}", delete_topic, KNOWN, "Delete a topic."),
)
