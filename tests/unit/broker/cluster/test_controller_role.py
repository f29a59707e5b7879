"""The controller on a loop: elections, orders that arrive, replies, and the end of being controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.controller_role import ControllerRole
from ottla.broker.cluster.link import member_of
from ottla.broker.handlers.between_brokers import allocate_producer_ids, alter_partition, controlled_shutdown
from ottla.cluster.changes import AlterConfig, Change, ChangePartition, CreateTopic
from ottla.cluster.controller.state import ControllerRules
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType, Topic
from ottla.cluster.placement import new_partition
from ottla.cluster.plan import Plan
from ottla.cluster.store.events import LogDirFailed
from ottla.cluster.store.interface import StaleImage
from ottla.errors import BrokerError, BrokerNotAvailable, NotController, PolicyViolation
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.simulation.zookeeper_model import ZooKeeperModel
from ottla.simulation.zookeeper_model_store import ModelStore


class Node:
    """A broker: its member of the store, its role, and what it was ordered."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.member: ModelStore = cluster.model.join()
        self.ordered: list[Any] = []
        self.loop = asyncio.get_running_loop()
        self.controller_role = ControllerRole(
            broker_id,
            self.member,
            cluster.send,
            rules=lambda: cluster.rules,
            pool=cluster.pool,
            check_interval_s=lambda: cluster.check_interval_s,
        )

    def start(self) -> None:
        self.register()
        self.member.wake_with(self._take_events)
        self.controller_role.start()
        self.broker = SimpleNamespace(member=SimpleNamespace(role=self.controller_role))

    def register(self) -> None:
        endpoint = Endpoint("PLAINTEXT", "localhost", 9000 + self.id)
        self.member.membership.register(Broker(self.id, (endpoint,)))

    def _take_events(self) -> None:
        self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        for event in self.member.take_events():
            self.controller_role.notify(event)

    def heard(self) -> list[str]:
        return [type(each).__name__.removesuffix("Request") for each in self.ordered]


class Cluster:
    def __init__(self, pool: Executor | None = None) -> None:
        self.pool = pool
        self.model = ZooKeeperModel("5L6g3nShT-eMCtK--X86sw")
        self.nodes: dict[int, Node] = {}
        self.rules = ControllerRules(unclean_allowed=lambda image, topic: self.unclean)
        self.unclean = False
        self.unreachable: set[int] = set()
        self.check_interval_s: float | None = None

    async def send(self, broker_id: int, request: Any) -> Any:
        if broker_id in self.unreachable or broker_id not in self.nodes:
            raise BrokerNotAvailable(f"broker {broker_id} does not answer")
        self.nodes[broker_id].ordered.append(request)
        return {
            UpdateMetadataRequest: lambda: UpdateMetadataResponse(error_code=0),
            LeaderAndIsrRequest: lambda: LeaderAndIsrResponse(error_code=0, topics=[]),
            StopReplicaRequest: lambda: StopReplicaResponse(error_code=0, partition_errors=[]),
        }[type(request)]()

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.nodes[broker_id] = Node(self, broker_id)
            self.nodes[broker_id].start()

    async def crash(self, broker_id: int) -> None:
        node = self.nodes.pop(broker_id)
        node.member.wake_with(lambda: None)
        self.model.end_session(node.member, is_notified=False)
        await node.controller_role.close()

    @property
    def active(self) -> Node:
        (found,) = [each for each in self.nodes.values() if each.controller_role.is_active]
        return found

    async def rest(self) -> None:
        for _ in range(400):
            await asyncio.sleep(0.002 if self.unreachable or self.pool else 0)
            if all(each.controller_role.is_idle for each in self.nodes.values()):
                return
        raise AssertionError("the cluster does not come to rest")

    async def create(self, name: str, *replicas: int) -> Any:
        return await reply(self.active.controller_role.submit(creation(name, replicas)))


def creation(name: str, replicas: tuple[int, ...]) -> Callable[[ClusterImage], Plan[str]]:
    def plan(image: ClusterImage) -> Plan[str]:
        partition = new_partition(image, replicas)
        assert partition is not None
        return Plan((CreateTopic(Topic(name, name.encode().ljust(16), (partition,))),), [name])

    return plan


async def reply(asking: Awaitable[Any]) -> Any:
    """The reply, or the error that was raised instead."""
    try:
        return await asking
    except BrokerError as error:
        return error


def play(story: Callable[[Cluster], Awaitable[None]], *broker_ids: int, pool: Executor | None = None) -> None:
    async def begin() -> None:
        cluster = Cluster(pool)
        cluster.start(*broker_ids)
        await cluster.rest()
        try:
            await story(cluster)
        finally:
            for node in cluster.nodes.values():
                node.member.wake_with(lambda: None)
                await node.controller_role.close()

    asyncio.run(begin())


