"""What `ottla` and Kafka's commands do alike, with an admin client that answers what the test says."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from ottla.cli.operations.configs import alter, resetting, resource, setting
from ottla.cli.operations.load import portion_size, send_portion
from ottla.cli.operations.offsets import begins_of, brought_inside, ends_of, led_partitions
from ottla.cli.operations.outcomes import outcomes, permitted
from ottla.cli.operations.transactions import began_at, hanging
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.plans import PartlyFailed
from ottla.errors import TopicAuthorizationFailed, TransactionalIdNotFound, UnknownTopicOrPartition
from ottla.testing.clock import ManualClock
from ottla.values import TopicPartition

ONE, TWO = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


class Cluster:
    """Transactional ids by producer, and the partitions of their transactions; two partitions with records."""

    def __init__(self, partitions=(), names=None):
        self.names = names or {}
        self.partitions = dict(partitions)
        self.asked = []

    def list_transactions(self, *, producer_ids):
        self.asked.append(producer_ids)
        listed = [SimpleNamespace(producer_id=each, transactional_id=name) for each, name in self.names.items()]
        return [each for each in listed if each.producer_id in producer_ids]

    def describe_transactions(self, names):
        (name,) = names
        if name not in self.partitions:
            raise TransactionalIdNotFound(name)
        return {name: SimpleNamespace(partitions=self.partitions[name])}

    def describe_producers(self, partitions):
        return {partition: [opened(7, 40), opened(8, 50)] for partition in partitions}

    def list_offsets(self, wanted):
        self.asked.append(wanted)
        return {
            each: SimpleNamespace(offset=5 if place is OffsetSpec.EARLIEST else 90) for each, place in wanted.items()
        }


def opened(producer, offset=0):
    return SimpleNamespace(producer_id=producer, transaction_start_offset=offset)


# --- transactions ---


def test_a_transaction_hangs_when_its_coordinator_does_not_know_its_partition():
    cluster = Cluster({"known": {ONE}, "elsewhere": {TWO}}, {1: "known", 2: "elsewhere", 3: "forgotten"})
    candidates = [(ONE, opened(number)) for number in (1, 2, 3, 4)]
    assert [each.producer_id for _, each in hanging(cluster, candidates)] == [2, 3, 4]


def test_nobody_is_asked_when_nothing_is_open():
    cluster = Cluster()
    assert hanging(cluster, []) == []
    assert cluster.asked == []


def test_what_is_tried_is_said_before_it_is_tried():
    tried = []

    @contextmanager
    def during(what):
        tried.append(what)
        yield

    hanging(Cluster(names={1: "a"}), [(ONE, opened(1)), (TWO, opened(1)), (ONE, opened(2))], during)
    assert tried == ["list transactions for 2 producers", "describe 1 transactions"]


def test_a_transaction_is_known_by_the_offset_where_it_began():
    assert began_at(Cluster(), ONE, 50).producer_id == 8
    assert began_at(Cluster(), ONE, 51) is None


# --- outcomes ---


def refuse(error):
    raise error


def test_of_many_things_some_succeed_and_some_fail():
    wrong = UnknownTopicOrPartition("gone")
    partly = PartlyFailed({ONE: 5}, {TWO: wrong})
    assert outcomes([ONE, TWO], lambda: refuse(partly)) == ({ONE: 5}, {TWO: wrong})
    assert outcomes([ONE, TWO], lambda: refuse(wrong)) == ({}, {ONE: wrong, TWO: wrong})
    assert outcomes([ONE], lambda: {ONE: 1}) == ({ONE: 1}, {})
    assert outcomes([ONE], lambda: None) == ({}, {})


def test_what_may_not_be_seen_is_left_out_and_other_errors_are_raised():
    secret, gone = TopicAuthorizationFailed("clicks"), UnknownTopicOrPartition("gone")
    assert permitted(lambda: {1: 2}, TopicAuthorizationFailed) == {1: 2}
    assert permitted(lambda: refuse(secret), TopicAuthorizationFailed) == {}
    assert permitted(lambda: refuse(PartlyFailed({1: 2}, {3: secret})), TopicAuthorizationFailed) == {1: 2}
    with pytest.raises(PartlyFailed):
        permitted(lambda: refuse(PartlyFailed({1: 2}, {3: secret, 4: gone})), TopicAuthorizationFailed)
    with pytest.raises(UnknownTopicOrPartition):
        permitted(lambda: refuse(gone), TopicAuthorizationFailed)


# --- offsets ---


def test_borders_are_numbers_and_nothing_is_asked_of_nobody():
    cluster = Cluster()
    assert (begins_of(cluster, [ONE]), ends_of(cluster, [ONE, TWO])) == ({ONE: 5}, {ONE: 90, TWO: 90})
    assert ends_of(cluster, []) == {}
    assert len(cluster.asked) == 2


def test_an_offset_outside_the_log_becomes_its_border():
    begins, ends = {ONE: 5, TWO: 5}, {ONE: 90, TWO: 90}
    assert brought_inside({ONE: 4, TWO: 91}, begins, ends) == {ONE: 5, TWO: 90}
    assert brought_inside({ONE: 6}, begins, ends) == {ONE: 6}


def test_partitions_without_a_leader_are_not_asked():
    partitions = [SimpleNamespace(partition=0, leader=3), SimpleNamespace(partition=1, leader=None)]
    assert led_partitions([SimpleNamespace(name="clicks", partitions=partitions)]) == {ONE: 3}


# --- settings ---


def test_settings_are_set_and_put_back_and_nothing_is_sent_for_nothing():
    sent = []
    admin = SimpleNamespace(incremental_alter_configs=sent.append)
    alter(admin, {})
    alter(admin, {resource("client-metrics", "mine"): [*setting({"match": "a=b"}), *resetting(["metrics"])]})
    ((changes,),) = (each.values() for each in sent)
    assert [(each.name, each.value, each.operation.name) for each in changes] == [
        ("match", "a=b", "SET"),
        ("metrics", None, "DELETE"),
    ]
    assert [str(each) for each in sent[0]] == ["client metrics 'mine'"]


# --- load ---


def test_portions_are_small_when_there_is_a_rate_to_keep():
    assert [portion_size(rate, 500) for rate in (-1, 0, 1, 1_000, 1_000_000)] == [500, 500, 1, 10, 500]


def test_the_latency_of_a_portion_is_that_of_its_last_record():
    clock, sent, heard = ManualClock(), [], []
    future = SimpleNamespace(add_done_callback=heard.append)
    producer = SimpleNamespace(
        send_many=lambda topic, values: sent.append(values), send=lambda topic, value: sent.append(value) or future
    )
    ended = []
    send_portion(producer, "clicks", [b"1", b"2", b"3"], lambda *outcome: ended.append(outcome), clock)
    send_portion(producer, "clicks", [b"4"], lambda *outcome: ended.append(outcome), clock)
    assert sent == [[b"1", b"2"], b"3", b"4"]
    for call in heard:
        call(future)
    assert [(count, sent_ms) for count, sent_ms, _ in ended] == [(3, clock.monotonic_ms()), (1, clock.monotonic_ms())]
