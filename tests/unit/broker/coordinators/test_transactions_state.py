import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators.transactions.state import (
    IDLE,
    LAST_CLIENT_EPOCH,
    LAST_EPOCH,
    MOVES,
    NEVER_MS,
    NO_PRODUCER_ID,
    IllegalMove,
    TransactionMetadata,
    TransactionState,
    tombstone,
)
from ottla.errors import MalformedMessage
from ottla.protocol.stored import decode_value, encode_key, encode_value
from ottla.protocol.stored.transactions import TransactionLogValue
from ottla.values import TopicPartition

T0, T3 = TopicPartition("t", 0), TopicPartition("t", 3)


def metadata(**changes):
    known = {
        "transactional_id": "tx",
        "producer_id": 7,
        "producer_epoch": 4,
        "timeout_ms": 60_000,
        "state": TransactionState.EMPTY,
        "last_update_ms": 1_000,
        "previous_producer_id": 7,
    }
    return TransactionMetadata(**(known | changes))


def ongoing(**changes):
    return metadata(**({"state": TransactionState.ONGOING, "partitions": frozenset({T0}), "start_ms": 900} | changes))


def test_numbers_names_and_moves_are_those_of_kafka():
    # As printed from TransactionState of Apache Kafka 4.3.1: id, name, expiration allowed, valid previous states.
    printed = """
        0 Empty true COMPLETE_ABORT COMPLETE_COMMIT EMPTY
        1 Ongoing false COMPLETE_ABORT COMPLETE_COMMIT EMPTY ONGOING
        2 PrepareCommit false ONGOING
        3 PrepareAbort false COMPLETE_ABORT COMPLETE_COMMIT EMPTY ONGOING PREPARE_EPOCH_FENCE
        4 CompleteCommit true PREPARE_COMMIT
        5 CompleteAbort true PREPARE_ABORT
        6 Dead false COMPLETE_ABORT COMPLETE_COMMIT EMPTY
        7 PrepareEpochFence false ONGOING
    """
    ours = [
        [
            str(state.value),
            state.text,
            str(state in IDLE).lower(),
            *sorted(each.name for each in TransactionState if state in MOVES[each]),
        ]
        for state in TransactionState
    ]
    assert ours == [line.split() for line in printed.strip().splitlines()]


def test_a_move_that_is_not_in_the_table_is_refused():
    with pytest.raises(IllegalMove, match="from Empty to CompleteCommit"):
        metadata().move_to(TransactionState.COMPLETE_COMMIT, 2_000)


def test_the_first_partitions_begin_the_transaction_and_the_next_ones_do_not():
    begun = metadata().with_partitions([T0], 0, 2_000)
    more = begun.with_partitions([T3], 0, 3_000)
    assert (begun.start_ms, more.start_ms, more.last_update_ms) == (2_000, 2_000, 3_000)
    assert more.partitions == {T0, T3}


def test_a_decision_raises_the_epoch_in_version_2_only():
    first = ongoing().prepared(commit=True, client_version=0, next_producer_id=NO_PRODUCER_ID, now_ms=1)
    second = ongoing().prepared(commit=True, client_version=2, next_producer_id=NO_PRODUCER_ID, now_ms=1)
    assert (first.producer_epoch, second.producer_epoch) == (4, 5)


def test_a_fence_raises_the_epoch_in_version_1_too_and_never_over_the_last():
    for before, after in ((4, 5), (LAST_CLIENT_EPOCH, LAST_EPOCH), (LAST_EPOCH, LAST_EPOCH)):
        fenced = ongoing(producer_epoch=before).prepared(
            commit=False, client_version=0, next_producer_id=NO_PRODUCER_ID, now_ms=1, fences=True
        )
        assert fenced.producer_epoch == after


def test_the_next_producer_id_is_taken_when_the_markers_are_written():
    prepared = ongoing(producer_epoch=LAST_CLIENT_EPOCH).prepared(
        commit=True, client_version=2, next_producer_id=8, now_ms=1
    )
    done = prepared.completed(2)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, LAST_EPOCH)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (8, 0, 7)
    assert done.next_producer_id == NO_PRODUCER_ID
    assert done.partitions == frozenset()


def test_a_transaction_times_out_after_its_time_and_one_in_two_phases_never():
    assert not ongoing().is_timed_out(60_900)
    assert ongoing().is_timed_out(60_901)
    assert not ongoing(timeout_ms=NEVER_MS).is_timed_out(NEVER_MS * 2)
    assert not metadata().is_timed_out(10**15)


def test_records_are_those_of_kafka():
    # Written by TransactionLog.keyToBytes and valueToBytes of Apache Kafka 4.3.1, at transaction.version 0 and 2.
    def hexed(version, each):
        record = each.record(version)
        return encode_value(record.value, record.value_version).hex()

    empty = metadata(producer_epoch=0)
    one = ongoing(partitions=frozenset({T0}))
    assert encode_key(empty.record(2).key).hex() == "000000027478"
    assert hexed(0, empty) == "0000000000000000000700000000ea6000ffffffff00000000000003e8ffffffffffffffff"
    assert hexed(2, empty) == (
        "0001000000000000000700000000ea60000000000000000003e8ffffffffffffffff0100080000000000000007"
    )
    assert hexed(0, one) == (
        "0000000000000000000700040000ea600100000001000174000000010000000000000000000003e80000000000000384"
    )
    done = metadata(
        producer_id=8,
        producer_epoch=0,
        state=TransactionState.COMPLETE_COMMIT,
        start_ms=900,
        last_update_ms=1_001,
        client_version=2,
    )
    assert hexed(2, done) == (
        "0001000000000000000800000000ea60040100000000000003e90000000000000384020008000000000000000702020002"
    )
    prepared = ongoing(
        producer_epoch=LAST_EPOCH, state=TransactionState.PREPARE_COMMIT, next_producer_id=8, client_version=2
    )
    assert hexed(2, prepared) == (
        "000100000000000000077fff0000ea600202027402000000000000000000000003e80000000000000384"
        "03000800000000000000070108000000000000000802020002"
    )


def test_a_record_of_version_0_is_replaced_where_it_would_lose_state():
    prepared = ongoing(next_producer_id=8, state=TransactionState.PREPARE_ABORT)
    assert prepared.record(0).value_version == 1
    assert ongoing(client_version=2).record(0).value_version == 1
    assert ongoing().record(0).value_version == 0
    assert ongoing().record(1).value_version == 1


@given(
    st.builds(
        metadata,
        state=st.sampled_from([each for each in TransactionState if each < 6]),
        partitions=st.frozensets(st.builds(TopicPartition, st.text(max_size=9), st.integers(0, 9)), max_size=9),
        next_producer_id=st.integers(-1, 2**63 - 1),
        client_version=st.sampled_from([0, 1, 2]),
    ),
    st.sampled_from([1, 2]),
)
def test_what_is_written_is_what_is_read(before, version):
    if before.state is TransactionState.EMPTY:
        before = before.initialised(before.producer_id, before.producer_epoch, 5, 6)
    record = before.record(version)
    value = decode_value(TransactionLogValue, encode_value(record.value, record.value_version))
    assert TransactionMetadata.from_record("tx", value) == before


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_is_never_stored_is_refused(status):
    value = metadata().record(2).value
    value.transaction_status = status
    with pytest.raises(MalformedMessage, match=f"state {status}"):
        TransactionMetadata.from_record("tx", value)


def test_a_tombstone_has_no_value():
    assert tombstone("tx").value is None
    assert tombstone("tx").key.transactional_id == "tx"