def test_one_of_them_becomes_controller_and_all_know() -> None:
    async def story(cluster: Cluster) -> None:
        assert cluster.active.id == 1
        for node in cluster.nodes.values():
            assert node.controller_role.controller == (1, 1)
            assert node.ordered[-1].controller_id == 1
            assert [each.id for each in node.ordered[-1].live_brokers] == [1, 2, 3]

    play(story, 1, 2, 3)


def test_a_change_is_true_and_ordered_when_it_is_answered() -> None:
    async def story(cluster: Cluster) -> None:
        plan = await cluster.create("orders", 2, 3)
        assert plan.answers == ["orders"]
        assert cluster.model.truth.topic("orders") is not None
        await cluster.rest()
        assert "LeaderAndIsr" in cluster.nodes[2].heard()
        assert "LeaderAndIsr" not in cluster.nodes[1].heard()

    play(story, 1, 2, 3)


def test_who_is_not_controller_says_so() -> None:
    async def story(cluster: Cluster) -> None:
        assert isinstance(await reply(cluster.nodes[2].controller_role.submit(creation("x", (1,)))), NotController)

    play(story, 1, 2)


def test_a_plan_that_is_refused_is_answered_and_nothing_else_happens() -> None:
    async def story(cluster: Cluster) -> None:
        def plan(image: ClusterImage) -> Plan[str]:
            raise PolicyViolation("not here")

        assert isinstance(await reply(cluster.active.controller_role.submit(plan)), PolicyViolation)
        assert cluster.active.id == 1

    play(story, 1)


def test_another_takes_over_and_tells_everybody_before_it_orders() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("orders", 1, 2, 3)
        await cluster.rest()
        for node in cluster.nodes.values():
            node.ordered.clear()
        await cluster.crash(1)
        await cluster.rest()
        assert cluster.active.id == 2
        assert cluster.nodes[3].heard()[:2] == ["UpdateMetadata", "LeaderAndIsr"]
        partition = cluster.model.truth.partition("orders", 0)
        assert partition is not None
        assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)

    play(story, 1, 2, 3)


def test_a_store_that_waits_for_a_network_is_called_on_a_thread() -> None:
    async def story(cluster: Cluster) -> None:
        assert cluster.active.id == 1
        await cluster.create("orders", 1, 2)
        await cluster.rest()
        await cluster.crash(1)
        for _ in range(100):
            await cluster.rest()
            if cluster.model.truth.controller_id == 2 and cluster.nodes[2].heard()[-1] == "UpdateMetadata":
                break
        partition = cluster.model.truth.partition("orders", 0)
        assert partition is not None
        assert partition.leader == 2

    with ThreadPoolExecutor(1) as pool:
        play(story, 1, 2, pool=pool)


def test_a_lost_session_ends_the_role_and_a_new_one_begins_it_again() -> None:
    async def story(cluster: Cluster) -> None:
        node = cluster.nodes[1]
        cluster.model.end_session(node.member)
        await cluster.rest()
        assert cluster.active.id == 2
        assert not node.controller_role.is_active
        assert isinstance(await reply(node.controller_role.submit(creation("x", (2,)))), NotController)
        cluster.model.begin_session(node.member)
        node.register()
        await cluster.rest()
        assert node.controller_role.controller == (2, 2)
        await cluster.crash(2)
        await cluster.rest()
        assert cluster.active.id == 1

    play(story, 1, 2)


def test_a_controller_of_yesterday_finds_out_when_it_writes() -> None:
    async def story(cluster: Cluster) -> None:
        old = cluster.nodes[1]
        old.member.wake_with(lambda: None)  # it hears nothing any more
        cluster.model.depose()
        await asyncio.sleep(0)
        cluster.nodes[2].member.stand(2)
        assert old.controller_role.is_active
        assert isinstance(await reply(old.controller_role.submit(creation("x", (1,)))), NotController)
        assert cluster.model.truth.topic("x") is None
        assert not old.controller_role.is_active

    play(story, 1, 2)


def test_a_broker_that_does_not_answer_does_not_hold_up_the_others() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.unreachable.add(2)
        cluster.nodes[2].ordered.clear()
        await cluster.create("orders", 3, 2)
        for _ in range(50):
            await asyncio.sleep(0)
        assert "LeaderAndIsr" in cluster.nodes[3].heard()
        assert cluster.nodes[2].ordered == []
        cluster.unreachable.clear()
        cluster.active.controller_role.notify(LogDirFailed(()))
        for _ in range(200):
            await asyncio.sleep(0.002)
            if len(cluster.nodes[2].ordered) == 2:
                break
        assert cluster.nodes[2].heard() == ["LeaderAndIsr", "UpdateMetadata"]

    play(story, 1, 2, 3)


def test_a_commit_that_met_a_surprise_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        member = cluster.active.member
        commit, refusals = member.commit, [StaleImage("somebody else was faster"), StaleImage("and again")]

        def commit_later(changes: list[Change], **how: Any) -> ClusterImage:
            if refusals:
                raise refusals.pop()
            return commit(changes, **how)

        monkeypatch.setattr(member, "commit", commit_later)
        assert (await cluster.create("orders", 1)).answers == ["orders"]
        assert cluster.model.truth.topic("orders") is not None

    play(story, 1)


