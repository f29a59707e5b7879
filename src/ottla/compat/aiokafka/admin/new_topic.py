"""A topic to be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.admin import topics
from ottla.compat.aiokafka.errors import IllegalArgumentError


class NewTopic:
    """Counts, or the brokers of each partition."""

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, Any] | None = None,
    ) -> None:
        if not ((num_partitions == -1 or replication_factor == -1) ^ (replica_assignments is None)):
            raise IllegalArgumentError(
                "either num_partitions/replication_factor or replica_assignment must be specified"
            )
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}

    @property
    def ours(self) -> topics.NewTopic:
        chosen = dict(self.replica_assignments) or None
        count = None if chosen or self.num_partitions < 0 else self.num_partitions
        factor = None if chosen or self.replication_factor < 0 else self.replication_factor
        settings = {key: str(value) for key, value in self.topic_configs.items()}
        return topics.NewTopic(self.name, count, factor, settings, chosen)
