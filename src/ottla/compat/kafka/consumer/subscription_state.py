"""kafka.consumer.subscription_state: what listeners derive from."""

from __future__ import annotations

from typing import Any


class ConsumerRebalanceListener:
    """What a listener has."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Before others get them."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """After they were assigned."""

    def on_partitions_lost(self, lost: Any) -> None:
        """They are gone already."""
        self.on_partitions_revoked(lost)


class AsyncConsumerRebalanceListener:
    """The same with coroutines."""

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Before others get them."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """After they were assigned."""

    async def on_partitions_lost(self, lost: Any) -> None:
        """They are gone already."""
        await self.on_partitions_revoked(lost)
