"""ShareFetch: a member of a share group acquires records of partitions that this broker leads, and may acknowledge
earlier ones (KIP-932).

    share_session_epoch 0   begins a session, nothing can be acknowledged yet; -1 ends it
    from version 2 on       share_acquire_mode 1: not one record more than max_records (KIP-1206);
                            is_renew_ack: locks are renewed, and nothing is fetched (KIP-1222)

Acknowledgements come first, so what is released can be acquired by the same request. The answer names partitions with
records, with errors, and with something acknowledged; the first one of a session names all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Quota, Served
from ottla.broker.security.needs import Need, Refused
from ottla.broker.sharing.fetching import Found, ShareFetching
from ottla.broker.sharing.requests import (
    MOVED,
    Acknowledging,
    Leader,
    leader_of,
    nodes_of,
    refused_topics,
    session_key,
)
from ottla.broker.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, SessionKey, ShareSession
from ottla.errors import NONE, BrokerError, InvalidRequest
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(ShareFetchRequest, needs=(READ_GROUP, READ_TOPIC), quota=Quota.FETCH)


async def handle(broker: Broker, request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    try:
        key = session_key(broker, request.group_id, request.member_id)
        READ_GROUP.check(broker, context, key.group_id)
        _check(request)
        session = _session(broker, request, key, context)
    except BrokerError as error:
        return _refusal(error)
    refused = refused_topics(broker, context, READ_TOPIC, _topic_ids(request, session))
    acknowledging = Acknowledging(broker, key, refused, is_renewing=request.is_renew_ack)
    for topic in request.topics:
        for each in topic.partitions:
            if each.acknowledgement_batches:
                acknowledging.begin(Place(topic.topic_id, each.partition_index), each.acknowledgement_batches)
    found: list[Found] = []
    if session is not None and not request.is_renew_ack and request.max_records > 0 and request.max_bytes > 0:
        found = await _fetch(broker, request, context, session, refused)
    kept = await acknowledging.errors()
    if session is None:
        broker.sharing.close_session(key)
    named = list(session.wanted) if session is not None and request.share_session_epoch == INITIAL_EPOCH else []
    return _Answer(broker, context).make(key, found, kept, named)


def _check(request: ShareFetchRequest) -> None:
    has_said = any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions)
    if has_said and request.share_session_epoch == INITIAL_EPOCH:
        raise InvalidRequest("the first request of a share session cannot acknowledge anything")
    if request.share_session_epoch < FINAL_EPOCH or request.share_acquire_mode not in (0, 1):
        raise InvalidRequest("no such session epoch, or no such mode to acquire by")
    if request.is_renew_ack and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
        raise InvalidRequest("a request that renews locks fetches nothing")


def _session(
    broker: Broker, request: ShareFetchRequest, key: SessionKey, context: RequestContext
) -> ShareSession | None:
    """The session to fetch for; None when it ends."""
    sharing = broker.sharing
    wanted = [Place(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
    if request.share_session_epoch == FINAL_EPOCH:
        sharing.sessions.find(key)
        return None
    if request.share_session_epoch == INITIAL_EPOCH:
        return sharing.open_session(key, wanted, context)
    forgotten = [Place(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions]
    return sharing.sessions.go_on(key, request.share_session_epoch, wanted, forgotten)


def _topic_ids(request: ShareFetchRequest, session: ShareSession | None) -> set[bytes]:
    named = {topic.topic_id for topic in request.topics}
    return named if session is None else named | {place.topic_id for place in session.wanted}


async def _fetch(
    broker: Broker,
    request: ShareFetchRequest,
    context: RequestContext,
    session: ShareSession,
    refused: frozenset[bytes],
) -> list[Found]:
    found = await ShareFetching(broker, request, context, session.in_turn(), refused).found()
    if context.connection is not None and context.connection.is_gone:
        # Its locks were ended when it left, but for those of just now.
        broker.sharing.leaders.release(session.key.group_id, session.key.member_id)
    return found


def _refusal(error: BrokerError) -> ShareFetchResponse:
    return ShareFetchResponse(
        error_code=error.code,
        error_message=error.brief,
        acquisition_lock_timeout_ms=0,
        responses=[],
        node_endpoints=[],
    )


class _Answer:
    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._leaders: list[Leader] = []

    def make(
        self, key: SessionKey, found: list[Found], kept: Mapping[Place, BrokerError | None], named: list[Place]
    ) -> ShareFetchResponse:
        by_place = {each.place: each for each in found}
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for place in dict.fromkeys([*by_place, *kept, *named]):
            topic = topics.setdefault(
                place.topic_id, ShareFetchableTopicResponse(topic_id=place.topic_id, partitions=[])
            )
            topic.partitions.append(self._partition(place, by_place.get(place), kept.get(place)))
        return ShareFetchResponse(
            error_code=NONE,
            throttle_time_ms=self._throttle_ms(found),
            acquisition_lock_timeout_ms=self._broker.sharing.leaders.limits_of(key.group_id).lock_ms,
            responses=list(topics.values()),
            node_endpoints=[
                NodeEndpoint(**each._asdict()) for each in nodes_of(self._broker, self._leaders, self._context.listener)
            ],
        )

    def _throttle_ms(self, found: list[Found]) -> int:
        charges = self._context.charges
        size_bytes = sum([len(each.records) for each in found if each.records is not None])
        return 0 if charges is None else charges.fetched(size_bytes, self._broker.clock.monotonic_ms())

    def _partition(self, place: Place, found: Found | None, problem: BrokerError | None) -> PartitionData:
        error = None if found is None else found.error
        moved = [each for each in (error, problem) if each is not None and each.code in MOVED]
        leader = leader_of(self._broker, place) if moved else Leader()
        if moved:
            self._leaders.append(leader)
        records = None if found is None else found.records
        self._count(place, 0 if records is None else len(records))
        return PartitionData(
            partition_index=place.partition,
            error_code=NONE if error is None else error.code,
            error_message=None if error is None else error.brief,
            acknowledge_error_code=NONE if problem is None else problem.code,
            acknowledge_error_message=None if problem is None else problem.brief,
            current_leader=LeaderIdAndEpoch(**leader._asdict()),
            records=b"" if records is None else records,
            acquired_records=[]
            if found is None
            else [
                AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.deliveries)
                for each in found.acquired
            ],
        )

    def _count(self, place: Place, size_bytes: int) -> None:
        name = self._broker.image.topic_name(place.topic_id)
        if size_bytes and name is not None:
            self._broker.topic_metrics.fetched(name, size_bytes)
