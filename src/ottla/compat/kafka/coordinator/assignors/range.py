"""Neighbouring partitions of each topic."""

from ottla.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor


class RangePartitionAssignor(AbstractPartitionAssignor):
    """Neighbouring partitions of each topic."""

    name = "range"
