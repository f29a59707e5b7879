"""LeaderAndIsr: the controller says which partitions this broker leads and follows, and in which epoch.

Refused as a whole when it is for an earlier registration of this broker (STALE_BROKER_EPOCH) or from a controller that
has been replaced (STALE_CONTROLLER_EPOCH); otherwise each partition has its own answer (replication/manager.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.answers import Later
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.long_work import Steps
from ottla.broker.replication.orders import roles, roles_answer
from ottla.errors import BrokerError
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(
    broker: Broker, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse | Later[LeaderAndIsrResponse]:
    try:
        broker.replicas.check_order(request.controller_epoch, request.broker_epoch, broker.image)
    except BrokerError as error:
        codes = dict.fromkeys((role.name for role in roles(request)), error.code)
        answer = roles_answer(request, codes, context.api_version)
        answer.error_code = error.code
        return answer
    # For nobody in particular: an order is carried out even if the controller has left meanwhile.
    return broker.long_work.do(_steps(broker, request, context.api_version))


def _steps(broker: Broker, request: LeaderAndIsrRequest, version: int) -> Steps[LeaderAndIsrResponse]:
    answer, moves = yield from broker.replicas.becoming(request, broker.image, broker.clock.now_ms(), version=version)
    yield from broker.carry_out(moves)
    return answer
