"""One after the other."""

from ottla.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor


class RoundRobinPartitionAssignor(AbstractPartitionAssignor):
    """One after the other."""

    name = "roundrobin"
