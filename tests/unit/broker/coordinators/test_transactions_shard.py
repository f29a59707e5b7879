import itertools

import pytest

from ottla.broker.coordinators.effects import CancelTimer, Reply, SetTimer, StoredRecord, Write
from ottla.broker.coordinators.transactions.markers import RETRY_FIRST_MS, DropMarkers, WriteMarkers
from ottla.broker.coordinators.transactions.settings import TransactionSettings
from ottla.broker.coordinators.transactions.shard import ABORT, EXPIRY, MARKERS, SCAN_LIMIT, TIME_OUTS, TransactionShard
from ottla.broker.coordinators.transactions.state import LAST_CLIENT_EPOCH, LAST_EPOCH, TransactionState
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    DiskFull,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnknownServerError,
    UnsupportedVersion,
)
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.stored import decode_key, decode_value, encode_key, encode_value
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.values import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)
FIRST_ID = 100


class Coordinator:
    """A shard with a log of bytes, a clock that is set by hand, and markers that are written when told."""

    def __init__(self, version=2, **settings):
        self.settings = TransactionSettings(**settings)
        self.version = version
        self.now_ms = 1_000
        self.log = []
        self.ids = itertools.count(FIRST_ID)
        self.refuse_appends = None
        self.timers = {}
        self.markers = []
        self.replies = {}
        self.tokens = itertools.count()
        self.epoch = 0
        self.fail_over()

    def fail_over(self):
        """Another broker takes over and knows only the log."""
        self.epoch += 1
        self.timers, self.markers = {}, []
        self.shard = TransactionShard(
            self.settings,
            coordinator_epoch=self.epoch,
            next_producer_id=lambda: next(self.ids),
            transaction_version=self.version,
        )
        for offset, stored in enumerate(self.log):
            self.shard.replay(_decoded(stored), offset=offset)
        return self.carry_out([each for piece in self.shard.loaded(self.now_ms) for each in piece])

    def carry_out(self, effects):
        for effect in effects:
            if isinstance(effect, Write):
                if not self.append(effect):
                    break  # what follows a write that failed does not count
            elif isinstance(effect, Reply):
                self.reply(effect)
            elif isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.at_ms
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.key, None)
            elif isinstance(effect, WriteMarkers):
                self.markers.append(effect)
        return effects

    def append(self, write):
        if self.refuse_appends is not None:
            for reply in write.failure(self.refuse_appends):
                self.reply(reply)
            return False
        for record in write.records:
            value = None if record.value is None else encode_value(record.value, record.value_version)
            self.log.append((encode_key(record.key), value))
            self.shard.replay(record, offset=len(self.log))
        for reply in write.replies:
            self.reply(reply)
        return True

    def reply(self, reply):
        assert reply.token not in self.replies
        self.replies[reply.token] = reply.response

    def ask(self, method, request, version, *arguments):
        token = next(self.tokens)
        context = RequestContext(api_version=version, client_id="c", client_host="h")
        self.effects = self.carry_out(getattr(self.shard, method)(token, request, context, self.now_ms, *arguments))
        return self.replies[token]

    def init(self, name="tx", producer_id=-1, epoch=-1, version=5, **fields):
        fields.setdefault("transaction_timeout_ms", 60_000)
        request = InitProducerIdRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, **fields)
        answer = self.ask("init_producer_id", request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(self, producer_id, epoch, *partitions, name="tx", version=3, verify_only=False):
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
            results = self.ask("add_partitions_to_txn", request, version).results_by_topic_v3_and_below
        else:
            part = AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[part])
            answer = self.ask("add_partitions_to_txn", request, version)
            results = answer.results_by_transaction[0].topic_results
        return {code.partition_error_code for topic in results for code in topic.results_by_partition}

    def add_offsets(self, producer_id, epoch, name="tx", version=3):
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id="g"
        )
        return self.ask("add_offsets_to_txn", request, version, OFFSETS).error_code

    def end(self, producer_id, epoch, *, commit, name="tx", version=5):
        request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        answer = self.ask("end_txn", request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def write_markers(self, error=None):
        """Answer every marker that was asked for."""
        asked, self.markers = self.markers, []
        effects = []
        for order in asked:
            for partition in order.partitions:
                effects += self.carry_out(self.shard.markers_written(order, partition, error, self.now_ms))
        return effects

    def fire(self, key):
        self.timers.pop(key, None)
        return self.carry_out(self.shard.timer_fired(key, self.now_ms))

    def look_for_time_outs(self):
        """Fire the look, and every abort it asks for."""
        effects = list(self.fire(TIME_OUTS))
        for key in [key for key, at_ms in self.timers.items() if at_ms <= self.now_ms]:
            effects += self.fire(key)
        return effects

    def known(self, name="tx"):
        return self.shard.transactions[name]

    def begun(self, *partitions, version=2):
        """A producer with an open transaction: its id and epoch."""
        _, producer_id, epoch = self.init()
        assert self.add(producer_id, epoch, *(partitions or (A,)), version=3 if version < 2 else 5) == {0}
        return producer_id, epoch


def _decoded(stored):
    key, value = stored
    decoded = None if value is None else decode_value(TransactionLogValue, value)
    return StoredRecord(decode_key([TransactionLogKey], key), decoded)


@pytest.fixture
def coordinator():
    return Coordinator()


# --- InitProducerId --------------------------------------------------------------------------------------------------


def test_a_new_transactional_id_is_written_before_it_is_answered(coordinator):
    assert coordinator.init() == (0, FIRST_ID, 0)
    [write] = coordinator.effects
    assert [each.value.transaction_status for each in write.records] == [TransactionState.EMPTY]
    assert write.replies == (Reply(0, InitProducerIdResponse(error_code=0, producer_id=FIRST_ID, producer_epoch=0)),)


def test_every_new_producer_has_a_larger_epoch_and_fences_its_predecessor(coordinator):
    coordinator.init()
    assert coordinator.init() == (0, FIRST_ID, 1)
    assert coordinator.add(FIRST_ID, 0, A) == {ProducerFenced.code}
    assert coordinator.add(FIRST_ID, 1, A) == {0}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": ""}, InvalidRequest),
        ({"transaction_timeout_ms": 0}, InvalidTransactionTimeout),
        ({"transaction_timeout_ms": -1}, InvalidTransactionTimeout),
        ({"transaction_timeout_ms": 900_001}, InvalidTransactionTimeout),
        ({"producer_id": 3}, InvalidRequest),
        ({"epoch": 3}, InvalidRequest),
        ({"enable2pc": True, "version": 6}, TransactionalIdAuthorizationFailed),
        ({"keep_prepared_txn": True, "version": 6}, UnsupportedVersion),
    ],
)
def test_a_request_that_cannot_be_granted_changes_nothing(coordinator, fields, error):
    assert coordinator.init(**fields) == (error.code, -1, -1)
    assert coordinator.log == []


