import asyncio
from types import SimpleNamespace

import pytest

from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator
from ottla.broker.coordinators.transactions.markers import (
    RETRY_FIRST_MS,
    RETRY_LONGEST_MS,
    RETRY_UNEXPECTED_MS,
    MarkerBook,
    MarkerOutcome,
    MarkerProgress,
    WriteMarkers,
    outcome_of,
)
from ottla.broker.coordinators.transactions.state import TransactionMetadata, TransactionState
from ottla.broker.requests.running import Background
from ottla.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRequiredAcks,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
)
from ottla.values import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def prepared(**changes):
    known = {
        "transactional_id": "tx",
        "producer_id": 7,
        "producer_epoch": 5,
        "timeout_ms": 1,
        "state": TransactionState.PREPARE_COMMIT,
        "last_update_ms": 1,
        "partitions": frozenset({A, B}),
        "client_version": 2,
    }
    return TransactionMetadata(**(known | changes))


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (None, MarkerOutcome.DONE),
        (UnsupportedForMessageFormat(), MarkerOutcome.DONE),
        (UnsupportedVersion(), MarkerOutcome.DONE),
        (UnknownTopicOrPartition(), MarkerOutcome.RETRY),
        (NotLeaderOrFollower(), MarkerOutcome.RETRY),
        (NotEnoughReplicas(), MarkerOutcome.RETRY),
        (RequestTimedOut(), MarkerOutcome.RETRY),
        (KafkaStorageError(), MarkerOutcome.RETRY),
        (CorruptMessage(), MarkerOutcome.RETRY),
        (InvalidProducerEpoch(), MarkerOutcome.STOP),
        (TransactionCoordinatorFenced(), MarkerOutcome.STOP),
        (MessageTooLarge(), MarkerOutcome.UNEXPECTED),
        (InvalidRequiredAcks(), MarkerOutcome.UNEXPECTED),
    ],
)
def test_what_an_answer_about_a_marker_means(error, meaning):
    assert outcome_of(error) is meaning


def test_an_order_names_the_decision_and_its_epoch():
    assert MarkerBook(coordinator_epoch=9).order(prepared()) == WriteMarkers(
        transactional_id="tx",
        producer_id=7,
        producer_epoch=5,
        coordinator_epoch=9,
        commit=True,
        partitions=(A, B),
        transaction_version=2,
        generation=1,
    )


def test_the_wait_before_a_retry_doubles_up_to_a_limit():
    progress = MarkerProgress(1, prepared())
    waits = []
    for _ in range(10):
        waits.append(progress.next_retry_ms(A, MarkerOutcome.RETRY))
        assert progress.pop_failed() == {A}
    assert waits[:3] == [RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, 4 * RETRY_FIRST_MS]
    assert waits[-1] == RETRY_LONGEST_MS


def test_failures_that_come_together_are_asked_for_together():
    progress = MarkerProgress(1, prepared())
    assert progress.next_retry_ms(A, MarkerOutcome.UNEXPECTED) == RETRY_UNEXPECTED_MS
    assert progress.next_retry_ms(B, MarkerOutcome.RETRY) is None
    assert progress.pop_failed() == {A, B}


def test_a_marker_that_is_written_is_not_asked_for_again():
    progress = MarkerProgress(1, prepared())
    progress.next_retry_ms(A, MarkerOutcome.RETRY)
    progress.written(A)
    assert progress.pop_failed() == frozenset()
    assert progress.next_retry_ms(A, MarkerOutcome.RETRY) is None
    progress.written(B)
    assert progress.is_done


def test_an_answer_for_an_earlier_transaction_is_not_taken_for_this_one():
    book = MarkerBook(coordinator_epoch=9)
    first = book.order(prepared(client_version=0))
    book.decided(prepared(client_version=0))
    book.forget("tx")
    second = book.order(prepared(client_version=0))
    book.decided(prepared(client_version=0))
    assert book.waiting_for(first) is None
    assert book.waiting_for(second) is not None
    assert book.waiting_for(second._replace(coordinator_epoch=8)) is None


def test_the_answer_finds_its_order_when_the_decision_before_it_could_not_be_written():
    book = MarkerBook(coordinator_epoch=9)
    book.order(prepared())
    other = book.order(prepared(transactional_id="other"))
    book.decided(prepared(transactional_id="other"))
    assert book.waiting_for(other) is not None


def test_a_marker_that_fails_in_itself_is_reported_so_that_it_is_asked_for_again(monkeypatch):
    reported = []

    class Shard:
        def markers_written(self, markers, partition, error, now_ms):
            reported.append((partition, outcome_of(error)))
            return []

    async def write_marker(broker, markers, partition):
        if partition == A:
            raise ZeroDivisionError("oops")

    async def run():
        broker = SimpleNamespace(
            clock=SimpleNamespace(now_ms=lambda: 0, monotonic_ms=lambda: 0),
            deadlines=SimpleNamespace(arm=lambda: None),
            loads=None,
            background=Background(),
        )
        coordinator = TransactionCoordinator(broker)
        coordinator.runtime = SimpleNamespace(notify=lambda index, call: call(Shard(), 0))
        coordinator.carry_out(0, MarkerBook(0).order(prepared()))

    monkeypatch.setattr("ottla.broker.coordinators.transactions.coordinator.write_marker", write_marker)
    asyncio.run(run())
    assert reported == [(A, MarkerOutcome.UNEXPECTED), (B, MarkerOutcome.DONE)]
