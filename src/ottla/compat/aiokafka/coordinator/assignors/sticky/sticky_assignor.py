"""aiokafka.coordinator.assignors.sticky.sticky_assignor: its names."""

from ottla.compat.kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
