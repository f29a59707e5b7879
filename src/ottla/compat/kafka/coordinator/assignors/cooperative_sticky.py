"""Balanced, and only what moves is given back."""

from ottla.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol


class CooperativeStickyAssignor(AbstractPartitionAssignor):
    """Balanced, and only what moves is given back."""

    name = "cooperative-sticky"

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]
