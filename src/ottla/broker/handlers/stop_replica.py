"""StopReplica: the controller says which replicas stop following here, and which are deleted.

Refused as a whole as LeaderAndIsr is; a partition whose leader epoch is newer here than in the order is
FENCED_LEADER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.replication.orders import stops, stops_answer
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import Steps
from ottla.errors import BrokerError
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(
    broker: Broker, request: StopReplicaRequest, context: RequestContext
) -> StopReplicaResponse | Later[StopReplicaResponse]:
    try:
        broker.replicas.check_order(request.controller_epoch, request.broker_epoch, broker.image)
    except BrokerError as error:
        answer = stops_answer(dict.fromkeys((each.name for each in stops(request)), error.code))
        answer.error_code = error.code
        return answer
    return broker.long_work.do(_steps(broker, request))


def _steps(broker: Broker, request: StopReplicaRequest) -> Steps[StopReplicaResponse]:
    answer, moves = yield from broker.replicas.stopping(request, broker.clock.now_ms())
    yield from broker.carry_out(moves)
    return answer