def test_a_producer_that_goes_on_gets_the_next_epoch_and_its_retry_the_same(coordinator):
    coordinator.init()
    assert coordinator.init(producer_id=FIRST_ID, epoch=0) == (0, FIRST_ID, 1)
    assert coordinator.init(producer_id=FIRST_ID, epoch=0) == (0, FIRST_ID, 1)
    assert coordinator.init(producer_id=FIRST_ID, epoch=1) == (0, FIRST_ID, 2)


def test_a_producer_that_was_replaced_cannot_go_on(coordinator):
    coordinator.init()
    coordinator.init(producer_id=FIRST_ID, epoch=0)
    coordinator.init()
    assert coordinator.init(producer_id=FIRST_ID, epoch=0)[0] == ProducerFenced.code
    assert coordinator.init(producer_id=FIRST_ID, epoch=1)[0] == ProducerFenced.code
    assert coordinator.init(producer_id=FIRST_ID, epoch=1, version=3)[0] == InvalidProducerEpoch.code
    assert coordinator.init(producer_id=4, epoch=0)[0] == ProducerFenced.code


def test_a_producer_of_an_expired_id_gets_a_new_one(coordinator):
    assert coordinator.init(producer_id=55, epoch=9) == (0, FIRST_ID, 0)


@pytest.mark.parametrize("goes_on", [False, True])
def test_after_the_last_epoch_comes_a_new_producer_id(coordinator, goes_on):
    coordinator.init()
    for _ in range(LAST_CLIENT_EPOCH):
        coordinator.init()
    assert coordinator.known().producer_epoch == LAST_CLIENT_EPOCH
    who = {"producer_id": FIRST_ID, "epoch": LAST_CLIENT_EPOCH} if goes_on else {}
    assert coordinator.init(**who) == (0, FIRST_ID + 1, 0)
    assert coordinator.known().previous_producer_id == FIRST_ID
    # A retry of the producer that said who it was gets the same id once more.
    if goes_on:
        assert coordinator.init(**who) == (0, FIRST_ID + 1, 0)


