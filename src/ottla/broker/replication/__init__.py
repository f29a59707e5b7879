"""Partitions, leaders and followers."""
