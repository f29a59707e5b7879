"""What the overview, the brokers' page and the doctor count over all partitions, counted once for all who ask.

    survey = Survey(broker)
    (await survey.cluster()).under_replicated       # of the whole cluster, as the image says
    (await survey.copies()).size_bytes              # of this broker's copies

1. What the image says is counted anew when the image's topics have changed, and not before. What copies say is counted
   anew after a millisecond for each of them: ten thousand copies every ten seconds.
2. Ten thousand partitions take some fifty milliseconds. They are counted SLICE at a time, with a turn for everybody
   else between two slices: nobody waits for longer than a slice, and whoever asks meanwhile waits for the same count.
3. Names are kept up to NAMES_LIMIT of a kind; the numbers say how many there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.requests.running import next_turn
from ottla.cluster.model import NO_LEADER, Topic
from ottla.cluster.topic_names import INTERNAL_TOPICS
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition
    from ottla.cluster.image import ClusterImage

T = TypeVar("T")

SLICE: Final = 50
MS_PER_COPY: Final = 1.0
NAMES_LIMIT: Final = 20


async def in_slices(items: Iterable[T], slice_size: int = SLICE) -> AsyncIterator[T]:
    """All of them, with a turn for everybody else now and then."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % slice_size:
            await next_turn()


class Behind(NamedTuple):
    """A partition, and the brokers that do not have all of it."""

    name: str
    missing: list[int]


@dataclass
class ClusterCounts:
    """What the image says."""

    topics: int = 0
    partitions: int = 0
    under_replicated: int = 0
    without_leader: int = 0
    single_copy: int = 0
    """Topics of which there is one copy."""
    leads: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    behind: Counter[int] = field(default_factory=Counter)
    """By broker."""
    leaderless_names: list[str] = field(default_factory=list)
    behind_names: list[Behind] = field(default_factory=list)
    single_copy_name: str = ""

    def add(self, topic: Topic) -> None:
        is_internal = topic.name in INTERNAL_TOPICS
        self.topics += not is_internal
        self.partitions += len(topic.partitions)
        if topic.replication_factor == 1 and not is_internal:
            self.single_copy += 1
            self.single_copy_name = self.single_copy_name or topic.name
        for index, partition in enumerate(topic.partitions):
            self.leads[partition.leader] += 1
            self.replicas.update(partition.replicas)
            if partition.leader == NO_LEADER:
                self.without_leader += 1
                _keep(self.leaderless_names, f"{topic.name}-{index}")
            if len(partition.isr) < len(partition.replicas):
                missing = [each for each in partition.replicas if each not in partition.isr]
                self.under_replicated += 1
                self.behind.update(missing)
                if partition.leader != NO_LEADER:
                    _keep(self.behind_names, Behind(f"{topic.name}-{index}", missing))


@dataclass
class Copies:
    """What this broker's copies say."""

    size_bytes: int = 0
    sizes: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    """By log directory."""
    refusing_names: list[str] = field(default_factory=list)
    """Led here, with fewer copies in sync than min.insync.replicas."""

    def add(self, partition: Partition) -> None:
        if partition.offline is not None:
            return
        path, size_bytes = str(partition.log.directory.parent), partition.log.size_bytes
        self.size_bytes += size_bytes
        self.sizes[path] += size_bytes
        self.counts[path] += 1
        if partition.is_leader and partition.in_sync_count < partition.min_in_sync_count:
            _keep(self.refusing_names, str(partition.name))


def _keep(names: list[T], name: T) -> None:
    if len(names) < NAMES_LIMIT:
        names.append(name)


class Survey:
    """The counts of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = asyncio.Lock()
        self._image: ClusterImage | None = None
        self._cluster = ClusterCounts()
        self._copies = Copies()
        self._copies_due_ms = 0.0

    async def cluster(self) -> ClusterCounts:
        async with self._lock:
            image = self._broker.image
            if self._image is None or self._image.topics_by_name is not image.topics_by_name:
                counts = ClusterCounts()
                async for topic in in_slices(image.topics_by_name.values()):
                    counts.add(topic)
                self._image, self._cluster = image, counts
            return self._cluster

    async def copies(self) -> Copies:
        async with self._lock:
            now_ms = self._broker.clock.monotonic_ms()
            if now_ms >= self._copies_due_ms:
                counts = Copies()
                async for partition in in_slices(list(self._broker.replicas)):
                    counts.add(partition)
                self._copies, self._copies_due_ms = counts, now_ms + MS_PER_COPY * sum(counts.counts.values())
            return self._copies
