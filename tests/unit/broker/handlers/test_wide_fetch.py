"""A fetch of many partitions: the same answers, but a change of one partition costs a look at that one only."""

import pytest

from ottla.broker.fetch import attempt
from ottla.broker.handlers.records import fetch as handler
from ottla.broker.requests import pacing
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

PARTITIONS = 40


@pytest.fixture
def wide(make_broker, monkeypatch):
    monkeypatch.setattr(handler, "WIDE_PARTITIONS", PARTITIONS - 1)
    broker = make_broker()
    broker.create_topic("orders", PARTITIONS)
    return broker


@pytest.fixture
def looks(monkeypatch):
    """The partitions that were read, in order."""
    seen = []
    read_one = attempt.Attempt._read_one

    def counted(self, key, *arguments, **options):
        seen.append(key.partition)
        return read_one(self, key, *arguments, **options)

    monkeypatch.setattr(attempt.Attempt, "_read_one", counted)
    return seen


def fetch_all(*, wait_ms=0, min_bytes=1, session=(0, -1), count=PARTITIONS):
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(count)]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="orders", partitions=partitions)] if count else [],
        forgotten_topics_data=[],
    )


def found(answer, values_of):
    return {
        one.partition_index: values_of(one) for topic in answer.responses for one in topic.partitions if one.records
    }


def test_what_is_there_is_given_at_once(wide, batch, values_of):
    wide.produce("orders", batch("a"), 3)
    wide.produce("orders", batch("b"), 39)
    answer = wide.ask(fetch_all(wait_ms=500), 12)
    assert len(answer.responses[0].partitions) == PARTITIONS
    assert found(answer, values_of) == {3: ["a"], 39: ["b"]}


def test_it_waits_and_gets_what_comes_and_nobody_looks_at_the_others(wide, batch, values_of, looks):
    size_bytes = len(batch("a"))
    waiting = wide.begin(fetch_all(wait_ms=500, min_bytes=2 * size_bytes), 12)
    assert not waiting.is_answered
    looks.clear()
    wide.produce("orders", batch("a"), 7)
    assert not waiting.is_answered
    assert set(looks) == {7}
    wide.produce("orders", batch("b"), 8)
    assert found(waiting.answer, values_of) == {7: ["a"], 8: ["b"]}
    assert len(wide.broker.progress.fetch_purgatory) == 0


def test_it_is_answered_when_its_time_is_over(wide):
    waiting = wide.begin(fetch_all(wait_ms=500), 12)
    wide.later(400)
    assert not waiting.is_answered
    wide.later(120)
    assert len(waiting.answer.responses[0].partitions) == PARTITIONS


def test_a_small_request_of_a_wide_session_is_wide(wide, batch, values_of, looks):
    opened = wide.ask(fetch_all(session=(0, 0)), 12)
    waiting = wide.begin(fetch_all(session=(opened.session_id, 1), count=0, wait_ms=500), 12)
    looks.clear()
    wide.produce("orders", batch("a"), 5)
    assert found(waiting.answer, values_of) == {5: ["a"]}
    assert looks[0] == 5


def test_a_deleted_topic_ends_the_wait_with_its_error(wide):
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

    waiting = wide.begin(fetch_all(wait_ms=500), 12)
    wide.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    assert {one.error_code for one in waiting.answer.responses[0].partitions} == {3}


def test_what_comes_while_the_others_are_read_is_answered_at_once(make_broker, batch, values_of, monkeypatch, caplog):
    monkeypatch.setattr(handler, "WIDE_PARTITIONS", PARTITIONS - 1)
    wide = make_broker(**{"ottla.durability": "replicated"})
    wide.create_topic("orders", PARTITIONS)
    read_one, came = attempt.Attempt._read_one, []

    def something_comes(self, key, *arguments, **options):
        data = read_one(self, key, *arguments, **options)
        if key.partition == 20 and not came:  # the partition before it has been looked at
            came.append(key)
            partition = wide.broker.replicas.get(("orders", 7))
            partition.append(bytearray(batch("a")), acks=1, now_ms=wide.clock.now_ms())
            wide.broker.progress.advanced(partition)
        return data

    monkeypatch.setattr(attempt.Attempt, "_read_one", something_comes)
    waiting = wide.begin(fetch_all(wait_ms=500), 12)
    assert found(waiting.answer, values_of) == {7: ["a"]}
    assert len(wide.broker.progress.fetch_purgatory) == 0
    assert not caplog.records


def test_while_nothing_happens_every_partition_is_looked_at_once(wide, looks):
    waiting = wide.begin(fetch_all(wait_ms=500), 12)
    wide.later(520)
    assert waiting.is_answered
    assert sorted(looks) == list(range(PARTITIONS))


def pause(broker):
    """Let a request that pauses after every partition come to where it waits, or to its end."""
    for _ in range(PARTITIONS // 5):
        broker.do(lambda: None)


def test_while_it_waits_the_turn_of_long_requests_is_free(wide, batch, values_of, monkeypatch):
    monkeypatch.setattr(pacing, "SLICE_MS", 0.0)  # every step is a pause
    waiting = wide.begin(fetch_all(wait_ms=500, count=PARTITIONS), 12)
    pause(wide)
    assert not waiting.is_answered
    assert wide.broker.pacing.is_idle
    wide.produce("orders", batch("a"), 7)
    pause(wide)
    assert found(waiting.answer, values_of) == {7: ["a"]}
