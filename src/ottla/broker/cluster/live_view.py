"""What coordinators may know of the cluster, as it is at the moment they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.cluster.image import ClusterImage


class LiveView:
    """ClusterView (coordinators/effects.py) of whatever image is the newest."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def topic_id(self, name: str) -> bytes | None:
        return self._image().topic_id(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._image().topic_name(topic_id)

    def partition_count(self, name: str) -> int | None:
        return self._image().partition_count(name)

    def topics(self) -> Iterable[str]:
        return self._image().topics()

    def partition_racks(self, name: str, partition: int) -> Sequence[str]:
        """The racks of a partition's replicas, those that have one."""
        image = self._image()
        state = image.partition(name, partition)
        brokers = [image.brokers.get(each) for each in state.replicas] if state is not None else []
        return [each.rack for each in brokers if each is not None and each.rack is not None]