def test_a_new_producer_aborts_the_open_transaction_of_its_predecessor_first(coordinator):
    producer_id, epoch = coordinator.begun(A, B)
    assert coordinator.init() == (ConcurrentTransactions.code, -1, -1)
    assert coordinator.effects[1] == WriteMarkers("tx", producer_id, epoch + 1, 1, False, (A, B), 2, 1)
    assert coordinator.init() == (ConcurrentTransactions.code, -1, -1)
    coordinator.write_markers()
    assert coordinator.known().state is TransactionState.COMPLETE_ABORT
    assert coordinator.init() == (0, producer_id, epoch + 2)


def test_without_a_producer_id_the_client_tries_again(coordinator):
    def nothing_left():
        raise CoordinatorLoadInProgress

    coordinator.shard._next_producer_id = nothing_left
    assert coordinator.init() == (CoordinatorLoadInProgress.code, -1, -1)


def test_two_phases_may_take_for_ever():
    coordinator = Coordinator(transaction_two_phase_commit_enable=True)
    _, producer_id, epoch = coordinator.init(enable2pc=True, transaction_timeout_ms=0, version=6)
    coordinator.add(producer_id, epoch, A)
    coordinator.now_ms = 10**12
    coordinator.look_for_time_outs()
    assert coordinator.known().state is TransactionState.ONGOING


def test_at_the_limit_the_id_that_was_idle_longest_makes_room():
    coordinator = Coordinator(ottla_transactional_ids_max=2)
    for name in ("a", "b", "a"):
        coordinator.init(name)
    assert coordinator.init("c")[0] == 0
    assert list(coordinator.shard.transactions) == ["a", "c"]


def test_at_the_limit_of_open_transactions_a_new_id_waits():
    coordinator = Coordinator(ottla_transactional_ids_max=1)
    coordinator.begun(A)
    assert coordinator.init("b")[0] == CoordinatorNotAvailable.code


# --- AddPartitionsToTxn and AddOffsetsToTxn --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_partitions_become_part_of_the_transaction(coordinator, version):
    _, producer_id, epoch = coordinator.init()
    assert coordinator.add(producer_id, epoch, A, version=version) == {0}
    assert coordinator.add_offsets(producer_id, epoch) == 0
    assert coordinator.known().partitions == {A, OFFSETS}
    assert coordinator.known().start_ms == coordinator.now_ms


def test_what_is_added_already_is_answered_when_it_is_committed_and_not_written_again(coordinator):
    producer_id, epoch = coordinator.begun(A)
    assert coordinator.add(producer_id, epoch, A) == {0}
    [write] = coordinator.effects
    assert write.records == ()
    assert len(write.replies) == 1


def test_who_may_add(coordinator):
    producer_id, epoch = coordinator.begun(A)
    assert coordinator.add(producer_id, epoch, B, name="") == {InvalidRequest.code}
    assert coordinator.add(producer_id, epoch, B, name="other") == {InvalidProducerIdMapping.code}
    assert coordinator.add(producer_id + 1, epoch, B) == {InvalidProducerIdMapping.code}
    assert coordinator.add(producer_id, epoch + 1, B) == {ProducerFenced.code}
    assert coordinator.add(producer_id, epoch + 1, B, version=1) == {InvalidProducerEpoch.code}
    assert coordinator.add_offsets(producer_id, epoch + 1, version=1) == InvalidProducerEpoch.code
    assert coordinator.add_offsets(producer_id, epoch + 1, version=2) == ProducerFenced.code
    assert coordinator.known().partitions == {A}


# Kafka 4.3.1 looks at the pending transition before it looks at who asks: conformance/test_transaction_answers.py.
WHOEVER = [(0, 1), (0, 0), (0, 2), (7, 1)]  # (offset of the producer id, epoch - the epoch before the end)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("id_offset", "epoch_offset"), WHOEVER)
def test_nothing_is_added_while_markers_are_being_written(coordinator, commit, id_offset, epoch_offset):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=commit)
    who = producer_id + id_offset, epoch + epoch_offset
    for version in (3, 5):
        assert coordinator.add(*who, B, version=version) == {ConcurrentTransactions.code}
    assert coordinator.add_offsets(*who) == ConcurrentTransactions.code
    coordinator.write_markers()
    assert coordinator.add(producer_id, epoch + 1, B) == {0}


def test_verifying_while_markers_are_being_written_looks_at_the_producer_first(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=True)
    assert coordinator.add(producer_id, epoch + 1, A, version=5, verify_only=True) == {ConcurrentTransactions.code}
    assert coordinator.add(producer_id, epoch, A, version=5, verify_only=True) == {ProducerFenced.code}
    assert coordinator.add(producer_id + 7, epoch + 1, A, version=5, verify_only=True) == {
        InvalidProducerIdMapping.code
    }


