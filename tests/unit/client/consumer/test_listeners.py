"""Rebalance listeners and interceptors: both spellings, and faults that go no further than they should."""

import logging

import pytest

from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.listeners import Listener
from ottla.client.consumer.membership.decisions import Assigned, Lost, Revoke
from ottla.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Ours:
    def on_assigned(self, partitions): ...
    def on_revoked(self, partitions): ...
    def on_lost(self, partitions): ...


class KafkaPythons:
    def on_partitions_assigned(self, assigned): ...
    def on_partitions_revoked(self, revoked): ...


def told(listener, change):
    found = Listener(listener).calls(change)
    return None if found is None else (found[0], found[1].__name__, found[2])


def test_a_listener_is_told_what_is_new_in_order():
    change = Assigned(frozenset({A, B}), frozenset({B}))
    assert told(Ours(), change) == ("assigned", "on_assigned", [B])
    assert told(Ours(), Revoke(frozenset({B, A}))) == ("revoked", "on_revoked", [A, B])
    assert told(Ours(), Lost(frozenset({A}))) == ("lost", "on_lost", [A])


def test_kafka_pythons_names_work_and_lost_partitions_are_revoked_ones():
    assert told(KafkaPythons(), Assigned(frozenset({A}), frozenset({A}))) == (
        "assigned",
        "on_partitions_assigned",
        [A],
    )
    assert told(KafkaPythons(), Lost(frozenset({A}))) == ("lost", "on_partitions_revoked", [A])


def test_a_rebalance_that_changed_nothing_is_told_as_an_empty_assignment():
    assert told(Ours(), Assigned(frozenset({A}), frozenset())) == ("assigned", "on_assigned", [])
    assert told(Ours(), Revoke(frozenset())) is None


def test_no_listener_is_told_nothing_and_a_wrong_one_is_refused():
    assert told(None, Revoke(frozenset({A}))) is None
    with pytest.raises(TypeError, match="on_assigned"):
        Listener(object())


def test_interceptors_see_what_the_one_before_gave():
    class AddOne:
        def on_consume(self, records):
            return [*records, 1]

    class Broken:
        def on_consume(self, records):
            raise ValueError("no")

        def on_commit(self, offsets):
            raise ValueError("no")

    seen = []

    class Committed:
        def on_commit(self, offsets):
            seen.append(offsets)

        def close(self):
            seen.append("closed")

    logging.getLogger("ottla.client.consumer.interceptors").disabled = True
    try:
        interceptors = Interceptors([AddOne, Broken(), AddOne(), Committed()])
        assert interceptors.on_consume([0]) == [0, 1, 1]
        interceptors.on_commit({A: 1})
        interceptors.close()
    finally:
        logging.getLogger("ottla.client.consumer.interceptors").disabled = False
    assert seen == [{A: 1}, "closed"]
    assert not Interceptors([])
