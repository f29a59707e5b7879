"""kafka.partitioner.sticky: its names."""

from ottla.compat.kafka.partitioner import DefaultPartitioner, StickyPartitioner

__all__ = ["DefaultPartitioner", "StickyPartitioner"]