@pytest.mark.parametrize(("id_offset", "epoch_offset"), WHOEVER)
def test_no_producer_is_initialised_while_markers_are_being_written(coordinator, id_offset, epoch_offset):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=True)
    assert coordinator.init()[0] == ConcurrentTransactions.code
    again = coordinator.init(producer_id=producer_id + id_offset, epoch=epoch + epoch_offset)
    assert again == (ConcurrentTransactions.code, -1, -1)


def test_verifying_tells_what_was_added_and_changes_nothing(coordinator):
    producer_id, epoch = coordinator.begun(A)
    before = list(coordinator.log)
    assert coordinator.add(producer_id, epoch, A, version=4, verify_only=True) == {0}
    assert coordinator.effects[0].records == ()
    assert coordinator.add(producer_id, epoch, B, version=5, verify_only=True) == {TransactionAbortable.code}
    assert coordinator.add(producer_id, epoch - 1, A, version=5, verify_only=True) == {ProducerFenced.code}
    assert coordinator.log == before


def test_a_broker_asks_about_many_transactions_at_once_and_one_of_them_twice(coordinator):
    _, first, _ = coordinator.init("a")
    _, second, _ = coordinator.init("b")

    def part(name, producer_id, epoch, partition):
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])
        return AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, topics=[topic]
        )

    parts = [part("a", first, 0, A), part("b", second, 9, A), part("a", first, 0, B)]
    answer = coordinator.ask("add_partitions_to_txn", AddPartitionsToTxnRequest(transactions=parts), 5)
    codes = [
        (each.transactional_id, each.topic_results[0].results_by_partition[0].partition_error_code)
        for each in answer.results_by_transaction
    ]
    assert codes == [("a", 0), ("b", ProducerFenced.code), ("a", 0)]
    assert coordinator.known("a").partitions == {A, B}
    assert len(coordinator.effects) == 1


def test_one_partition_too_many_is_refused():
    coordinator = Coordinator(ottla_transaction_partitions_max=1)
    producer_id, epoch = coordinator.begun(A)
    assert coordinator.add(producer_id, epoch, B, version=5) == {TransactionAbortable.code}
    assert coordinator.add(producer_id, epoch, B, version=3) == {InvalidTxnState.code}
    assert coordinator.add_offsets(producer_id, epoch, version=4) == TransactionAbortable.code
    assert coordinator.add_offsets(producer_id, epoch, version=3) == InvalidTxnState.code


# --- EndTxn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_writes_the_decision_with_a_raised_epoch_and_then_the_markers(coordinator, commit):
    producer_id, epoch = coordinator.begun(A, B)
    assert coordinator.end(producer_id, epoch, commit=commit) == (0, producer_id, epoch + 1)
    write, markers = coordinator.effects
    assert [each.value.transaction_status for each in write.records] == [2 if commit else 3]
    assert markers == WriteMarkers("tx", producer_id, epoch + 1, 1, commit, (A, B), 2, 1)
    coordinator.write_markers()
    assert coordinator.known().state.text == ("CompleteCommit" if commit else "CompleteAbort")
    assert coordinator.known().partitions == frozenset()


@pytest.mark.parametrize("commit", [True, False])
def test_version_1_keeps_the_epoch(coordinator, commit):
    producer_id, epoch = coordinator.begun(A, version=1)
    assert coordinator.end(producer_id, epoch, commit=commit, version=4) == (0, -1, -1)
    assert coordinator.effects[1] == WriteMarkers("tx", producer_id, epoch, 1, commit, (A,), 0, 1)
    coordinator.write_markers()
    assert coordinator.end(producer_id, epoch, commit=commit, version=4) == (0, -1, -1)
    assert coordinator.end(producer_id, epoch, commit=not commit, version=4)[0] == InvalidTxnState.code


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(("id_offset", "epoch_offset"), WHOEVER)
def test_every_end_of_version_2_is_told_to_wait_while_markers_are_being_written(
    coordinator, commit, again, id_offset, epoch_offset
):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=commit)
    answer = coordinator.end(producer_id + id_offset, epoch + epoch_offset, commit=again)
    assert answer == (ConcurrentTransactions.code, -1, -1)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_an_end_of_version_1_looks_at_the_producer_before_it_is_told_to_wait(coordinator, commit, again):
    producer_id, epoch = coordinator.begun(A, version=1)
    coordinator.end(producer_id, epoch, commit=commit, version=4)
    assert coordinator.end(producer_id, epoch, commit=again, version=4)[0] == ConcurrentTransactions.code
    assert coordinator.end(producer_id, epoch + 1, commit=again, version=4)[0] == ProducerFenced.code
    assert coordinator.end(producer_id + 7, epoch, commit=again, version=4)[0] == InvalidProducerIdMapping.code


