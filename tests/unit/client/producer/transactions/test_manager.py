"""The transaction manager: calls, order of requests, what each error does, without a socket."""

from __future__ import annotations

import pytest

from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.producer.transactions.requests import EFFECTS, Effect
from ottla.client.producer.transactions.states import (
    MOVES,
    Kind,
    OffsetsNotCommitted,
    ProducerIdentity,
    TransactionAborted,
    TransactionFailed,
    TransactionMisuse,
    TransactionState,
)
from ottla.errors import (
    ConnectionClosed,
    GroupAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidTxnState,
    MessageTooLarge,
    NotConnected,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersion,
)
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.values import OffsetAndMetadata, TopicPartition

S = TransactionState
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
GROUP = GroupMetadata("readers", 3, "member-1", None)


def identity(producer_id=7, epoch=0, error=0):
    return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)


def added(*partitions, error=0):
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                ],
            )
            for name, index in partitions
        ]
    )


def ended(error=0, producer_id=-1, epoch=-1):
    return EndTxnResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)


def offsets_answer(*partitions, error=0):
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=name, partitions=[TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)]
            )
            for name, index in partitions
        ]
    )


class Driven(TransactionManager):
    """A manager with the sender's half of each step."""

    now_ms = 0.0

    def turn(self, *, incomplete=False):
        self.resolve_errors(self.now_ms)
        return self.next_request(has_incomplete_batches=incomplete, now_ms=self.now_ms)

    def answer(self, response, *, incomplete=False):
        planned = self.turn(incomplete=incomplete)
        assert planned is not None
        forget = self.answered(planned, response, self.now_ms)
        return planned, forget


def transactional(version=0, **how):
    manager = Driven(transactional_id="t", transaction_timeout_ms=60_000, **how)
    manager.set_features(version)
    return manager


def ready(version=0, **how):
    manager = transactional(version, **how)
    outcome = manager.initialize()
    manager.answer(identity())
    outcome.acknowledge()
    return manager


def in_transaction(version=0, *partitions, **how):
    manager = ready(version, **how)
    manager.begin()
    for partition in partitions:
        manager.maybe_add_partition(partition)
    if partitions and version < 2:
        manager.answer(added(*partitions))
    return manager


# --- idempotence alone -----------------------------------------------------------------------------------------------


def idempotent():
    manager = Driven(transactional_id=None)
    planned, _ = manager.answer(identity())
    assert planned.to == "any"
    return manager


def test_an_idempotent_producer_asks_any_node_for_its_identity_by_itself():
    manager = Driven(transactional_id=None)
    planned = manager.turn()
    assert planned.kind is Kind.INIT_PRODUCER_ID
    assert planned.request.transactional_id is None
    assert not manager.may_drain(A, None)
    manager.answered(planned, identity(), 0)
    assert manager.identity == ProducerIdentity(7, 0)
    assert manager.may_drain(A, None)


def test_batches_are_numbered_per_partition_without_gaps():
    manager = idempotent()
    assert [
        manager.stamp(A, 3).base_sequence,
        manager.stamp(A, 2).base_sequence,
        manager.stamp(B, 1).base_sequence,
    ] == [
        0,
        3,
        0,
    ]


def test_sequences_wrap_around_after_the_last_int32():
    manager = idempotent()
    first = manager.stamp(A, 2**31 - 1)
    second = manager.stamp(A, 2)
    third = manager.stamp(A, 1)
    assert (second.base_sequence, second.last_sequence, third.base_sequence) == (2**31 - 1, 0, 1)
    manager.batch_acknowledged(A, first)
    manager.batch_acknowledged(A, second)
    assert manager.can_retry(A, third, OutOfOrderSequenceNumber())
    manager.resolve_errors(0)
    assert manager.identity.epoch == 1  # the gap after the wrap is seen as one


def test_a_retry_goes_only_when_it_is_the_first_in_flight():
    manager = idempotent()
    first, second = manager.stamp(A, 1), manager.stamp(A, 1)
    assert manager.may_drain(A, first)
    assert not manager.may_drain(A, second)
    manager.batch_acknowledged(A, first)
    assert manager.may_drain(A, second)


