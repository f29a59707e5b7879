"""What the active controller of the simulation answers, and what it appends for that.

    answered = Decisions(quorum, settings, random, session_s).answer(request, version)
    await quorum.committed(answered.end)          # then the answer may go out

1. Everything is decided on the image of the end of the log, by the functions that controllers on ZooKeeper use
   (cluster/controller/) and by the plans of administrators (admin.py). Here is only what a KRaft controller does
   besides: it registers brokers, fences them, lets them go, and takes directories of replicas.
2. A registration is fenced and has the offset of its record as epoch. Another incarnation waits for the end of the
   session before it (DUPLICATE_BROKER_REGISTRATION); the same one keeps its epoch.
3. A broker that did not stop in order may lack what it acknowledged: it is not trusted while others can be
   (PreviousBrokerEpoch, KIP-966).
4. Who is not heard of for `session_s` is fenced, the longest silent first. Who just began to lead has heard of all.
5. A broker may stop when all others have applied what took its leaderships away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.group_level import GroupLevelSettings
from ottla.cluster.changes import Change, ChangePartition, RegisterBroker
from ottla.cluster.config_layers import ConfigRules, TopicsInEffect
from ottla.cluster.controller import leaders
from ottla.cluster.controller.broker_changes import elect_all
from ottla.cluster.controller.controller import decide
from ottla.cluster.controller.events import AlterPartitionAsked, ControllerEvent, ProducerIdsAsked, ShutdownAsked
from ottla.cluster.controller.state import ControllerRules, ControllerState
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Endpoint, FeatureRange, Partition
from ottla.cluster.store.events import Controller
from ottla.cluster.topics import TopicRules
from ottla.errors import NONE, DuplicateBrokerRegistration, InconsistentClusterId, StaleBrokerEpoch, UnknownTopicId
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
    TopicData,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.schema import Message
from ottla.simulation.controllers.admin import PLANS, Asked, planned
from ottla.simulation.controllers.truth import Quorum

NEVER: Final = -1


class Answered(NamedTuple):
    """An answer, and what must be committed before it goes out."""

    message: Message
    end: int = 0


class Decisions:
    """See the module; of the node that leads now, in its epoch."""

    def __init__(self, quorum: Quorum, settings: BrokerSettings, random: Random, session_s: float) -> None:
        self._quorum = quorum
        self._random = random
        self._session_s = session_s
        configs = ConfigRules(broker_id=quorum.leader, broker=settings, group=GroupLevelSettings)
        in_effect = TopicsInEffect(configs)
        self._topic_rules = TopicRules(configs, settings.num_partitions, settings.default_replication_factor)
        self._rules = ControllerRules(
            unclean_allowed=lambda image, topic: in_effect.of(image, topic).unclean_leader_election_enable,
            min_insync_replicas=lambda image, topic: in_effect.of(image, topic).min_insync_replicas,
        )
        began_s = quorum.loop.time()
        self._heard_s = {each: began_s for each, broker in self._image.brokers.items() if not broker.fenced}
        self._caught_up_at = {each: broker.epoch for each, broker in self._image.brokers.items()}
        self._applied: dict[int, int] = {}
        self._stopping_at: dict[int, int] = {}

    @property
    def _image(self) -> ClusterImage:
        return self._quorum.image

    @property
    def _state(self) -> ControllerState:
        return ControllerState(Controller(self._quorum.leader, self._quorum.epoch), self._image, self._rules)

    def _decide(self, event: ControllerEvent) -> Any:
        """Append what follows from an event, and from what that makes due; the first reply, if there is one."""
        decided = decide(self._state, event)
        self._quorum.append(decided.changes)
        for each in decided.then:
            self._decide(each)
        return next(iter(decided.replies), None)

    def _append(self, changes: Iterable[Change]) -> None:
        """Append changes, and the elections that they make necessary."""
        self._quorum.append(changes)
        self._quorum.append(elect_all(self._state))

    # --- answering ----------------------------------------------------------------------------------------------------

    def answer(self, request: Message, version: int) -> Answered:
        """Append what must be; what is to be answered, and when. Raises the BrokerError of a plan."""
        if type(request) in PLANS:
            message = self._administer(request, version)
        else:
            message = _ANSWERS[type(request)](self, request)
        return Answered(message, self._quorum.log.end_offset)

    def _administer(self, request: Message, version: int) -> Message:
        plan = planned(request, Asked(self._image, self._topic_rules, self._random, version))
        self._quorum.append(plan.changes)
        for event in plan.due:
            self._decide(event)
        return plan.answer

    def _open_envelope(self, request: EnvelopeRequest) -> Message:
        header, inner = decode_request(bytes(request.request_data))
        version = header.request_api_version
        answer = self.answer(inner, version).message
        parts = encode_response(answer, version=version, correlation_id=header.correlation_id)
        return EnvelopeResponse(error_code=NONE, response_data=b"".join(map(bytes, parts)))

    # --- brokers come and go ------------------------------------------------------------------------------------------

    def _register(self, request: BrokerRegistrationRequest) -> Message:
        known: Broker | None = self._image.brokers.get(request.broker_id)
        if request.cluster_id != self._quorum.cluster_id:
            return BrokerRegistrationResponse(error_code=InconsistentClusterId.code)
        is_same = known is not None and known.incarnation_id == request.incarnation_id
        if not is_same and request.broker_id in self._heard_s:
            return BrokerRegistrationResponse(error_code=DuplicateBrokerRegistration.code)
        end = self._quorum.log.end_offset
        broker = _registered(request, end)
        if known is not None and is_same:
            broker = replace(broker, epoch=known.epoch, fenced=known.fenced)
        self._append([RegisterBroker(broker)])
        if known is not None and not is_same and request.previous_broker_epoch != known.epoch:
            self._append(self._distrusted(broker.id))
        self._caught_up_at[broker.id] = end
        for noted in (self._stopping_at, self._applied):
            noted.pop(broker.id, None)
        return BrokerRegistrationResponse(error_code=NONE, broker_epoch=broker.epoch)

    def _distrusted(self, broker_id: int) -> Iterator[Change]:
        """It may have less than it acknowledged."""
        for name, partition in self._image.partitions():
            after, topic_id = leaders.distrusted(partition, broker_id), self._image.topic_id(name.topic)
            if after is not partition and topic_id is not None:
                yield ChangePartition(topic_id, name.partition, after)

    def _beat(self, request: BrokerHeartbeatRequest) -> Message:
        broker: Broker | None = self._image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=StaleBrokerEpoch.code, should_shut_down=False)
        self._heard_s[broker.id] = self._quorum.loop.time()
        self._applied[broker.id] = request.current_metadata_offset
        is_caught_up = request.current_metadata_offset >= self._caught_up_at[broker.id]
        may_stop = False
        if request.want_shut_down:
            may_stop = self._asked_to_stop(broker)
        elif broker.fenced and is_caught_up and not request.want_fence:
            self._append([RegisterBroker(replace(broker, fenced=False))])
        elif request.want_fence and not broker.fenced:
            self._append([RegisterBroker(replace(broker, fenced=True))])
        return BrokerHeartbeatResponse(
            error_code=NONE,
            is_caught_up=is_caught_up,
            is_fenced=self._image.brokers[broker.id].fenced,
            should_shut_down=may_stop,
        )

    def _asked_to_stop(self, broker: Broker) -> bool:
        """Take everything from it that others can have; whether they all know, so that it may go."""
        if broker.fenced:
            return True
        before = self._quorum.log.end_offset
        self._decide(ShutdownAsked(ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch)))
        if self._quorum.log.end_offset > before:
            self._stopping_at[broker.id] = self._quorum.log.end_offset - 1
        active = [each for each, known in self._image.brokers.items() if not known.fenced]
        if any(self._applied.get(each, NEVER) < self._stopping_at.get(broker.id, NEVER) for each in active):
            return False
        self.expire(broker.id)
        return True

    def fence_the_silent(self) -> None:
        """End the session of who was not heard of for too long: one broker at a time."""
        now_s = self._quorum.loop.time()
        silent = [(heard_s, each) for each, heard_s in self._heard_s.items() if now_s - heard_s > self._session_s]
        if silent:
            self.expire(min(silent)[1])

    def expire(self, broker_id: int) -> None:
        """End the session of a broker, which is fenced then."""
        self._heard_s.pop(broker_id, None)
        broker = self._image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            self._append([RegisterBroker(replace(broker, fenced=True))])

    # --- replicas -----------------------------------------------------------------------------------------------------

    def _alter_partition(self, request: AlterPartitionRequest) -> Message:
        answer: Message = self._decide(AlterPartitionAsked(request))
        return answer

    def _allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Message:
        answer: Message = self._decide(ProducerIdsAsked(request))
        return answer

    def _assign(self, request: AssignReplicasToDirsRequest) -> Message:
        broker = self._image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AssignReplicasToDirsResponse(error_code=StaleBrokerEpoch.code, directories=[])
        directories = [
            ResponseDirectoryData(id=each.id, topics=[self._assigned(broker.id, each, topic) for topic in each.topics])
            for each in request.directories
        ]
        return AssignReplicasToDirsResponse(error_code=NONE, directories=directories)

    def _assigned(self, broker_id: int, directory: DirectoryData, asked: TopicData) -> ResponseTopicData:
        answers = []
        for each in asked.partitions:
            topic, code = self._image.topic_by_id(asked.topic_id), UnknownTopicId.code
            if topic is not None and broker_id in topic.partitions[each.partition_index].replicas:
                changed = _placed(topic.partitions[each.partition_index], broker_id, directory.id)
                self._quorum.append([ChangePartition(topic.id, each.partition_index, changed)])
                code = NONE
            answers.append(ResponsePartitionData(partition_index=each.partition_index, error_code=code))
        return ResponseTopicData(topic_id=asked.topic_id, partitions=answers)


def _registered(request: BrokerRegistrationRequest, epoch: int) -> Broker:
    features = (
        FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in request.features
    )
    return Broker(
        request.broker_id,
        tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners),
        epoch=epoch,
        features=tuple(sorted(features)),
        directories=tuple(sorted(request.log_dirs)),
        fenced=True,
        incarnation_id=request.incarnation_id,
    )


def _placed(partition: Partition, broker_id: int, directory: bytes) -> Partition:
    places = list(partition.directories)
    places[partition.replicas.index(broker_id)] = directory
    return replace(partition, directories=tuple(places), partition_epoch=partition.partition_epoch + 1)


_ANSWERS: Final[Mapping[type[Message], Callable[[Decisions, Any], Message]]] = {
    EnvelopeRequest: Decisions._open_envelope,
    BrokerRegistrationRequest: Decisions._register,
    BrokerHeartbeatRequest: Decisions._beat,
    AlterPartitionRequest: Decisions._alter_partition,
    AllocateProducerIdsRequest: Decisions._allocate_producer_ids,
    AssignReplicasToDirsRequest: Decisions._assign,
}
