"""Whether a broker can have the partitions that a request would give it.

1. It is asked while a request is planned, topic by topic, and counts what earlier topics of the request have got.
2. Only one broker is known here, the one that plans; what is placed on others is their affair.
3. A refusal is PolicyViolation, and says which limit it is and what can be done.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition
from ottla.errors import PolicyViolation


class PartitionRoom:
    """What is left on one broker for the topics of one request."""

    def __init__(self, broker_id: int, image: ClusterImage, limit: int, reason: str) -> None:
        """`reason` says where the limit comes from and how it can be raised."""
        self._broker_id = broker_id
        self._limit = limit
        self._reason = reason
        self._count = self._ours(each for _, each in image.partitions())

    def take(self, partitions: Iterable[Partition]) -> None:
        """Count these as planned; PolicyViolation when they are too many, and none of them is counted then."""
        added = self._ours(partitions)
        if added and self._count + added > self._limit:
            raise PolicyViolation(
                f"{added} more partitions are too many for broker {self._broker_id}, which has {self._count} and can "
                f"have {self._limit}: {self._reason}"
            )
        self._count += added

    def _ours(self, partitions: Iterable[Partition]) -> int:
        return sum(self._broker_id in each.replicas for each in partitions)
