"""Answers of the share coordinator, each about one share partition."""

from __future__ import annotations

from ottla.broker.coordinators.share_state.state import NOT_SET, ShareKey, ShareState
from ottla.errors import NONE, BrokerError
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as initializing
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summarizing
from ottla.protocol.messages import write_share_group_state as writing


class _Problem(NamedTuple):
    error_code: int = NONE
    error_message: str | None = None


def _problem(error: BrokerError | None) -> _Problem:
    return _Problem() if error is None else _Problem(error.code, error.brief)


def initialized(key: ShareKey, error: BrokerError | None = None) -> initializing.InitializeShareGroupStateResponse:
    result = initializing.PartitionResult(partition=key.partition, **_problem(error)._asdict())
    topic = initializing.InitializeStateResult(topic_id=key.topic_id, partitions=[result])
    return initializing.InitializeShareGroupStateResponse(results=[topic])


def written(key: ShareKey, error: BrokerError | None = None) -> writing.WriteShareGroupStateResponse:
    result = writing.PartitionResult(partition=key.partition, **_problem(error)._asdict())
    topic = writing.WriteStateResult(topic_id=key.topic_id, partitions=[result])
    return writing.WriteShareGroupStateResponse(results=[topic])


def deleted(key: ShareKey, error: BrokerError | None = None) -> deleting.DeleteShareGroupStateResponse:
    result = deleting.PartitionResult(partition=key.partition, **_problem(error)._asdict())
    topic = deleting.DeleteStateResult(topic_id=key.topic_id, partitions=[result])
    return deleting.DeleteShareGroupStateResponse(results=[topic])


def read(
    key: ShareKey, state: ShareState | None = None, error: BrokerError | None = None
) -> reading.ReadShareGroupStateResponse:
    batches = [] if state is None else state.batches
    result = reading.PartitionResult(
        partition=key.partition,
        **_problem(error)._asdict(),
        state_epoch=0 if state is None else state.state_epoch,
        start_offset=NOT_SET if state is None else state.start_offset,
        state_batches=[
            reading.StateBatch(
                first_offset=each.first,
                last_offset=each.last,
                delivery_state=each.state,
                delivery_count=each.deliveries,
            )
            for each in batches
        ],
    )
    topic = reading.ReadStateResult(topic_id=key.topic_id, partitions=[result])
    return reading.ReadShareGroupStateResponse(results=[topic])


def read_failed(key: ShareKey, error: BrokerError) -> reading.ReadShareGroupStateResponse:
    return read(key, error=error)


def summary_failed(key: ShareKey, error: BrokerError) -> summarizing.ReadShareGroupStateSummaryResponse:
    return summary(key, error=error)


def summary(
    key: ShareKey, state: ShareState | None = None, error: BrokerError | None = None
) -> summarizing.ReadShareGroupStateSummaryResponse:
    result = summarizing.PartitionResult(
        partition=key.partition,
        **_problem(error)._asdict(),
        state_epoch=0 if state is None else state.state_epoch,
        leader_epoch=0 if state is None else state.leader_epoch,
        start_offset=NOT_SET if state is None else state.start_offset,
        delivery_complete_count=NOT_SET if state is None else state.complete_count,
    )
    topic = summarizing.ReadStateSummaryResult(topic_id=key.topic_id, partitions=[result])
    return summarizing.ReadShareGroupStateSummaryResponse(results=[topic])
