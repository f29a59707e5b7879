"""Transactions: those that coordinators know, and those that hold back readers of partitions, whoever knows of them.

A reader of committed records gets nothing behind the last stable offset, which is the first record of the oldest
transaction that is still open. `holders` are the partitions led by this broker where that is so, and who does it; a
holder without a transactional id is one that no coordinator knows any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.console.needs import DESCRIBE_ID, LIST_ID, LIST_TOPIC
from ottla.broker.console.reach import ask_coordinator, ask_everybody
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json
from ottla.cluster.topic_names import TRANSACTION_STATE
from ottla.errors import raise_for_code
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

LIST_LIMIT: Final = 500
HOLDERS_LIMIT: Final = 200
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


async def transaction_list(call: Call) -> tuple[list[Json], int]:
    """Those that the caller may see, open ones first; and how many there are."""
    if call.broker.image.partition_count(TRANSACTION_STATE) is None:
        return [], 0
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    answers = await ask_everybody(call, request, ListTransactionsResponse)
    found: list[tuple[str, str, int, int]] = []
    for broker_id, answer in answers.found.items():
        assert isinstance(answer, ListTransactionsResponse)
        states = answer.transaction_states
        if broker_id != call.broker.id:
            states, _ = LIST_ID.split(call.broker, call.context, states, lambda state: state.transactional_id)
        found += [(each.transaction_state, each.transactional_id, each.producer_id, broker_id) for each in states]
    found.sort(key=lambda each: (each[0] not in OPEN, each[1]))
    rows: list[Json] = [
        {"state": state, "id": name, "producer_id": producer_id, "coordinator": broker_id, "is_open": state in OPEN}
        for state, name, producer_id, broker_id in found[:LIST_LIMIT]
    ]
    return rows, len(found)


async def transaction_detail(call: Call, name: str) -> dict[str, Json]:
    state = await described(call, name)
    started_ms = state.transaction_start_time_ms
    return {
        "id": name,
        "state": state.transaction_state,
        "is_open": state.transaction_state in OPEN,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.transaction_timeout_ms,
        "started_ms": started_ms if started_ms >= 0 else None,
        "age_ms": max(0, call.broker.clock.now_ms() - started_ms) if started_ms >= 0 else None,
        "partitions": [f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions],
    }


async def described(call: Call, name: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[name])
    answer = await ask_coordinator(call, TRANSACTION_STATE, name, request, DescribeTransactionsResponse, DESCRIBE_ID)
    (state,) = answer.transaction_states
    raise_for_code(state.error_code)
    return state


async def holders(call: Call) -> list[Json]:
    """Partitions led here whose readers are held back, the longest first."""
    found: list[tuple[int, dict[str, Json]]] = []
    with call.broker.pacing.turn() as pace:
        for partition in list(call.broker.replicas):
            if partition.is_leader and partition.offline is None and partition.log.first_unstable_offset is not None:
                row = _holder(call.broker, partition.name.topic, partition.name.partition)
                if row is not None:
                    found.append(row)
            await pace.step()
    visible = LIST_TOPIC.met_by(call.broker, call.context, {str(row["topic"]) for _, row in found})
    found.sort(key=lambda each: -each[0])
    rows = [row for _, row in found if row["topic"] in visible][:HOLDERS_LIMIT]
    names = await _names(call, {each for row in rows if isinstance(each := row["producer_id"], int)})
    return [{**row, "transactional_id": names.get(row["producer_id"])} for row in rows]


async def _names(call: Call, producer_ids: set[int]) -> dict[Json, str]:
    """The transactional ids of producers, as far as a coordinator knows them and the caller may."""
    if not producer_ids or call.broker.image.partition_count(TRANSACTION_STATE) is None:
        return {}
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids))
    answers = await ask_everybody(call, request, ListTransactionsResponse)
    found: dict[Json, str] = {}
    for broker_id, answer in answers.found.items():
        assert isinstance(answer, ListTransactionsResponse)
        states = answer.transaction_states
        if broker_id != call.broker.id:
            states, _ = LIST_ID.split(call.broker, call.context, states, lambda state: state.transactional_id)
        found.update({each.producer_id: each.transactional_id for each in states})
    return found


def _holder(broker: Broker, topic: str, index: int) -> tuple[int, dict[str, Json]] | None:
    partition = broker.replicas.get((topic, index))
    assert partition is not None, "it was there in this turn"
    log = partition.log
    producer_id = log.producers.oldest_open_producer
    entry = None if producer_id is None else log.producers.entries.get(producer_id)
    if entry is None:
        return None
    held = max(0, partition.high_watermark - log.last_stable_offset)
    age_ms = max(0, broker.clock.now_ms() - entry.last_timestamp_ms)
    row: dict[str, Json] = {
        "topic": topic,
        "partition": index,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": partition.high_watermark,
        "held_records": held,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.epoch,
        "coordinator_epoch": entry.coordinator_epoch,
        "first_offset": entry.transaction_first_offset,
        "silent_ms": age_ms,
    }
    return age_ms, row
