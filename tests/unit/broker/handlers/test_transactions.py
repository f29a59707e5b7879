"""Transactions through their handlers: version 1 and 2, markers, offsets, and the questions about them."""

import pytest

from ottla.broker.security.needs import Need
from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTopicException,
    InvalidTxnState,
    KafkaStorageError,
    OperationNotAttempted,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from ottla.patterns.patterns import Automaton
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.values import TopicPartition

V1, V2 = 4, 5  # of EndTxn


@pytest.fixture
def bank(broker):
    """A broker with both coordinators and the topic `orders`."""
    broker.create_topic("orders", 2)
    for key_type in (0, 1):
        broker.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type))
    return broker


class Producer:
    """A transactional producer of one id."""

    def __init__(self, broker, batch, name="tx"):
        self.broker, self.batch, self.name = broker, batch, name
        self.sequence = 0
        ask = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer = broker.ask(ask)
        if answer.error_code == ConcurrentTransactions.code:  # the transaction before was aborted; again
            answer = broker.ask(ask)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def send(self, *values, version=12, partition=0):
        records = self.batch(
            *values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        answer = self.broker.produce("orders", records, partition, transactional_id=self.name, version=version)
        if not answer.error_code:
            self.sequence += len(values)
        return answer.error_code

    def add_partitions(self, *partitions, topic="orders", version=3):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        results = self.broker.ask(request, version).results_by_topic_v3_and_below[0].results_by_partition
        return [one.partition_error_code for one in results]

    def end(self, *, commit, version=V2):
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        answer = self.broker.ask(request, version)
        if version >= V2 and not answer.error_code:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer.error_code

    def commit_offset(self, offset, group="g", version=5):
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        return self.broker.ask(request, version).topics[0].partitions[0].error_code


def committed_offsets(broker, group="g"):
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    return [one.committed_offset for t in broker.ask(asked, 9).groups[0].topics for one in t.partitions]


# -- ids


def test_producers_without_a_transaction_get_ids_that_differ(broker):
    ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    ids = [broker.ask(ask).producer_id for _ in range(1_500)]
    assert len(set(ids)) == 1_500


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_is_refused_when_it_is_empty(bank, version):
    ask = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert bank.ask(ask, version).error_code == InvalidRequest.code


def test_a_new_producer_fences_the_old_one(bank, batch):
    old = Producer(bank, batch)
    assert old.send("a") == 0
    new = Producer(bank, batch)
    assert new.epoch > old.epoch
    assert old.send("b") == InvalidProducerEpoch.code
    assert old.end(commit=True) == ProducerFenced.code
    assert new.send("c") == 0


# -- commit and abort


@pytest.mark.parametrize("commit", [True, False])
def test_readers_of_committed_records_see_commits_only(bank, batch, values_of, commit):
    producer = Producer(bank, batch)
    assert producer.send("a", "b") == 0
    assert values_of(bank.fetch("orders", read_committed=True)) == []
    assert values_of(bank.fetch("orders")) == ["a", "b"]
    epoch = producer.epoch
    assert producer.end(commit=commit) == 0
    assert producer.epoch == epoch + 1
    found = bank.fetch("orders", read_committed=True)
    assert found.last_stable_offset == found.high_watermark == 3
    aborted = [] if commit else [(producer.id, 0)]
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions or []] == aborted
    assert producer.send("c") == 0


def test_an_old_client_adds_its_partitions_itself(bank, batch, values_of):
    producer = Producer(bank, batch)
    assert producer.send("too early", version=10) == InvalidTxnState.code
    assert producer.send("too early", version=11) == TransactionAbortable.code
    assert producer.add_partitions(0, 1) == [0, 0]
    assert producer.send("a", version=11) == 0
    assert producer.send("b", version=11) == 0
    assert producer.end(commit=True, version=V1) == 0
    assert values_of(bank.fetch("orders", read_committed=True)) == ["a", "b"]


def test_partitions_that_do_not_exist_stop_the_others(bank, batch):
    producer = Producer(bank, batch)
    assert producer.add_partitions(0, 9) == [OperationNotAttempted.code, UnknownTopicOrPartition.code]


def test_ending_what_is_not_there_is_refused(bank):
    request = EndTxnRequest(transactional_id="nobody", producer_id=1, producer_epoch=0, committed=True)
    assert bank.ask(request).error_code == InvalidProducerIdMapping.code


def test_a_transaction_that_times_out_is_aborted(bank, batch, values_of):
    producer = Producer(bank, batch)
    producer.send("a")
    for _ in range(8):
        bank.later(10_100)
    found = bank.fetch("orders", read_committed=True)
    assert found.last_stable_offset == found.high_watermark
    assert len(found.aborted_transactions) == 1
    assert producer.send("b") == InvalidProducerEpoch.code


