"""Whatever happens, in whatever order: brokers crash, are cut off and come back, orders and events are late, the
controller dies in the middle of anything. After every step the books are in order; when all is quiet, everybody knows
what is true; and a record that was acknowledged is at every leader that comes later.

Records are counted: a log is the number of records it has, and the highest number ever acknowledged is remembered. A
leader acknowledges when everybody whom it believes in sync has the record and knows it as leader in the same epoch,
and they are at least min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.group_level import GroupLevelSettings
from ottla.cluster.config_layers import ConfigRules
from ottla.cluster.controller.events import RebalanceDue
from ottla.cluster.controller.state import is_being_deleted
from ottla.cluster.store.events import LogDirFailed
from ottla.cluster.topics import TopicRules
from ottla.values import TopicPartition

IDS = (1, 2, 3, 4)
MIN_INSYNC = 2
TOPIC_RULES = TopicRules(configs=ConfigRules(1, BrokerSettings(), GroupLevelSettings))  # type: ignore[arg-type]
TOPICS = ("a", "b")

brokers = st.sampled_from(IDS)
replica_lists = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
names = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 1))


def survives(step: Callable[..., None]) -> Callable[..., None]:
    """The controller may die in the middle of a step; the others go on."""

    @wraps(step)
    def stepped(self: ClusterMachine, *arguments: Any, **named: Any) -> None:
        with suppress(self.died):
            step(self, *arguments, **named)

    return stepped


class ClusterMachine(RuleBasedStateMachine):
    new_stage: ClassVar[Any]
    died: ClassVar[type[Exception]]

    def __init__(self) -> None:
        super().__init__()
        self.stage = self.new_stage(min_insync=MIN_INSYNC)
        self.stage.start(*IDS)
        self.stage.create("a", (1, 2, 3), (2, 3, 4))
        self.stage.create("b", (3, 4))
        self.stage.quiet()
        self.epochs: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.acknowledged: dict[tuple[bytes, int], int] = {}
        self.controller_epoch = 0

    # --- brokers ---

    @rule(broker_id=brokers)
    @survives
    def start(self, broker_id: int) -> None:
        if broker_id not in self.stage.brokers:
            self.stage.start(broker_id)

    @rule(broker_id=brokers)
    @survives
    def crash(self, broker_id: int) -> None:
        if broker_id in self.stage.brokers:
            self.stage.crash(broker_id)

    @precondition(lambda self: self.stage.state is not None)
    @rule(broker_id=brokers)
    @survives
    def lose_memory(self, broker_id: int) -> None:
        """A broker loses power, and what it had not written to disk. It is the only one: every partition with more than
        one replica has another in sync."""
        stage = self.stage
        stage.quiet()
        is_safe = all(
            len(each.replicas) == 1 or (each.leader != -1 and len(each.isr) >= MIN_INSYNC)
            for _, each in stage.image.partitions()
        )
        if broker_id not in stage.brokers or not is_safe or stage.zombies:
            return
        stage.dies_after = None
        stage.crash(broker_id, loses_memory=True)
        for name, topic_id in stage.disks[broker_id].logs.items():
            stage.disks[broker_id].records[name] = max(0, stage.disks[broker_id].records[name] - 1)
            partition = stage.model.truth.partition(*name)
            if partition is not None and len(partition.replicas) == 1:
                self.acknowledged.pop((topic_id, name.partition), None)
        if stage.state is None:
            stage.elect()
        stage.take_events()

    @rule(broker_id=brokers)
    @survives
    def cut_off(self, broker_id: int) -> None:
        if broker_id in self.stage.brokers:
            self.stage.cut_off(broker_id)

    @rule(broker_id=brokers)
    @survives
    def bounce(self, broker_id: int) -> None:
        if broker_id in self.stage.brokers:
            self.stage.crash(broker_id)
        self.stage.start(broker_id)

    @precondition(lambda self: self.stage.state is not None)
    @rule(broker_id=brokers)
    @survives
    def shut_down(self, broker_id: int) -> None:
        if broker_id in self.stage.brokers:
            self.stage.shut_down(broker_id)

    @precondition(lambda self: self.stage.brokers)
    @rule(data=st.data())
    @survives
    def fail_over(self, data: Any) -> None:
        self.stage.elect(data.draw(st.sampled_from(sorted(self.stage.brokers))))

    @rule(count=st.integers(0, 4))
    def the_controller_will_die_while_it_writes(self, count: int) -> None:
        self.stage.dies_after = count

    # --- time ---

    @rule()
    @survives
    def events_come(self) -> None:
        self.stage.take_events()

    @rule(broker_id=brokers, count=st.integers(1, 3))
    @survives
    def orders_come(self, broker_id: int, count: int) -> None:
        self.stage.deliver(broker_id, count=count)

    @rule()
    @survives
    def answers_come(self) -> None:
        self.stage.take_answers()

    @rule()
    @survives
    def all_is_quiet(self) -> None:
        self.stage.quiet()
        if self.stage.state is not None:
            self.stage.check_told()

    # --- people ---

    @precondition(lambda self: self.stage.state is not None)
    @rule(topic=st.sampled_from(TOPICS), assignment=st.lists(replica_lists, min_size=1, max_size=2))
    @survives
    def create(self, topic: str, assignment: list[tuple[int, ...]]) -> None:
        image = self.stage.image
        known = all(each in image.brokers for replicas in assignment for each in replicas)
        if image.topic(topic) is None and known and all(any(map(image.is_active, each)) for each in assignment):
            self.stage.create(topic, *assignment)

    @precondition(lambda self: self.stage.state is not None)
    @rule(topic=st.sampled_from(TOPICS))
    @survives
    def delete(self, topic: str) -> None:
        self.stage.delete(topic, TOPIC_RULES)

    @precondition(lambda self: self.stage.state is not None)
    @rule(name=names, goal=st.none() | replica_lists)
    @survives
    def reassign(self, name: TopicPartition, goal: tuple[int, ...] | None) -> None:
        self.stage.reassign(name, goal)

    @precondition(lambda self: self.stage.state is not None)
    @rule()
    @survives
    def rebalance(self) -> None:
        self.stage.do_again_if_stale(RebalanceDue())

    # --- disks ---

    @precondition(lambda self: self.stage.state is not None)
    @rule(name=names, broker_id=brokers)
    @survives
    def disk_fails(self, name: TopicPartition, broker_id: int) -> None:
        if broker_id in self.stage.brokers and name in self.stage.brokers[broker_id].replicas:
            self.stage.disks[broker_id].failed.add(name)
            self.stage.brokers[broker_id].replicas.pop(name)
            self.stage.do(LogDirFailed((broker_id,)))

    @rule(broker_id=brokers)
    @survives
    def disk_is_repaired(self, broker_id: int) -> None:
        if broker_id not in self.stage.brokers and broker_id in self.stage.disks:
            self.stage.disks[broker_id].failed.clear()

    # --- records ---

    @rule()
    @survives
    def produce(self) -> None:
        """Every leader, also one of yesterday, writes a record and acknowledges it if it can."""
        for leader, name, state in self._leaders():
            in_sync = {*state.isr, *leader.proposed.get(name, ())} - {leader.id}
            followers = [self._follower(each, name, state) for each in in_sync]
            leader.disk.records[name] += 1
            enough = min(MIN_INSYNC, len(state.replicas))
            if len(state.isr) >= enough and None not in followers:
                self._catch_up(leader, name, in_sync)
                key = (leader.disk.logs[name], name.partition)
                self.acknowledged[key] = max(self.acknowledged.get(key, 0), leader.disk.records[name])

    @precondition(lambda self: self.stage.state is not None)
    @rule(slow=st.sets(brokers, max_size=3))
    @survives
    def alter_isr(self, slow: set[int]) -> None:
        """Every leader proposes: the slow go, the others have caught up and come."""
        for leader, name, state in self._leaders():
            here = {each for each in state.replicas if self._follower(each, name, state)} - slow - {leader.id}
            self._catch_up(leader, name, here)
            self.stage.alter_isr_of(leader, name, [leader.id, *sorted(here)])

    def _leaders(self) -> list[tuple[Any, TopicPartition, Any]]:
        """Who believes to lead what."""
        return [
            (broker, name, state)
            for broker_id in IDS
            for broker in self._those(broker_id)
            for name, state in broker.replicas.items()
            if state.leader == broker_id and name not in broker.disk.failed
        ]

    def _those(self, broker_id: int) -> list[Any]:
        here = [self.stage.brokers[broker_id]] if broker_id in self.stage.brokers else []
        return here or [each for each in self.stage.zombies if each.id == broker_id]

    def _follower(self, broker_id: int, name: TopicPartition, state: Any) -> Any | None:
        for each in self._those(broker_id):
            known = each.replicas.get(name)
            if known is not None and known.leader_epoch == state.leader_epoch and name not in each.disk.failed:
                return each
        return None

    def _catch_up(self, leader: Any, name: TopicPartition, follower_ids: set[int]) -> None:
        for each in follower_ids:
            self._follower(each, name, leader.replicas[name]).disk.records[name] = leader.disk.records[name]

    # --- what must be so ---

    @invariant()
    def the_books_are_in_order(self) -> None:
        truth = self.stage.model.truth
        assert truth.controller_epoch >= self.controller_epoch
        self.controller_epoch = truth.controller_epoch
        for name, partition in truth.partitions():
            assert set(partition.isr) <= set(partition.replicas), name
            assert set(partition.adding) <= set(partition.replicas), name
            assert partition.leader == -1 or partition.leader in partition.isr, name
            assert len(set(partition.replicas)) == len(partition.replicas), name
            assert not set(partition.elr) & set(partition.isr), name
            key = (truth.topic_id(name.topic), name.partition)
            epochs = (partition.leader_epoch, partition.partition_epoch)
            assert all(now >= was for now, was in zip(epochs, self.epochs.get(key, epochs), strict=True)), name
            self.epochs[key] = epochs

    @invariant()
    def every_leader_has_what_was_acknowledged(self) -> None:
        truth = self.stage.model.truth
        for name, partition in truth.partitions():
            key = (truth.topic_id(name.topic), name.partition)
            if partition.leader != -1 and not is_being_deleted(truth, name.topic) and key in self.acknowledged:
                has = self.stage.disks[partition.leader].records.get(name, 0)
                assert has >= self.acknowledged[key], f"{name}: leader {partition.leader} has {has}"

    def teardown(self) -> None:
        """Everybody comes back: all is told, deletions end, and nothing is left without a leader."""
        stage = self.stage
        stage.dies_after = None
        for disk in stage.disks.values():
            disk.failed.clear()
        for broker_id in IDS:
            self.bounce(broker_id)
        stage.quiet()
        stage.check_told()
        for name, partition in stage.image.partitions():
            assert not is_being_deleted(stage.image, name.topic), f"{name} was not deleted"
            assert partition.leader != -1, f"{name} has no leader"
        self.the_books_are_in_order()
        self.every_leader_has_what_was_acknowledged()


@pytest.fixture
def machine(new_stage: Any, died: type[Exception]) -> type[ClusterMachine]:
    ClusterMachine.new_stage, ClusterMachine.died = staticmethod(new_stage), died
    return ClusterMachine


def _run(machine: type[ClusterMachine], examples: int, steps: int, *, derandomize: bool = False) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_nothing_is_lost_whatever_happens(machine: type[ClusterMachine]) -> None:
    _run(machine, examples=60, steps=40, derandomize=True)


@pytest.mark.long
def test_nothing_is_lost_in_a_long_life(machine: type[ClusterMachine]) -> None:
    _run(machine, examples=3_000, steps=80)
