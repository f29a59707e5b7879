"""A transaction at a MemoryBroker, begun and ended by its requests."""

from __future__ import annotations

from types import SimpleNamespace

from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


def begin(broker, topic, name="tx"):
    """A producer whose transaction has this topic's first partition."""
    broker.ask(FindCoordinatorRequest(coordinator_keys=[name], key_type=1))
    answer = broker.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000))
    assert answer.error_code == 0, answer
    producer = SimpleNamespace(id=answer.producer_id, epoch=answer.producer_epoch, name=name)
    added = broker.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        ),
        3,
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    return producer


def abort(broker, producer):
    request = EndTxnRequest(
        transactional_id=producer.name, producer_id=producer.id, producer_epoch=producer.epoch, committed=False
    )
    assert broker.ask(request, 4).error_code == 0