def test_a_decided_transaction_survives_a_restart(bank, batch, values_of):
    producer = Producer(bank, batch)
    producer.send("a")
    bank.restart()
    assert producer.end(commit=True) == 0
    assert values_of(bank.fetch("orders", read_committed=True)) == ["a"]


def test_new_shards_and_old_ones_follow_the_finalized_version(bank):
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    assert bank.ask(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0
    assert {shard.transaction_version for _, shard in bank.broker.transactions.runtime.shards()} == {1}


# -- offsets in transactions


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_the_transaction_commits(bank, batch, commit):
    producer = Producer(bank, batch)
    assert producer.commit_offset(5) == 0
    assert committed_offsets(bank) == []
    assert producer.end(commit=commit) == 0
    assert committed_offsets(bank) == ([5] if commit else [])
    bank.restart()
    assert committed_offsets(bank) == ([5] if commit else [])


def test_an_old_client_adds_its_group_itself(bank, batch):
    producer = Producer(bank, batch)
    assert producer.commit_offset(5, version=3) == InvalidTxnState.code
    assert producer.commit_offset(5, version=4) == TransactionAbortable.code
    add = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=producer.id, producer_epoch=producer.epoch, group_id="g"
    )
    assert bank.ask(add).error_code == 0
    assert producer.commit_offset(5, version=4) == 0
    assert producer.end(commit=True, version=V1) == 0
    assert committed_offsets(bank) == [5]


def test_offsets_of_a_group_that_nobody_asked_for_yet_can_be_added(broker, batch):
    broker.create_topic("orders", 2)
    broker.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=1))
    producer = Producer(broker, batch)
    add = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=producer.id, producer_epoch=producer.epoch, group_id="g"
    )
    assert broker.ask(add).error_code == 0
    assert producer.commit_offset(5, version=4) == 0
    assert producer.end(commit=True, version=V1) == 0
    assert committed_offsets(broker) == [5]


# -- WriteTxnMarkers


def write_marker(broker, producer_id, epoch, *, coordinator_epoch=0, topic="orders", version=2, commit=False):
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    answer = broker.ask(WriteTxnMarkersRequest(markers=[marker]), version)
    assert answer.markers[0].producer_id == producer_id
    return answer.markers[0].topics[0].partitions[0].error_code


@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_is_aborted(bank, batch, version):
    producer = Producer(bank, batch)
    producer.send("a")
    assert bank.fetch("orders", read_committed=True).last_stable_offset == 0
    assert write_marker(bank, producer.id, producer.epoch, version=version) == 0
    assert bank.fetch("orders", read_committed=True).last_stable_offset == 2


def test_markers_of_old_epochs_are_refused(bank, batch):
    first = Producer(bank, batch)
    first.send("a")
    second = Producer(bank, batch)
    second.send("b")
    assert write_marker(bank, second.id, first.epoch) == InvalidProducerEpoch.code
    assert write_marker(bank, second.id, second.epoch, coordinator_epoch=5) == 0
    second.sequence = 1
    assert write_marker(bank, second.id, second.epoch, coordinator_epoch=4) == TransactionCoordinatorFenced.code


def test_a_marker_is_reported_as_appended_once(bank, batch, monkeypatch):
    producer = Producer(bank, batch)
    producer.send("a")
    reported, progress = [], bank.broker.progress
    report = progress.appended
    monkeypatch.setattr(progress, "appended", lambda partition: (reported.append(partition.name), report(partition)))
    assert write_marker(bank, producer.id, producer.epoch) == 0
    assert reported == [TopicPartition("orders", 0)]


def test_a_marker_for_a_partition_that_is_not_here_is_refused(bank):
    assert write_marker(bank, 1, 0, topic="missing") == UnknownTopicOrPartition.code


def test_no_markers_have_an_answer_too(bank):
    assert bank.ask(WriteTxnMarkersRequest(markers=[])).markers == []


def test_a_marker_that_the_disk_refuses_is_told(bank, batch):
    producer = Producer(bank, batch)
    producer.send("a")
    bank.files.fail(lambda operation: operation.kind == "sync", for_ever=True)
    assert write_marker(bank, producer.id, producer.epoch) == KafkaStorageError.code


def test_one_result_per_producer_however_the_request_has_them(bank, batch):
    markers = [
        WritableTxnMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="missing", partition_indexes=[index])],
            coordinator_epoch=0,
        )
        for index in (0, 1)
    ]
    answer = bank.ask(WriteTxnMarkersRequest(markers=markers)).markers
    assert [(one.producer_id, [p.partition_index for p in one.topics[0].partitions]) for one in answer] == [(7, [0, 1])]