def test_the_table_of_ends_without_an_open_transaction_is_that_of_kafka():
    # Rows of the table in Kafka's coordinator for version 2: state; abort by retry, current; commit by retry, current.
    fenced, state, none, bump = ProducerFenced.code, InvalidTxnState.code, "none", "bump"
    table = {
        "Empty": (fenced, bump, fenced, state),
        "CompleteAbort": (none, bump, state, state),
        "CompleteCommit": (state, bump, none, state),
    }
    for name, row in table.items():
        for (commit, behind), expected in zip([(False, 1), (False, 0), (True, 1), (True, 0)], row, strict=True):
            coordinator = Coordinator()
            producer_id, _ = coordinator.begun(A)
            if name != "Empty":
                coordinator.end(producer_id, 0, commit=name == "CompleteCommit")
                coordinator.write_markers()
            else:
                coordinator = Coordinator()
                coordinator.init()
                coordinator.init()
            assert coordinator.known().state.text == name
            code, answered_id, epoch = coordinator.end(producer_id, 1 - behind, commit=commit)
            if expected in (none, bump):
                assert (code, answered_id, epoch) == (0, producer_id, 2 if expected == bump else 1)
            else:
                assert code == expected


def test_an_abort_without_a_transaction_is_complete_at_once(coordinator):
    _, producer_id, epoch = coordinator.init()
    assert coordinator.end(producer_id, epoch, commit=False) == (0, producer_id, epoch + 1)
    [write] = coordinator.effects
    assert [each.value.transaction_status for each in write.records] == [3, 5]


def test_a_held_back_end_cannot_end_the_next_transaction_in_version_2(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=False)
    coordinator.write_markers()
    coordinator.add(producer_id, epoch + 1, A, version=5)
    for commit in (True, False):
        assert coordinator.end(producer_id, epoch, commit=commit)[0] == ProducerFenced.code
    assert coordinator.known().state is TransactionState.ONGOING


def test_the_end_at_the_last_epoch_gives_a_new_producer_id_and_its_retry_too(coordinator):
    coordinator.init()
    for _ in range(LAST_CLIENT_EPOCH):
        coordinator.init()
    coordinator.add(FIRST_ID, LAST_CLIENT_EPOCH, A, version=5)
    assert coordinator.end(FIRST_ID, LAST_CLIENT_EPOCH, commit=True) == (0, FIRST_ID + 1, 0)
    assert coordinator.markers[0][:3] == ("tx", FIRST_ID, LAST_EPOCH)
    assert coordinator.end(FIRST_ID, LAST_CLIENT_EPOCH, commit=True)[0] == ConcurrentTransactions.code
    coordinator.fail_over()
    coordinator.write_markers()
    assert coordinator.end(FIRST_ID, LAST_CLIENT_EPOCH, commit=True) == (0, FIRST_ID + 1, 0)
    assert coordinator.end(FIRST_ID, LAST_CLIENT_EPOCH, commit=False)[0] == InvalidTxnState.code
    assert coordinator.add(FIRST_ID + 1, 0, A, version=5) == {0}
    assert coordinator.end(FIRST_ID, LAST_CLIENT_EPOCH, commit=True)[0] == InvalidProducerIdMapping.code


def test_who_may_end(coordinator):
    producer_id, epoch = coordinator.begun(A)
    for version in (1, 4, 5):
        fenced = InvalidProducerEpoch.code if version < 2 else ProducerFenced.code
        assert coordinator.end(producer_id, epoch, commit=True, name="", version=version)[0] == InvalidRequest.code
        unknown = coordinator.end(producer_id, epoch, commit=True, name="other", version=version)
        assert unknown == (InvalidProducerIdMapping.code, -1, -1)
        mistaken = coordinator.end(producer_id + 1, epoch, commit=True, version=version)
        assert mistaken[0] == InvalidProducerIdMapping.code
        assert coordinator.end(producer_id, epoch + 1, commit=True, version=version)[0] == fenced
        assert coordinator.end(producer_id, epoch - 1, commit=True, version=version)[0] == fenced
    assert coordinator.known().state is TransactionState.ONGOING


