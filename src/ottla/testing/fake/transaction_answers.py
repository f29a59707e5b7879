"""Answers about producers: their ids and epochs, and the transactions they make."""

from __future__ import annotations

from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.testing.fake.cluster import FakeCluster, FakeTransaction
from ottla.testing.fake.group_answers import coordinator_code
from ottla.testing.fake.rules import Asked
from ottla.values import TopicPartition

INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, OPERATION_NOT_ATTEMPTED = 49, 90, 55
BUMPING_VERSION = 2


def init_producer_id(cluster: FakeCluster, asked: Asked) -> InitProducerIdResponse:
    message = asked.message
    if message.transactional_id is None:
        if code := asked.code():
            return InitProducerIdResponse(error_code=code, producer_epoch=-1)
        return InitProducerIdResponse(error_code=0, producer_id=cluster.new_producer_id(), producer_epoch=0)
    if code := coordinator_code(cluster, asked):
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    known = cluster.transactions.get(message.transactional_id)
    if known is None:
        known = cluster.transactions[message.transactional_id] = FakeTransaction(cluster.new_producer_id(), 0)
    elif message.producer_id >= 0 and (message.producer_id, message.producer_epoch) != (known.producer_id, known.epoch):
        return InitProducerIdResponse(error_code=PRODUCER_FENCED, producer_epoch=-1)
    else:
        known.epoch += 1
        if known.partitions or known.offsets:
            end(cluster, known, commit=False)
    return InitProducerIdResponse(error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)


def judge(cluster: FakeCluster, transactional_id: str, producer_id: int, epoch: int) -> int:
    """Whether this producer may speak for the id: 0, or why not."""
    known = cluster.transactions.get(transactional_id)
    if known is None or known.producer_id != producer_id:
        return INVALID_PRODUCER_ID_MAPPING
    return PRODUCER_FENCED if epoch != known.epoch else 0


def add_partitions(cluster: FakeCluster, asked: Asked) -> AddPartitionsToTxnResponse:
    message = asked.message
    name, producer_id = message.v3_and_below_transactional_id, message.v3_and_below_producer_id
    wrong = 0 if asked.node == cluster.coordinator_id else 16
    general = wrong or judge(cluster, name, producer_id, message.v3_and_below_producer_epoch)
    results = []
    for topic in message.v3_and_below_topics:
        codes = []
        for index in topic.partitions:
            failure = asked.failure(topic.name, index)
            code = failure.code if failure else general
            if code == 0:
                cluster.transactions[name].partitions.add(TopicPartition(topic.name, index))
            codes.append(AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code))
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=codes))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def add_offsets(cluster: FakeCluster, asked: Asked) -> AddOffsetsToTxnResponse:
    message = asked.message
    identity = message.transactional_id, message.producer_id, message.producer_epoch
    return AddOffsetsToTxnResponse(error_code=coordinator_code(cluster, asked) or judge(cluster, *identity))


def end_transaction(cluster: FakeCluster, asked: Asked) -> EndTxnResponse:
    message = asked.message
    identity = message.transactional_id, message.producer_id, message.producer_epoch
    known = cluster.transactions.get(message.transactional_id)
    wrong = coordinator_code(cluster, asked)
    if known is not None and not wrong and known.ended == (*identity[1:], message.committed):
        # The answer got lost and the question came again; by now the producer has another epoch.
        return EndTxnResponse(error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)
    code = wrong or judge(cluster, *identity)
    if code or known is None:
        return EndTxnResponse(error_code=code)
    end(cluster, known, commit=message.committed)
    if cluster.transaction_version >= BUMPING_VERSION and asked.version >= 5:
        known.ended = (known.producer_id, known.epoch, message.committed)
        known.epoch += 1
    return EndTxnResponse(error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)


def end(cluster: FakeCluster, transaction: FakeTransaction, *, commit: bool) -> None:
    """Write the markers and make the offsets count, or not."""
    for name in sorted(transaction.partitions):
        log = cluster.log(*name)
        log.end_transaction(transaction.producer_id, transaction.epoch, commit=commit, now_ms=cluster.clock.now_ms())
    if commit:
        for group_id, offsets in transaction.offsets.items():
            cluster.group(group_id).offsets.update(offsets)
    transaction.partitions, transaction.offsets = set(), {}
    transaction.outcomes.append("commit" if commit else "abort")
