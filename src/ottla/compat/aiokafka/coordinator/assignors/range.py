"""aiokafka.coordinator.assignors.range: its names."""

from ottla.compat.kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
