"""The transaction manager against a small cluster that loses answers, moves, fences and delivers late.

The model: one partition log each with Kafka's rules about epochs and sequences, one coordinator with Kafka's rules
about identities, and a sender that does exactly what the manager's file says. Requests may be processed late (after
the client gave up), answers may be lost. At the end everything is healed and closed, and the logs must show:

1. no record twice, none out of order, all acknowledged ones there (idempotence);
2. of each transaction everything or nothing, everything if and only if its commit was confirmed (transactions).

Histories come from two sources. Hypothesis draws short ones and makes failures small; it likes to leave rules out, so
seeded histories with the weights of a busy producer go where it does not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.producer.transactions.states import Kind, TransactionState
from ottla.errors import (
    ConnectionClosed,
    OttlaError,
    RequestTimedOut,
    broker_error,
)
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.values import TopicPartition

S = TransactionState
PARTITIONS = [TopicPartition("a", 0), TopicPartition("b", 0)]
IN_FLIGHT_LIMIT = 5
FENCED, OUT_OF_ORDER, INVALID_TXN_STATE, OLD_EPOCH = 90, 45, 48, 47


# --- the cluster -----------------------------------------------------------------------------------------------------


@dataclass
class Producing:
    """What a partition remembers of a producer."""

    epoch: int
    last_sequence: int
    recent: deque = field(default_factory=lambda: deque(maxlen=5))


class Log:
    """One partition: values with their producer, and markers."""

    def __init__(self):
        self.entries = []  # (producer_id, epoch, value) | (producer_id, "commit" | "abort")
        self.producers = {}

    def append(self, producer_id, epoch, sequence, values):
        """(error code, base offset)"""
        known = self.producers.get(producer_id)
        if known is None or epoch > known.epoch:
            if sequence != 0:
                return OUT_OF_ORDER, -1
            known = self.producers[producer_id] = Producing(epoch, -1)
        if epoch < known.epoch:
            return OLD_EPOCH, -1
        for base, count, offset in known.recent:
            if (base, count) == (sequence, len(values)):
                return 0, offset
        if sequence != known.last_sequence + 1:
            return OUT_OF_ORDER, -1
        offset = len(self.entries)
        self.entries += [(producer_id, epoch, value) for value in values]
        known.recent.append((sequence, len(values), offset))
        known.last_sequence = sequence + len(values) - 1
        return 0, offset

    def restart(self):
        """A leader that comes from a snapshot knows of each producer only the last batch."""
        for known in self.producers.values():
            known.recent = deque(list(known.recent)[-1:], maxlen=5)

    def mark(self, producer_id, epoch, how):
        self.entries.append((producer_id, how))
        known = self.producers.get(producer_id)
        if known is None or epoch > known.epoch:
            self.producers[producer_id] = Producing(epoch, -1)

    def values(self):
        return [entry[2] for entry in self.entries if len(entry) == 3]

    def committed(self):
        """What a read_committed consumer sees."""
        seen, open_values = [], {}
        for entry in self.entries:
            if len(entry) == 3:
                open_values.setdefault(entry[0], []).append(entry[2])
            else:
                ended = open_values.pop(entry[0], [])
                seen += ended if entry[1] == "commit" else []
        return seen


class Coordinator:
    """One transactional id, and plain identities."""

    def __init__(self, logs, *, v2):
        self.logs, self.v2 = logs, v2
        self.epoch = -1
        self.last_epoch = -1
        self.partitions = set()
        self.ongoing = False
        self.last_end = None  # (epoch asked with, committed)
        self.ids = 100
        self.decisions = []  # of each transaction that was ended: "commit" | "abort"

    def answer(self, planned):
        request = planned.request
        if planned.kind in (Kind.INIT_PRODUCER_ID, Kind.BUMP_EPOCH):
            return self.init(request)
        if planned.kind is Kind.ADD_PARTITIONS:
            return self.add(request)
        assert planned.kind is Kind.END
        return self.end(request)

    def init(self, request):
        if request.transactional_id is None:
            self.ids += 1
            return InitProducerIdResponse(error_code=0, producer_id=self.ids, producer_epoch=0)
        if request.producer_epoch != -1 and request.producer_epoch != self.epoch:
            if request.producer_epoch == self.last_epoch:  # a retry of the bump that was done
                return InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=self.epoch)
            return InitProducerIdResponse(error_code=FENCED, producer_id=-1, producer_epoch=-1)
        self.last_epoch = self.epoch if request.producer_epoch != -1 else -1
        self.fence()
        return InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=self.epoch)

    def fence(self):
        self.epoch += 1
        if self.ongoing:
            self.finish("abort")
        self.last_end = None

    def finish(self, how):
        for name in self.partitions:
            self.logs[name].mark(1, self.epoch, how)
        self.decisions.append(how)
        self.partitions, self.ongoing = set(), False

    def add(self, request):
        names = [
            TopicPartition(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions
        ]
        error = 0 if request.v3_and_below_producer_epoch == self.epoch else FENCED
        if not error:
            self.partitions |= set(names)
            self.ongoing = True
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=name.topic,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=name.partition, partition_error_code=error)
                    ],
                )
                for name in names
            ]
        )

    def end(self, request):
        asked = (request.producer_epoch, request.committed)
        how = "commit" if request.committed else "abort"
        bumped = {"producer_id": 1, "producer_epoch": self.epoch} if self.v2 else {}
        if asked == self.last_end and not self.ongoing:
            return EndTxnResponse(error_code=0, **bumped)
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(error_code=FENCED)
        if not self.ongoing and (request.committed or not self.v2):
            return EndTxnResponse(error_code=INVALID_TXN_STATE)
        if self.v2:
            self.epoch += 1
            bumped = {"producer_id": 1, "producer_epoch": self.epoch}
        if self.ongoing:
            self.finish(how)
        self.last_end = asked
        return EndTxnResponse(error_code=0, **bumped)

    def may_append(self, name, producer_id, epoch):
        """The verification of KIP-890: a record must belong to the transaction that is open now."""
        if producer_id != 1:
            return 0
        if epoch != self.epoch:
            return OLD_EPOCH
        if self.v2:
            self.partitions.add(name)
            self.ongoing = True
        return 0 if self.ongoing and name in self.partitions else INVALID_TXN_STATE


# --- the sender ------------------------------------------------------------------------------------------------------


class Batch:
    def __init__(self, name, values):
        self.name, self.values = name, values
        self.stamp = None
        self.sent = 0
        self.result = None  # "ok" | error

    def finish(self, result):
        assert self.result is None, "a batch was finished twice"
        self.result = result


@dataclass
class Wire:
    """A produce request: the stamp as it was written."""

    batch: Batch
    producer_id: int
    epoch: int
    sequence: int
    answer: tuple[int, int] | None = None


class Machine(RuleBasedStateMachine):
    transactional_id: str | None = None
    v2 = False
    late_ones_outlive = True

    def __init__(self):
        super().__init__()
        self.now_ms = 0.0
        self.logs = {name: Log() for name in PARTITIONS}
        self.coordinator = Coordinator(self.logs, v2=self.v2)
        self.manager = TransactionManager(transactional_id=self.transactional_id)
        self.manager.set_features(2 if self.v2 else 0)
        self.queues = {name: deque() for name in PARTITIONS}
        self.wires = {name: deque() for name in PARTITIONS}
        self.ghosts = {name: deque() for name in PARTITIONS}
        self.control = None
        self.all_batches = {name: [] for name in PARTITIONS}
        self.counter = 0

    # the sender's turn, as the manager's file describes it

    def incomplete(self):
        return any(self.queues.values()) or any(
            wire.batch.result is None for wires in self.wires.values() for wire in wires
        )

    @rule()
    def turn(self):
        abort = self.manager.resolve_errors(self.now_ms)
        if abort is not None:
            self.abort_batches(abort)
        planned = self.manager.next_request(has_incomplete_batches=self.incomplete(), now_ms=self.now_ms)
        if planned is not None:
            assert self.control is None
            self.control = [planned, None]
        for name in PARTITIONS:
            self.drain(name)

    def abort_batches(self, abort):
        for name, queue in self.queues.items():
            for batch in list(queue):
                if batch.sent and abort.only_unsent:
                    continue
                queue.remove(batch)
                self.give_up(batch, abort.error, adjust=False)
            if not abort.only_unsent:
                for wire in self.wires[name]:
                    if wire.batch.result is None:
                        self.give_up(wire.batch, abort.error, adjust=False)

    def drain(self, name):
        queue = self.queues[name]
        while queue and len(self.wires[name]) < IN_FLIGHT_LIMIT:
            probe = self.manager.probe(name)
            batch = next((each for each in queue if probe is not None and each.stamp is probe), queue[0])
            if not self.manager.may_drain(name, batch.stamp):
                return
            queue.remove(batch)
            if batch.stamp is None:
                batch.stamp = self.manager.stamp(name, len(batch.values))
            batch.sent += 1
            stamp = batch.stamp
            self.wires[name].append(Wire(batch, stamp.producer_id, stamp.epoch, stamp.base_sequence))

    def requeue(self, batch):
        """In sequence order among those that were sent before, in front of new ones."""
        queue = self.queues[batch.name]
        order = self.all_batches[batch.name].index
        place = sum(1 for other in queue if other.stamp is not None and order(other) < order(batch))
        queue.insert(place, batch)

    def give_up(self, batch, error, *, adjust, unresolved=False):
        self.manager.batch_failed(batch.name, batch.stamp, error, adjust_sequences=adjust)
        if unresolved and batch.stamp is not None:
            self.manager.mark_unresolved(batch.name, batch.stamp)
        batch.finish(error)

    # what the application does

    def put(self, name, count):
        values = [(name.topic, self.counter + index) for index in range(count)]
        self.counter += count
        batch = Batch(name, values)
        self.all_batches[name].append(batch)
        self.queues[name].append(batch)
        return batch

    # what the network and the brokers do

    @rule(name=st.sampled_from(PARTITIONS), error=st.sampled_from([0, 0, 0, 0, 6, 10]))
    def broker_takes_the_next_produce(self, name, error):
        for wire in self.wires[name]:
            if wire.answer is None:
                if not self.late_ones_outlive:
                    self.ghosts[name].clear()
                wire.answer = (error, -1) if error else self.append(name, wire)
                break

    def append(self, name, wire):
        refused = self.coordinator.may_append(name, wire.producer_id, wire.epoch)
        if refused:
            return refused, -1
        return self.logs[name].append(wire.producer_id, wire.epoch, wire.sequence, wire.batch.values)

    @rule(name=st.sampled_from(PARTITIONS))
    def broker_takes_a_late_produce(self, name):
        """The client gave it up, or its connection broke; the broker reads it all the same."""
        if self.ghosts[name]:
            self.append(name, self.ghosts[name].popleft())

    @rule(name=st.sampled_from(PARTITIONS))
    def produce_answer_arrives(self, name):
        wires = self.wires[name]
        if not wires or wires[0].answer is None:
            return
        wire = wires.popleft()
        if wire.batch.result is None:
            self.take_answer(wire)

    def take_answer(self, wire):
        batch = wire.batch
        code, offset = wire.answer
        if code == 0:
            self.manager.batch_acknowledged(batch.name, batch.stamp, offset)
            batch.finish("ok")
            return
        error = broker_error(code)
        if self.manager.is_written(batch.name, batch.stamp, error):
            self.manager.batch_acknowledged(batch.name, batch.stamp, -1)
            batch.finish("ok")
        elif self.manager.can_retry(batch.name, batch.stamp, error, 0):
            self.requeue(batch)
        else:
            self.give_up(batch, error, adjust=True)

    @rule(name=st.sampled_from(PARTITIONS), still_read=st.booleans())
    def connection_breaks(self, name, still_read):
        wires = list(self.wires[name])
        self.wires[name].clear()
        for wire in wires:
            if wire.answer is None and still_read:
                self.ghosts[name].append(wire)
            if wire.batch.result is None:
                assert self.manager.can_retry(name, wire.batch.stamp, ConnectionClosed())
                self.requeue(wire.batch)

    @rule(name=st.sampled_from(PARTITIONS))
    def leader_restarts(self, name):
        self.logs[name].restart()

    @rule(name=st.sampled_from(PARTITIONS))
    def oldest_batch_expires(self, name):
        waiting = [batch for batch in self.all_batches[name] if batch.result is None]
        if not waiting:
            return
        batch = waiting[0]
        if batch in self.queues[name]:
            self.queues[name].remove(batch)
        self.give_up(batch, RequestTimedOut("expired"), adjust=False, unresolved=batch.sent > 0)

    @rule()
    def coordinator_works(self):
        if self.control is not None and self.control[1] is None:
            self.control[1] = self.coordinator.answer(self.control[0])

    @rule()
    def control_answer_arrives(self):
        if self.control is not None and self.control[1] is not None:
            planned, response = self.control
            self.control = None
            self.manager.answered(planned, response, self.now_ms)

    @rule()
    def control_answer_is_lost(self):
        if self.control is not None:
            planned, _ = self.control
            self.control = None
            self.manager.failed(planned, ConnectionClosed(), self.now_ms)
            self.now_ms += 1000

    # healing

    def settle_down(self, done=lambda: False):
        for _ in range(400):
            if done():
                return
            self.now_ms += 1000
            self.turn()
            self.coordinator_works()
            self.control_answer_arrives()
            for name in PARTITIONS:
                self.broker_takes_the_next_produce(name, 0)
                self.produce_answer_arrives(name)
        assert not self.incomplete(), "batches never finish"

    @invariant()
    def nothing_is_twice(self):
        for log in self.logs.values():
            values = self.seen(log)
            assert len(values) == len(set(values))

    def seen(self, log):
        return log.values()


class IdempotentMachine(Machine):
    # Without transactions nothing protects from a request that is read after its successors were refused and numbered
    # again: the protocol relies on brokers being done with a broken connection before they serve the next one.
    late_ones_outlive = False

    @rule(name=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def send(self, name, count):
        self.manager.maybe_add_partition(name)
        self.put(name, count)

    def teardown(self):
        self.settle_down()
        assert self.manager.state is S.READY
        for name in PARTITIONS:
            values = self.logs[name].values()
            assert values == sorted(values), "records changed places"
            there = set(values)
            for batch in self.all_batches[name]:
                if batch.result == "ok":
                    assert there.issuperset(batch.values), "an acknowledged record is not there"


class TransactionalMachine(Machine):
    transactional_id = "t"

    def __init__(self):
        super().__init__()
        self.transactions = []  # [batches, "commit" | "abort" | "open" | "unknown"]
        self.ending = None
        self.was_fenced = False

    def seen(self, log):
        """What is in the log of a transaction that is aborted counts for nothing."""
        return log.committed()

    @initialize()
    def begin_with_an_identity(self):
        outcome = self.manager.initialize()
        self.turn()
        self.coordinator_works()
        self.control_answer_arrives()
        outcome.acknowledge()

    def is_open(self):
        return self.manager.state is S.IN_TRANSACTION

    @precondition(lambda self: self.manager.state is S.READY and self.ending is None)
    @rule()
    def begin(self):
        self.manager.begin()
        self.transactions.append([[], "open"])

    @precondition(is_open)
    @rule(name=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def send(self, name, count):
        self.manager.maybe_add_partition(name)
        self.transactions[-1][0].append(self.put(name, count))

    @precondition(is_open)
    @rule()
    def commit(self):
        self.ending = (self.manager.begin_commit(), "commit")

    @precondition(lambda self: self.ending is None and self.manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR))
    @rule()
    def abort(self):
        if self.transactions:
            self.ending = (self.manager.begin_abort(), "abort")

    @precondition(lambda self: not self.was_fenced)
    @rule(really=st.integers(0, 9))
    def another_producer_takes_over(self, really):
        if really == 0:
            self.was_fenced = True
            self.coordinator.fence()
            self.coordinator.last_epoch = -1

    @invariant()
    def note_the_end(self):
        if self.ending is not None and self.ending[0].done:
            outcome, how = self.ending
            self.ending = None
            try:
                outcome.acknowledge()
                self.transactions[-1][1] = how
            except OttlaError:
                # A commit that failed was not done, or nobody knows (fenced while its answer was lost).
                self.transactions[-1][1] = "unknown" if self.manager.has_fatal_error else "abort"

    def teardown(self):
        self.settle_down(lambda: self.ending is None and self.control is None)
        self.note_the_end()
        if self.manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            self.abort()
            self.settle_down(lambda: self.ending is None or self.ending[0].done)
            self.note_the_end()
        if not self.was_fenced:
            assert self.manager.state is S.READY, (self.manager.state, self.manager.error)
        self.coordinator.fence()  # a successor ends what is open
        self.check_logs()

    def check_logs(self):
        for name in PARTITIONS:
            seen = self.logs[name].committed()
            assert seen == sorted(seen), "records changed places"
            for batches, how in self.transactions:
                wanted = [value for batch in batches if batch.name == name for value in batch.values]
                got = [value for value in seen if value in set(wanted)]
                if how == "commit":
                    assert got == wanted, "a committed transaction is not complete"
                elif how != "unknown":
                    assert got == [], "an aborted transaction is visible"
                else:
                    assert got in ([], wanted), "half a transaction is visible"


class FirstVersionMachine(TransactionalMachine):
    v2 = False


class SecondVersionMachine(TransactionalMachine):
    v2 = True


TestIdempotence = IdempotentMachine.TestCase
TestIdempotence.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestFirstVersion = FirstVersionMachine.TestCase
TestFirstVersion.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestSecondVersion = SecondVersionMachine.TestCase
TestSecondVersion.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


# --- seeded histories ------------------------------------------------------------------------------------------------


class Seeded:
    """A long history: mostly work, some trouble; how much trouble is drawn once."""

    def __init__(self, machine, seed):
        self.machine, self.random = machine(), Random(seed)
        self.trouble = self.random.random()
        self.is_transactional = machine is not IdempotentMachine
        if self.is_transactional:
            self.machine.begin_with_an_identity()

    def choices(self):
        name = self.random.choice(PARTITIONS)
        error = self.random.choices([0, 6, 10], [10, self.trouble, 0.3 * self.trouble])[0]
        yield 6, "turn", ()
        yield 5, "broker_takes_the_next_produce", (name, error)
        yield 5, "produce_answer_arrives", (name,)
        yield 4, "coordinator_works", ()
        yield 4, "control_answer_arrives", ()
        yield 1, "broker_takes_a_late_produce", (name,)
        yield 0.6 * self.trouble, "connection_breaks", (name, self.random.random() < 0.5)
        yield 0.3 * self.trouble, "oldest_batch_expires", (name,)
        yield 0.5 * self.trouble, "leader_restarts", (name,)
        yield 0.5 * self.trouble, "control_answer_is_lost", ()
        yield from self.calls(name) if self.is_transactional else [(4, "send", (name, self.random.randint(1, 3)))]

    def calls(self, name):
        state, machine = self.machine.manager.state, self.machine
        if state is S.READY and machine.ending is None:
            yield 5, "begin", ()
        if state is S.IN_TRANSACTION:
            yield 4, "send", (name, self.random.randint(1, 3))
            yield 1, "commit", ()
        if state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR) and machine.ending is None:
            yield 0.4 if state is S.IN_TRANSACTION else 3, "abort", ()
        if self.trouble > 0.9 and not machine.was_fenced:
            yield 0.02, "another_producer_takes_over", (0,)

    def run(self, steps):
        for _ in range(steps):
            choices = list(self.choices())
            _, name, arguments = self.random.choices(choices, [weight for weight, _, _ in choices])[0]
            getattr(self.machine, name)(*arguments)
            if self.is_transactional:
                self.machine.note_the_end()
            self.machine.nothing_is_twice()
        self.machine.teardown()


@pytest.mark.parametrize("machine", [IdempotentMachine, FirstVersionMachine, SecondVersionMachine])
@pytest.mark.parametrize("seed", range(50))
def test_seeded_histories_keep_the_promises(machine, seed):
    Seeded(machine, seed).run(150)
