"""How a broker is linked to its cluster. Handlers and coordinators use this and never ask whether they are alone.

alone.py        the broker is the whole cluster: it keeps the truth in its own store and decides by itself
membership.py   one of several: a controller among them decides, other brokers lead other partitions
kraft/link.py   one of several under the controllers of a metadata log, which decide
quorum/link.py  no broker at all: a controller of a metadata log, which the others ask
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.cluster.changes import P
from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock
from ottla.broker.requests.context import RequestContext
from ottla.cluster import model
from ottla.cluster.image import ClusterImage
from ottla.cluster.raft.log import LogState, MetadataLog
from ottla.errors import NotController
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.broker_addresses import BrokerAddresses
    from ottla.broker.cluster.controller_orders import ControllerOrders
    from ottla.broker.cluster.controller_role import ControllerRole
    from ottla.broker.observe.counts import ControllerCounts
    from ottla.broker.replication.followers import Followers
    from ottla.net.connection import ApiVersionTable


class Decider(Protocol):
    """What metrics tell of a controller."""

    counts: ControllerCounts

    @property
    def is_active(self) -> bool: ...
    @property
    def waiting_count(self) -> int:
        """Events that wait to be decided."""


class ClusterLink(Protocol):
    """What a broker can do in its cluster. Whatever is refused is raised as a BrokerError."""

    is_alone: bool
    """Nobody else decides: no other broker is asked, and none asks."""
    is_controller: bool
    """A controller of a metadata log, which serves what controllers serve."""
    passed_on: frozenset[int]
    """The keys of APIs whose requests are none of this broker's handlers': `forward` answers them, always."""

    @property
    def passed_on_versions(self) -> ApiVersionTable | None:
        """What those speak that `passed_on` is passed on to; None where nothing is, or it is not known yet."""

    @property
    def decider(self) -> Decider | None:
        """The controller of this node, active or not; None where it has none, or is alone."""

    @property
    def addresses(self) -> BrokerAddresses | None:
        """Where brokers ask from; None where there are no others."""

    @property
    def epoch(self) -> int:
        """Of this broker's registration; -1 while it has none."""

    @property
    def metadata_directory_id(self) -> bytes:
        """Of the directory with which this node votes in the quorum; zeros where it has no vote."""

    @property
    def controller_for_clients(self) -> int:
        """Which broker clients are told to send to what only a controller does; -1 for none."""

    @property
    def replication(self) -> Followers: ...

    async def prepare(self) -> None:
        """What can be done before this broker is known to anybody, and long before a port is open."""

    async def start(self, me: model.Broker) -> None:
        """Register, and know the cluster: when it returns, clients are answered rightly."""

    async def stop(self) -> None:
        """Leave in order."""

    async def vanish(self) -> None:
        """For tests: end without a word to anybody."""

    def log_state(self) -> LogState | None:
        """Of the metadata log of this node; None where the truth is kept elsewhere."""

    @property
    def metadata_log(self) -> MetadataLog | None:
        """That log itself, to be read; None where there is none, or it has failed."""

    @property
    def is_idle(self) -> bool:
        """Nothing is being changed."""

    async def change(self, make_plan: Callable[[ClusterImage], P]) -> P:
        """Plan on the newest image; returns the plan when its changes are stored and applied here."""

    async def forward(self, request: Message, context: RequestContext) -> Message | None:
        """The controller's answer to what only it decides; None when this broker decides it, or nobody could be
        asked."""

    async def create_topic(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None:
        """Create a topic that a client, or a coordinator, needs. It counts against the quota of the client."""

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids that nobody else has."""

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        """Whether another broker leads this partition, as far as is known here."""

    async def ask_leader(self, topic: str, partition: int, request: Message) -> Message:
        """Ask the other broker that leads a partition; raises an OttlaError when it cannot be asked."""

    async def ask_broker(self, broker_id: int, request: Message) -> Message:
        """Ask another broker of the cluster; raises an OttlaError when it cannot be asked."""

    def directory_failed(self) -> None:
        """A log directory of this broker is offline."""

    def replica_moved(self, name: TopicPartition) -> None:
        """The log of a partition lies in another directory of this broker now."""


class Member(Protocol):
    """What is beside the link where a controller gives orders and any broker may be controller: the cluster is kept in
    ZooKeeper, or by a keeper on this machine. A broker of a metadata log has none of it."""

    orders: ControllerOrders
    role: ControllerRole


def member_of(broker: Broker) -> Member:
    if broker.member is None:
        raise NotController("no broker of this cluster is controller, and none gives orders")
    return broker.member
