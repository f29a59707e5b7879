"""A group moves from the classic to the consumer protocol and back while it reads (KIP-848, online upgrade).

Members of both protocols are in the group at the same time; each change is one member that comes or goes. Nothing that
is written meanwhile is missed.
"""

from __future__ import annotations

import itertools
import time

import pytest
from tests.patience import HANG_S

from ottla import Admin, Producer
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.testing.broker import KafkaBroker
from ottla.values import TopicPartition

PARTITIONS = 4
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
    "group.min.session.timeout.ms": 200,
}


class Moving:
    """A group whose members come and go while records are written."""

    def __init__(self, broker, admin, producer, topic, group):
        self.broker, self.admin, self.producer, self.topic, self.group = broker, admin, producer, topic, group
        self.members = []
        self.read = []
        self._numbers = itertools.count()
        self.written = 0

    def add(self, protocol):
        more = {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
        made = Consumer(
            self.topic,
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id=self.group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            **more,
        )
        self.members.append(made)
        return made

    def remove(self, member):
        self.members.remove(member)
        member.close()

    def until(self, condition, what):
        """Everybody polls, and something is written between the polls, until the condition holds."""
        deadline = time.monotonic() + HANG_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {[sorted(each.assignment()) for each in self.members]}"
            self._write()
            for each in self.members:
                self.read += [int(record.value) for record in each.poll(0.01)]

    def _write(self):
        number = next(self._numbers)
        self.producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self.written = number + 1

    def share_out(self):
        share = PARTITIONS // len(self.members)

        def is_shared() -> bool:
            return all(len(each.assignment()) == share for each in self.members)

        self.until(is_shared, "all have their share")
        everything = set().union(*(each.assignment() for each in self.members))
        assert everything == {TopicPartition(self.topic, index) for index in range(PARTITIONS)}

    @property
    def kind(self):
        return next(each.type for each in self.admin.list_groups() if each.group_id == self.group)

    def close(self):
        for each in self.members:
            each.close()


@pytest.fixture
def moving(unique_topic, unique_group):
    with (
        KafkaBroker(QUICK) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        admin.create_topics([NewTopic(unique_topic, PARTITIONS)])
        made = Moving(broker, admin, producer, unique_topic, unique_group)
        yield made
        made.close()


def test_a_group_moves_to_the_new_protocol_and_back_while_it_reads(moving):
    old = [moving.add("classic"), moving.add("classic")]
    moving.share_out()
    assert moving.kind == "classic"
    new = [moving.add("consumer")]
    moving.until(lambda: new[0].assignment(), "the first of the new protocol reads")
    assert moving.kind == "consumer"
    moving.remove(old.pop())
    moving.share_out()
    new.append(moving.add("consumer"))
    moving.until(lambda: new[1].assignment(), "the second of the new protocol reads")
    moving.remove(old.pop())
    moving.share_out()
    assert moving.kind == "consumer"
    old.append(moving.add("classic"))
    moving.until(lambda: old[0].assignment(), "a classic member is back")
    moving.remove(new.pop())
    moving.share_out()
    moving.remove(new.pop())
    moving.share_out()
    assert moving.kind == "classic"
    moving.producer.flush()
    last = moving.written
    moving.until(lambda: set(moving.read) >= set(range(last)), "all is read")
