"""What a broker does because its controller says so: LeaderAndIsr, StopReplica and UpdateMetadata.

Controllers of a cluster in ZooKeeper give orders; those of a metadata log write down what is true, and brokers read it.

1. An order is for us as we are now. One for an earlier registration (STALE_BROKER_EPOCH), or from a controller that has
   been replaced (STALE_CONTROLLER_EPOCH), is refused as a whole. Otherwise each partition has its own answer.
2. Orders about partitions are carried out one after the other, for nobody in particular: they are finished even if the
   controller has left meanwhile.
3. Nobody tells the settings that a topic begins with: they are read before the first log of it is made.
4. An order that the disk had no room for is asked for again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.cluster.apply import apply_moves
from ottla.broker.replication import orders
from ottla.broker.replication.roles import NO_EPOCH, Moves, NoRole, Role
from ottla.errors import BrokerError, StaleBrokerEpoch, StaleControllerEpoch
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


class ControllerOrders:
    """`learn_settings` reads those of topics that are new here, `repeat` has the controller say everything again a
    little later, `take_view` takes its word about brokers and partitions."""

    def __init__(
        self,
        broker: Broker,
        *,
        learn_settings: Callable[[set[str]], Awaitable[None]],
        repeat: Callable[[], None],
        take_view: Callable[[UpdateMetadataRequest], None],
    ) -> None:
        self._broker = broker
        self._learn_settings = learn_settings
        self._repeat = repeat
        self._take_view = take_view
        self._controller_epoch = 0  # of the newest controller that gave us an order
        self._one_at_a_time = asyncio.Lock()

    async def become(self, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        """Lead and follow."""
        async with self._one_at_a_time:
            try:
                self._check(request.controller_epoch, request.broker_epoch)
            except BrokerError as error:
                refused = {role.name: error for role in orders.roles(request)}
                answer = orders.roles_answer(request, refused, version)
                answer.error_code = error.code
                return answer
            self._controller_epoch = request.controller_epoch
            if new := self._topics_to_make(orders.roles(request)):
                await self._learn_settings(new)
            moves = await self._carry_out(orders.roles(request))
        if moves.unmade:
            self._repeat()
        return orders.roles_answer(request, moves.refused, version)

    def _topics_to_make(self, roles: Iterable[Role]) -> set[str]:
        replicas = self._broker.replicas
        return {
            role.name.topic
            for role in roles
            if replicas.get(role.name) is None and replicas.logs.log(role.name) is None
        }

    async def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop, and delete where the controller says so."""
        async with self._one_at_a_time:
            roles = list(orders.stops(request, self._broker.image))
            names = [role.name for role in roles]
            try:
                self._check(request.controller_epoch, request.broker_epoch)
            except BrokerError as error:
                answer = orders.stops_answer(names, dict.fromkeys(names, error))
                answer.error_code = error.code
                return answer
            self._controller_epoch = request.controller_epoch
            moves = await self._carry_out(roles)
        return orders.stops_answer(names, moves.refused)

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        try:
            self._check(request.controller_epoch, request.broker_epoch)
        except BrokerError as error:
            return UpdateMetadataResponse(error_code=error.code)
        self._take_view(request)
        return UpdateMetadataResponse(error_code=0)

    def _check(self, controller_epoch: int, broker_epoch: int) -> None:
        """Raise unless an order comes from a controller we may obey, and was meant for us as we are now."""
        epoch = self._broker.link.epoch
        if broker_epoch != NO_EPOCH and broker_epoch < epoch:
            raise StaleBrokerEpoch(f"the order is for broker epoch {broker_epoch}, this is {epoch}")
        newest = max(self._controller_epoch, self._broker.image.controller_epoch)
        if controller_epoch < newest:
            raise StaleControllerEpoch(f"controller epoch {controller_epoch} has been replaced by {newest}")

    async def _carry_out(self, roles: Iterable[Role | NoRole]) -> Moves:
        broker = self._broker
        with broker.pacing.turn() as pace:
            moves = await broker.replicas.apply_roles(roles, broker.image, broker.clock.now_ms(), pace, are_orders=True)
            await apply_moves(broker, moves, pace)
        for name, error in moves.refused.items():
            # A controller that takes over sends everything again.
            level = logging.DEBUG if isinstance(error, StaleControllerEpoch) else logging.WARNING
            log.log(level, "%s stays what it is, whatever the controller says: %s", name, error)
        return moves