# -- DescribeTransactions, ListTransactions, DescribeProducers


def test_transactions_are_described(bank, batch):
    producer = Producer(bank, batch)
    producer.send("a")
    answer = bank.ask(DescribeTransactionsRequest(transactional_ids=["tx", "missing", ""])).transaction_states
    known, missing, empty = answer
    assert (known.transaction_state, known.producer_id, known.producer_epoch) == (
        "Ongoing",
        producer.id,
        producer.epoch,
    )
    assert known.transaction_timeout_ms == 60_000
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("orders", [0])]
    assert (missing.error_code, empty.error_code) == (TransactionalIdNotFound.code, InvalidRequest.code)


def test_who_asks_before_there_is_a_coordinator_is_told_so(broker):
    answer = broker.ask(DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states[0]
    assert answer.error_code == 15
    assert broker.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[])).transaction_states == []


def listed(broker, version=2, **filters):
    request = ListTransactionsRequest(**{"state_filters": [], "producer_id_filters": [], **filters})
    return broker.ask(request, version)


def names(answer):
    return sorted(one.transactional_id for one in answer.transaction_states)


def test_transactions_are_listed_and_filtered(bank, batch):
    open_one = Producer(bank, batch, "orders-1")
    Producer(bank, batch, "orders-2")
    Producer(bank, batch, "other")
    open_one.send("a")
    bank.clock.move(5_000)
    assert names(listed(bank, 0)) == ["orders-1", "orders-2", "other"]
    assert names(listed(bank, state_filters=["Ongoing"])) == ["orders-1"]
    assert names(listed(bank, producer_id_filters=[open_one.id])) == ["orders-1"]
    assert names(listed(bank, state_filters=["Ongoing"], duration_filter=4_000)) == ["orders-1"]
    assert names(listed(bank, state_filters=["Ongoing"], duration_filter=6_000)) == []
    assert names(listed(bank, transactional_id_pattern="orders-.*")) == ["orders-1", "orders-2"]
    assert names(listed(bank, transactional_id_pattern="orders")) == []
    assert names(listed(bank, transactional_id_pattern="")) == ["orders-1", "orders-2", "other"]


def test_a_pattern_that_takes_too_much_work_is_refused(bank, batch):
    for number in range(40):
        Producer(bank, batch, f"orders-{number}-" + "0123456789abcdefghijklmnop" * 9)
    assert listed(bank, transactional_id_pattern="(?:.?.?){490}z").error_code == InvalidRegularExpression.code


def test_a_pattern_is_not_matched_with_ids_that_its_sender_may_not_describe(bank, batch, monkeypatch):
    Producer(bank, batch, "orders-1")
    monkeypatch.setattr(Automaton, "match_in_pieces", lambda *_: pytest.fail("matched"))
    monkeypatch.setattr(Need, "split", lambda need, broker, context, states, name: ([], states))
    assert names(listed(bank, transactional_id_pattern="o.*")) == []


def test_an_unknown_state_is_told_and_matches_nothing(bank, batch):
    Producer(bank, batch)
    answer = listed(bank, state_filters=["Sleeping"])
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Sleeping"], [])


def test_a_pattern_that_cannot_be_read_is_refused(bank):
    assert listed(bank, transactional_id_pattern="(").error_code == InvalidRegularExpression.code


def producers(broker, topic="orders", index=0):
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    return broker.ask(request).topics[0].partitions[0]


def test_the_producers_of_a_partition_are_told(bank, batch):
    producer = Producer(bank, batch)
    producer.send("a", "b")
    bank.produce("orders", batch("c", producer_id=77, producer_epoch=3, base_sequence=0))
    told = {one.producer_id: one for one in producers(bank).active_producers}
    assert (told[producer.id].last_sequence, told[producer.id].current_txn_start_offset) == (1, 0)
    assert (told[77].producer_epoch, told[77].last_sequence, told[77].current_txn_start_offset) == (3, 0, -1)
    producer.end(commit=True)
    told = {one.producer_id: one for one in producers(bank).active_producers}
    assert (told[producer.id].current_txn_start_offset, told[producer.id].coordinator_epoch) == (-1, 0)
    assert producers(bank, index=1).active_producers == []


def test_producers_of_what_is_not_there(bank):
    assert producers(bank, "missing").error_code == UnknownTopicOrPartition.code
    assert producers(bank, index=9).error_code == UnknownTopicOrPartition.code
    assert producers(bank, "no name").error_code == InvalidTopicException.code