def test_version_1_does_not_end_what_was_never_begun(coordinator):
    _, producer_id, epoch = coordinator.init()
    for commit in (True, False):
        assert coordinator.end(producer_id, epoch, commit=commit, version=4)[0] == InvalidTxnState.code


# --- appends that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotEnoughReplicas(), CoordinatorNotAvailable),
        (NotLeaderOrFollower(), NotCoordinator),
        (KafkaStorageError(), NotCoordinator),
        (DiskFull(), NotCoordinator),
        (MessageTooLarge(), UnknownServerError),
        (InvalidRequest(), InvalidRequest),
    ],
)
def test_an_append_that_fails_changes_nothing_and_is_told_in_the_words_of_a_coordinator(coordinator, error, told):
    producer_id, epoch = coordinator.begun(A)
    before = dict(coordinator.shard.transactions)
    coordinator.refuse_appends = error
    assert coordinator.init()[0] == told.code
    assert coordinator.add(producer_id, epoch, B) == {told.code}
    assert coordinator.add_offsets(producer_id, epoch) == told.code
    assert coordinator.end(producer_id, epoch, commit=True) == (told.code, -1, -1)
    assert coordinator.markers == []
    assert coordinator.shard.transactions == before
    coordinator.refuse_appends = None
    assert coordinator.end(producer_id, epoch, commit=True) == (0, producer_id, epoch + 1)


def test_a_completion_that_could_not_be_written_is_tried_again(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=True)
    coordinator.refuse_appends = NotEnoughReplicas()
    coordinator.write_markers()
    assert coordinator.known().state is TransactionState.PREPARE_COMMIT
    coordinator.refuse_appends = None
    coordinator.look_for_time_outs()
    assert coordinator.known().state is TransactionState.COMPLETE_COMMIT


# --- markers ---------------------------------------------------------------------------------------------------------


def test_the_transaction_is_complete_when_its_last_marker_is_written(coordinator):
    producer_id, epoch = coordinator.begun(A, B)
    coordinator.end(producer_id, epoch, commit=True)
    [order] = coordinator.markers
    assert coordinator.shard.markers_written(order, A, None, 5) == []
    cancel, write = coordinator.shard.markers_written(order, B, None, 5)
    assert cancel == CancelTimer((MARKERS, "tx"))
    assert [each.value.transaction_status for each in write.records] == [4]
    assert write.replies == ()


def test_a_marker_that_failed_is_asked_for_again_after_a_while(coordinator):
    producer_id, epoch = coordinator.begun(A, B)
    coordinator.end(producer_id, epoch, commit=True)
    [order] = coordinator.markers
    coordinator.shard.markers_written(order, A, None, 5)
    key = (MARKERS, "tx")
    assert coordinator.shard.markers_written(order, B, NotLeaderOrFollower(), 5) == [SetTimer(key, 5 + RETRY_FIRST_MS)]
    assert coordinator.shard.timer_fired(key, 25) == [order._replace(partitions=(B,))]
    assert coordinator.shard.timer_fired(key, 26) == []
    assert len(coordinator.shard.markers_written(order, B, None, 30)) == 2


def test_a_fenced_coordinator_stops(coordinator):
    producer_id, epoch = coordinator.begun(A, B)
    coordinator.end(producer_id, epoch, commit=True)
    [order] = coordinator.markers
    assert coordinator.shard.markers_written(order, A, TransactionCoordinatorFenced(), 5) == [
        CancelTimer((MARKERS, "tx")),
        DropMarkers("tx", order.generation),
    ]
    assert coordinator.shard.markers_written(order, B, None, 5) == []
    coordinator.look_for_time_outs()
    assert coordinator.known().state is TransactionState.PREPARE_COMMIT


def test_a_late_answer_of_version_1_does_not_complete_the_next_transaction(coordinator):
    producer_id, epoch = coordinator.begun(A, version=1)
    coordinator.end(producer_id, epoch, commit=True, version=4)
    [first] = coordinator.markers
    coordinator.write_markers()
    coordinator.add(producer_id, epoch, A)
    coordinator.end(producer_id, epoch, commit=True, version=4)
    assert coordinator.shard.markers_written(first, A, None, 5) == []
    coordinator.write_markers()
    assert coordinator.known().state is TransactionState.COMPLETE_COMMIT


# --- another coordinator takes over ----------------------------------------------------------------------------------


