"""Consumers in groups against a real broker in this process: classic and KIP-848, commits, listeners, churn."""

from __future__ import annotations

import inspect
import re
import threading
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import HANG_S, bounded

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.offsets import CommitFailed
from ottla.testing.broker import KafkaBroker
from ottla.values import OffsetAndMetadata, TopicPartition

PARTITIONS = 6
PROTOCOLS = ["range", "roundrobin", "sticky", "cooperative-sticky", "consumer"]


@pytest.fixture(scope="module")
def broker():
    settings = {
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 50,
        "group.consumer.min.session.timeout.ms": 200,
        "group.min.session.timeout.ms": 200,
    }
    with KafkaBroker(settings) as made:
        yield made


@pytest.fixture
def topic(broker, unique_topic):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(unique_topic, PARTITIONS, 1)])[unique_topic].result(HANG_S)
    return unique_topic


def produce(broker, topic, count, first=0):
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(HANG_S) == 0


def member(broker, group, *topics, strategy="range", **settings):
    if strategy == "consumer":
        settings["group_protocol"] = "consumer"
    else:
        settings = {"partition_assignment_strategy": [strategy], "heartbeat_interval_ms": 50, **settings}
    settings = {"auto_offset_reset": "earliest", **settings}
    return Consumer(*topics, bootstrap_servers=broker.bootstrap_servers, group_id=group, **settings)


def poll_until(consumers, condition, limit_s=HANG_S):
    """Poll all in turn until the condition holds; gives the values that came."""
    found = []
    deadline = time.monotonic() + limit_s
    while not condition(found):
        assert time.monotonic() < deadline, f"{[sorted(each.assignment()) for each in consumers]}, {len(found)} records"
        for each in consumers:
            found += [int(record.value) for record in each.poll(0.01)]
    return found


class Seen:
    def __init__(self):
        self.events = []

    def on_assigned(self, partitions):
        self.events.append(("assigned", len(partitions)))

    def on_revoked(self, partitions):
        self.events.append(("revoked", len(partitions)))

    def on_lost(self, partitions):
        self.events.append(("lost", len(partitions)))


@pytest.mark.parametrize("strategy", PROTOCOLS)
def test_members_share_the_partitions_and_take_over_when_one_leaves(broker, topic, unique_group, strategy):
    produce(broker, topic, 600)
    with member(broker, unique_group, topic, strategy=strategy) as one:
        found = poll_until([one], lambda values: len(values) == 600)
        assert sorted(found) == list(range(600))
        one.commit()
        two = member(broker, unique_group, topic, strategy=strategy)
        poll_until([one, two], lambda _: len(one.assignment()) == len(two.assignment()) == 3)
        assert one.assignment() | two.assignment() == {TopicPartition(topic, index) for index in range(PARTITIONS)}
        produce(broker, topic, 60, 600)
        assert sorted(poll_until([one, two], lambda values: len(values) == 60)) == list(range(600, 660))
        two.close()
        poll_until([one], lambda _: len(one.assignment()) == PARTITIONS)
        produce(broker, topic, 60, 660)
        assert sorted(poll_until([one], lambda values: len(values) == 60)) == list(range(660, 720))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "consumer"])
