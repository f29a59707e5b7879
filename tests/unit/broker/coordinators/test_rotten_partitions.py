"""A partition of an internal topic that cannot be read in full is no reason to serve nothing else."""

from __future__ import annotations

import logging

import pytest
from tests.unit.broker.handlers.test_groups import commit, committed, find

from ottla.broker.coordinators.runtime import Runtime
from ottla.errors import CoordinatorNotAvailable
from ottla.light_dataclasses import replace
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def names_by_partition(coordinator):
    """A name for each of the partitions 0 and 1."""
    found = {}
    for number in range(50):
        found.setdefault(coordinator.partition_of(f"name-{number}"), f"name-{number}")
    return found[0], found[1]


def rot(broker, topic, offset):
    """Let a bit of the batch at this offset of partition 0 rot; returns its file."""
    segment = broker.partition(topic).log.segments.first
    found = segment.translate(offset)
    broker.files.flip_bit(segment.path, 8 * (found.position + found.size_bytes - 2))
    return segment.path


def errors_about(caplog, name):
    return [each.message for each in caplog.records if each.levelno == logging.ERROR and name in each.message]


def test_a_rotten_commit_costs_itself_and_is_said_aloud(broker, caplog):
    broker.create_topic("orders")
    find(broker, "g")
    sick, healthy = names_by_partition(broker.broker.groups)
    for offset in (1, 2, 3):
        assert commit(broker, offset, sick) == 0
        assert commit(broker, 10 + offset, healthy) == 0
    path = rot(broker, OFFSETS, 2)
    broker.restart()
    assert committed(broker, healthy) == 13
    assert committed(broker, sick) == 2, "an older one, never another one"
    (error,) = errors_about(caplog, f"{OFFSETS}-0")
    assert str(path) in error
    assert "at offset 2" in error
    assert "older committed offset" in error
    assert list(broker.broker.corruption.found) == [(OFFSETS, 0)]
    assert commit(broker, 4, sick) == 0, "and it goes on"
    broker.restart()
    assert committed(broker, sick) == 4


def test_a_rotten_decision_leaves_the_transactions_of_its_partition_alone(broker, caplog):
    find(broker, "t", key_type=1)
    sick, healthy = names_by_partition(broker.broker.transactions)

    def begin(name):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
        return broker.ask(request, 4).error_code

    assert [begin(sick), begin(sick), begin(healthy)] == [0, 0, 0]
    path = rot(broker, TRANSACTIONS, 0)
    broker.restart()
    assert begin(healthy) == 0
    assert begin(sick) == CoordinatorNotAvailable.code
    (error,) = errors_about(caplog, f"{TRANSACTIONS}-0")
    assert str(path) in error
    assert "COORDINATOR_NOT_AVAILABLE" in error


def test_a_partition_that_fails_to_be_applied_keeps_no_other_from_it(broker, caplog, monkeypatch):
    find(broker, "g")
    load = Runtime.load

    def failing(runtime, index, partition):
        if index == 0:
            raise OSError("this one alone")
        load(runtime, index, partition)

    monkeypatch.setattr(Runtime, "load", failing)
    broker.restart()
    assert {index for index, _ in broker.broker.groups.runtime.shards()} == {1, 2}
    assert errors_about(caplog, f"{OFFSETS}-0")


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
def test_a_leader_that_cannot_be_repaired_lets_a_replica_in_sync_take_over(broker, topic, monkeypatch, caplog):
    find(broker, "g", key_type=int(topic == TRANSACTIONS))
    partition, offline = broker.partition(topic), []
    partition._state = replace(partition.state, isr=(*partition.state.isr, 99))
    monkeypatch.setattr(broker.broker.link, "directory_failed", lambda: offline.append(partition.offline))
    corruption = broker.broker.corruption
    broker.do(lambda: corruption.report(partition, partition.log.active.path, 7, "its CRC is wrong"))
    assert "fetched again" in errors_about(caplog, f"{topic}-0")[0]
    assert offline == []
    broker.do(lambda: corruption._give_up(partition, None))
    assert "could not be repaired" in str(offline[0])