def test_decided_transactions_are_completed_by_the_next_coordinator(coordinator):
    producer_id, epoch = coordinator.begun(A, B)
    coordinator.end(producer_id, epoch, commit=True)
    effects = coordinator.fail_over()
    assert effects[0] == WriteMarkers("tx", producer_id, epoch + 1, 2, True, (A, B), 2, 1)
    coordinator.write_markers()
    assert coordinator.known().state is TransactionState.COMPLETE_COMMIT


def test_a_loaded_shard_begins_to_look_for_what_is_over(coordinator):
    assert coordinator.shard.loaded(50) == [[SetTimer(TIME_OUTS, 10_050), SetTimer(EXPIRY, 3_600_050)]]


def test_a_former_coordinator_drops_its_markers_and_timers(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=True)
    assert coordinator.shard.unload() == [
        CancelTimer(TIME_OUTS),
        CancelTimer(EXPIRY),
        CancelTimer((MARKERS, "tx")),
        DropMarkers("tx", 1),
    ]


def test_a_decision_without_partitions_in_the_log_is_completed_when_loaded(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=False)
    prepared = coordinator.known()
    record = type(prepared)(
        **{name: getattr(prepared, name) for name in prepared.__slots__} | {"partitions": frozenset()}
    )
    coordinator.log.append((encode_key(record.record(2).key), encode_value(record.record(2).value, 1)))
    coordinator.fail_over()
    assert coordinator.known().state is TransactionState.COMPLETE_ABORT


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_transaction_that_timed_out_is_aborted_and_its_producer_fenced(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.now_ms += 60_000
    coordinator.look_for_time_outs()
    assert coordinator.known().state is TransactionState.ONGOING
    coordinator.now_ms += 1
    effects = coordinator.look_for_time_outs()
    assert effects[0] == SetTimer((ABORT, "tx"), coordinator.now_ms)
    assert effects[1] == SetTimer(TIME_OUTS, coordinator.now_ms + 10_000)
    assert effects[3] == WriteMarkers("tx", producer_id, epoch + 1, 1, False, (A,), 2, 1)
    coordinator.write_markers()
    assert coordinator.add(producer_id, epoch, A) == {ProducerFenced.code}
    assert coordinator.end(producer_id, epoch, commit=True)[0] == InvalidTxnState.code
    assert coordinator.end(producer_id, epoch, commit=False) == (0, producer_id, epoch + 1)
    assert coordinator.end(producer_id, epoch, commit=True, version=4)[0] == ProducerFenced.code


def test_a_producer_that_timed_out_may_go_on_with_the_raised_epoch(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.now_ms += 60_001
    coordinator.look_for_time_outs()
    coordinator.write_markers()
    assert coordinator.init(producer_id=producer_id, epoch=epoch) == (0, producer_id, epoch + 1)


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_time_out_fences_too(version):
    coordinator = Coordinator(version=version)
    producer_id, epoch = coordinator.begun(A, version=1)
    coordinator.now_ms += 60_001
    coordinator.look_for_time_outs()
    assert coordinator.markers == [WriteMarkers("tx", producer_id, epoch + 1, 1, False, (A,), 0, 1)]
    coordinator.write_markers()
    assert coordinator.init(producer_id=producer_id, epoch=epoch)[0] == ProducerFenced.code
    assert coordinator.init() == (0, producer_id, epoch + 2)


def test_an_abort_that_came_too_late_does_nothing(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.now_ms += 60_001
    coordinator.fire(TIME_OUTS)
    coordinator.end(producer_id, epoch, commit=True)
    assert coordinator.fire((ABORT, "tx")) == []
    assert coordinator.fire((ABORT, "other")) == []


def test_an_abort_that_could_not_be_written_is_tried_again_and_holds_back_no_other(coordinator):
    for name in ("a", "b"):
        _, producer_id, _ = coordinator.init(name)
        coordinator.add(producer_id, 0, A, name=name)
    coordinator.now_ms += 60_001
    coordinator.fire(TIME_OUTS)
    coordinator.refuse_appends = NotEnoughReplicas()
    coordinator.fire((ABORT, "a"))
    coordinator.refuse_appends = None
    coordinator.fire((ABORT, "b"))
    assert [each.transactional_id for each in coordinator.markers] == ["b"]
    coordinator.look_for_time_outs()
    assert [each.transactional_id for each in coordinator.markers] == ["b", "a"]


def test_many_time_outs_are_done_in_portions(coordinator):
    for index in range(SCAN_LIMIT + 1):
        _, producer_id, _ = coordinator.init(f"tx-{index}")
        coordinator.add(producer_id, 0, A, name=f"tx-{index}")
    coordinator.now_ms += 60_001
    effects = coordinator.look_for_time_outs()
    assert sum(isinstance(each, WriteMarkers) for each in effects) == SCAN_LIMIT
    assert coordinator.timers[TIME_OUTS] == coordinator.now_ms + 100
    effects = coordinator.look_for_time_outs()
    assert sum(isinstance(each, WriteMarkers) for each in effects) == 1
    assert coordinator.timers[TIME_OUTS] == coordinator.now_ms + 10_000
    assert {each.generation for each in coordinator.markers} == set(range(1, SCAN_LIMIT + 2))
    coordinator.write_markers()
    assert all(each.is_idle for each in coordinator.shard.transactions.values())


def test_idle_ids_expire_and_open_ones_do_not(coordinator):
    coordinator.init("idle")
    coordinator.begun(A)
    coordinator.now_ms += 604_800_000 - 1
    coordinator.fire(EXPIRY)
    assert list(coordinator.shard.transactions) == ["idle", "tx"]
    coordinator.now_ms += 1
    [write, timer] = coordinator.fire(EXPIRY)
    assert [(each.key.transactional_id, each.value) for each in write.records] == [("idle", None)]
    assert timer == SetTimer(EXPIRY, coordinator.now_ms + 3_600_000)
    assert list(coordinator.shard.transactions) == ["tx"]
    assert coordinator.add(FIRST_ID, 0, A, name="idle") == {InvalidProducerIdMapping.code}


def test_an_unknown_timer_is_a_fault(coordinator):
    with pytest.raises(ValueError, match="no timer"):
        coordinator.shard.timer_fired("nonsense", 1)


# --- looking ---------------------------------------------------------------------------------------------------------


def test_a_transaction_is_described(coordinator):
    producer_id, epoch = coordinator.begun(B, A)
    answer = coordinator.ask(
        "describe_transactions", DescribeTransactionsRequest(transactional_ids=["tx", "other", ""]), 0
    )
    known, unknown, empty = answer.transaction_states
    assert (known.error_code, known.transaction_state, known.producer_id) == (0, "Ongoing", producer_id)
    assert (known.producer_epoch, known.transaction_timeout_ms, known.transaction_start_time_ms) == (
        epoch,
        60_000,
        1_000,
    )
    assert [(each.topic, each.partitions) for each in known.topics] == [("t", [0, 1])]
    assert (unknown.error_code, empty.error_code) == (TransactionalIdNotFound.code, InvalidRequest.code)


def test_while_markers_are_written_those_partitions_are_described_that_lack_one(coordinator):
    producer_id, epoch = coordinator.begun(A, B)
    coordinator.end(producer_id, epoch, commit=True)
    coordinator.shard.markers_written(coordinator.markers[0], A, None, 5)
    answer = coordinator.ask("describe_transactions", DescribeTransactionsRequest(transactional_ids=["tx"]), 0)
    assert answer.transaction_states[0].topics[0].partitions == [1]
    assert answer.transaction_states[0].transaction_state == "PrepareCommit"


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["idle", "open"]),
        ({"state_filters": ["Ongoing"]}, ["open"]),
        ({"state_filters": ["Ongoing", "Empty"]}, ["idle", "open"]),
        ({"state_filters": ["ongoing"]}, []),
        ({"producer_id_filters": [FIRST_ID]}, ["idle"]),
        ({"producer_id_filters": [FIRST_ID], "state_filters": ["Ongoing"]}, []),
        ({"duration_filter": 100}, ["idle"]),
        ({"duration_filter": 99}, ["idle", "open"]),
    ],
)
def test_transactions_are_listed_by_filters(coordinator, filters, found):
    coordinator.init("idle")
    _, producer_id, epoch = coordinator.init("open")
    coordinator.add(producer_id, epoch, A, name="open")
    coordinator.now_ms += 100
    request = ListTransactionsRequest(**({"state_filters": [], "producer_id_filters": []} | filters))
    answer = coordinator.ask("list_transactions", request, 2)
    assert [each.transactional_id for each in answer.transaction_states] == found
    assert answer.unknown_state_filters == [text for text in request.state_filters if text == "ongoing"]


def test_what_kafka_answers_for_an_end_has_the_fields_of_its_version(coordinator):
    producer_id, epoch = coordinator.begun(A)
    coordinator.end(producer_id, epoch, commit=True)
    assert coordinator.effects[0].replies[0].response == EndTxnResponse(
        error_code=0, producer_id=producer_id, producer_epoch=epoch + 1
    )