def test_a_batch_behind_a_gap_that_is_still_being_tried_is_retried_without_a_bump():
    manager = idempotent()
    manager.stamp(A, 1)
    second = manager.stamp(A, 1)
    assert manager.can_retry(A, second, OutOfOrderSequenceNumber())
    manager.resolve_errors(0)
    assert manager.identity.epoch == 0


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_goes_on_when_a_later_batch_shows_that_nothing_is_missing(version):
    manager = in_transaction(version, A)
    first, second, third = manager.stamp(A, 1), manager.stamp(A, 1), manager.stamp(A, 1)
    manager.batch_acknowledged(A, first, 0)
    assert manager.can_retry(A, second, ConnectionClosed())
    assert manager.can_retry(A, third, ConnectionClosed())
    assert manager.can_retry(A, second, OutOfOrderSequenceNumber())
    assert manager.probe(A) is third
    assert manager.may_drain(A, third)
    assert not manager.may_drain(A, second)
    manager.batch_acknowledged(A, third, 2)
    assert manager.is_written(A, second, OutOfOrderSequenceNumber())
    assert not manager.has_error


def test_a_refused_batch_bumps_the_epoch_and_renumbers_what_follows():
    manager = idempotent()
    first, second = manager.stamp(A, 2), manager.stamp(A, 3)
    elsewhere = manager.stamp(B, 1)
    manager.batch_failed(A, first, MessageTooLarge(), adjust_sequences=True)
    manager.resolve_errors(0)
    assert manager.identity == ProducerIdentity(7, 0)  # the second is on the wire, and nobody knows its answer yet
    assert manager.can_retry(A, second, OutOfOrderSequenceNumber())
    assert not manager.may_drain(A, second)
    manager.resolve_errors(0)
    assert manager.identity == ProducerIdentity(7, 1)
    assert manager.may_drain(A, second)
    assert (second.base_sequence, second.epoch, second.was_reset) == (0, 1, True)
    assert (elsewhere.epoch, elsewhere.was_reset) == (0, False)
    assert not manager.may_drain(B, None)  # nothing new before the old epoch is done there
    manager.batch_acknowledged(B, elsewhere)
    assert manager.may_drain(B, None)
    assert manager.stamp(B, 1).epoch == 1


def test_what_is_before_a_gap_is_brought_to_its_end_with_its_old_numbers():
    manager = idempotent()
    first, second, third = manager.stamp(A, 1), manager.stamp(A, 1), manager.stamp(A, 1)
    assert manager.can_retry(A, first, ConnectionClosed())
    assert manager.can_retry(A, third, OutOfOrderSequenceNumber())
    manager.batch_failed(A, second, MessageTooLarge(), adjust_sequences=True)
    manager.resolve_errors(0)
    assert manager.identity.epoch == 0
    assert manager.may_drain(A, first)  # it may be in the log already: with other numbers it would be there twice
    manager.batch_acknowledged(A, first, 0)
    manager.resolve_errors(0)
    assert (third.epoch, third.base_sequence) == (1, 0)


def test_a_batch_refused_after_a_lost_answer_may_be_in_the_log_so_nothing_is_renumbered():
    manager = idempotent()
    first, second = manager.stamp(A, 1), manager.stamp(A, 1)
    for stamp in (first, second):
        assert manager.can_retry(A, stamp, ConnectionClosed())
    manager.batch_failed(A, first, MessageTooLarge(), adjust_sequences=True)
    manager.resolve_errors(0)
    assert manager.may_drain(A, second)
    assert (second.epoch, second.base_sequence) == (0, 1)
    manager.batch_acknowledged(A, second, 1)
    manager.resolve_errors(0)
    assert manager.identity.epoch == 0


def test_an_expired_batch_blocks_its_partition_until_a_later_one_proves_it_arrived():
    manager = idempotent()
    first, second = manager.stamp(A, 1), manager.stamp(A, 1)
    manager.batch_failed(A, first, RequestTimedOut(), adjust_sequences=False)
    manager.mark_unresolved(A, first)
    assert not manager.may_drain(A, None)
    manager.batch_acknowledged(A, second, 11)
    manager.resolve_errors(0)
    assert manager.identity.epoch == 0
    assert manager.may_drain(A, None)


def test_an_expired_batch_that_nothing_resolves_bumps_the_epoch():
    manager = idempotent()
    first = manager.stamp(A, 1)
    manager.batch_failed(A, first, RequestTimedOut(), adjust_sequences=False)
    manager.mark_unresolved(A, first)
    manager.resolve_errors(0)
    assert manager.identity.epoch == 1
    assert manager.stamp(A, 1).base_sequence == 0


