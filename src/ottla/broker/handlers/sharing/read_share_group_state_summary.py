"""ReadShareGroupStateSummary, at a share coordinator: where share partitions begin (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.share_state import share_state_responses as answers_of
from ottla.broker.coordinators.share_state.several import BETWEEN_BROKERS, ask_each
from ottla.broker.coordinators.share_state.shard import ShareStateShard
from ottla.broker.coordinators.share_state.state import ShareKey
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SLICES = Slices("topics", "results", Slices("partitions", None))  # each partition is answered for itself
SERVES = Served(ReadShareGroupStateSummaryRequest, slices=SLICES, needs=(BETWEEN_BROKERS,))


async def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    alone = [
        (
            ShareKey(request.group_id, topic.topic_id, each.partition),
            ReadShareGroupStateSummaryRequest(
                group_id=request.group_id,
                topics=[ReadStateSummaryData(topic_id=topic.topic_id, partitions=[each])],
            ),
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    answers = await ask_each(broker, ShareStateShard.summary, alone, context, answers_of.summary_failed)
    return ReadShareGroupStateSummaryResponse(results=[each for answer in answers for each in answer.results])
