"""The inside over HTTP: a partition's segments, where a record lies, the live picture, and what is wrong."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.broker.console.findings import (
    BAD,
    CHECKS,
    Finding,
    cluster_findings,
    group_findings,
    holder_findings,
    setting_findings,
)
from ottla.broker.console.flow import flow
from ottla.broker.console.groups import group_list
from ottla.broker.console.inside import locate, partition_inside
from ottla.broker.console.needs import DESCRIBE_CLUSTER, DESCRIBE_TOPIC
from ottla.broker.console.quorum import quorum_findings
from ottla.broker.console.transactions import holders
from ottla.broker.http.call import Call
from ottla.broker.http.parts import HttpError, Json, Reply, Route, may, reply

if TYPE_CHECKING:
    from ottla.broker.console.survey import Survey


async def read_inside(call: Call) -> Reply:
    return reply(await partition_inside(call.broker, call.path["topic"], call.index("partition")))


async def read_place(call: Call) -> Reply:
    if not call.path["offset"].isdigit():
        raise HttpError(HTTPStatus.NOT_FOUND, "an offset is a whole number")
    found = locate(call.broker, call.path["topic"], call.index("partition"), int(call.path["offset"]))
    if not call.may(DESCRIBE_CLUSTER):
        found["directory"] = None  # directories are the operator's
    return reply(found)


async def read_flow(call: Call) -> Reply:
    return reply(await flow(call.broker))


async def find(call: Call, survey: Survey) -> list[Finding]:
    """All findings, the worst first."""
    broker, counts, copies = call.broker, await survey.cluster(), await survey.copies()
    groups, _ = await group_list(call)
    found = [
        *await quorum_findings(call),
        *cluster_findings(broker, counts, copies),
        *setting_findings(broker, counts),
        *holder_findings(await holders(call)),
        *[each async for each in group_findings(broker, groups)],
    ]
    found.sort(key=lambda each: each.severity != BAD)
    return found


def inside_routes(survey: Survey) -> tuple[Route, ...]:
    async def read_findings(call: Call) -> Reply:
        found = await find(call, survey)
        counts = Counter(each.check for each in found)
        checks: list[Json] = [{"name": name, "title": title, "count": counts[name]} for name, title in CHECKS.items()]
        return reply({"findings": [each.value() for each in found], "checks": checks})

    return (
        *ROUTES,
        Route("GET", "/api/findings", read_findings, may(DESCRIBE_CLUSTER), "What is wrong, and what to do."),
    )


_PARTITION: Final = "/api/topics/{topic}/partitions/{partition}"
ROUTES: Final = (
    Route("GET", f"{_PARTITION}/inside", read_inside, may(DESCRIBE_TOPIC, "topic"), "Segments, offsets, epochs."),
    Route("GET", f"{_PARTITION}/place/{{offset}}", read_place, may(DESCRIBE_TOPIC, "topic"), "Where a record lies."),
    Route("GET", "/api/flow", read_flow, may(DESCRIBE_CLUSTER), "A record's way through the broker, now."),
)
