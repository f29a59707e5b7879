"""Balanced, and as few moves as possible."""

from ottla.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor


class StickyPartitionAssignor(AbstractPartitionAssignor):
    """Balanced, and as few moves as possible."""

    name = "sticky"