def test_what_the_store_has_told_meanwhile_is_decided_before_a_stale_decision_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The correction stood behind the decision that needed it: it was tried again every 25 ms until we resigned."""

    async def story(cluster: Cluster) -> None:
        member = cluster.active.member
        commit, refused = member.commit, list[str]()
        theirs = CreateTopic(Topic("theirs", b"theirs".ljust(16), (Partition((1, 2), (1, 2), 1, 0),)))

        def commit_unless_stale(changes: Any, **named: Any) -> ClusterImage:
            is_ours = any(isinstance(each, CreateTopic) and each.topic.name == "clicks" for each in changes)
            if is_ours and member.load().topic("theirs") is None:
                if not refused:
                    cluster.model.change([theirs])
                refused.append("stale")
                raise StaleImage("somebody made another topic")
            return commit(changes, **named)

        monkeypatch.setattr(member, "commit", commit_unless_stale)
        await cluster.create("clicks", 1, 2)
        assert len(refused) == 1
        assert member.load().topic("clicks") is not None

    play(story, 1, 2)


def test_a_fault_of_our_own_makes_us_resign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.cluster.controller_role.PAUSE_AFTER_FAILURE_MS", 0.0)

    async def story(cluster: Cluster) -> None:
        def plan(image: ClusterImage) -> Plan[str]:
            raise ZeroDivisionError

        given = await reply(cluster.active.controller_role.submit(plan))
        assert isinstance(given, BrokerError)
        await cluster.rest()
        assert cluster.model.truth.controller_epoch == 2

    play(story, 1, 2)


def test_settings_that_another_broker_changed_may_give_a_partition_its_leader() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("orders", 2, 3)
        await cluster.crash(3)
        await cluster.rest()
        cluster.start(3)
        await cluster.rest()
        await cluster.crash(2)
        await cluster.rest()
        partition = cluster.model.truth.partition("orders", 0)
        assert partition is not None
        assert partition.leader == -1
        cluster.unclean = True
        change = AlterConfig(
            ConfigResource(ResourceType.TOPIC, "orders"), (("unclean.leader.election.enable", "true"),)
        )
        cluster.nodes[3].member.commit([change])
        await cluster.rest()
        await cluster.rest()
        partition = cluster.model.truth.partition("orders", 0)
        assert partition is not None
        assert partition.leader == 3

    play(story, 1, 2, 3)


def test_leaders_are_looked_at_from_time_to_time_when_that_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.cluster.controller_role.FIRST_CHECK_S", 0.001)

    async def story(cluster: Cluster) -> None:
        await cluster.create("orders", 2, 1)
        partition = cluster.model.truth.partition("orders", 0)
        topic_id = cluster.model.truth.topic_id("orders")
        assert partition is not None
        assert topic_id is not None
        elsewhere = replace(partition, leader=1, leader_epoch=1, partition_epoch=1)
        cluster.model.change([ChangePartition(topic_id, 0, elsewhere)])
        await asyncio.sleep(0.02)
        assert _leader(cluster) == 1, "it is off"
        cluster.check_interval_s = 0.001
        for _ in range(200):
            await asyncio.sleep(0.002)
            if _leader(cluster) == 2:
                return
        raise AssertionError("nobody looked")

    play(story, 1, 2)


def _leader(cluster: Cluster) -> int:
    partition = cluster.model.truth.partition("orders", 0)
    assert partition is not None
    return partition.leader


def test_the_handlers_ask_the_role() -> None:
    async def story(cluster: Cluster) -> None:
        broker = cluster.active.broker
        epoch = cluster.model.truth.brokers[1].epoch
        ids = await reply(
            allocate_producer_ids.handle(broker, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), None)
        )
        assert (ids.error_code, ids.producer_id_start, ids.producer_id_len) == (0, 0, 1000)
        altered = await reply(
            alter_partition.handle(broker, AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=[]), None)
        )
        assert (altered.error_code, altered.topics) == (0, [])
        stopped = await reply(
            controlled_shutdown.handle(broker, ControlledShutdownRequest(broker_id=1, broker_epoch=epoch), None)
        )
        assert (stopped.error_code, stopped.remaining_partitions) == (0, [])

    play(story, 1)


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (alter_partition, AlterPartitionRequest(broker_id=1, topics=[])),
        (controlled_shutdown, ControlledShutdownRequest(broker_id=1)),
        (allocate_producer_ids, AllocateProducerIdsRequest(broker_id=1)),
    ],
)
def test_a_broker_that_is_not_controller_answers_not_controller(handler: Any, request_: Any) -> None:
    async def story(cluster: Cluster) -> None:
        answer = await reply(handler.handle(cluster.nodes[2].broker, request_, None))
        assert answer.error_code == NotController.code

    play(story, 1, 2)


def test_a_broker_without_a_cluster_is_no_controller() -> None:
    with pytest.raises(NotController):
        member_of(SimpleNamespace(member=None))  # type: ignore[arg-type]
