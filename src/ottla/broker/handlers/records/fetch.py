"""Fetch: read record batches from partitions that this broker leads, or follows.

The answer holds slices of files, not records (network/processor.py sends them). It comes when min_bytes can be
read, when a partition has an error, or after max_wait_ms. max_bytes, at most fetch.max.bytes, limits the whole answer
and partition_max_bytes each partition; the first batch of the first partition with data is always whole, so that a
large record cannot block a reader. read_committed reads up to the last stable offset and names the aborted
transactions.

A fetch of more than WIDE_PARTITIONS is read with pauses, and while it waits only the partition that changed is looked
at: otherwise one consumer of everything would make every append cost a look at everything.

A follower names itself: it reads up to the end of the log, and by asking for an offset says that it has all before it.
A consumer from version 11 on may be sent to a replica near it, and is served by followers up to what they know to be
committed (KIP-392).

The fetches of followers that go on are flat values, not messages (fetch/simple.py): every copy of a record comes this
way.

Versions: 7 sessions, 9 leader epoch check, 12 diverging epochs, 13 topic ids, 15 replica state in a tag.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.fetch.attempt import TOPIC_IDS_SINCE, Attempt, WideAttempt
from ottla.broker.fetch.choice import scan_asked, write_fetched
from ottla.broker.fetch.frames import SimpleAnswer, SimpleAsked
from ottla.broker.fetch.reader import replica_of
from ottla.broker.fetch.sessions import FetchKey, FetchPlan, FetchPosition
from ottla.broker.fetch.simple import answer_follower
from ottla.broker.network.processor import FOLLOWER_PORTION_BYTES, Piece
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.requests.served import WIDE_ENTRIES, Decode, Encode, Quota, Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.compiled import decoder, encoder
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Fetched: TypeAlias = SimpleAnswer | Work[SimpleAnswer | FetchResponse]

WIDE_PARTITIONS: Final = 256
FOLLOWER_PARTITIONS: Final = 16

READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY, when="of consumers")
CLUSTER_ACTION = Need(
    AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, Refused.ENTRY, when="of followers", refused_as=AclResource.TOPIC
)


def _is_follower(request: FetchRequest | SimpleAsked, version: int) -> bool:
    return replica_of(request, version)[0] >= 0


def codec(version: int) -> tuple[Decode, Encode]:
    """Flat values instead of messages where a follower's session goes on."""
    read: Decode = partial(decoder(FetchRequest, version), left=WIDE_ENTRIES)
    write = encoder(FetchResponse, version)

    def decode(frame: memoryview, position: int) -> tuple[FetchRequest | SimpleAsked, int]:
        asked = scan_asked(version, frame, position)
        return read(frame, position) if asked is None or asked.replica_id < 0 else (asked, len(frame))

    def encode(answer: FetchResponse | SimpleAnswer) -> list[Piece]:
        return write_fetched(version, *answer) if isinstance(answer, SimpleAnswer) else [*write(answer)]

    return decode, encode


SERVES = Served(
    FetchRequest,
    entries=WIDE_ENTRIES,
    is_paced=True,
    needs=(READ_TOPIC, CLUSTER_ACTION),
    quota=Quota.FETCH,
    exempts=_is_follower,
    codec=codec,
)


def handle(
    broker: Broker, request: FetchRequest | SimpleAsked, context: RequestContext
) -> Fetched | FetchResponse | Work[FetchResponse]:
    if isinstance(request, SimpleAsked):
        return _handle_simple(broker, request, context)
    return _handle(broker, request, context)


def _handle_simple(
    broker: Broker, request: SimpleAsked, context: RequestContext
) -> Fetched | FetchResponse | Work[FetchResponse]:
    if context.connection is not None:
        context.connection.kernel_portion_bytes = FOLLOWER_PORTION_BYTES
    answer = answer_follower(broker, request, context)
    return _handle(broker, request.message(context.api_version), context) if answer is None else answer


