"""LeaderAndIsr: the controller says which partitions this broker leads and follows, and in which epoch.

Refused as a whole when it is for an earlier registration of this broker (STALE_BROKER_EPOCH) or from a controller that
has been replaced (STALE_CONTROLLER_EPOCH); otherwise each partition has its own answer (replication/manager.py).
Nobody tells the settings that a topic begins with: they are read from the store before the first log of it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.apply import apply_moves
from ottla.broker.replication.orders import roles, roles_answer
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.errors import BrokerError
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(LeaderAndIsrRequest, entries=WIDE_ENTRIES, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    async with broker.orders:
        try:
            broker.replicas.check_order(request.controller_epoch, request.broker_epoch, broker.image)
        except BrokerError as error:
            codes = dict.fromkeys((role.name for role in roles(request)), error.code)
            answer = roles_answer(request, codes, context.api_version)
            answer.error_code = error.code
            return answer
        new = broker.replicas.topics_to_make(request)
        if new:
            await broker.link.learn_settings(new)
        # For nobody in particular: an order is carried out even if the controller has left meanwhile.
        with broker.pacing.turn() as pace:
            answer, moves = await broker.replicas.become(
                request, broker.image, broker.clock.now_ms(), pace=pace, version=context.api_version
            )
            await apply_moves(broker, moves, pace)
        if moves.unmade:
            broker.link.repeat_orders()
    return answer
