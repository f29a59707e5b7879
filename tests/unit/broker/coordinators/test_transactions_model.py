"""Many producers with one transactional id, a log that commits late, coordinators that come and go.

The world around the shard may do what a cluster does: hold requests back and repeat them, lose answers, lose the
uncommitted end of the log when another coordinator takes over, refuse appends, write markers late or twice, let time
pass. The partitions follow Kafka's rules for records and markers. Whatever happens:

1. a transaction has one decision, the same in every partition, and it is the one its producer was told;
2. a marker never carries the decision of another transaction;
3. the epoch of a producer id never goes back, and a producer that is not current changes nothing;
4. nothing that was written stays without a marker once its transaction is over;
5. the state of the shard is what a replay of its log gives.
"""

import itertools
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ottla.broker.coordinators.effects import CancelTimer, Reply, SetTimer, StoredRecord, Write
from ottla.broker.coordinators.transactions.markers import DropMarkers, WriteMarkers
from ottla.broker.coordinators.transactions.settings import TransactionSettings
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.coordinators.transactions.state import (
    EMPTY,
    LAST_CLIENT_EPOCH,
    MOVES,
    ONGOING,
    PREPARE_COMMIT,
    TransactionMetadata,
)
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    NotEnoughReplicas,
    RequestTimedOut,
    TransactionCoordinatorFenced,
)
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.stored import decode_key, decode_value, encode_key, encode_value
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.values import TopicPartition

NAME = "tx"
PARTITIONS = [TopicPartition("t", index) for index in range(3)]
TIMEOUT_MS = 1_000
SLOTS = st.integers(0, 2)
PICK = st.integers(0, 1_000)
SELDOM = st.integers(0, 3).map(lambda drawn: drawn == 3)


class Producer:
    """What a client knows: who it is, where it may write, and which end it has asked for without an answer."""

    def __init__(self, producer_id, epoch):
        self.producer_id = producer_id
        self.epoch = epoch
        self.may_write = set()
        self.deciding = None

    @property
    def tag(self):
        return self.producer_id, self.epoch


def _tag(metadata):
    return metadata.producer_id, metadata.producer_epoch


class Partition:
    """One partition by Kafka's rules: the newest epoch per producer id, and its open transaction."""

    def __init__(self):
        self.epochs = defaultdict(lambda: -1)
        self.coordinators = defaultdict(lambda: -1)
        self.open = {}
        self.ended = {}

    def write(self, producer_id, epoch):
        if epoch < self.epochs[producer_id]:
            return
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, (producer_id, epoch))

    def mark(self, order):
        """The error of a marker; None when it was written."""
        newest = self.epochs[order.producer_id]
        is_open = order.producer_id in self.open
        if order.coordinator_epoch < self.coordinators[order.producer_id]:
            return TransactionCoordinatorFenced()
        is_strict = order.transaction_version >= 2
        repeats = is_strict and order.producer_epoch == newest and not is_open
        if not repeats and (order.producer_epoch <= newest if is_strict else order.producer_epoch < newest):
            return InvalidProducerEpoch()
        self.epochs[order.producer_id] = order.producer_epoch
        self.coordinators[order.producer_id] = order.coordinator_epoch
        if is_open:
            tag = self.open.pop(order.producer_id)
            assert order.producer_epoch == tag[1] + 1, f"a marker of another transaction ended {tag}: {order}"
            assert self.ended.setdefault(tag, order.commit) == order.commit
        return None