def _handle(broker: Broker, request: FetchRequest, context: RequestContext) -> FetchResponse | Work[FetchResponse]:
    count = sum([len(topic.partitions) for topic in request.topics]) + broker.fetch_sessions.size_of(request.session_id)
    is_follower = _is_follower(request, context.api_version)
    if is_follower and context.connection is not None:
        context.connection.kernel_portion_bytes = FOLLOWER_PORTION_BYTES
    # A follower waits at every leader for all it has: what changes anywhere must not cost a look at all of it.
    if count > (FOLLOWER_PARTITIONS if is_follower else WIDE_PARTITIONS):
        return _fetch_wide(broker, request, context)
    try:
        plan = _plan(broker, request, context, _wanted(broker, request, context))
    except BrokerError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return Attempt(broker, request, context, plan, _readable(broker, request, context, plan)).answer()


async def _fetch_wide(broker: Broker, request: FetchRequest, context: RequestContext) -> FetchResponse:
    with broker.pacing.turn(context.connection) as pace:
        wanted = []
        for each in _wanted(broker, request, context):
            wanted.append(each)
            await pace.step()
        try:
            plan = _plan(broker, request, context, wanted)
        except BrokerError as error:
            return FetchResponse(error_code=error.code, responses=[])
        readable = _readable(broker, request, context, plan)
        return await WideAttempt(broker, request, context, plan, readable, pace).answer()


def _plan(
    broker: Broker, request: FetchRequest, context: RequestContext, wanted: Iterable[tuple[FetchKey, FetchPosition]]
) -> FetchPlan:
    uses_ids = context.api_version >= TOPIC_IDS_SINCE
    return broker.fetch_sessions.plan(
        request.session_id,
        request.session_epoch,
        wanted,
        _forgotten(broker, request, uses_ids),
        uses_topic_ids=uses_ids,
        is_follower=_is_follower(request, context.api_version),
        now_ms=broker.clock.monotonic_ms(),
        name_of=partial(_name, broker),
    )


def _readable(
    broker: Broker, request: FetchRequest, context: RequestContext, plan: FetchPlan
) -> Collection[str] | None:
    """The topics that who asks may read, also those that its session remembers; None is all of them."""
    if not broker.access.is_on:
        return None
    if _is_follower(request, context.api_version):
        return None if CLUSTER_ACTION.is_met(broker, context) else ()
    known = READ_TOPIC.remembered(broker, context)
    for key, _ in plan.wanted:
        if key.topic not in known and key.topic:
            break
    else:
        return None
    named = {key.topic for key, _ in plan.wanted if key.topic}
    return {"", *READ_TOPIC.met_by(broker, context, named)}  # an id that nobody has hides nothing


def _wanted(broker: Broker, request: FetchRequest, context: RequestContext) -> Iterator[tuple[FetchKey, FetchPosition]]:
    uses_ids = context.api_version >= TOPIC_IDS_SINCE
    for topic in request.topics:
        name = _name(broker, topic.topic_id) if uses_ids else topic.topic
        for partition in topic.partitions:
            position = FetchPosition(
                fetch_offset=partition.fetch_offset,
                max_bytes=partition.partition_max_bytes,
                current_leader_epoch=partition.current_leader_epoch,
                last_fetched_epoch=partition.last_fetched_epoch,
                log_start_offset=partition.log_start_offset,
            )
            yield FetchKey(topic.topic_id, name, partition.partition), position


def _forgotten(broker: Broker, request: FetchRequest, uses_ids: bool) -> list[FetchKey]:
    found = []
    for topic in request.forgotten_topics_data:
        name = _name(broker, topic.topic_id) if uses_ids else topic.topic
        found += [FetchKey(topic.topic_id, name, partition) for partition in topic.partitions]
    return found


def _name(broker: Broker, topic_id: bytes) -> str:
    """The name of a topic; a follower may ask for one that only the controller's orders have told us of yet."""
    return broker.image.topic_name(topic_id) or broker.replicas.topic_name(topic_id) or ""
