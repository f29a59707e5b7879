"""kafka.partitioner.default: its names."""

from ottla.compat.kafka.partitioner import DefaultPartitioner, Partitioner, murmur2

__all__ = ["DefaultPartitioner", "Partitioner", "murmur2"]
