"""A produce that meets its own transaction before, still being ended, waits a moment instead of being sent away."""

import pytest

from ottla.errors import ConcurrentTransactions
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BACKOFF_MS, LONGEST_MS = 20, 100


class Ending:
    """A producer whose first transaction is decided, and whose markers are written when `write_markers` says so."""

    def __init__(self, broker, batch):
        self.broker, self.batch = broker, batch
        broker.create_topic("orders")
        broker.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=1))
        made = broker.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000))
        self.producer = made.producer_id, made.producer_epoch
        assert self.outcome(self.send()).error_code == 0
        self.markers = []
        self._write = broker.broker.transactions._write_marker
        broker.broker.transactions._write_marker = self._keep_marker
        producer_id, epoch = self.producer
        ended = broker.ask(
            EndTxnRequest(transactional_id="tx", producer_id=producer_id, producer_epoch=epoch, committed=True)
        )
        self.producer = ended.producer_id, ended.producer_epoch

    def send(self, sequence=0):
        producer_id, epoch = self.producer
        records = self.batch(
            "a", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
        return self.broker.begin(
            ProduceRequest(transactional_id="tx", acks=1, timeout_ms=1000, topic_data=[data]), version=12
        )

    def outcome(self, asked):
        return asked.answer.responses[0].partition_responses[0]

    async def _keep_marker(self, *marker):
        self.markers.append(marker)

    def write_markers(self):
        background = self.broker.broker.background
        self.broker.do(lambda: [background.start(self._write(*marker)) for marker in self.markers])


@pytest.fixture
def ending(broker, batch):
    return Ending(broker, batch)


def test_the_next_transaction_begins_when_the_last_is_complete(ending):
    sent = ending.send()
    assert not sent.is_answered
    ending.write_markers()
    ending.broker.later(BACKOFF_MS)
    assert ending.outcome(sent).error_code == 0


def test_patience_ends_and_the_client_is_told_to_come_again(ending):
    sent = ending.send()
    for _ in range(LONGEST_MS // BACKOFF_MS - 1):
        ending.broker.later(BACKOFF_MS)
        assert not sent.is_answered
    ending.broker.later(BACKOFF_MS)
    assert ending.outcome(sent).error_code == ConcurrentTransactions.code


def test_a_broker_that_stops_does_not_keep_anybody_waiting(ending):
    sent = ending.send()
    purgatory = ending.broker.broker.progress.produce_purgatory
    wait, waits = purgatory.wait, []

    def wait_a_few_times(*arguments):
        waits.append(arguments)
        assert len(waits) < 10, "it asks for ever"
        return wait(*arguments)

    purgatory.wait = wait_a_few_times
    ending.broker.do(purgatory.close)
    assert ending.outcome(sent).error_code == ConcurrentTransactions.code


def test_no_patience_is_possible_too(make_broker, batch):
    ending = Ending(make_broker(**{"add.partitions.to.txn.retry.backoff.max.ms": "0"}), batch)
    assert ending.outcome(ending.send()).error_code == ConcurrentTransactions.code


def test_who_comes_later_does_not_overtake_who_waits(ending):
    first = ending.send(sequence=0)
    ending.write_markers()
    second = ending.send(sequence=1)
    third = ending.send(sequence=2)
    ending.broker.later(BACKOFF_MS)
    answers = [ending.outcome(each) for each in (first, second, third)]
    assert [answer.error_code for answer in answers] == [0, 0, 0]
    assert [answer.base_offset for answer in answers] == sorted(answer.base_offset for answer in answers)


def test_a_turn_ends_with_a_refusal_too(ending):
    sent = [ending.send(sequence=number) for number in range(2)]
    for _ in range(2 * LONGEST_MS // BACKOFF_MS):
        ending.broker.later(BACKOFF_MS)
    assert [ending.outcome(each).error_code for each in sent] == [ConcurrentTransactions.code] * 2
