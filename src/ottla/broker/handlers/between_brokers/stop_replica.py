"""StopReplica: the controller says which replicas stop following here, and which are deleted.

Refused as a whole as LeaderAndIsr is; a partition whose leader epoch is newer here than in the order is
FENCED_LEADER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.apply import apply_moves
from ottla.broker.replication.orders import stops, stops_answer
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.errors import BrokerError
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(StopReplicaRequest, entries=WIDE_ENTRIES, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    async with broker.orders:
        try:
            broker.replicas.check_order(request.controller_epoch, request.broker_epoch, broker.image)
        except BrokerError as error:
            answer = stops_answer(dict.fromkeys((each.name for each in stops(request)), error.code))
            answer.error_code = error.code
            return answer
        with broker.pacing.turn() as pace:
            answer, moves = await broker.replicas.stop(request, broker.image, broker.clock.now_ms(), pace=pace)
            await apply_moves(broker, moves, pace)
    return answer
