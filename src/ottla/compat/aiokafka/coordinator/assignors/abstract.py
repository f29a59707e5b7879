"""aiokafka.coordinator.assignors.abstract: its names."""

from ottla.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
