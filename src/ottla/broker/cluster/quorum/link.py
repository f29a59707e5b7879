"""ClusterLink of a controller: what handlers change goes to the queue of its decisions.

The handlers of administrators' requests are the same for a broker of its own and for a controller; they work on a
`Broker`. A controller has one without logs: its image, rights, quotas and settings, and this link. Handlers of what
only controllers answer (broker/handlers/controllers/) find Raft and the decisions here.

1. The image is what is committed. While this node is the active controller it is shown with every commit, before the
   answer; otherwise it is read from the log (kraft/log_following.py).
2. Whatever needs partitions is none of a controller's affair and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.changes import P
from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock
from ottla.broker.replication.followers import Followers, NoFollowers
from ottla.broker.requests.context import RequestContext
from ottla.cluster import model
from ottla.cluster.changes import AlterConfig, Change
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import ResourceType
from ottla.cluster.raft.log import LogState, MetadataLog
from ottla.errors import BrokerNotAvailable, NotLeaderOrFollower
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.broker_addresses import BrokerAddresses
    from ottla.broker.cluster.kraft.controllers import ControllerConnections
    from ottla.broker.cluster.kraft.log_following import LogFollowing
    from ottla.broker.cluster.kraft.raft_loop import RaftLoop
    from ottla.broker.cluster.link import Decider
    from ottla.broker.cluster.quorum.quorum_controller import QuorumController

NO_PARTITIONS: Final = "a controller has no partitions but that of the metadata log"


class ControllerLink:
    """See the module. Belongs to the loop of its node."""

    is_alone = True
    is_controller = True
    epoch = -1
    passed_on: frozenset[int] = frozenset()
    passed_on_versions = None
    addresses: BrokerAddresses | None = None
    is_idle = True

    def __init__(self, broker: Broker) -> None:
        self.replication: Followers = NoFollowers()
        self._broker = broker
        self.controller: QuorumController
        self.following: LogFollowing
        self.connections: ControllerConnections
        """All are there before the first request is read."""

    @property
    def decider(self) -> Decider | None:
        return self.controller

    @property
    def raft_loop(self) -> RaftLoop:
        return self.following.quorum

    @property
    def metadata_directory_id(self) -> bytes:
        return self.raft_loop.raft.node.key.directory_id

    @property
    def controller_for_clients(self) -> int:
        """The active controller; -1 while nobody knows it."""
        leader_id = self.raft_loop.raft.leader_view.leader_id
        return NO_CONTROLLER if leader_id < 0 else leader_id

    def log_state(self) -> LogState | None:
        return None if self.following.has_failed else self.following.log_state()

    @property
    def metadata_log(self) -> MetadataLog | None:
        return None if self.following.has_failed else self.raft_loop.raft.log

    # --- the image ----------------------------------------------------------------------------------------------------

    async def follow(self, image: ClusterImage, changes: Sequence[Change] | None) -> None:
        """The log was read so far."""
        self.show(image, changes)

    def show(self, image: ClusterImage, changes: Sequence[Change] | None) -> None:
        """That is committed; what is known already is passed over."""
        broker = self._broker
        if image.change_number <= broker.image.change_number and changes is not None:
            return
        broker.take_image(image)
        if changes is None or any(
            isinstance(change, AlterConfig) and change.resource.type is ResourceType.BROKER for change in changes
        ):
            broker.load_dynamic_settings()

    # --- changes ------------------------------------------------------------------------------------------------------

    async def change(self, make_plan: Callable[[ClusterImage], P]) -> P:
        return await self.controller.change(make_plan)

    async def forward(self, request: Message, context: RequestContext) -> Message | None:
        """Nothing is passed on: reads are answered from the image of this controller, and who wants a change of one
        that is not active is told so by `change`."""
        return None

    async def ask_active(self, request: Message, timeout_ms: float) -> Message:
        """The active controller's answer to this node, whose rights count there; raises an OttlaError at once while
        nobody is known."""
        return await self.connections.questions.ask(request, timeout_ms)

    # --- coming and going ---------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Nothing is to be made ready."""

    async def start(self, me: model.Broker) -> None:
        """It is started as a controller."""

    async def stop(self) -> None:
        """It is stopped as a controller."""

    async def vanish(self) -> None:
        """Likewise."""

    # --- what only brokers have ---------------------------------------------------------------------------------------

    async def create_topic(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None:
        raise NotLeaderOrFollower(NO_PARTITIONS)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        raise NotLeaderOrFollower(NO_PARTITIONS)

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        return False

    async def ask_leader(self, topic: str, partition: int, request: Message) -> Message:
        raise NotLeaderOrFollower(NO_PARTITIONS)

    async def ask_broker(self, broker_id: int, request: Message) -> Message:
        raise BrokerNotAvailable(NO_PARTITIONS)

    def replica_moved(self, name: TopicPartition) -> None:
        """There are none."""

    def directory_failed(self) -> None:
        """Raft hears of it."""


def controller_link(broker: Broker) -> ControllerLink:
    """The link of a controller's broker, for the handlers that only controllers have."""
    link = broker.link
    assert isinstance(link, ControllerLink), "only controllers serve this"
    return link