def test_with_members_coming_and_going_every_record_is_read(broker, topic, unique_group, strategy):
    """Each takes its turn in a thread and commits what it read: nothing is missed, and only what was read between a
    commit and a rebalance is read twice."""
    total = 3000
    read, lock, done = [], threading.Lock(), threading.Event()
    failures = []

    def work(lifetime_s):
        end = time.monotonic() + lifetime_s
        try:
            with member(broker, unique_group, topic, strategy=strategy, max_poll_records=50) as consumer:
                while not done.is_set() and time.monotonic() < end:
                    found = [int(record.value) for record in consumer.poll(0.05)]
                    with lock:
                        read.extend(found)
                        if len(set(read)) == total:
                            done.set()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(lifetime_s,)) for lifetime_s in (HANG_S, 0.6, 0.9, 1.2)]
    for index, thread in enumerate(threads):
        thread.start()
        produce(broker, topic, total // 4, index * total // 4)
    done.wait(HANG_S)
    done.set()
    for thread in threads:
        thread.join(HANG_S)
    assert failures == []
    assert set(read) == set(range(total))


def test_a_pattern_takes_in_topics_that_come_later(broker, unique_topic, unique_group):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    names = [f"{unique_topic}-{letter}" for letter in "ab"]
    admin.create_topics([NewTopic(names[0], 1, 1)])[names[0]].result(HANG_S)
    with member(broker, unique_group, metadata_max_age_ms=200) as consumer:
        consumer.subscribe(pattern=re.compile(f"^{unique_topic}-.$"))
        poll_until([consumer], lambda _: consumer.assignment() == {TopicPartition(names[0], 0)})
        admin.create_topics([NewTopic(names[1], 1, 1)])[names[1]].result(HANG_S)
        poll_until([consumer], lambda _: len(consumer.assignment()) == 2)
        assert consumer.subscription() == set(names)


def test_a_pattern_can_be_matched_by_the_broker(broker, topic, unique_group):
    produce(broker, topic, 6)
    with member(broker, unique_group, strategy="consumer") as consumer:
        consumer.subscribe(pattern=f"{topic}.*")
        assert len(poll_until([consumer], lambda values: len(values) == 6)) == 6


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_the_next_member_goes_on_where_the_last_one_committed(broker, topic, unique_group, strategy):
    produce(broker, topic, 60)
    with member(broker, unique_group, topic, strategy=strategy, enable_auto_commit=False) as consumer:
        poll_until([consumer], lambda values: len(values) == 60)
        consumer.commit({TopicPartition(topic, 0): 4, TopicPartition(topic, 1): OffsetAndMetadata(5, "note")})
        assert consumer.committed(TopicPartition(topic, 1)) == {
            TopicPartition(topic, 1): OffsetAndMetadata(5, "note", None)
        }
        assert consumer.committed(TopicPartition(topic, 2)) == {TopicPartition(topic, 2): None}
    with member(broker, unique_group, topic, strategy=strategy, enable_auto_commit=False) as consumer:
        found = poll_until([consumer], lambda values: len(values) == 51)
        assert sorted(value for value in found if value % PARTITIONS == 0) == list(range(24, 60, 6))
        assert sorted(value for value in found if value % PARTITIONS == 1) == list(range(31, 60, 6))


def test_a_record_can_be_committed_and_an_iterator_commits_only_what_it_gave(broker, topic, unique_group):
    produce(broker, topic, 60)
    with member(broker, unique_group, topic, enable_auto_commit=False) as consumer:
        record = next(consumer)
        consumer.commit()
        name = TopicPartition(record.topic, record.partition)
        committed = consumer.committed()
        assert committed[name].offset == 1
        assert {each.offset for other, each in committed.items() if other != name and each} <= {0}
        consumer.commit(next(consumer))
        assert consumer.committed(name)[name].offset == 2


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_auto_commit_commits_at_the_end_what_was_given(broker, topic, unique_group, strategy):
    produce(broker, topic, 60)
    with member(broker, unique_group, topic, strategy=strategy) as consumer:
        poll_until([consumer], lambda values: len(values) == 60)
    with member(broker, unique_group, strategy=strategy) as consumer:
        committed = consumer.committed(*(TopicPartition(topic, index) for index in range(PARTITIONS)))
        assert [each.offset for each in committed.values()] == [10] * PARTITIONS


def test_auto_commit_happens_between_polls(broker, topic, unique_group):
    produce(broker, topic, 60)
    with member(broker, unique_group, topic, auto_commit_interval_ms=20) as consumer:
        poll_until([consumer], lambda values: len(values) == 60)

        def is_committed(_):
            return {each and each.offset for each in consumer.committed().values()} == {10}

        poll_until([consumer], is_committed)


def test_background_commits_call_back_inside_a_poll_and_in_order(broker, topic, unique_group):
    produce(broker, topic, 6)
    told = []
    with member(broker, unique_group, topic, enable_auto_commit=False) as consumer:
        poll_until([consumer], lambda values: len(values) == 6)
        name = TopicPartition(topic, 0)
        for offset in range(5):
            consumer.commit_async(
                {name: offset}, lambda offsets, error: told.append((offsets[name].offset, error, threading.get_ident()))
            )
        poll_until([consumer], lambda _: len(told) == 5)
        assert told == [(offset, None, threading.get_ident()) for offset in range(5)]
        assert consumer.committed(name)[name].offset == 4


def test_a_listener_runs_inside_poll_and_may_seek(broker, topic, unique_group):
    produce(broker, topic, 60)
    threads = []

    class SeekToLast:
        def on_assigned(self, partitions):
            threads.append(threading.get_ident())
            for partition in partitions:
                consumer.seek(partition, 9)

    with member(broker, unique_group) as consumer:
        consumer.subscribe(topic, listener=SeekToLast())
        found = poll_until([consumer], lambda values: len(values) == PARTITIONS)
        assert sorted(found) == list(range(54, 60))
        assert threads == [threading.get_ident()]


def test_a_listener_that_fails_is_told_by_that_poll_and_the_group_goes_on(broker, topic, unique_group):
    class Broken:
        def on_assigned(self, partitions):
            raise LookupError("mine")

    with member(broker, unique_group) as consumer:
        consumer.subscribe([topic], listener=Broken())
        with pytest.raises(LookupError, match="mine"):
            poll_until([consumer], lambda _: False)
        assert len(consumer.assignment()) == PARTITIONS
        produce(broker, topic, 6)
        assert len(poll_until([consumer], lambda values: len(values) == 6)) == 6


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("when", ["on_assigned", "on_revoked", "commit"])
def test_ctrl_c_in_the_middle_of_a_rebalance_does_not_hold_up_the_group(
    broker, topic, unique_group, strategy, when, monkeypatch
):
    def interrupted(*given):
        if inspect.iscoroutine(given[0]):
            given[0].close()
        raise KeyboardInterrupt

    class Interrupted:
        on_assigned = interrupted if when == "on_assigned" else lambda self, partitions: None
        on_revoked = interrupted if when == "on_revoked" else lambda self, partitions: None

    with member(broker, unique_group, strategy=strategy) as one:
        one.subscribe([topic], listener=Interrupted())
        if when == "on_assigned":
            with pytest.raises(KeyboardInterrupt):
                poll_until([one], lambda _: False)
        poll_until([one], lambda _: len(one.assignment()) == PARTITIONS)
        if when == "commit":
            monkeypatch.setattr(one, "_run", interrupted)
        with member(broker, unique_group, topic, strategy=strategy) as two:
            if when != "on_assigned":
                with pytest.raises(KeyboardInterrupt):
                    poll_until([one, two], lambda _: False)
            monkeypatch.undo()
            one.subscribe([topic])  # nobody interrupts any more
            poll_until([one, two], lambda _: len(one.assignment()) == len(two.assignment()) == PARTITIONS // 2)


@pytest.mark.parametrize(
    ("strategy", "events"),
    [("range", ["assigned 6", "revoked 6", "assigned 3", "revoked 3"]),
     ("cooperative-sticky", ["assigned 6", "revoked 3", "assigned 0", "revoked 3"])],
)  # fmt: skip
def test_cooperative_members_give_up_only_what_goes(broker, topic, unique_group, strategy, events):
    seen = Seen()
    with member(broker, unique_group, strategy=strategy) as one:
        one.subscribe(topic, listener=seen)
        poll_until([one], lambda _: len(one.assignment()) == PARTITIONS)
        with member(broker, unique_group, topic, strategy=strategy) as two:
            poll_until([one, two], lambda _: len(one.assignment()) == len(two.assignment()) == 3)
            one.unsubscribe()
            assert one.assignment() == frozenset()
    told = [f"{kind} {count}" for kind, count in seen.events]
    assert [each for each in told if each != "assigned 0"] == [each for each in events if each != "assigned 0"]


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_a_static_member_comes_back_to_its_partitions(broker, topic, unique_group, strategy):
    names = {"strategy": strategy, "group_instance_id": "a"}
    other = member(broker, unique_group, topic, strategy=strategy, group_instance_id="b")
    first = member(broker, unique_group, topic, **names)
    poll_until([other, first], lambda _: len(other.assignment()) == len(first.assignment()) == 3)
    mine, theirs = first.assignment(), other.assignment()
    first.close()
    again = member(broker, unique_group, topic, **names)
    poll_until([other, again], lambda _: len(again.assignment()) == 3)
    assert again.assignment() == mine
    assert other.assignment() == theirs
    again.close()
    other.close()


def test_a_member_that_works_too_long_is_told_why_it_lost_its_partitions(broker, topic, unique_group, caplog):
    seen = Seen()
    with member(broker, unique_group, max_poll_interval_ms=1_500, enable_auto_commit=False) as slow:
        slow.subscribe(topic, listener=seen)
        poll_until([slow], lambda _: len(slow.assignment()) == PARTITIONS)
        with member(broker, unique_group, topic) as other:
            poll_until([slow, other], lambda _: len(other.assignment()) == 3)
            poll_until([other], lambda _: len(other.assignment()) == PARTITIONS)
            with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
                slow.commit({TopicPartition(topic, 0): 0})
        poll_until([slow], lambda _: len(slow.assignment()) == PARTITIONS)
    assert ("lost", 3) in seen.events
    assert "max.poll.interval.ms" in caplog.text


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_a_long_handler_keeps_its_membership(broker, topic, unique_group, strategy):
    settings = {} if strategy == "consumer" else {"session_timeout_ms": 3_000}
    with member(broker, unique_group, topic, strategy=strategy, **settings) as consumer:
        poll_until([consumer], lambda _: len(consumer.assignment()) == PARTITIONS)
        before = consumer.group_metadata()
        time.sleep(4)  # the application works; only real time shows that heartbeats go on without polls
        consumer.commit({TopicPartition(topic, 0): 0})
        assert consumer.group_metadata() == before


def test_a_poll_that_waits_keeps_pace_and_commits(broker, topic, unique_group):
    produce(broker, topic, 6)
    settings = {"max_poll_interval_ms": 2_000, "auto_commit_interval_ms": 300}
    with member(broker, unique_group, topic, **settings) as consumer:
        poll_until([consumer], lambda values: len(values) == 6)
        before = consumer.group_metadata()
        assert consumer.poll(4) == []
        assert consumer.group_metadata() == before
        assert {each.offset for each in consumer.committed().values()} == {1}


def test_a_member_that_never_polled_and_one_without_a_broker_close_in_time(broker, topic, unique_group):
    with bounded():
        member(broker, unique_group, topic).close()
    with KafkaBroker() as passing:
        consumer = member(passing, unique_group, "t")
        consumer.poll(0.1)
    with bounded():
        consumer.close(timeout=1)


def test_a_listener_with_coroutines_is_for_the_other_face(broker, topic, unique_group):
    class Listener:
        async def on_assigned(self, partitions): ...

    with member(broker, unique_group) as consumer, pytest.raises(TypeError, match=r"ottla\.aio"):
        consumer.subscribe(topic, listener=Listener())


def test_a_group_can_be_used_without_membership(broker, topic, unique_group):
    produce(broker, topic, 6)
    name = TopicPartition(topic, 0)
    with member(broker, unique_group) as consumer:
        consumer.assign([name])
        poll_until([consumer], lambda values: len(values) == 1)
    with member(broker, unique_group) as consumer:
        assert consumer.committed(name)[name].offset == 1
        consumer.assign([name])
        assert consumer.position(name) == 1


def test_the_subscription_can_change(broker, topic, unique_group):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    other = f"{topic}-other"
    admin.create_topics([NewTopic(other, 1, 1)])[other].result(HANG_S)
    with member(broker, unique_group, topic) as consumer:
        poll_until([consumer], lambda _: len(consumer.assignment()) == PARTITIONS)
        consumer.subscribe([other])
        poll_until([consumer], lambda _: consumer.assignment() == {TopicPartition(other, 0)})
        consumer.unsubscribe()
        consumer.subscribe([topic])
        poll_until([consumer], lambda _: len(consumer.assignment()) == PARTITIONS)


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_a_member_that_leaves_while_a_fetch_waits_ends_its_session(broker, topic, strategy):
    before = len(sessions_of(broker))
    produce(broker, topic, PARTITIONS)
    with member(broker, f"sessions-{strategy}", topic, strategy=strategy) as consumer:
        poll_until([consumer], lambda found: len(found) == PARTITIONS)
        assert len(sessions_of(broker)) == before + 1
    assert len(sessions_of(broker)) == before


def sessions_of(broker):
    return broker._server.broker.fetch_sessions
