"""LeaderAndIsr: the controller says which partitions this broker leads and follows, and in which epoch.

Refused as a whole when it is for an earlier registration of this broker (STALE_BROKER_EPOCH) or from a controller that
has been replaced (STALE_CONTROLLER_EPOCH); otherwise each partition has its own answer (replication/manager.py).
Nobody tells the settings that a topic begins with: they are read from the store before the first log of it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.replication.orders import roles, roles_answer
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import Steps
from ottla.errors import BrokerError
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.membership import ClusterMember


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
    new = broker.replicas.topics_to_make(request)
    if broker.member is not None and new:
        return broker.long_work.do_later(
            _with_settings(broker.member, new, _steps(broker, request, context.api_version))
        )
    return broker.long_work.do(_steps(broker, request, context.api_version))


def _with_settings(
    member: ClusterMember, topics: set[str], steps: Steps[LeaderAndIsrResponse]
) -> Steps[LeaderAndIsrResponse]:
    yield member.learn_settings(topics)
    return (yield from steps)


def _steps(broker: Broker, request: LeaderAndIsrRequest, version: int) -> Steps[LeaderAndIsrResponse]:
    answer, moves = yield from broker.replicas.becoming(request, broker.image, broker.clock.now_ms(), version=version)
    yield from broker.carry_out(moves)
    return answer
