"""kafka.partitioner.abc: its names."""

from ottla.compat.kafka.partitioner import Partitioner

__all__ = ["Partitioner"]