def test_the_last_epoch_is_followed_by_a_new_producer_id_and_renumbered_batches():
    manager = Driven(transactional_id=None)
    manager.answer(identity(7, 2**15 - 1))
    first, second = manager.stamp(A, 1), manager.stamp(A, 1)
    manager.batch_failed(A, first, MessageTooLarge(), adjust_sequences=True)
    assert manager.can_retry(A, second, OutOfOrderSequenceNumber())
    planned = manager.turn()
    assert planned.kind is Kind.INIT_PRODUCER_ID
    assert not manager.may_drain(A, second)
    manager.answered(planned, identity(8, 0), 0)
    assert (second.producer_id, second.epoch, second.base_sequence) == (8, 0, 0)
    assert manager.may_drain(A, second)


def test_unknown_producer_id_is_always_retried_by_an_idempotent_producer():
    manager = idempotent()
    stamp = manager.stamp(A, 1)
    assert manager.can_retry(A, stamp, UnknownProducerId(), log_start_offset=-1)
    manager.resolve_errors(0)
    assert manager.identity.epoch == 0
    assert manager.can_retry(A, stamp, UnknownProducerId(), log_start_offset=5)
    manager.resolve_errors(0)
    assert manager.identity.epoch == 1


def test_parts_of_a_batch_that_was_too_large_take_over_its_numbers():
    manager = idempotent()
    first, second = manager.stamp(A, 4), manager.stamp(A, 1)
    parts = manager.split(A, first, [3, 1])
    assert [part.base_sequence for part in parts] == [0, 3]
    assert manager.may_drain(A, parts[0])
    assert not manager.may_drain(A, second)
    assert manager.in_flight_count(A) == 3


def test_a_forbidden_identity_fails_the_batches_and_is_asked_for_again_after_a_back_off():
    manager = Driven(transactional_id=None, retry_backoff_ms=100)
    manager.answer(identity(error=31))
    abort = manager.resolve_errors(0)
    assert abort is not None
    assert not abort.only_unsent
    assert manager.next_request(has_incomplete_batches=False, now_ms=0) is None
    assert manager.due_ms(0) == 100
    manager.now_ms = 100
    assert manager.turn().kind is Kind.INIT_PRODUCER_ID


# --- calls in order --------------------------------------------------------------------------------------------------


def test_the_table_lets_fatal_errors_in_from_everywhere_and_out_to_nowhere():
    assert all(S.FATAL_ERROR in targets for targets in MOVES.values())
    assert MOVES[S.FATAL_ERROR] == {S.FATAL_ERROR}
    assert set(MOVES) == set(S)


@pytest.mark.parametrize("call", ["begin", "begin_commit", "begin_abort"])
def test_calls_before_initializing_are_misuse_and_change_nothing(call):
    manager = transactional()
    with pytest.raises(TransactionMisuse):
        getattr(manager, call)()
    assert manager.state is S.UNINITIALIZED


def test_transactional_calls_need_a_transactional_id():
    manager = Driven(transactional_id=None)
    with pytest.raises(TransactionMisuse, match=r"transactional\.id"):
        manager.initialize()


def test_a_record_outside_a_transaction_is_misuse():
    manager = ready()
    with pytest.raises(TransactionMisuse, match="outside a transaction"):
        manager.maybe_add_partition(A)


def test_a_call_that_timed_out_must_be_made_again_and_gets_the_same_outcome():
    manager = transactional()
    outcome = manager.initialize()
    assert manager.initialize() is outcome
    manager.answer(identity())
    assert outcome.done
    with pytest.raises(TransactionMisuse, match="must be called again"):
        manager.begin()
    assert manager.initialize() is outcome
    outcome.acknowledge()
    manager.begin()


def test_an_empty_transaction_asks_nobody():
    manager = in_transaction()
    outcome = manager.begin_commit()
    assert manager.turn() is None
    assert outcome.done
    assert outcome.error is None
    assert manager.state is S.READY


def test_the_first_version_adds_partitions_before_their_batches_may_go():
    manager = in_transaction()
    manager.maybe_add_partition(A)
    assert not manager.may_drain(A, None)
    planned = manager.turn(incomplete=True)
    assert (planned.kind, planned.to, planned.coordinator_key, planned.at_most) == (
        Kind.ADD_PARTITIONS,
        "transaction",
        "t",
        3,
    )
    assert manager.turn(incomplete=True) is None  # one at a time
    manager.answered(planned, added(A), 0)
    assert manager.may_drain(A, None)
    assert manager.produce_version_limit == 11


