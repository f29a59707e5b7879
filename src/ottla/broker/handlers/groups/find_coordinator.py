"""FindCoordinator: which broker looks after a group (key type 0), a transactional id (1) or a share partition (2).

The internal topic is made when somebody first asks; until it has a leader the answer is COORDINATOR_NOT_AVAILABLE, and
clients ask again. A share partition is named group:topic id:partition, and only brokers ask for one, from version 6 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.coordinator import TOPIC as GROUPS_TOPIC
from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.coordinators.transactions.coordinator import TOPIC as TRANSACTIONS_TOPIC
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.model import Endpoint
from ottla.cluster.topic_names import SHARE_GROUP_STATE
from ottla.errors import BrokerError, CoordinatorNotAvailable, InvalidGroupId, InvalidRequest
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.values import uuid_from_text

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SEVERAL_KEYS_SINCE = 4
SHARE_TYPE = 2
SHARE_TYPE_SINCE = 6
TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC, SHARE_TYPE: SHARE_GROUP_STATE}


DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.ENTRY, when="key type 0")
DESCRIBE_ID = Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, Refused.ENTRY, when="key type 1")
CLUSTER_ACTION = Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, Refused.ENTRY, when="key type 2")
SERVES = Served(FindCoordinatorRequest, is_paced=True, needs=(DESCRIBE_GROUP, DESCRIBE_ID, CLUSTER_ACTION))
NEEDS = {0: DESCRIBE_GROUP, 1: DESCRIBE_ID}


async def handle(broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.api_version >= SEVERAL_KEYS_SINCE:
        return await _many(broker, request, context)
    only = _one(broker, request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _many(broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    found = []
    with broker.pacing.turn(context.connection) as pace:
        for key in request.coordinator_keys:
            found.append(_one(broker, key, request.key_type, context))
            await pace.step()
    return FindCoordinatorResponse(coordinators=found)


def _one(broker: Broker, key: str, key_type: int, context: RequestContext) -> Coordinator:
    try:
        if key_type in NEEDS:
            NEEDS[key_type].check(broker, context, key)
        elif key_type == SHARE_TYPE:
            CLUSTER_ACTION.check(broker, context)
            _check_share_key(key, context.api_version)
        node_id, endpoint = _look_up(broker, key, key_type, context.listener)
    except BrokerError as error:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=str(error))
    return Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port, error_code=0)


def _check_share_key(key: str, api_version: int) -> None:
    group_id, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    try:
        uuid_from_text(topic_id)
        is_whole = bool(group_id) and int(partition) >= 0
    except ValueError:
        is_whole = False
    if not is_whole or api_version < SHARE_TYPE_SINCE:
        raise InvalidRequest(f"{key!r} names no share partition, or version {api_version} knows none")


def _look_up(broker: Broker, key: str, key_type: int, listener: str) -> tuple[int, Endpoint]:
    topic = TOPICS.get(key_type)
    if topic is None:
        raise InvalidRequest(f"key type {key_type} is not served here")
    if not key and topic == GROUPS_TOPIC:
        raise InvalidGroupId("a group has a name")
    count = broker.image.partition_count(topic)
    if count is None:
        broker.topics_on_demand.create_internal(topic)
        count = broker.image.partition_count(topic)
    if count is None:
        raise CoordinatorNotAvailable(f"{topic} is being created")
    state = broker.image.partition(topic, partition_for_name(key, count))
    leader = broker.image.brokers.get(state.leader) if state is not None else None
    endpoint = leader.endpoint(listener) if leader is not None else None
    if leader is None or endpoint is None:
        raise CoordinatorNotAvailable(f"no leader for the partition of {topic} that {key!r} belongs to")
    return leader.id, endpoint