class World(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.settings = TransactionSettings(transactional_id_expiration_ms=100_000)
        self.now_ms = 0
        self.log, self.read, self.committed = [], [], 0
        self.compared = None
        self.waiting = []  # (log length that must be committed, what happens then)
        self.ids = itertools.count(100)
        self.tokens = itertools.count()
        self.takers = {}
        self.timers = {}
        self.coordinator_epoch = 0
        self.refuses = False
        self.producers = {}
        self.partitions = {each: Partition() for each in PARTITIONS}
        self.sent_ends = []
        self.told = {}
        self.in_flight, self.answers = [], []
        self.decisions_on_the_wire = {}

    # --- the runtime -------------------------------------------------------------------------------------------------

    def chosen(self, pick):
        """One of the producers there are, and its slot."""
        slot = sorted(self.producers)[pick % len(self.producers)]
        return slot, self.producers[slot]

    def becomes(self, slot, answer):
        """The producer in this slot was told who it is now; nobody else may be that."""
        new = Producer(answer.producer_id, answer.producer_epoch)
        assert not any(new.tag == each.tag for other, each in self.producers.items() if other != slot)
        self.producers[slot] = new

    def take_over(self):
        self.coordinator_epoch += 1
        self.waiting, self.takers, self.timers = [], {}, {}
        self.shard = self.replayed(self.coordinator_epoch)
        self.carry_out([each for piece in self.shard.loaded(self.now_ms) for each in piece])

    def replayed(self, epoch):
        shard = TransactionShard(
            self.settings, coordinator_epoch=epoch, next_producer_id=lambda: next(self.ids), transaction_version=2
        )
        for offset, (key, value) in enumerate(self.log):
            decoded = None if value is None else decode_value(TransactionLogValue, value)
            shard.replay(StoredRecord(decode_key([TransactionLogKey], key), decoded), offset=offset)
        return shard

    def carry_out(self, effects):
        for effect in effects:
            if isinstance(effect, Write):
                if not self.append(effect):
                    return
            elif isinstance(effect, Reply):
                self.reply(effect)
            elif isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.at_ms
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.key, None)
            elif isinstance(effect, WriteMarkers):
                self.when_committed(lambda effect=effect: self.send_markers(effect))
            else:
                assert isinstance(effect, DropMarkers)

    def append(self, write):
        if self.refuses:
            self.refuses = False
            for reply in write.failure(NotEnoughReplicas()):
                self.reply(reply)
            return False
        for record in write.records:
            value = None if record.value is None else encode_value(record.value, record.value_version)
            self.log.append((encode_key(record.key), value))
            self.shard.replay(record, offset=len(self.log) - 1)
        for reply in write.replies:
            self.when_committed(lambda reply=reply: self.reply(reply))
        return True

    def when_committed(self, act):
        self.waiting.append((len(self.log), act))
        if self.commits_at_once:
            self.committed = len(self.log)
        self.release()

    def release(self):
        while self.waiting and self.waiting[0][0] <= self.committed:
            self.waiting.pop(0)[1]()

    def reply(self, reply):
        self.takers.pop(reply.token)(reply.response)

    def ask(self, method, request, version, take):
        token = next(self.tokens)
        self.takers[token] = take
        before = self.shard.transactions.get(NAME)
        written = len(self.log)
        context = RequestContext(api_version=version, client_id="c", client_host="h")
        self.carry_out(getattr(self.shard, method)(token, request, context, self.now_ms))
        return before, len(self.log) > written

    def send_markers(self, order):
        key = order.producer_id, order.producer_epoch
        assert self.decisions_on_the_wire.setdefault(key, order.commit) == order.commit
        prepared = [each for each in self.history(self.committed) if each and each.is_prepared]
        assert key in map(_tag, prepared)
        self.in_flight += [(order, partition) for partition in order.partitions]

    # --- producers ---------------------------------------------------------------------------------------------------

    @initialize(epoch=st.sampled_from([0, LAST_CLIENT_EPOCH - 2]), commits_at_once=st.booleans())
    def start(self, epoch, commits_at_once):
        self.commits_at_once = commits_at_once
        if epoch:
            known = TransactionMetadata(
                transactional_id=NAME,
                producer_id=99,
                producer_epoch=epoch,
                timeout_ms=TIMEOUT_MS,
                state=EMPTY,
                last_update_ms=0,
            ).record(2)
            self.log.append((encode_key(known.key), encode_value(known.value, 1)))
            self.committed = 1
        self.take_over()

    @rule(slot=SLOTS)
    def new_producer(self, slot):
        self.init(slot, -1, -1)

    @precondition(lambda self: self.producers)
    @rule(pick=PICK)
    def go_on(self, pick):
        slot, producer = self.chosen(pick)
        self.init(slot, *producer.tag)

    def init(self, slot, producer_id, epoch):
        request = InitProducerIdRequest(
            transactional_id=NAME, transaction_timeout_ms=TIMEOUT_MS, producer_id=producer_id, producer_epoch=epoch
        )

        def take(answer):
            if answer.error_code == 0:
                assert (answer.producer_id, answer.producer_epoch) in map(
                    _tag, filter(None, self.history(self.committed))
                )
                self.becomes(slot, answer)
            elif answer.error_code != ConcurrentTransactions.code:
                self.producers.pop(slot, None)

        self.ask("init_producer_id", request, 5, take)

    @precondition(lambda self: self.producers)
    @rule(pick=PICK, partition=st.sampled_from(PARTITIONS), twice=st.booleans())
    def add(self, pick, partition, twice):
        _, producer = self.chosen(pick)
        if producer.deciding is not None:
            return
        for _ in range(1 + twice):
            self.send_add(producer, partition)

    def send_add(self, producer, partition):
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])
        part = AddPartitionsToTxnTransaction(
            transactional_id=NAME, producer_id=producer.producer_id, producer_epoch=producer.epoch, topics=[topic]
        )
        tag = producer.tag

        def take(answer):
            code = answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
            if code == 0:
                kept = [each for each in filter(None, self.history(self.committed)) if each.state is ONGOING]
                assert any(tag == _tag(each) and partition in each.partitions for each in kept)
            if code == 0 and producer.tag == tag:
                producer.may_write.add(partition)

        request = AddPartitionsToTxnRequest(transactions=[part])
        before, has_written = self.ask("add_partitions_to_txn", request, 5, take)
        assert not has_written or tag == _tag(before)

    @precondition(lambda self: any(each.may_write for each in self.producers.values()))
    @rule(pick=PICK)
    def write(self, pick):
        # A record may be on its way for long; its producer may have gone on or been fenced meanwhile.
        allowed = sorted((each.tag, partition) for each in self.producers.values() for partition in each.may_write)
        tag, partition = allowed[pick % len(allowed)]
        self.partitions[partition].write(*tag)

    @precondition(lambda self: self.producers)
    @rule(pick=PICK, commit=st.booleans())
    def end(self, pick, commit):
        slot, producer = self.chosen(pick)
        # Whoever has asked for one end never asks for the other.
        producer.deciding = commit = commit if producer.deciding is None else producer.deciding
        request = EndTxnRequest(
            transactional_id=NAME, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commit
        )
        self.sent_ends.append(request)
        self.send_end(request, slot, producer)

    def send_end(self, request, slot=None, producer=None):
        tag = request.producer_id, request.producer_epoch

        def take(answer):
            if answer.error_code == 0:
                assert self.told.setdefault(tag, request.committed) == request.committed
                assert answer.producer_epoch == tag[1] + 1 or (answer.producer_id, answer.producer_epoch) > (tag[0], -1)
            if slot is None or self.producers.get(slot) is not producer or producer.tag != tag:
                return
            if answer.error_code == 0:
                self.becomes(slot, answer)
            elif answer.error_code not in (ConcurrentTransactions.code, 15):
                self.producers.pop(slot)

        before, has_written = self.ask("end_txn", request, 5, take)
        assert not has_written or tag == _tag(before)

    @rule(pick=PICK, partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1), commit=st.booleans())
    def a_good_run(self, pick, partitions, commit):
        """From wherever things are to a transaction that is decided, so that walks get far in few steps."""
        for _ in range(4):
            self.settle()
            if self.producers and self.chosen(pick)[1].deciding is None:
                break
            self.new_producer(pick % 3)
        for partition in sorted(partitions):
            if self.producers:
                self.add(pick, partition, False)
                self.commit(len(self.log))
        for place in range(len(partitions)):
            if any(each.may_write for each in self.producers.values()):
                self.write(pick + place)
        if self.producers:
            self.end(pick, commit)

    def settle(self):
        """Everything that is on its way arrives."""
        self.commit(len(self.log))
        while self.in_flight:
            self.a_marker_arrives(0, False, False)
        while self.answers:
            self.an_answer_arrives(0, False)
        self.commit(len(self.log))

    @precondition(lambda self: self.sent_ends)
    @rule(pick=PICK)
    def an_end_comes_late_or_again(self, pick):
        self.send_end(self.sent_ends[pick % len(self.sent_ends)])

    # --- the world ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.committed < len(self.log))
    @rule(count=st.integers(1, 5))
    def commit(self, count):
        self.committed = min(len(self.log), self.committed + count)
        self.release()

    @rule(lost=st.integers(0, 3), seldom=SELDOM)
    def another_coordinator(self, lost, seldom):
        if not seldom:
            return
        del self.log[max(self.committed, len(self.log) - lost) :]
        del self.read[len(self.log) :]
        self.committed = len(self.log)  # a leader commits what it found
        self.take_over()

    @rule(seldom=SELDOM)
    def the_next_append_fails(self, seldom):
        self.refuses = seldom

    @precondition(lambda self: self.in_flight)
    @rule(pick=PICK, stays=SELDOM, answer_is_lost=SELDOM)
    def a_marker_arrives(self, pick, stays, answer_is_lost):
        place = pick % len(self.in_flight)
        order, partition = self.in_flight[place] if stays else self.in_flight.pop(place)
        error = self.partitions[partition].mark(order)
        self.answers.append((order, partition, RequestTimedOut() if answer_is_lost else error))

    @precondition(lambda self: self.in_flight)
    @rule(pick=PICK)
    def a_marker_is_lost(self, pick):
        order, partition = self.in_flight.pop(pick % len(self.in_flight))
        self.answers.append((order, partition, RequestTimedOut()))

    @precondition(lambda self: self.answers)
    @rule(pick=PICK, stays=SELDOM)
    def an_answer_arrives(self, pick, stays):
        place = pick % len(self.answers)
        order, partition, error = self.answers[place] if stays else self.answers.pop(place)
        self.carry_out(self.shard.markers_written(order, partition, error, self.now_ms))

    @rule(passed_ms=st.sampled_from([1, 50, 700, 10_001, 200_000]))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        while due := [key for key, at_ms in self.timers.items() if at_ms <= self.now_ms]:
            del self.timers[due[0]]
            self.carry_out(self.shard.timer_fired(due[0], self.now_ms))

    # --- what must hold ----------------------------------------------------------------------------------------------

    def history(self, length):
        """What the records of the log say, None for a tombstone."""
        for _, value in self.log[len(self.read) :]:
            self.read.append(
                None
                if value is None
                else TransactionMetadata.from_record(NAME, decode_value(TransactionLogValue, value))
            )
        return self.read[:length]

    @invariant()
    def the_log_tells_one_story(self):
        newest = {}
        history = self.history(len(self.log))
        for before, after in itertools.pairwise(history):
            if before is not None and after is not None:
                assert after.state in MOVES[before.state]
        for each in filter(None, history):
            assert each.producer_epoch >= newest.get(each.producer_id, -1)
            newest[each.producer_id] = each.producer_epoch
        ids = [each.producer_id for each in filter(None, history)]
        assert ids == sorted(ids)  # a producer id that was left never comes back

    @invariant()
    def what_was_told_is_what_was_decided(self):
        decided = {}
        for each in filter(None, self.history(self.committed)):
            if each.is_prepared:
                tag = each.producer_id, each.producer_epoch - 1
                assert tag not in decided
                decided[tag] = each.state is PREPARE_COMMIT
        for tag, commit in self.told.items():
            assert decided[tag] == commit
        for partition in self.partitions.values():
            for tag, commit in partition.ended.items():
                assert decided[tag] == commit

    @invariant()
    def the_state_is_what_a_replay_gives(self):
        seen = self.coordinator_epoch, len(self.log)
        if self.coordinator_epoch and self.compared != seen:
            self.compared = seen
            assert list(self.replayed(0).transactions.items()) == list(self.shard.transactions.items())

    def teardown(self):
        """When everything works again, every transaction that is over has all its markers."""
        if not self.coordinator_epoch:
            return
        self.refuses = False
        self.another_coordinator(0, True)
        for _ in range(200):
            self.settle()
            self.time_passes(700)
            if not self.in_flight and not any(each.is_prepared for each in self.shard.transactions.values()):
                break
        known = self.shard.transactions.get(NAME)
        assert known is None or not known.is_prepared
        for name, partition in self.partitions.items():
            for tag in partition.open.values():
                assert known is not None, f"{tag} is left open in {name}"
                assert known.state is ONGOING, f"{tag} is left open in {name}"
                assert tag == _tag(known)
                assert name in known.partitions


@pytest.mark.parametrize("steps", [10, 40])
def test_whatever_happens_a_transaction_ends_once_with_one_decision(steps):
    run_state_machine_as_test(
        World,
        settings=settings(
            max_examples=150,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