def test_the_second_version_adds_nothing_and_takes_the_epoch_of_each_end():
    manager = in_transaction(2, A)
    assert manager.may_drain(A, None)
    assert manager.produce_version_limit is None
    stamp = manager.stamp(A, 5)
    outcome = manager.begin_commit()
    assert manager.turn(incomplete=True) is None  # the end waits for the batch
    assert manager.due_ms(0) == float("inf")  # and not by asking again and again
    manager.batch_acknowledged(A, stamp, 0)
    planned, _ = manager.answer(ended(producer_id=7, epoch=1))
    assert (planned.kind, planned.at_most) == (Kind.END, None)
    outcome.acknowledge()
    assert manager.identity == ProducerIdentity(7, 1)
    manager.begin()
    manager.maybe_add_partition(A)
    assert manager.stamp(A, 1).base_sequence == 0


def test_a_cluster_that_is_upgraded_meanwhile_gets_a_bump_before_the_first_transaction_of_the_new_kind():
    manager = in_transaction(0, A)
    manager.set_features(2)
    outcome = manager.begin_commit()
    planned, _ = manager.answer(ended())
    assert planned.at_most == 4
    assert not outcome.done
    planned, _ = manager.answer(identity(7, 1))
    assert (planned.kind, planned.request.producer_epoch) == (Kind.BUMP_EPOCH, 0)
    outcome.acknowledge()
    assert manager.is_v2


def test_offsets_are_added_and_committed_for_one_outcome():
    manager = in_transaction()
    outcome = manager.send_offsets({A: OffsetAndMetadata(5, "m", 2)}, GROUP)
    planned, _ = manager.answer(AddOffsetsToTxnResponse(error_code=0))
    assert (planned.kind, planned.request.group_id) == (Kind.ADD_OFFSETS, "readers")
    assert not outcome.done
    planned = manager.turn()
    assert (planned.kind, planned.to, planned.coordinator_key, planned.at_most) == (
        Kind.COMMIT_OFFSETS,
        "group",
        "readers",
        4,
    )
    assert (planned.request.generation_id, planned.request.member_id) == (3, "member-1")
    [topic] = planned.request.topics
    assert (topic.partitions[0].committed_offset, topic.partitions[0].committed_leader_epoch) == (5, 2)
    manager.answered(planned, offsets_answer(A), 0)
    outcome.acknowledge()


def test_in_the_second_version_offsets_go_straight_to_the_group():
    manager = in_transaction(2)
    outcome = manager.send_offsets({A: OffsetAndMetadata(5)}, GROUP)
    planned, _ = manager.answer(offsets_answer(A))
    assert (planned.kind, planned.at_most) == (Kind.COMMIT_OFFSETS, None)
    outcome.acknowledge()
    manager.begin_commit()
    assert manager.turn().kind is Kind.END


def test_only_offsets_that_are_not_committed_are_tried_again():
    manager = in_transaction(2)
    outcome = manager.send_offsets({A: OffsetAndMetadata(5), B: OffsetAndMetadata(6)}, GROUP)
    both = TxnOffsetCommitResponse(topics=[*offsets_answer(A).topics, *offsets_answer(B, error=16).topics])
    _, forget = manager.answer(both)
    assert forget
    manager.now_ms += 1000
    planned, _ = manager.answer(offsets_answer(B))
    assert [topic.name for topic in planned.request.topics] == ["b"]
    outcome.acknowledge()


def test_the_end_goes_after_everything_else_and_the_bump_after_the_end():
    manager = in_transaction(0, A)
    manager.maybe_add_partition(B)
    manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    manager.begin_commit()
    kinds = []
    for response in [
        AddOffsetsToTxnResponse(error_code=0),
        added(B),
        offsets_answer(A),
        ended(),
    ]:
        planned, _ = manager.answer(response)
        kinds.append(planned.kind)
    assert kinds == [Kind.ADD_OFFSETS, Kind.ADD_PARTITIONS, Kind.COMMIT_OFFSETS, Kind.END]


# --- retries ---------------------------------------------------------------------------------------------------------


def test_a_retriable_answer_is_tried_again_after_the_back_off():
    manager = transactional(retry_backoff_ms=100)
    manager.initialize()
    _, forget = manager.answer(identity(error=14))
    assert not forget
    assert manager.turn() is None
    assert manager.due_ms(0) == 100
    manager.now_ms = 100
    assert manager.turn().kind is Kind.INIT_PRODUCER_ID


@pytest.mark.parametrize("code", [15, 16])
def test_a_moved_coordinator_is_forgotten(code):
    manager = transactional()
    manager.initialize()
    _, forget = manager.answer(identity(error=code))
    assert forget


