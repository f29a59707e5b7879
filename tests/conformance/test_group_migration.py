"""Groups of other people's clients move from the classic to the consumer protocol and back while records come.

A member of one protocol comes, one of the other goes, until all have changed; then back. Everything that was written
meanwhile is read, and no two members have the same partition once the shares are out. librdkafka in every run, Java's
VerifiableConsumer and VerifiableProducer in the long one. Our own client does the same in tests/client. Static members
of either protocol are removed by an admin, and notice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.test_java_kill_nine import Program, consumed, ends_told, producer_words
from tests.conformance.whole_topics import create_topic
from tests.patience import HANG_S, wait_until

from ottla import Admin

PARTITIONS = 4
TOPIC, GROUP = "numbers", "readers"
ROUNDS = 3
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, SETTINGS) as process:
        create_topic(process.bootstrap_servers, TOPIC, PARTITIONS)
        yield process
        assert process.faults() == []


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


def kind_of(admin: Admin) -> str:
    return next(each.type for each in admin.list_groups() if each.group_id == GROUP)


class Load:
    """Numbers, one after the other, into all partitions until the end of the block."""

    def __init__(self, servers: str) -> None:
        self.written = 0
        self._is_over = threading.Event()
        self._producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._is_over.wait(0.005):
            self._producer.produce(TOPIC, b"%d" % self.written, partition=self.written % PARTITIONS)
            self.written += 1
        assert self._producer.flush(HANG_S) == 0

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


class Members:
    """Consumers of librdkafka, of both protocols, and all that they have read."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.now: list[confluent_kafka.Consumer] = []
        self.read: set[int] = set()
        self.losers: list[confluent_kafka.Consumer] = []

    def add(self, protocol: str, instance: str = "") -> confluent_kafka.Consumer:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self._servers,
            "group.id": GROUP,
            "group.protocol": protocol,
        }
        settings["auto.offset.reset"] = "earliest"
        if instance:
            settings["group.instance.id"] = instance
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 200
        made = confluent_kafka.Consumer(settings)
        made.subscribe([TOPIC], on_lost=lambda *_: self.losers.append(made))
        self.now.append(made)
        return made

    def remove(self, member: confluent_kafka.Consumer) -> None:
        self.now.remove(member)
        member.close()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_s = time.monotonic() + HANG_S
        while not condition():
            assert time.monotonic() < give_up_s, what
            for each in self.now:
                self.read.update(int(record.value()) for record in each.consume(500, 0.02) if record.error() is None)

    def share_out(self) -> None:
        share = PARTITIONS // len(self.now)
        self.until(lambda: all(len(each.assignment()) == share for each in self.now), "all have their share")
        owned = [each.partition for member in self.now for each in member.assignment()]
        assert sorted(owned) == list(range(PARTITIONS))

    def replace(self, old: confluent_kafka.Consumer, protocol: str) -> confluent_kafka.Consumer:
        """One comes and reads beside those of the other protocol; then the old one goes."""
        new = self.add(protocol)
        self.until(lambda: bool(new.assignment()), f"the new member ({protocol}) reads")
        self.remove(old)
        self.share_out()
        return new


def move(members: Members, protocol: str) -> None:
    for old in list(members.now):
        members.replace(old, protocol)


def run_moves(broker: BrokerProcess, admin: Admin, protocols: list[str], count: int) -> None:
    members = Members(broker.bootstrap_servers)
    try:
        with Load(broker.bootstrap_servers) as load:
            for _ in range(count):
                members.add("classic")
            members.share_out()
            for protocol in protocols:
                move(members, protocol)
                assert kind_of(admin) == protocol
        members.until(lambda: members.read >= set(range(load.written)), "everything is read")
    finally:
        for each in list(members.now):
            members.remove(each)


def test_librdkafkas_group_changes_its_protocol_and_back_under_load(broker: BrokerProcess, admin: Admin) -> None:
    run_moves(broker, admin, ["consumer", "classic"], count=1)


@pytest.mark.long
def test_librdkafkas_members_change_their_protocol_again_and_again(broker: BrokerProcess, admin: Admin) -> None:
    run_moves(broker, admin, ["consumer", "classic"] * ROUNDS, count=2)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_admin_removes_a_static_member_who_notices(broker: BrokerProcess, admin: Admin, protocol: str) -> None:
    members = Members(broker.bootstrap_servers)
    try:
        one, _ = members.add(protocol, "one"), members.add(protocol, "two")
        members.share_out()
        admin.remove_members_from_consumer_group(GROUP, ["one"], timeout=HANG_S)
        members.until(lambda: bool(members.losers), "the removed member loses its partitions")
        assert members.losers == [one]
        members.share_out()  # it came back, as a new member
    finally:
        for each in list(members.now):
            members.remove(each)


# -- Java -------------------------------------------------------------------------------------------------------------


def assigned_to(member: Program) -> set[int]:
    """The partitions that a VerifiableConsumer has by what it told last."""
    owned: set[int] = set()
    for event in list(member.events):
        partitions = {each["partition"] for each in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            owned |= partitions
        elif event["name"] == "partitions_revoked":
            owned -= partitions
    return owned


class JavaMembers:
    def __init__(self, java: JavaPrograms) -> None:
        self._java = java
        self.now: list[Program] = []
        self.everyone: list[Program] = []

    def add(self, protocol: str) -> Program:
        words = f"--topic {TOPIC} --group-id {GROUP} --group-protocol {protocol.upper()} --reset-policy earliest"
        arguments = ["--bootstrap-server", self._java.servers, *words.split()]
        made = Program(self._java.command("org.apache.kafka.tools.VerifiableConsumer", *arguments))
        self.now.append(made)
        self.everyone.append(made)
        return made

    def share_out(self) -> None:
        wait_until(lambda: sorted(self._owned()) == list(range(PARTITIONS)), "all partitions have a reader")

    def _owned(self) -> list[int]:
        return [each for member in self.now for each in assigned_to(member)]

    def move(self, protocol: str) -> None:
        for old in list(self.now):
            new = self.add(protocol)
            new.wait_for(lambda reader=new: bool(assigned_to(reader)), "the new member reads")
            self.now.remove(old)
            old.ask_to_end()
            self.share_out()

    def read(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {each: set() for each in range(PARTITIONS)}
        for member in self.everyone:
            for partition, ranges in consumed(member).items():
                for first, last in ranges:
                    found[partition].update(range(first, last + 1))
        return found


@pytest.mark.long
def test_javas_group_changes_its_protocol_and_back_under_load(
    broker: BrokerProcess, admin: Admin, tmp_path: Path
) -> None:
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, broker.bootstrap_servers)
    members = JavaMembers(java)
    producer = Program(
        java.command("org.apache.kafka.tools.VerifiableProducer", *producer_words(java, tmp_path, TOPIC))
    )
    try:
        members.add("classic")
        members.add("classic")
        members.share_out()
        for protocol in ("consumer", "classic"):
            members.move(protocol)
            assert kind_of(admin) == protocol
        producer.ask_to_end()
        ends = ends_told(producer)
        wait_until(lambda: all(len(found) >= ends[each] for each, found in members.read().items()), "all is read")
    finally:
        for each in (producer, *members.everyone):
            each.end()
    assert {each: max(found) + 1 for each, found in members.read().items()} == ends
    assert all(found == set(range(ends[each])) for each, found in members.read().items())
