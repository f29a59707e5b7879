"""aiokafka.coordinator.assignors.roundrobin: its names."""

from ottla.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