@pytest.mark.parametrize("error", [NotConnected(), ConnectionClosed(), RequestTimedOut()])
def test_a_lost_answer_forgets_the_coordinator_and_is_tried_again(error):
    manager = transactional()
    manager.initialize()
    assert manager.failed(manager.turn(), error, 0)
    manager.now_ms = 1000
    assert manager.turn().kind is Kind.INIT_PRODUCER_ID


def test_concurrent_transactions_are_tried_again_soon_only_for_the_first_partitions():
    manager = in_transaction(0, retry_backoff_ms=100)
    manager.maybe_add_partition(A)
    manager.answer(added(A, error=51))
    assert manager.due_ms(0) == 20
    manager.now_ms = 20
    manager.answer(added(A))
    manager.maybe_add_partition(B)
    manager.answer(added(B, error=51))
    assert manager.due_ms(20) == 120


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [47, 90])
@pytest.mark.parametrize("kind", ["init", "add", "end"])
def test_fencing_is_fatal_and_shown_as_producer_fenced(code, kind):
    if kind == "init":
        manager = transactional()
        outcome = manager.initialize()
        manager.answer(identity(error=code))
    else:
        manager = in_transaction(0, A)
        manager.maybe_add_partition(B)
        outcome = manager.begin_commit()
        manager.answer(added(B, error=code if kind == "add" else 0))
        if kind == "end":
            manager.answer(ended(error=code))
        manager.turn()
    assert manager.state is S.FATAL_ERROR
    with pytest.raises(ProducerFenced):
        outcome.acknowledge()
    with pytest.raises(ProducerFenced, match="took over"):
        manager.begin_abort()
    assert not manager.resolve_errors(0).only_unsent


def test_an_abortable_answer_leaves_the_producer_usable_after_an_abort():
    manager = in_transaction(0)
    manager.maybe_add_partition(A)
    manager.answer(added(A, error=29))
    assert manager.state is S.ABORTABLE_ERROR
    assert isinstance(manager.error, TopicAuthorizationFailed)
    with pytest.raises(TransactionAbortable):
        manager.begin_commit()
    outcome = manager.begin_abort()
    assert manager.turn() is None  # nothing was added
    outcome.acknowledge()
    assert manager.state is S.READY


def test_a_commit_that_is_abortable_fails_and_can_be_aborted():
    manager = in_transaction(2, A)
    manager.stamp(A, 1)
    outcome = manager.begin_commit()
    manager.answer(ended(error=120))
    with pytest.raises(TransactionAbortable):
        outcome.acknowledge()
    outcome = manager.begin_abort()
    manager.answer(ended(producer_id=7, epoch=1))
    outcome.acknowledge()
    assert manager.state is S.READY


def test_an_abort_that_is_abortable_is_fatal():
    manager = in_transaction(2, A)
    manager.stamp(A, 1)
    outcome = manager.begin_abort()
    manager.answer(ended(error=120))
    assert manager.state is S.FATAL_ERROR
    with pytest.raises(TransactionFailed):
        outcome.acknowledge()


def test_a_missing_right_to_the_transactional_id_can_be_granted_meanwhile():
    manager = transactional()
    outcome = manager.initialize()
    manager.answer(identity(error=53))
    manager.resolve_errors(0)
    assert manager.state is S.UNINITIALIZED
    with pytest.raises(TransactionalIdAuthorizationFailed):
        outcome.acknowledge()
    outcome = manager.initialize()
    manager.answer(identity())
    outcome.acknowledge()
    assert manager.state is S.READY


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (GroupAuthorizationFailed(), S.ABORTABLE_ERROR),
        (TransactionalIdAuthorizationFailed(), S.FATAL_ERROR),
        (UnsupportedVersion(), S.FATAL_ERROR),
    ],
)
def test_what_a_failed_lookup_means(error, state):
    manager = in_transaction(2)
    manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    manager.failed(manager.turn(), error, 0)
    assert manager.state is state


@pytest.mark.parametrize("code", [25, 22])
def test_offsets_of_somebody_who_is_no_member_abort_the_transaction(code):
    manager = in_transaction(2)
    outcome = manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    manager.answer(offsets_answer(A, error=code))
    assert manager.state is S.ABORTABLE_ERROR
    with pytest.raises(OffsetsNotCommitted):
        outcome.acknowledge()


