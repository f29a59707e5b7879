"""What ShareFetch and ShareAcknowledge have in common: who asks, what is acknowledged, and how partitions that are led
elsewhere are named in the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.share_state.state import ShareKey
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Running
from ottla.broker.security.needs import Need
from ottla.broker.sharing.acknowledgements import WireBatch, read_acknowledgements
from ottla.broker.sharing.sessions import Place, SessionKey
from ottla.errors import (
    BrokerError,
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MEMBER_ID_LIMIT: Final = 36  # as in Kafka: a uuid with its hyphens; whether it is one does not matter
FEATURE: Final = "share.version"
MOVED: Final = (NotLeaderOrFollower.code, FencedLeaderEpoch.code)
NOBODY: Final = -1


class Leader(NamedTuple):
    leader_id: int = NOBODY
    leader_epoch: int = NOBODY


def check_enabled(broker: Broker) -> None:
    if not broker.image.feature(FEATURE):
        raise UnsupportedVersion("share groups are not enabled: the feature share.version is 0")


def session_key(broker: Broker, group_id: str | None, member_id: str | None) -> SessionKey:
    check_enabled(broker)
    if not group_id:
        raise InvalidRequest("a share group has a name")
    if not member_id or len(member_id) > MEMBER_ID_LIMIT:
        raise InvalidRequest("Invalid member id in the request.")
    return SessionKey(group_id, member_id)


def refused_topics(broker: Broker, context: RequestContext, need: Need, topic_ids: Iterable[bytes]) -> frozenset[bytes]:
    """Those that whoever asks may not read; an id that nobody has hides nothing."""
    if not broker.access.is_on:
        return frozenset()
    names = {topic_id: broker.image.topic_name(topic_id) for topic_id in topic_ids}
    allowed = need.met_by(broker, context, {name for name in names.values() if name is not None})
    return frozenset(topic_id for topic_id, name in names.items() if name is not None and name not in allowed)


def partition_led_here(broker: Broker, place: Place, refused: frozenset[bytes]) -> Partition:
    """The partition that a request names; raises why whoever asks cannot have it here."""
    if place.topic_id in refused:
        raise TopicAuthorizationFailed("this topic")
    name = broker.image.topic_name(place.topic_id)
    if name is None:
        raise UnknownTopicId()
    partition = broker.replicas.get(TopicPartition(name, place.partition))
    if partition is None:
        raise UnknownTopicOrPartition(f"{name}-{place.partition}")
    partition.check_leader()
    return partition


class Acknowledging:
    """What one request says about records. All of it is begun before any of it is awaited."""

    def __init__(self, broker: Broker, key: SessionKey, refused: frozenset[bytes], *, is_renewing: bool) -> None:
        self._broker = broker
        self._key = key
        self._refused = refused
        self._is_renewing = is_renewing
        self._may_renew = broker.sharing.leaders.settings_of(key.group_id).may_renew
        self._said: dict[Place, Running[BrokerError | None]] = {}

    def begin(self, place: Place, batches: Sequence[WireBatch]) -> None:
        self._said[place] = Running(self._one(place, batches))

    async def errors(self) -> Mapping[Place, BrokerError | None]:
        """What became of every partition; None is that it is kept."""
        return {place: await each.wait() for place, each in self._said.items()}

    async def _one(self, place: Place, batches: Sequence[WireBatch]) -> BrokerError | None:
        leaders = self._broker.sharing.leaders
        try:
            said = read_acknowledgements(batches, is_renewing=self._is_renewing, may_renew=self._may_renew)
            partition_led_here(self._broker, place, self._refused)
            led = leaders.find(ShareKey(self._key.group_id, *place))
            if led is None:
                raise UnknownTopicOrPartition("nothing of it was fetched here")
            await leaders.acknowledge(led, self._key.member_id, said)
        except BrokerError as error:
            return error
        return None


def leader_of(broker: Broker, place: Place) -> Leader:
    """Who leads a partition, as far as is known here."""
    name = broker.image.topic_name(place.topic_id)
    state = None if name is None else broker.image.partition(name, place.partition)
    return Leader() if state is None else Leader(state.leader, state.leader_epoch)


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def nodes_of(broker: Broker, leaders: Iterable[Leader], listener: str) -> list[Node]:
    """Where those leaders are reached."""
    found = []
    for broker_id in sorted({each.leader_id for each in leaders if each.leader_id >= 0}):
        node = broker.image.brokers.get(broker_id)
        endpoint = None if node is None else node.endpoint(listener)
        if node is not None and endpoint is not None:
            found.append(Node(node.id, endpoint.host, endpoint.port, node.rack))
    return found
