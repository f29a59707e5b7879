"""Asks the share coordinator, wherever it is, about one share partition at a time.

1. A share partition belongs to one partition of __share_group_state, by its name; the topic is made when somebody first
   needs it. Its leader is asked: here, or over the network.
2. What may pass (a coordinator that is loading, moved, or cannot be reached) is tried again with growing pauses until
   PATIENCE_MS are over. Asking twice does no harm: every request says what is to be, not what is to change.
3. The answer's error is raised, in the words that a leader or a group coordinator passes on to its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.broker.coordinators.coordinator import Method
from ottla.broker.coordinators.share_state.shard import ShareStateShard
from ottla.broker.coordinators.share_state.state import NOT_SET, ShareKey
from ottla.broker.requests.context import RequestContext
from ottla.broker.sharing.share_partition import StateBatch, StateWrite
from ottla.cluster.topic_names import SHARE_GROUP_STATE
from ottla.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    NotCoordinator,
    NotLeaderOrFollower,
    OttlaError,
    UnknownServerError,
    error_for_code,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as initializing
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summarizing
from ottla.protocol.messages import write_share_group_state as writing
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PATIENCE_MS: Final = 10_000
FIRST_PAUSE_MS: Final = 20
LONGEST_PAUSE_MS: Final = 500
_PASSES: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, NotLeaderOrFollower)
NOBODY: Final = RequestContext(api_version=1, client_id="", client_host="")


class Result(Protocol):
    """Of one partition."""

    error_code: int
    error_message: str | None


R = TypeVar("R", bound=Message)
T = TypeVar("T", bound=Result)


class KeptState(NamedTuple):
    """What is kept of a share partition."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class Summary(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int


class Persister:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        data = initializing.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        topic = initializing.InitializeStateData(topic_id=key.topic_id, partitions=[data])
        request = initializing.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        await self._ask(key, ShareStateShard.initialize, request, _initialized)

    async def read(self, key: ShareKey, leader_epoch: int) -> KeptState:
        data = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=key.topic_id, partitions=[data])
        request = reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        found = await self._ask(key, ShareStateShard.read, request, _read)
        batches = [
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        ]
        return KeptState(found.state_epoch, found.start_offset, tuple(batches))

    async def write(self, key: ShareKey, state_epoch: int, leader_epoch: int, state: StateWrite) -> None:
        data = writing.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
            state_batches=_written(state.batches),
        )
        topic = writing.WriteStateData(topic_id=key.topic_id, partitions=[data])
        request = writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        await self._ask(key, ShareStateShard.write, request, _kept)

    async def delete(self, key: ShareKey) -> None:
        data = deleting.PartitionData(partition=key.partition)
        topic = deleting.DeleteStateData(topic_id=key.topic_id, partitions=[data])
        request = deleting.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        await self._ask(key, ShareStateShard.delete, request, _deleted)

    async def summary(self, key: ShareKey) -> Summary:
        data = summarizing.PartitionData(partition=key.partition, leader_epoch=NOT_SET)
        topic = summarizing.ReadStateSummaryData(topic_id=key.topic_id, partitions=[data])
        request = summarizing.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])
        found = await self._ask(key, ShareStateShard.summary, request, _summary)
        return Summary(found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count)

    async def _ask(
        self, key: ShareKey, method: Method[ShareStateShard, R], request: R, result_of: Callable[[Message], T]
    ) -> T:
        """What the answer says about the one partition of the request."""
        deadline_ms = self._broker.clock.monotonic_ms() + PATIENCE_MS
        pause_ms = FIRST_PAUSE_MS
        while True:
            try:
                result = result_of(await self._ask_once(key, method, request))
                if result.error_code:
                    raise error_for_code(result.error_code)(result.error_message)
                return result
            except _PASSES as error:
                if self._broker.clock.monotonic_ms() + pause_ms > deadline_ms:
                    raise CoordinatorNotAvailable(error.brief) from error
            await self._broker.clock.sleep(pause_ms)
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)

    async def _ask_once(self, key: ShareKey, method: Method[ShareStateShard, R], request: R) -> Message:
        broker = self._broker
        if broker.image.partition_count(SHARE_GROUP_STATE) is None:
            broker.topics_on_demand.create_internal(SHARE_GROUP_STATE)
            raise CoordinatorNotAvailable(f"{SHARE_GROUP_STATE} is being created")
        coordinator = broker.coordinators.share_state
        index = coordinator.partition_of(key.name)
        if broker.link.leads_elsewhere(SHARE_GROUP_STATE, index):
            try:
                return await broker.link.ask_leader(SHARE_GROUP_STATE, index, request)
            except (OttlaError, OSError) as error:
                raise CoordinatorNotAvailable(str(error)) from error
        answer: Message = await coordinator.ask(key.name, method, request, NOBODY)
        return answer


def _initialized(answer: Message) -> initializing.PartitionResult:
    assert isinstance(answer, initializing.InitializeShareGroupStateResponse)
    return answer.results[0].partitions[0]


def _read(answer: Message) -> reading.PartitionResult:
    assert isinstance(answer, reading.ReadShareGroupStateResponse)
    return answer.results[0].partitions[0]


def _kept(answer: Message) -> writing.PartitionResult:
    assert isinstance(answer, writing.WriteShareGroupStateResponse)
    return answer.results[0].partitions[0]


def _deleted(answer: Message) -> deleting.PartitionResult:
    assert isinstance(answer, deleting.DeleteShareGroupStateResponse)
    return answer.results[0].partitions[0]


def _summary(answer: Message) -> summarizing.PartitionResult:
    assert isinstance(answer, summarizing.ReadShareGroupStateSummaryResponse)
    return answer.results[0].partitions[0]


def leader_error(error: BrokerError) -> BrokerError:
    """What a member is told when the state of a share partition could not be read or kept."""
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch):
        return NotLeaderOrFollower(f"another leader, or an administrator, has changed the state: {error.detail}")
    if isinstance(error, InvalidRequest):  # ours, not the member's: nobody has said where the group begins
        return UnknownServerError(str(error.detail))
    return error


def _written(batches: Sequence[StateBatch]) -> list[writing.StateBatch]:
    return [
        writing.StateBatch(
            first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.deliveries
        )
        for each in batches
    ]
