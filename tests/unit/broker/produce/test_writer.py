"""Requests of many connections are appended together, and nobody can tell but by the time it takes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.broker.produce.test_runs import VERSION, Link
from tests.unit.broker.produce.test_together import (
    BATCHES,
    SETTINGS,
    WAYS,
    batch_of,
    everything,
    frame_of,
    needs_native,
    produced,
)

from ottla.broker.network.processor import Connection
from ottla.broker.produce.writer import Writer
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.served import SERVED_APIS
from ottla.errors import DiskFull, NotLeaderOrFollower, OutOfOrderSequenceNumber, RequestTimedOut, UnknownServerError
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_response
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

DURABLE = {"ottla.durability": "durable"}


class Clients:
    """Several connections to one broker; what they send in one turn is read in one turn of the loop."""

    def __init__(self, memory_broker, count=3):
        self.memory_broker, self.broker = memory_broker, memory_broker.broker
        dispatch = Dispatch(self.broker, SERVED_APIS, Gate(self.broker))
        self.links = [Link() for _ in range(count)]
        self.connections = []
        for number, link in enumerate(self.links):
            self.connections.append(Connection(number, "PLAINTEXT", dispatch, lambda _: None))
            self.connections[-1].opened(link)

    def send(self, *sent):
        """Frames, each with the number of the connection on which it comes."""
        self.memory_broker.do(lambda: [self._receive(number, frame) for number, frame in sent])

    def _receive(self, number, frame):
        if self.links[number].end is None:
            self.connections[number].frame_received(memoryview(bytearray(frame)))

    def outcomes(self, number):
        """Number, error and base offset of each answer that a connection got."""
        found, position, written = [], 0, bytes(self.links[number].written)
        while position < len(written):
            end = position + 4 + struct.unpack_from(">i", written, position)[0]
            correlation_id, answer = decode_response(APIS[0], VERSION, memoryview(written)[position + 4 : end])
            result = answer.responses[0].partition_responses[0]
            found.append((correlation_id, result.error_code, result.base_offset))
            position = end
        return found

    def all_outcomes(self):
        return [self.outcomes(number) for number in range(len(self.links))]


@pytest.fixture
def memory_broker(make_broker):
    made = make_broker(**DURABLE)
    made.create_topic("orders", 2)
    return made


@pytest.fixture
def now_ms(memory_broker):
    return memory_broker.clock.now_ms()


@pytest.fixture
def clients(memory_broker, now_ms):
    made = Clients(memory_broker)
    made.send(*[(0, frame_of(0, batch_of(now_ms), index=index)) for index in (0, 1)])  # the first open logs and lanes
    made.links[0].written = b""
    return made


@pytest.fixture
def runs(memory_broker, clients, monkeypatch):
    """How many batches each append of the first partition had."""
    seen, partition = [], memory_broker.partition("orders")
    append = partition._appender.append_run

    def counted(buffers, **how):
        seen.append(len(buffers))
        return append(buffers, **how)

    monkeypatch.setattr(partition._appender, "append_run", counted, raising=False)
    return seen


def hang_disk(memory_broker, monkeypatch):
    """Rounds of syncs begin, and nothing of them is ever heard."""
    monkeypatch.setattr(memory_broker.broker.progress._flusher, "_report_all", lambda lane, flushes: None)


@needs_native
def test_requests_of_one_turn_share_an_append_and_each_gets_its_answer(clients, now_ms, runs):
    clients.send(*[(number, frame_of(10 + number, batch_of(now_ms))) for number in (0, 1, 2)])
    assert runs == [3]
    assert clients.all_outcomes() == [[(10, 0, 2)], [(11, 0, 4)], [(12, 0, 6)]]


def append_each(writer):
    """Nothing waits for others."""
    write = writer.write

    def write_at_once(*given):
        write(*given)
        writer.append_all()

    writer.write = write_at_once


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    turns=st.lists(
        st.lists(st.tuples(st.integers(0, 2), BATCHES, WAYS), min_size=1, max_size=6), min_size=1, max_size=3
    ),
    topic=SETTINGS,
)
def test_drawn_requests_leave_the_same_as_if_each_were_appended_at_once(make_broker, turns, topic):
    outcomes = []
    for is_gathered in (True, False):
        made = make_broker(**DURABLE, **{"log.index.interval.bytes": "100"})
        made.create_topic("orders", 2, **topic)
        now_ms, clients = made.clock.now_ms(), Clients(made)
        clients.send(*[(number, frame_of(0, batch_of(now_ms))) for number in range(3)])
        if not is_gathered:
            append_each(made.broker.writer)
        for turn in turns:
            sent = [(number, frame_of(at, make(now_ms), **how)) for at, (number, make, how) in enumerate(turn)]
            clients.send(*sent)
        outcomes.append((everything(made, [], together=True), [(link.written, link.end) for link in clients.links]))
    assert outcomes[0] == outcomes[1]


def test_a_request_that_is_not_gathered_does_not_overtake(clients, now_ms, memory_broker):
    """The next batch of the same producer is too large to wait."""
    clients.send(
        (0, frame_of(1, produced(now_ms, 0))),
        (1, frame_of(2, produced(now_ms, 2, size=50_000))),
        (2, frame_of(3, produced(now_ms, 4))),
    )
    assert clients.all_outcomes() == [[(1, 0, 2)], [(2, 0, 4)], [(3, 0, 6)]]


def test_a_repeated_batch_and_one_out_of_order_concern_no_other_connection(clients, now_ms):
    clients.send((0, frame_of(1, produced(now_ms, 0))))
    clients.send(
        (0, frame_of(2, produced(now_ms, 0))),
        (1, frame_of(3, batch_of(now_ms))),
        (2, frame_of(4, produced(now_ms, 8))),
    )
    assert clients.outcomes(0)[1:] == [(2, 0, 2)]
    assert clients.outcomes(1) == [(3, 0, 4)]
    assert clients.outcomes(2) == [(4, OutOfOrderSequenceNumber.code, -1)]


@needs_native
def test_what_comes_while_a_sync_runs_is_appended_when_the_next_one_begins(memory_broker, clients, now_ms, runs):
    flusher = memory_broker.broker.progress._flusher
    lane = flusher._lane_of(memory_broker.partition("orders"))
    lane.round = object()  # one runs
    clients.send((0, frame_of(1, batch_of(now_ms))))
    clients.send((1, frame_of(2, batch_of(now_ms))), (2, frame_of(3, batch_of(now_ms))))
    assert runs == []
    assert not flusher.is_idle
    lane.round = None
    memory_broker.do(lambda: flusher._report_all(lane, []))  # it has ended
    assert runs == [3]
    assert clients.all_outcomes() == [[(1, 0, 2)], [(2, 0, 4)], [(3, 0, 6)]]
    assert flusher.is_idle


def test_answers_wait_for_their_sync_and_say_when_the_time_is_over(memory_broker, clients, now_ms, monkeypatch):
    hang_disk(memory_broker, monkeypatch)
    times, topic = clients.broker.request_metrics.of(APIS[0], VERSION), clients.broker.topic_metrics.of("orders")
    before, failed = times.count, topic.failed_produces.value
    clients.send(*[(number, frame_of(1, batch_of(now_ms))) for number in (0, 1, 2)])
    assert clients.all_outcomes() == [[], [], []]
    assert times.count == before, "a request has been handled when it is answered"
    memory_broker.later(1_020)
    assert clients.all_outcomes() == [[(1, RequestTimedOut.code, -1)]] * 3
    assert (times.count, topic.failed_produces.value) == (before + 3, failed + 3)


def test_a_disk_that_is_full_refuses_all_of_them(memory_broker, clients, now_ms, monkeypatch):
    def full(*_, **__):
        raise DiskFull("no room")

    monkeypatch.setattr(memory_broker.partition("orders"), "append_run", full)
    topic = clients.broker.topic_metrics.of("orders")
    clients.send(*[(number, frame_of(1, batch_of(now_ms))) for number in (0, 1)])
    assert clients.all_outcomes() == [[(1, DiskFull.code, -1)], [(1, DiskFull.code, -1)], []]
    assert topic.failed_produces.value == 2


def test_a_partition_that_goes_between_reading_and_appending_is_said(memory_broker, clients, now_ms):
    gone = memory_broker.partition("orders")

    def read_and_retire():
        clients._receive(0, frame_of(1, batch_of(now_ms)))
        gone.retire()
        clients.broker.progress.forget(gone.name)

    memory_broker.do(read_and_retire)
    assert clients.outcomes(0) == [(1, NotLeaderOrFollower.code, -1)]


def test_who_leaves_before_the_append_costs_the_others_nothing(memory_broker, clients, now_ms):
    def read_and_leave():
        clients._receive(0, frame_of(1, batch_of(now_ms)))
        clients._receive(1, frame_of(2, batch_of(now_ms)))
        clients.connections[0].closed(None)

    memory_broker.do(read_and_leave)
    assert clients.all_outcomes() == [[], [(2, 0, 4)], []], "it was read, so it is appended, as in Kafka"


def test_a_broker_that_stops_answers_what_it_did_not_append(memory_broker, clients, now_ms):
    def read_and_stop():
        clients._receive(0, frame_of(1, batch_of(now_ms)))
        clients.broker.progress.close()

    memory_broker.do(read_and_stop)
    assert clients.outcomes(0) == [(1, RequestTimedOut.code, -1)]
    assert memory_broker.partition("orders").log_end_offset == 2


def test_what_markers_appended_is_answered_when_the_broker_stops(memory_broker, clients, now_ms):
    partition = memory_broker.partition("orders")

    def append_and_stop():
        clients._receive(0, frame_of(1, batch_of(now_ms)))
        partition.append(batch_of(now_ms), acks=1, now_ms=now_ms)
        clients.broker.progress.close()

    memory_broker.do(append_and_stop)
    assert [number for number, _, _ in clients.outcomes(0)] == [1]


def test_a_fault_behind_the_append_answers_each_request_once(memory_broker, clients, now_ms, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Writer, "_wait", broken)
    clients.send((0, frame_of(1, batch_of(now_ms))), (1, frame_of(2, batch_of(now_ms))))
    assert [[number for number, _, _ in outcome] for outcome in clients.all_outcomes()] == [[1], [2], []]
    assert "cannot be appended" in caplog.text


def test_a_fault_of_ours_is_said_to_those_it_concerns(memory_broker, clients, now_ms, monkeypatch, caplog):
    def broken(self, now_ms):
        raise ZeroDivisionError("planted")

    partition = memory_broker.partition("orders")
    monkeypatch.setattr(type(partition), "append_queued", broken)
    clients.send((0, frame_of(1, batch_of(now_ms))), (1, frame_of(2, batch_of(now_ms))))
    unknown = UnknownServerError.code
    assert clients.all_outcomes() == [[(1, unknown, -1)], [(2, unknown, -1)], []]
    assert "cannot be appended" in caplog.text


def test_markers_of_transactions_come_behind_what_is_queued(memory_broker, clients, now_ms):
    """Whoever appends in another way has the queue appended first."""
    partition = memory_broker.partition("orders")

    def read_and_append():
        clients._receive(0, frame_of(1, batch_of(now_ms)))
        assert partition.log_end_offset == 2, "it waits in the queue"
        result = partition.append(batch_of(now_ms), acks=1, now_ms=now_ms)
        assert result.first_offset == 4

    memory_broker.do(read_and_append)
    assert clients.outcomes(0) == [(1, 0, 2)]


def test_requests_that_do_not_wait_are_appended_at_once(make_broker, monkeypatch):
    made = make_broker(**{"ottla.durability": "replicated"})
    made.create_topic("orders", 2)
    clients = Clients(made)
    monkeypatch.setattr(Writer, "append_all", lambda *_: pytest.fail("nothing is waited for"))
    clients.send(*[(0, frame_of(number, batch_of(made.clock.now_ms()))) for number in (1, 2)])
    assert clients.outcomes(0) == [(1, 0, 0), (2, 0, 2)]


@needs_native
def test_requests_of_clients_with_a_quota_are_charged_each(memory_broker, now_ms):
    entity = [EntityData(entity_type="client-id", entity_name=None)]
    entry = EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=1e9, remove=False)])
    assert memory_broker.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False)).entries[0].error_code == 0
    clients = Clients(memory_broker)
    frames = [frame_of(number, batch_of(now_ms)) for number in range(3)]
    for frame in frames:
        clients.send((0, frame))
    assert [error for _, error, _ in clients.outcomes(0)] == [0, 0, 0]
    [(context, _)] = clients.connections[0].contexts.values()
    assert context.charges.produce.rate.added == sum(map(len, frames))
