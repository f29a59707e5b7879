"""A stage for stories about a controller: a shared truth, brokers that do what they are told, orders on their way.

Nothing happens by itself: events and orders wait until the story lets them on. `quiet()` lets everything on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from ottla.cluster.changes import AlterConfig, Change, CreateTopic
from ottla.cluster.controller.controller import advanced, decide, topics_of
from ottla.cluster.controller.events import (
    AlterPartitionAsked,
    ChangeAsked,
    LeaderAndIsrAnswered,
    ProducerIdsAsked,
    ReplicasStopped,
    ShutdownAsked,
    TookOver,
)
from ottla.cluster.controller.orders import Order, announcement, orders
from ottla.cluster.controller.state import ControllerRules, ControllerState, is_being_deleted
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType, Topic
from ottla.cluster.partitions import create_partitions
from ottla.cluster.placement import new_partition
from ottla.cluster.plan import Plan
from ottla.cluster.reassignments import alter_partition_reassignments
from ottla.cluster.store.events import ConfigChanged, ControllerChanged, SessionBack, SessionLost
from ottla.cluster.store.interface import ControllerMoved, StaleImage
from ottla.cluster.topics import delete_topics
from ottla.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    IneligibleReplica,
    KafkaStorageError,
    StaleBrokerEpoch,
    StaleControllerEpoch,
)
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.simulation.zookeeper_model import ZooKeeperModel
from ottla.simulation.zookeeper_model_store import ModelStore
from ottla.values import TopicPartition

DELETED = -2


class Disk:
    """What survives a crash: logs by partition, with the id of their topic and how many records they have."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, bytes] = {}
        self.records: dict[TopicPartition, int] = {}
        self.failed: set[TopicPartition] = set()
        self.lost_memory = False


