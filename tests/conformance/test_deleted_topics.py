"""A topic is deleted right after it was assigned to members of the new protocol (KIP-848), with librdkafka.

Each run is a group of its own: its member reads topic `a`, topic `b` comes and is deleted as soon as the coordinator
has assigned it, often before the client has learned its name, and then topic `c` comes. All time-outs are far away: a
member that waited for one of them would not have `c` before the test gives up.

Once in 29 runs such a member kept its partitions for a whole time-out and got no new ones; the long test does 100.
The model of it is tests/unit/broker/coordinators/groups/consumer/test_consumer_groups_deletion.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import confluent_kafka
import pytest
from tests.conformance.our_broker import BrokerProcess
from tests.patience import FAR_MS, HANG_S

from ottla import Admin, NewTopic

RUNS, AT_A_TIME = 100, 25
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": str(FAR_MS),
    "group.consumer.session.timeout.ms": str(FAR_MS),
}


class Run:
    """One group with one member, and its topics."""

    def __init__(self, servers: str, number: int, *, by_pattern: bool) -> None:
        self.group = f"readers-{number}"
        self.a, self.b, self.c = (f"run-{number}.{name}" for name in "abc")
        self.is_deleted = False
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self.group,
                "group.protocol": "consumer",
                "max.poll.interval.ms": FAR_MS,  # which is the rebalance time-out, too
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self.consumer.subscribe([rf"^run-{number}\..*"] if by_pattern else [self.a, self.b, self.c])

    def has(self, *topics: str) -> bool:
        return {each.topic for each in self.consumer.assignment()} == set(topics)

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, SETTINGS) as process:
        yield process
        assert process.faults() == []


def until(runs: list[Run], condition: Callable[[Run], bool], what: str) -> None:
    """Everybody polls until the condition holds for all runs."""
    give_up_s = time.monotonic() + HANG_S
    while left := [run.group for run in runs if not condition(run)]:
        assert time.monotonic() < give_up_s, f"{what} did not happen for {left}"
        for run in runs:
            run.consumer.poll(0)
        time.sleep(0.02)


def delete_what_is_assigned(admin: Admin, runs: list[Run]) -> None:
    """Delete `b` of every group as soon as its coordinator says that it is assigned, whatever the client knows."""
    for run in runs:
        run.consumer.poll(0)
    waiting = {run.group: run for run in runs if not run.is_deleted}
    for group, described in admin.describe_consumer_groups(list(waiting), timeout=HANG_S).items():
        run = waiting[group]
        if any(each.topic == run.b for member in described.members for each in member.assignment):
            admin.delete_topics([run.b], timeout=HANG_S)
            run.is_deleted = True


def run_all(broker: BrokerProcess, numbers: range, *, by_pattern: bool) -> None:
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(bootstrap_servers=broker.bootstrap_servers))
        runs = [Run(broker.bootstrap_servers, number, by_pattern=by_pattern) for number in numbers]
        for run in runs:
            stack.enter_context(closing(run))
        admin.create_topics([NewTopic(run.a, 2) for run in runs], timeout=HANG_S)
        until(runs, lambda run: run.has(run.a), "reading the first topic")
        admin.create_topics([NewTopic(run.b, 2) for run in runs], timeout=HANG_S)
        give_up_s = time.monotonic() + HANG_S
        while not all(run.is_deleted for run in runs):
            assert time.monotonic() < give_up_s, [run.group for run in runs if not run.is_deleted]
            delete_what_is_assigned(admin, runs)
        admin.create_topics([NewTopic(run.c, 2) for run in runs], timeout=HANG_S)
        until(runs, lambda run: run.has(run.a, run.c), "reading what came after the deleted topic")


def test_a_member_gets_what_comes_after_a_topic_deleted_at_once(broker: BrokerProcess) -> None:
    run_all(broker, range(3), by_pattern=False)


@pytest.mark.long
@pytest.mark.parametrize("by_pattern", [True, False], ids=["pattern", "names"])
def test_a_hundred_members_get_what_comes_after_a_topic_deleted_at_once(
    broker: BrokerProcess, by_pattern: bool
) -> None:
    for first in range(0, RUNS, AT_A_TIME):
        run_all(broker, range(first, first + AT_A_TIME), by_pattern=by_pattern)