def test_offsets_the_coordinator_forgets_to_answer_are_not_taken_for_committed():
    manager = in_transaction(2)
    outcome = manager.send_offsets({A: OffsetAndMetadata(1), B: OffsetAndMetadata(1)}, GROUP)
    manager.answer(offsets_answer(A))
    assert outcome.error is not None


def test_every_classified_error_has_the_effect_of_its_table():
    for kind, effects in EFFECTS.items():
        for error, effect in effects.items():
            if kind not in (Kind.ADD_OFFSETS, Kind.END):
                continue
            manager = in_transaction(0, A)
            if kind is Kind.END:
                manager.begin_commit()
                manager.answer(ended(error=error.code))
            else:
                manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
                manager.answer(AddOffsetsToTxnResponse(error_code=error.code))
            wanted = S.FATAL_ERROR if effect is Effect.FATAL else S.ABORTABLE_ERROR
            assert manager.state is wanted, (kind, error)


def test_without_bumping_coordinators_a_lost_count_is_fatal():
    manager = in_transaction(0, A)
    manager.coordinator_ready(2)
    stamp = manager.stamp(A, 1)
    manager.batch_failed(A, stamp, RequestTimedOut(), adjust_sequences=False)
    manager.mark_unresolved(A, stamp)
    manager.resolve_errors(0)
    assert manager.state is S.FATAL_ERROR


@pytest.mark.parametrize("error", [RequestTimedOut(), NotLeaderOrFollower(), InvalidTxnState()])
def test_retries_that_ran_out_abort_the_transaction_and_bump_the_epoch_of_the_first_version(error):
    manager = in_transaction(0, A)
    stamp = manager.stamp(A, 1)
    manager.batch_failed(A, stamp, error, adjust_sequences=False)
    assert isinstance(manager.error, TransactionAbortable)
    outcome = manager.begin_abort()
    manager.answer(ended())
    planned, _ = manager.answer(identity(7, 1))
    assert planned.kind is Kind.BUMP_EPOCH
    outcome.acknowledge()
    assert (manager.state, manager.identity.epoch) == (S.READY, 1)


def test_an_old_epoch_seen_by_a_partition_aborts_and_is_told_as_such():
    manager = in_transaction(2, A)
    stamp = manager.stamp(A, 1)
    assert not manager.can_retry(A, stamp, InvalidProducerEpoch())
    manager.batch_failed(A, stamp, InvalidProducerEpoch(), adjust_sequences=True)
    manager.resolve_errors(0)
    assert manager.state is S.ABORTABLE_ERROR
    with pytest.raises(InvalidProducerEpoch):
        manager.maybe_add_partition(B)


def test_the_error_that_lost_a_record_is_told_and_not_the_loss():
    manager = in_transaction(0, A)
    stamp = manager.stamp(A, 1)
    manager.batch_failed(A, stamp, RequestTimedOut("too slow"), adjust_sequences=False)
    manager.mark_unresolved(A, stamp)
    manager.resolve_errors(0)
    assert "too slow" in str(manager.error)


def test_an_abort_drops_what_was_not_sent():
    manager = in_transaction(2, A)
    manager.begin_abort()
    abort = manager.resolve_errors(0)
    assert abort.only_unsent
    assert isinstance(abort.error, TransactionAborted)


def test_the_second_version_tells_nobody_of_an_abort_of_records_that_were_never_sent():
    manager = in_transaction(2, A)
    outcome = manager.begin_abort()
    assert manager.turn() is None
    outcome.acknowledge()
    assert (manager.state, manager.identity) == (S.READY, ProducerIdentity(7, 0))
    manager.begin()
    manager.maybe_add_partition(A)
    assert manager.stamp(A, 1).base_sequence == 0
    manager.begin_abort()
    assert manager.turn().kind is Kind.END


def test_an_abort_waits_for_partitions_that_are_being_added():
    manager = in_transaction(0)
    manager.maybe_add_partition(A)
    adding = manager.turn(incomplete=True)
    outcome = manager.begin_abort()
    assert manager.turn() is None
    manager.answered(adding, added(A), 0)
    manager.answer(ended())  # the coordinator has the partition, so it must hear of the end
    outcome.acknowledge()


def test_closing_tells_everybody_who_waits():
    manager = in_transaction(0, A)
    outcome = manager.begin_commit()
    planned = manager.turn()
    manager.close()
    with pytest.raises(TransactionFailed, match="closed"):
        outcome.acknowledge()
    assert not manager.answered(planned, ended(), 0)  # too late, and harmless
