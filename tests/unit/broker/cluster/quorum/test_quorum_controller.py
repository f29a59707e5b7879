"""The controller of a metadata log on its loop: activation, answers after commits, sessions, and the end of leading."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest
from tests.unit.broker.cluster.quorum.fake_quorum import CLUSTER, FakeQuorum

from ottla.broker.cluster.quorum.quorum_controller import Periods, QuorumController
from ottla.broker.requests.running import next_turn
from ottla.cluster.changes import AlterConfig, Change, CreateTopic, RemoveTopic, SetFeature
from ottla.cluster.features import FEATURES as FEATURE_RANGES
from ottla.cluster.features import first_features, update_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log import batch_plans
from ottla.cluster.metadata_log.writing import VersionedRecord
from ottla.cluster.model import (
    NO_LEADER,
    ConfigResource,
    ControllerNode,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
    Topic,
)
from ottla.cluster.placement import new_partition
from ottla.cluster.plan import Plan
from ottla.cluster.quorum_controller.rules import ControllerRules
from ottla.errors import (
    DuplicateBrokerRegistration,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
    TopicAlreadyExists,
    UnknownServerError,
)
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.metadata_log.transactions import BeginTransactionRecord
from ottla.testing.clock import ManualClock

FEATURES = [
    Feature(name=each.name, min_supported_version=each.min_level, max_supported_version=each.max_level)
    for each in FEATURE_RANGES
]


class Stage:
    """A controller, its quorum and its clock."""

    def __init__(self, pool: Executor | None = None, features: tuple[FeatureRange, ...] = (), **given: Any) -> None:
        self.clock = ManualClock()
        self.quorum = FakeQuorum()
        self.shown: list[tuple[ClusterImage, tuple[Change, ...]]] = []
        self.rules = ControllerRules(min_insync_replicas=lambda image, topic: 1)
        self.periods = Periods(balance_ms=None, unclean_ms=None, idle_ms=None)
        self.controller = QuorumController(
            ControllerNode(1, b"incarnation of 1", (), features),
            clock=self.clock,
            pool=pool,
            random_bytes=lambda count: b"r" * count,
            rules=lambda: self.rules,
            periods=lambda: self.periods,
            first=first_features,
            show=lambda image, changes: self.shown.append((image, tuple(changes))),
            **given,
        )

    def activate(self, *, open_transaction: bool = False) -> None:
        self.controller.activate(self.quorum, self.quorum.read(), open_transaction=open_transaction)

    @property
    def image(self) -> ClusterImage:
        return self.shown[-1][0]

    async def settle(self) -> None:
        for _ in range(40):
            await next_turn()

    async def register(self, broker_id: int, incarnation: bytes = b"first incarnat. ", **said: Any) -> int:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=incarnation,
            features=FEATURES,
            log_dirs=[(1000 + broker_id).to_bytes(16)],
            **{"listeners": [], **said},
        )
        return (await self.controller.register_broker(request)).broker_epoch

    async def beat(self, broker_id: int, epoch: int, **said: Any) -> BrokerHeartbeatResponse:
        values: dict[str, Any] = {"want_fence": False, "want_shut_down": False, "current_metadata_offset": 10_000}
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, **{**values, **said})
        return await self.controller.heartbeat(request)

    async def serving(self, *broker_ids: int) -> dict[int, int]:
        """Brokers that are registered and unfenced, with their epochs."""
        epochs = {broker_id: await self.register(broker_id) for broker_id in broker_ids}
        for broker_id, epoch in epochs.items():
            assert not (await self.beat(broker_id, epoch)).is_fenced
        return epochs

    async def create(self, name: str, *replicas: int, partitions: int = 1) -> None:
        def plan(image: ClusterImage) -> Plan[object]:
            if image.topic(name) is not None:
                raise TopicAlreadyExists
            partition = new_partition(image, replicas)
            assert partition is not None
            topic = Topic(name, name.encode().ljust(16, b"\1"), (partition,) * partitions)
            return Plan((CreateTopic(topic),), [])

        await self.controller.change(plan)

    def partition(self, topic: str = "orders") -> Partition:
        found = self.image.partition(topic, 0)
        assert found is not None
        return found


def play(story: Callable[[Stage], Awaitable[None]], **given: Any) -> None:
    async def played() -> None:
        stage = Stage(**given)
        await story(stage)
        if stage.controller.is_active and stage.shown:
            await stage.settle()
            assert stage.quorum.read() == stage.image  # a reader of the log has what the controller has
        await stage.controller.close()

    asyncio.run(played())


# --- activation ------------------------------------------------------------------------------------------------------


def test_a_new_cluster_begins_with_what_was_formatted_and_its_controller() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.settle()
        assert [batch[0] for batch in stage.quorum.names] == ["BeginTransactionRecord", "RegisterControllerRecord"]
        assert stage.image.feature("metadata.version") == 30
        assert (stage.image.controller_id, stage.image.controller_epoch) == (1, 1)

    play(story)


def test_a_cluster_that_has_begun_goes_on() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.settle()
        stage.controller.resigned()
        stage.quorum.epoch = 2
        stage.activate()
        await stage.settle()
        assert len(stage.quorum.names) == 2
        assert await stage.register(7) == stage.quorum.next_offset - 1

    play(story)


def test_a_transaction_that_was_left_open_is_aborted_first() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.settle()
        stage.controller.resigned()
        stage.quorum.append([[VersionedRecord(BeginTransactionRecord(name="x")).encode()]])
        stage.activate(open_transaction=True)
        await stage.settle()
        assert stage.quorum.names[-1] == ["AbortTransactionRecord"]

    play(story)


def test_who_is_not_active_decides_nothing() -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(NotController):
            await stage.register(7)
        with pytest.raises(NotController):
            await stage.beat(7, 1)
        assert stage.controller.epoch == -1

    play(story)


# --- answers and commits ---------------------------------------------------------------------------------------------


def test_answers_come_when_their_decisions_are_committed_and_the_next_is_decided_meanwhile() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        stage.quorum.commits = False
        first, second = (asyncio.ensure_future(stage.create(name, 7)) for name in ("orders", "payments"))
        await stage.settle()
        assert len(stage.quorum.batches[-1][1]) == 2
        assert not first.done()
        assert not second.done()
        assert stage.image.topic("orders") is None
        stage.quorum.commit()
        await asyncio.gather(first, second)
        assert stage.image.topic("payments") is not None

    play(story)


def test_a_refusal_waits_for_what_it_was_decided_on() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        stage.quorum.commits = False
        first, second = (asyncio.ensure_future(stage.create("orders", 7)) for _ in range(2))
        await stage.settle()
        assert not second.done()
        stage.quorum.commit()
        await first
        with pytest.raises(TopicAlreadyExists):
            await second

    play(story)


def test_when_the_leadership_ends_everybody_hears_it() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        epochs = await stage.serving(7)
        stage.quorum.commits = False
        waiting = [asyncio.ensure_future(stage.create(name, 7)) for name in ("a", "b")]
        await stage.settle()
        waiting.append(asyncio.ensure_future(stage.create("a", 7)))
        waiting.append(asyncio.ensure_future(stage.beat(7, epochs[7])))  # type: ignore[arg-type]
        await stage.settle()
        stage.quorum.end()
        for each in waiting:
            with pytest.raises(NotController):
                await each
        assert not stage.controller.is_active
        assert stage.image.topic("a") is None

    play(story)


def test_what_cannot_be_appended_any_more_is_not_answered_as_done() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        stage.quorum.is_over = True
        with pytest.raises(NotController):
            await stage.create("orders", 7)

    play(story)


class Disturbed(Executor):
    """Decides, and lets somebody else write before the decision is appended, once."""

    def __init__(self) -> None:
        self.disturb: Callable[[], None] | None = None

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:  # type: ignore[override]
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        disturb, self.disturb = self.disturb, None
        if disturb is not None:
            disturb()
        return done


def test_a_decision_is_made_again_when_the_log_has_grown_meanwhile() -> None:
    pool = Disturbed()

    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        pool.disturb = stage.quorum.append_control
        epoch = await stage.register(8)
        assert stage.quorum.names[-2:] == [[], ["RegisterBrokerRecord"]]
        assert (stage.quorum.batches[-1][0], stage.image.brokers[8].epoch) == (epoch, epoch)

    play(story, pool=pool)


def test_a_fault_in_a_decision_is_its_askers_alone() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.settle()
        with pytest.raises(UnknownServerError):
            await stage.controller.change(lambda image: 1 / 0)  # type: ignore[arg-type,return-value]
        await stage.serving(7)

    play(story)


def test_more_than_a_batch_may_have_is_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_plans, "RECORDS_PER_BATCH", 3)

    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        await stage.create("orders", 7, partitions=5)
        assert [len(batch) for batch in stage.quorum.names[-4:]] == [1, 3, 3, 1]
        assert stage.quorum.names[-1] == ["EndTransactionRecord"]

    play(story)


def test_a_topic_is_deleted_by_one_record() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        await stage.create("orders", 7, partitions=3)
        topic = stage.image.topic("orders")
        assert topic is not None
        await stage.controller.change(lambda image: Plan((RemoveTopic(topic.id),), []))
        assert stage.quorum.names[-1] == ["RemoveTopicRecord"]

    play(story)


# --- brokers ---------------------------------------------------------------------------------------------------------


def test_a_broker_registers_is_unfenced_and_fenced_for_its_silence() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        epochs = await stage.serving(7, 8)
        await stage.create("orders", 7, 8)
        await stage.clock.advance(8_000)
        await stage.beat(8, epochs[8])
        await stage.clock.advance(990)
        assert stage.partition().leader == 7
        await stage.clock.advance(100)
        assert stage.image.brokers[7].fenced
        assert (stage.partition().leader, stage.partition().isr) == (8, (8,))
        await stage.clock.advance(10_000)
        assert stage.image.brokers[8].fenced
        assert stage.partition().leader == NO_LEADER
        assert not (await stage.beat(7, epochs[7])).is_fenced
        assert stage.partition().leader == NO_LEADER  # only the last one in sync has what was acknowledged
        assert not (await stage.beat(8, epochs[8])).is_fenced
        assert stage.partition().leader == 8

    play(story)


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_silent_broker_is_fenced_at_once_where_its_process_has_ended(
    has_ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    looked: list[tuple[Endpoint, ...]] = []

    async def look(endpoints: Sequence[Endpoint]) -> bool:
        looked.append(tuple(endpoints))
        return has_ended

    async def story(stage: Stage) -> None:
        stage.activate()
        listener = Listener(name="PLAINTEXT", host="there", port=9092, security_protocol=0)
        epochs = {7: await stage.register(7, listeners=[listener]), 8: await stage.register(8)}
        for broker_id, epoch in epochs.items():
            await stage.beat(broker_id, epoch)
        await stage.create("orders", 7, 8)
        await stage.clock.advance(2_000)
        assert not looked, "everybody sends heartbeats in time"
        await stage.beat(8, epochs[8])
        await stage.clock.advance(1_000)
        assert looked == [(Endpoint("PLAINTEXT", "there", 9092),)]
        assert stage.image.brokers[7].fenced is has_ended
        assert stage.partition().leader == (8 if has_ended else 7)
        assert ("broker 7 is fenced: its process has ended" in caplog.text) is has_ended
        assert not (await stage.beat(7, epochs[7])).is_fenced, "it may come back"

    play(story, has_ended=look)


def test_a_new_controller_looks_at_once_whether_the_brokers_are_there() -> None:
    looked: list[int] = []

    async def look(endpoints: Sequence[Endpoint]) -> bool:
        looked.append(1)
        return False

    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7, 8)
        await stage.clock.advance(600)
        assert not looked
        stage.controller.resigned()
        stage.quorum.epoch = 2
        stage.activate()
        await stage.clock.advance(600)
        assert len(looked) == 2
        await stage.clock.advance(1_500)
        assert len(looked) == 2, "once, until a heartbeat is missing"
        await stage.create("orders", 7, 8)

    play(story, has_ended=look)


def test_brokers_that_are_silent_together_are_fenced_one_after_another() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        epochs = await stage.serving(7, 8, 9)
        for broker_id in (8, 7, 9):
            await stage.clock.advance(10)
            await stage.beat(broker_id, epochs[broker_id])
        await stage.clock.advance(20_000)
        fenced = [
            image.brokers[broker_id].id
            for before, (image, _) in zip(stage.shown, stage.shown[1:], strict=False)
            for broker_id in before[0].brokers
            if image.brokers[broker_id].fenced and not before[0].brokers[broker_id].fenced
        ]
        assert fenced == [8, 7, 9]

    play(story)


def test_another_incarnation_waits_for_the_end_of_the_session() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        await stage.serving(7)
        with pytest.raises(DuplicateBrokerRegistration):
            await stage.register(7, b"second incarnat.")
        await stage.clock.advance(10_000)
        assert await stage.register(7, b"second incarnat.") > 0

    play(story)


def test_a_broker_that_stops_in_order_may_come_back_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        epochs = await stage.serving(7, 8)
        await stage.create("orders", 7, 8)
        await stage.beat(8, epochs[8], current_metadata_offset=1)
        assert not (await stage.beat(7, epochs[7], want_shut_down=True)).should_shut_down
        assert stage.partition().leader == 8
        assert not (await stage.beat(7, epochs[7], want_shut_down=True)).should_shut_down
        await stage.beat(8, epochs[8])
        assert (await stage.beat(7, epochs[7], want_shut_down=True)).should_shut_down
        assert stage.image.brokers[7].fenced
        await stage.register(7, b"second incarnat.", previous_broker_epoch=epochs[7])
        with pytest.raises(StaleBrokerEpoch):
            await stage.beat(7, epochs[7])

    play(story)


def test_a_leader_changes_its_in_sync_set() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        epochs = await stage.serving(7, 8)
        await stage.create("orders", 7, 8)
        topic = stage.image.topic("orders")
        assert topic is not None
        data = PartitionData(
            partition_index=0,
            leader_epoch=0,
            partition_epoch=0,
            new_isr_with_epochs=[BrokerState(broker_id=7, broker_epoch=epochs[7])],
        )
        request = AlterPartitionRequest(
            broker_id=7, broker_epoch=epochs[7], topics=[TopicData(topic_id=topic.id, partitions=[data])]
        )
        answer = await stage.controller.alter_partitions(request)
        assert answer.topics[0].partitions[0].isr == [7]
        assert stage.partition().isr == (7,)

    play(story)


def test_producer_ids_are_given_away_once() -> None:
    async def story(stage: Stage) -> None:
        stage.activate()
        epochs = await stage.serving(7)
        request = AllocateProducerIdsRequest(broker_id=7, broker_epoch=epochs[7])
        blocks = [await stage.controller.allocate_producer_ids(request) for _ in range(2)]
        assert [each.producer_id_start for each in blocks] == [0, 1000]
        with pytest.raises(StaleBrokerEpoch):
            await stage.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=7, broker_epoch=99))

    play(story)


# --- again and again -------------------------------------------------------------------------------------------------


def test_an_idle_leader_shows_that_it_lives() -> None:
    async def story(stage: Stage) -> None:
        stage.periods = Periods(balance_ms=None, unclean_ms=None, idle_ms=500)
        stage.activate()
        await stage.clock.advance(2_600)
        assert stage.quorum.names[2:] == [["NoOpRecord"]] * 4  # none for the half second of the activation
        assert stage.shown[-1][1] == ()

    play(story)


def test_leaders_go_back_to_who_is_preferred() -> None:
    async def story(stage: Stage) -> None:
        stage.periods = Periods(balance_ms=1_000, unclean_ms=None, idle_ms=None)
        stage.activate()
        epochs = await stage.serving(7, 8)
        await stage.create("orders", 7, 8)
        await stage.beat(7, epochs[7], want_fence=True)
        await stage.beat(7, epochs[7])
        assert stage.partition().leader == 8
        topic = stage.image.topic("orders")
        assert topic is not None
        data = PartitionData(
            partition_index=0,
            leader_epoch=stage.partition().leader_epoch,
            partition_epoch=stage.partition().partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in (7, 8)],
        )
        request = AlterPartitionRequest(
            broker_id=8, broker_epoch=epochs[8], topics=[TopicData(topic_id=topic.id, partitions=[data])]
        )
        await stage.controller.alter_partitions(request)
        await stage.clock.advance(1_100)
        assert stage.partition().leader == 7

    play(story)


def test_an_unclean_election_that_is_allowed_now_comes_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.rules = ControllerRules(
            unclean_allowed=lambda image, topic: "unclean.leader.election.enable" in image.topic_config(topic)
        )
        stage.periods = Periods(balance_ms=None, unclean_ms=300_000, idle_ms=None)
        stage.activate()
        epochs = await stage.serving(7, 8)
        await stage.create("orders", 7, 8)
        await stage.beat(8, epochs[8], want_fence=True)
        await stage.beat(7, epochs[7], want_fence=True)
        await stage.beat(8, epochs[8])
        assert stage.partition().leader == NO_LEADER
        resource = ConfigResource(ResourceType.TOPIC, "orders")
        allow = AlterConfig(resource, (("unclean.leader.election.enable", "true"),))
        await stage.controller.change(lambda image: Plan((allow,), []))
        await stage.settle()
        assert stage.partition().leader == 8

    play(story)


# --- kraft.version ---------------------------------------------------------------------------------------------------


def features(*levels: tuple[str, int]) -> Callable[[ClusterImage], Plan[Any]]:
    updates = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1) for name, level in levels]
    request = UpdateFeaturesRequest(feature_updates=updates)
    return lambda image: update_features(image, request, version=2, check_quorum=lambda level: None)


async def with_features(stage: Stage) -> None:
    """A broker that knows all features, and one feature that is not at its highest level."""
    stage.activate()
    await stage.settle()
    await stage.register(1)
    await stage.controller.change(lambda image: Plan((SetFeature("group.version", 0),), []))


def test_another_level_of_the_quorum_is_written_by_raft_and_what_is_asked_with_it_behind() -> None:
    async def story(stage: Stage) -> None:
        await with_features(stage)
        await stage.controller.change(features(("kraft.version", 1), ("group.version", 1)))
        assert stage.quorum.names[-2:] == [[], ["FeatureLevelRecord"]]
        assert (stage.image.kraft_version, stage.image.feature("group.version")) == (1, 1)

    play(story, features=FEATURE_RANGES)


def test_the_level_of_the_quorum_is_answered_when_it_is_committed() -> None:
    async def story(stage: Stage) -> None:
        await with_features(stage)
        stage.quorum.commits = False
        first = asyncio.ensure_future(stage.controller.change(features(("kraft.version", 1))))
        second = asyncio.ensure_future(stage.controller.change(features(("kraft.version", 1))))
        await stage.settle()
        assert not first.done()
        assert not second.done(), "it saw what is not committed yet"
        stage.quorum.commit()
        await stage.settle()
        assert (first.done(), second.done(), stage.image.kraft_version) == (True, True, 1)
        assert sum(name == [] for name in stage.quorum.names) == 1

    play(story, features=FEATURE_RANGES)


def test_a_level_that_voters_do_not_know_changes_nothing_at_all() -> None:
    async def story(stage: Stage) -> None:
        await with_features(stage)
        before = stage.quorum.next_offset
        stage.quorum.refusal = InvalidUpdateVersion("voter 2 has not told")
        with pytest.raises(InvalidUpdateVersion, match="voter 2"):
            await stage.controller.change(features(("kraft.version", 1), ("group.version", 1)))
        assert (stage.quorum.next_offset, stage.image.kraft_version) == (before, 0)

    play(story, features=FEATURE_RANGES)
