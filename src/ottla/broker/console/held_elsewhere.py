"""Who holds back readers of partitions that other brokers lead.

1. This broker does not see the logs of others. It knows open transactions by their coordinators, their partitions by
   DescribeTransactions, and asks the leaders of those up to where readers of committed records come (ListOffsets).
2. A transaction that no coordinator knows any more is seen by the leader of its partition only.
3. At most OPEN_LIMIT open transactions are asked about.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.broker.console.needs import LIST_TOPIC
from ottla.broker.console.offsets import LATEST, offsets_at, stable_offsets
from ottla.broker.console.transactions import described
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json
from ottla.errors import OttlaError
from ottla.protocol.messages.describe_transactions import TransactionState
from ottla.values import TopicPartition

OPEN_LIMIT: Final = 50


async def holders_elsewhere(call: Call, names: list[str]) -> list[Json]:
    """Of these open transactions: the partitions led by other brokers whose readers wait for them."""
    states = await asyncio.gather(*(_described(call, name) for name in names[:OPEN_LIMIT]))
    places = {
        TopicPartition(topic.topic, index): state
        for state in states
        if state is not None
        for topic in state.topics
        for index in topic.partitions
        if call.broker.link.leads_elsewhere(topic.topic, index)
    }
    visible = LIST_TOPIC.met_by(call.broker, call.context, {each.topic for each in places})
    places = {name: state for name, state in places.items() if name.topic in visible}
    stable, ends = await stable_offsets(call, places), await offsets_at(call, places, LATEST)
    rows: list[Json] = []
    for name, state in sorted(places.items(), key=lambda each: each[0]):
        if name in stable and name in ends and stable[name] < ends[name]:
            rows.append(_row(call, name, state, stable[name], ends[name]))
    return rows


async def _described(call: Call, name: str) -> TransactionState | None:
    try:
        return await described(call, name)
    except OttlaError:
        return None  # it ended meanwhile, or its coordinator does not answer


def _row(call: Call, name: TopicPartition, state: TransactionState, stable: int, end: int) -> Json:
    started_ms = state.transaction_start_time_ms
    return {
        "topic": name.topic,
        "partition": name.partition,
        "last_stable_offset": stable,
        "high_watermark": end,
        "held_records": end - stable,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "transactional_id": state.transactional_id,
        "silent_ms": None,
        "open_ms": max(0, call.broker.clock.now_ms() - started_ms) if started_ms >= 0 else None,
    }
