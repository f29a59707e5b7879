"""Groups over HTTP: the list, one of them with members and lag, and moving its offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from ottla.broker.console.group_members import describe
from ottla.broker.console.groups import Group, committed, group_list, lag_here, lags
from ottla.broker.console.needs import DELETE_GROUP, DESCRIBE_GROUP, READ_GROUP
from ottla.broker.console.offsets import EARLIEST, LATEST, offsets_at
from ottla.broker.console.reach import ask_coordinator
from ottla.broker.console.share_offsets import move_share_group, share_lags, share_starts
from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Json, Query, Reply, Route, may, reply
from ottla.cluster.topic_names import GROUP_METADATA
from ottla.errors import OttlaError, UnknownTopicOrPartition, broker_error, raise_for_code
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.values import TopicPartition

LIST_LIMIT: Final = 1_000
SHARE_LAGS: Final = 20
"""Of so many share groups of a list the lag is asked for; it is not kept with the group, as committed offsets are."""
TARGETS: Final = ("earliest", "latest", "offset", "time", "shift")


async def read_groups(call: Call) -> Reply:
    found, missing = await group_list(call)
    text, first = call.query.get("contains", "").lower(), call.number("first", 0)
    chosen = [each for each in found if text in each.id.lower()]
    page = chosen[first : first + call.number("limit", 200, at_least=1, at_most=LIST_LIMIT)]
    rows: list[dict[str, Json]] = []
    with call.broker.pacing.turn() as pace:
        for each in page:
            rows.append(_row(call, each))
            await pace.step()
    await _add_share_lags(call, rows)
    return reply({"groups": rows, "total": len(chosen), "missing_brokers": missing})


async def _add_share_lags(call: Call, rows: list[dict[str, Json]]) -> None:
    shared = [row for row in rows if row["kind"] == "share" and row["coordinator"] == call.broker.id]
    for row in shared[:SHARE_LAGS]:
        try:
            row["lag"], row["lag_ms"] = _sums(await share_lags(call, str(row["id"])))
        except OttlaError:
            continue  # deleted meanwhile, or not for whoever asks: its line stays, without numbers


def _sums(rows: list[dict[str, Json]]) -> tuple[int, int | None]:
    """Lag in records and in milliseconds, over partitions."""
    records = sum(each for row in rows if isinstance(each := row["lag"], int))
    return records, max([each for row in rows if isinstance(each := row["lag_ms"], int)], default=None)


def _row(call: Call, each: Group) -> dict[str, Json]:
    lag = lag_here(call.broker, each.id) if each.coordinator == call.broker.id else None
    return {
        "id": each.id,
        "kind": each.kind,
        "state": each.state,
        "protocol": each.protocol,
        "coordinator": each.coordinator,
        "lag": None if lag is None else lag.records,
        "lag_ms": None if lag is None else lag.ms,
        "note": None if lag is None else lag.note,
    }


async def read_group(call: Call) -> Reply:
    group_id = call.path["group"]
    found = await describe(call, group_id)
    is_share = found.kind == "share"
    rows = await share_lags(call, group_id) if is_share else await lags(call, await committed(call, group_id))
    lag, lag_ms = _sums(rows)
    value: dict[str, Json] = {
        "id": group_id,
        "kind": found.kind,
        "state": found.state,
        "members": found.members,
        "facts": found.facts,
        "offsets": rows,
        "lag": lag,
        "lag_ms": lag_ms,
        "at_ms": call.broker.clock.now_ms(),
    }
    return reply(value)


async def delete_group(call: Call) -> Reply:
    request = DeleteGroupsRequest(groups_names=[call.path["group"]])
    answer = await ask_coordinator(
        call, GROUP_METADATA, call.path["group"], request, DeleteGroupsResponse, DELETE_GROUP
    )
    (result,) = answer.results
    raise_for_code(result.error_code)
    return reply({"deleted": result.group_id})


# -- moving offsets ---------------------------------------------------------------------------------------------------


async def reset(call: Call) -> Reply:
    """Where the group would go; with dry_run false it goes there. It must have no members then."""
    group_id, sent = call.path["group"], call.json()
    is_share = (await describe(call, group_id)).kind == "share"
    kept = await share_starts(call, group_id) if is_share else await committed(call, group_id)
    now = {name: offset for name, (offset, _) in kept.items()}
    names = _names(call, sent, now)
    targets = await _targets(call, sent, names, now)
    rows: list[Json] = [
        {"topic": name.topic, "partition": name.partition, "from": now.get(name), "to": offset}
        for name, offset in sorted(targets.items())
    ]
    is_dry = sent.get("dry_run", True) is not False
    if not is_dry:
        await (move_share_group if is_share else _commit)(call, group_id, targets)
    return reply({"group": group_id, "dry_run": is_dry, "offsets": rows})


def _names(call: Call, sent: Mapping[str, Json], now: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    topic, wanted = sent.get("topic"), sent.get("partitions")
    if topic is None:
        return list(now)
    count = call.broker.image.partition_count(str(topic))
    if not isinstance(topic, str) or count is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic!r}")
    indexes = wanted if isinstance(wanted, list) else list(range(count))
    if not all(isinstance(index, int) and 0 <= index < count for index in indexes):
        raise UnknownTopicOrPartition(f"{topic} has {count} partitions")
    return [TopicPartition(topic, index) for index in indexes if isinstance(index, int)]


async def _targets(
    call: Call, sent: Mapping[str, Json], names: list[TopicPartition], now: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    to, value = sent.get("to"), sent.get("value", 0)
    if to not in TARGETS or not isinstance(value, int):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"to is {', '.join(TARGETS)}; offset, time and shift have a value")
    starts, ends = await offsets_at(call, names, EARLIEST), await offsets_at(call, names, LATEST)
    if to in ("earliest", "latest"):
        return dict(starts if to == "earliest" else ends)
    wanted: Mapping[TopicPartition, int] = dict.fromkeys(names, value)
    if to == "time":
        wanted = await offsets_at(call, names, max(0, value))
    elif to == "shift":
        wanted = {name: now[name] + value for name in names if name in now}
    return {name: min(max(offset, starts[name]), ends[name]) for name, offset in wanted.items() if name in ends}


async def _commit(call: Call, group_id: str, targets: Mapping[TopicPartition, int]) -> None:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for name, offset in targets.items():
        by_topic[name.topic].append(
            OffsetCommitRequestPartition(
                partition_index=name.partition, committed_offset=offset, committed_metadata="console"
            )
        )
    image = call.broker.image
    topics = [
        OffsetCommitRequestTopic(name=topic, topic_id=image.topic_id(topic) or bytes(16), partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
    request = OffsetCommitRequest(group_id=group_id, member_id="", topics=topics)
    answer = await ask_coordinator(call, GROUP_METADATA, group_id, request, OffsetCommitResponse, READ_GROUP)
    codes = {each.error_code for topic in answer.topics for each in topic.partitions} - {0}
    if codes:
        error = broker_error(min(codes))
        raise HttpError(HTTPStatus.CONFLICT, f"nothing was moved, or not all of it: {error}", name=error.name)


LISTED: Final = (
    Query("contains", "Only groups whose names contain this."),
    Query("first", "How many to pass over.", "integer"),
    Query("limit", f"How many, at most {LIST_LIMIT}.", "integer"),
)
MOVE: Final = {
    "topic": "only this one; all that the group has offsets of without it",
    "partitions": "only these of it",
    "to": ", ".join(TARGETS),
    "value": "an offset, a time in ms since 1970, or how far to shift",
    "dry_run": "true shows what would be done, false does it",
}
ROUTES: Final = (
    Route("GET", "/api/groups", read_groups, KNOWN, "Groups of all kinds.", LISTED),
    Route("GET", "/api/groups/{group:path}", read_group, may(DESCRIBE_GROUP, "group"), "A group with members and lag."),
    Route("POST", "/api/groups/{group:path}/reset", reset, may(READ_GROUP, "group"), "Move its offsets.", body=MOVE),
    Route("DELETE", "/api/groups/{group:path}", delete_group, may(DELETE_GROUP, "group"), "Delete a group."),
)