class FakeBroker:
    """One registration of a broker: does what Kafka's brokers do with the three orders."""

    def __init__(self, broker: Broker, disk: Disk) -> None:
        self.id, self.epoch, self.disk = broker.id, broker.epoch, disk
        self.controller_epoch = 0
        self.replicas: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.proposed: dict[TopicPartition, set[int]] = {}
        self.view: dict[TopicPartition, Any] = {}
        self.view_of_brokers: dict[int, int] = {}
        self.controller_id = -1
        self.heard: list[str] = []

    def take(self, request: Any) -> Any:
        self.heard.append(type(request).__name__.removesuffix("Request"))
        kinds = {LeaderAndIsrRequest: self._lead, StopReplicaRequest: self._stop, UpdateMetadataRequest: self._see}
        return kinds[type(request)](request)

    def _refusal(self, request: Any) -> int:
        if request.broker_epoch < self.epoch:
            return StaleBrokerEpoch.code
        if request.controller_epoch < self.controller_epoch:
            return StaleControllerEpoch.code
        self.controller_epoch = request.controller_epoch
        return 0

    def _lead(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        if code := self._refusal(request):
            return LeaderAndIsrResponse(error_code=code)
        topics = []
        for topic in request.topic_states:
            errors = [
                LeaderAndIsrPartitionError(
                    partition_index=each.partition_index,
                    error_code=self._lead_one(topic.topic_name, topic.topic_id, each),
                )
                for each in topic.partition_states
            ]
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(error_code=0, topics=topics)

    def _lead_one(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> int:
        name = TopicPartition(topic, state.partition_index)
        assert self.id in state.replicas, f"broker {self.id} is told to have {name}, but is no replica of it"
        if name in self.disk.failed:
            return KafkaStorageError.code
        known = self.replicas.get(name)
        if known is not None and self.disk.logs.get(name) != topic_id:
            return InconsistentTopicId.code
        if known is not None and state.leader_epoch <= known.leader_epoch:
            return StaleControllerEpoch.code
        if self.disk.logs.get(name) != topic_id:
            self.disk.records[name] = 0
        self.disk.logs[name] = topic_id
        self.replicas[name] = state
        self.proposed.pop(name, None)
        return 0

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        if code := self._refusal(request):
            return StopReplicaResponse(error_code=code, partition_errors=[])
        errors = [
            StopReplicaPartitionError(
                topic_name=topic.topic_name,
                partition_index=each.partition_index,
                error_code=self._stop_one(TopicPartition(topic.topic_name, each.partition_index), each),
            )
            for topic in request.topic_states
            for each in topic.partition_states
        ]
        return StopReplicaResponse(error_code=0, partition_errors=errors)

    def _stop_one(self, name: TopicPartition, stop: Any) -> int:
        known = self.replicas.get(name)
        if known is not None and stop.leader_epoch not in (-1, -2) and stop.leader_epoch < known.leader_epoch:
            return FencedLeaderEpoch.code
        if name in self.disk.failed:
            return KafkaStorageError.code
        self.replicas.pop(name, None)
        if stop.delete_partition:
            self.disk.logs.pop(name, None)
            self.disk.records.pop(name, None)
        return 0

    def _see(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        if code := self._refusal(request):
            return UpdateMetadataResponse(error_code=code)
        self.controller_id = request.controller_id
        self.view_of_brokers = {each.id: each.endpoints[0].port for each in request.live_brokers}
        for topic in request.topic_states:
            for each in topic.partition_states:
                name = TopicPartition(topic.topic_name, each.partition_index)
                if each.leader == DELETED:
                    self.view.pop(name, None)
                else:
                    self.view[name] = each
        return UpdateMetadataResponse(error_code=0)


class ControllerDied(Exception):
    """The controller died while it carried out a decision; another one was elected."""


class Stage:
    """See the module. `dies_after` is how many changes of the next commit the controller lives to write."""

    def __init__(self, *, unclean: bool = False, min_insync: int = 1, **rules: Any) -> None:
        self.model = ZooKeeperModel("5L6g3nShT-eMCtK--X86sw")
        self.disks: dict[int, Disk] = {}
        self.brokers: dict[int, FakeBroker] = {}
        self.zombies: list[FakeBroker] = []
        self.members: dict[int, ModelStore] = {}
        self.state: ControllerState | None = None
        self.channels: dict[int, deque[Order]] = {}
        self.events: deque[Any] = deque()
        self.untold: set[str] = set()
        self.dies_after: int | None = None
        self.unclean, self.min_insync = unclean, min_insync
        self.rules = ControllerRules(
            unclean_allowed=lambda image, topic: self.unclean,
            min_insync_replicas=lambda image, topic: self.min_insync,
            started_uncleanly=lambda broker: self.disks[broker.id].lost_memory,
            **rules,
        )

    # --- brokers ---

    def start(self, *broker_ids: int) -> None:
        """Brokers register; the first of all becomes controller."""
        for broker_id in broker_ids:
            member = self.members[broker_id] = self.model.join()
            disk = self.disks.setdefault(broker_id, Disk())
            self.zombies = [each for each in self.zombies if each.id != broker_id]
            endpoint = Endpoint("PLAINTEXT", "localhost", 9000 + broker_id)
            self.brokers[broker_id] = FakeBroker(member.register(Broker(broker_id, (endpoint,))), disk)
        if self.state is None:
            self.elect()

    def crash(self, *broker_ids: int, loses_memory: bool = False) -> None:
        """Brokers are gone without a word. One that lost its memory says so until it was heard."""
        for broker_id in broker_ids:
            self.disks[broker_id].lost_memory |= loses_memory
            self._end(broker_id)

    def cut_off(self, broker_id: int) -> None:
        """A broker's session is over, and it does not know."""
        self.zombies.append(self.brokers[broker_id])
        self._end(broker_id)

    def _end(self, broker_id: int) -> None:
        if self.state is not None and self.state.controller.broker_id == broker_id:
            self.state = None
            self.channels.clear()
            self.events.clear()
        self.members.pop(broker_id).close()
        del self.brokers[broker_id]
        self.channels.pop(broker_id, None)

    # --- the controller ---

    def elect(self, broker_id: int | None = None) -> None:
        """Somebody becomes controller; an earlier one is gone, and with it all that waited."""
        if self.state is not None:
            self.members[self.state.controller.broker_id].resign(self.state.controller.broker_id)
        self.state = None
        self.channels.clear()
        self.events.clear()
        if not self.members:
            return
        winner = min(self.members) if broker_id is None else broker_id
        member = self.members[winner]
        for each in self.members.values():
            each.take_events()
        controller = member.stand(winner)
        self.state = ControllerState(controller, member.take_over(), self.rules)
        self._open_channels()
        self._order(announcement(self.state))
        self.do(TookOver())

    @property
    def image(self) -> ClusterImage:
        assert self.state is not None
        return self.state.image

    def do(self, event: Any) -> Any:
        """Decide, commit, order; gives the reply. What the decision asks for next follows at once."""
        assert self.state is not None
        told, member = self.state, self.members[self.state.controller.broker_id]
        state = told.with_image(member.load())
        decided = decide(state, event)
        image = member.observe(decided.observed) if decided.observed else state.image
        self.untold |= topics_of(told.image, image, decided.observed)
        if decided.changes and self.dies_after is not None:
            self._die(member, decided.changes)
        if decided.changes:
            image = member.commit(decided.changes, controller_epoch=state.controller.epoch)
        self.state = advanced(state, decided, image)
        self._open_channels()
        self.untold |= topics_of(told.image, image, decided.changes)
        self._order(
            orders(
                told,
                self.state,
                resend_partitions=decided.resend_partitions,
                resend_everything=decided.resend_everything,
                topics=self.untold,
            )
        )
        self.untold = set()
        for each in decided.then:
            self.do(each)
        return decided.replies[0] if decided.replies else None

    def _die(self, member: ModelStore, changes: Sequence[Change]) -> None:
        written, self.dies_after = changes[: self.dies_after], None
        if written:
            member.commit(written)
        self.elect(max(self.members))
        raise ControllerDied

    def _open_channels(self) -> None:
        assert self.state is not None
        here = self.state.image.brokers
        for broker_id in list(self.channels):
            if broker_id not in here:
                del self.channels[broker_id]
        for broker_id in here:
            self.channels.setdefault(broker_id, deque())

    def _order(self, told: Iterable[Order]) -> None:
        for order in told:
            self.channels[order.broker_id].append(order)

    def take_events(self) -> None:
        """What the store found reaches the controller."""
        if self.state is None:
            return
        for event in self.members[self.state.controller.broker_id].take_events():
            if not isinstance(event, ConfigChanged | ControllerChanged | SessionBack | SessionLost):
                self.do_again_if_stale(event)

    def do_again_if_stale(self, event: Any) -> Any:
        try:
            return self.do(event)
        except StaleImage:
            self.take_events()
            return self.do(event)

    def deliver(self, broker_id: int, *, count: int = 1_000_000) -> None:
        """Orders on their way reach a broker; its answers wait as events."""
        waiting = self.channels.get(broker_id, deque())
        while waiting and count:
            count -= 1
            order = waiting.popleft()
            broker = self.brokers.get(broker_id)
            if broker is None or broker.epoch < order.broker_epoch:
                continue
            response = broker.take(order.request)
            who = (broker_id, order.broker_epoch)
            if isinstance(response, LeaderAndIsrResponse):
                self.events.append(LeaderAndIsrAnswered(*who, order.request, response))
            elif isinstance(response, StopReplicaResponse):
                self.events.append(ReplicasStopped(*who, order.request, response))

    def take_answers(self) -> None:
        while self.events and self.state is not None:
            self.do_again_if_stale(self.events.popleft())

    def quiet(self) -> None:
        """Let everything on until nothing is left."""
        for _ in range(100):
            self.take_events()
            for broker_id in list(self.channels):
                self.deliver(broker_id)
            if not self.events and not any(self.channels.values()):
                for broker_id in self.brokers:
                    self.disks[broker_id].lost_memory = False
                return
            self.take_answers()
        raise AssertionError("the cluster does not come to rest")

    # --- what people and brokers ask for ---

    def create(self, name: str, *assignment: tuple[int, ...]) -> None:
        """A topic with a partition for each list of replicas."""
        number = sum(1 for _ in self.image.topics()) + self.image.change_number

        def plan(image: ClusterImage) -> Plan[Any]:
            made = tuple(new_partition(image, replicas) for replicas in assignment)
            assert all(made), "somebody must be there to lead"
            return Plan((CreateTopic(Topic(name, number.to_bytes(16), made)),), [])  # type: ignore[arg-type]

        self.do(ChangeAsked(plan))

    def grow(self, name: str, count: int, rules: Any, random: Any) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False)
        self.do(ChangeAsked(lambda image: create_partitions(image, request, rules, random)))

    def delete(self, name: str, rules: Any) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1)
        self.do(ChangeAsked(lambda image: delete_topics(image, request, rules, version=3)))

    def reassign(self, name: TopicPartition, replicas: tuple[int, ...] | None) -> Any:
        target = ReassignablePartition(
            partition_index=name.partition, replicas=None if replicas is None else list(replicas)
        )
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name.topic, partitions=[target])])
        plan = self.do(ChangeAsked(lambda image: alter_partition_reassignments(image, request)))
        return plan.answers[0].partitions[0].error_code

    def set_config(self, topic: str, key: str, value: str) -> None:
        change = AlterConfig(ConfigResource(ResourceType.TOPIC, topic), ((key, value),))
        self.do(ChangeAsked(lambda image: Plan((change,), [])))

    def shut_down(self, broker_id: int) -> Any:
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=self.brokers[broker_id].epoch)
        return self.do(ShutdownAsked(request))

    def producer_ids(self, broker_id: int, epoch: int | None = None) -> Any:
        found = self.brokers[broker_id].epoch if epoch is None else epoch
        return self.do(ProducerIdsAsked(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=found)))

    def alter_isr(self, name: TopicPartition, isr: Iterable[int], **other: Any) -> Any:
        """The leader, as it knows itself to be one, proposes; gives the partition's answer, and the leader takes it."""
        return self.alter_isr_of(self.leader(name), name, isr, **other)

    def alter_isr_of(self, leader: FakeBroker, name: TopicPartition, isr: Iterable[int], **other: Any) -> Any:
        state = leader.replicas[name]
        epochs = {each: self.brokers[each].epoch if each in self.brokers else -1 for each in isr}
        data = {
            "partition_index": name.partition,
            "leader_epoch": state.leader_epoch,
            "new_isr_with_epochs": [BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in isr],
            "partition_epoch": state.partition_epoch,
        }
        topic = TopicData(topic_id=leader.disk.logs[name], partitions=[PartitionData(**{**data, **other})])
        request = AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=[topic])
        # Until it is answered a proposal may be true or not: a record must be at everybody who is in the old set or the
        # new. Whether they are enough is a question to the old one alone.
        leader.proposed[name] = set(isr)
        response = self.do_again_if_stale(AlterPartitionAsked(request))
        if response.error_code:
            return response
        answer = response.topics[0].partitions[0]
        if answer.error_code in (0, IneligibleReplica.code):
            del leader.proposed[name]
        if answer.error_code == 0 and answer.leader_epoch == state.leader_epoch:
            state.isr, state.partition_epoch = list(answer.isr), answer.partition_epoch
        return answer

    # --- looking ---

    def partition(self, name: TopicPartition) -> Partition:
        found = self.image.partition(*name)
        assert found is not None, name
        return found

    def leader(self, name: TopicPartition) -> FakeBroker:
        return self.brokers[self.partition(name).leader]

    def check_told(self) -> None:
        """Every broker that is there knows and has what the image says; nobody is in sync who is not there."""
        for name, partition in self.image.partitions():
            away = set(partition.isr) - set(self.image.brokers)
            assert not away or partition.leader == -1 or is_being_deleted(self.image, name.topic), name
        for broker in self.brokers.values():
            self._check_view(broker)
            self._check_replicas(broker)

    def _check_view(self, broker: FakeBroker) -> None:
        assert broker.controller_id == self.image.controller_id
        assert set(broker.view_of_brokers) == set(self.image.brokers)
        expected = {
            name: (each.leader, each.leader_epoch, each.isr, each.partition_epoch, each.replicas)
            for name, each in self.image.partitions()
            if not is_being_deleted(self.image, name.topic)
        }
        seen = {
            name: (each.leader, each.leader_epoch, tuple(each.isr), each.zk_version, tuple(each.replicas))
            for name, each in broker.view.items()
        }
        assert seen == expected, f"broker {broker.id} has a wrong view"

    def _check_replicas(self, broker: FakeBroker) -> None:
        known = self.image.brokers[broker.id]
        for name, partition in self.image.partitions():
            has = broker.replicas.get(name)
            if broker.id not in partition.replicas or is_being_deleted(self.image, name.topic):
                assert has is None, f"broker {broker.id} still has {name}"
            elif not known.in_controlled_shutdown and name not in broker.disk.failed:
                assert has is not None, f"broker {broker.id} does not have {name}"
                assert (has.leader, has.leader_epoch) == (partition.leader, partition.leader_epoch)
                assert (tuple(has.replicas), tuple(has.adding_replicas)) == (partition.replicas, partition.adding)


@pytest.fixture
def new_stage() -> Callable[..., Stage]:
    return Stage


@pytest.fixture
def stage() -> Stage:
    """Three brokers; 1 is controller."""
    made = Stage()
    made.start(1, 2, 3)
    made.quiet()
    return made


@pytest.fixture
def died() -> type[ControllerDied]:
    return ControllerDied


@pytest.fixture
def moved() -> type[ControllerMoved]:
    return ControllerMoved
