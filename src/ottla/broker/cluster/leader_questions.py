"""What a broker asks the others of its cluster, wherever the truth of that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.inter_broker import InterBroker
from ottla.cluster.model import NO_LEADER
from ottla.errors import NotLeaderOrFollower
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class LeaderQuestions:
    """Markers of transactions have connections of their own: they are answered when they are committed."""

    def __init__(self, broker: Broker, leaders: InterBroker, markers: InterBroker, *, timeout_ms: float) -> None:
        self._broker = broker
        self._leaders, self._markers = leaders, markers
        self._timeout_ms = timeout_ms

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        """Whether another broker leads this partition, as far as is known here."""
        state = self._broker.image.partition(topic, partition)
        return state is not None and state.leader not in (NO_LEADER, self._broker.id)

    async def ask_leader(self, topic: str, partition: int, request: Message) -> Message:
        state = self._broker.image.partition(topic, partition)
        if state is None or not self.leads_elsewhere(topic, partition):
            raise NotLeaderOrFollower(f"{topic}-{partition} is led by no other broker")
        chosen = self._markers if isinstance(request, WriteTxnMarkersRequest) else self._leaders
        return await chosen.send(state.leader, request, timeout_ms=self._timeout_ms)

    async def ask_broker(self, broker_id: int, request: Message) -> Message:
        return await self._leaders.send(broker_id, request, timeout_ms=self._timeout_ms)
