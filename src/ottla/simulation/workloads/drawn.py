"""All workloads of a run, and their topics.

work = Work(cluster, history, ("numbers", "copy"), partitions=2, pause_s=0.5)
await work.make_topics(); work.start()
...
await work.stop(); await work.read_everything()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.client.admin.topics import NewTopic
from ottla.errors import OttlaError, TopicAlreadyExists
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import History
from ottla.simulation.workloads import cleaning, copying, groups, share_groups
from ottla.simulation.workloads.base import DEFAULT_TEMPO, Numbering, Workload, name_of, partitions_of
from ottla.simulation.workloads.churn import Churn
from ottla.simulation.workloads.moves import Moves
from ottla.simulation.workloads.names import UPGRADE
from ottla.simulation.workloads.numbers import Numbers
from ottla.simulation.workloads.reading import FinalRead, Follower, Watcher
from ottla.simulation.workloads.spark_sink import SparkSink
from ottla.simulation.workloads.tempo import Tempo
from ottla.simulation.workloads.transactions import ALONE, Transfers
from ottla.simulation.workloads.upgrade import Upgrade
from ottla.values import TopicPartition

TOPIC: Final = "t"  # numbers; read by followers and groups
TRANSFERS: Final = "transfers"
COPIES: Final = "copies"
SUNK: Final = "sunk"  # what Spark's sink writes
GROUP_MEMBERS: Final = 2


class Work:
    """All workloads of a run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        loads: Sequence[str],
        *,
        partitions: int,
        pause_s: float,
        tempo: Tempo = DEFAULT_TEMPO,
    ) -> None:
        self.tempo = tempo
        self.cluster = cluster
        self.history = history
        self.loads = loads
        self.count = partitions
        self.pause_s = pause_s
        self.copies = min(3, len(cluster.seats))
        self.numbers = Numbering()
        self.running: list[Workload] = []

    # --- topics ---

    def topics(self) -> list[NewTopic]:
        """Those that are there from the beginning to the end."""
        names = [TOPIC]
        names += [TRANSFERS] if "transfers" in self.loads else []
        names += [COPIES] if "copy" in self.loads else []
        names += [SUNK] if "spark-sink" in self.loads else []
        segment_bytes = self.tempo.segment_bytes
        configs = {"internal.segment.bytes": str(segment_bytes)} if segment_bytes else {}
        plain = [NewTopic(name, self.count, self.copies, configs=configs) for name in names]
        cleaned = [
            NewTopic(name, 1, self.copies, configs=settings)
            for name, settings in cleaning.SETTINGS.items()
            if name in self.loads
        ]
        return plain + cleaned

    def partitions(self, *names: str) -> list[TopicPartition]:
        """Of these topics, or of all."""
        wanted = [(each.name, each.num_partitions or 1) for each in self.topics() if not names or each.name in names]
        return partitions_of(wanted)

    async def make_topics(self) -> None:
        maker = _Maker(*self._common("admin"))
        maker.topics = self.topics()
        maker.has_share_group = share_groups.GROUP in self.loads
        maker.start()
        assert maker.task is not None, "it was started"
        await maker.task
        for name in cleaning.SETTINGS:
            if name in self.loads:
                names = [name_of(each) for each in self.partitions(name)]
                self.history.note("admin", "topic", partitions=names, policy=name)

    # --- coming and going ---

    def start(self) -> None:
        self.running = list(self._made())
        for load in self.running:
            load.start()

    def clients(self) -> list[Workload]:
        """Those whose process may be killed or paused."""
        return [load for load in self.running if not isinstance(load, Churn | Moves | Upgrade | cleaning.Cutter)]

    async def stop_moves(self) -> None:
        """Before anybody waits for all copies to be in sync."""
        for load in self.running:
            if isinstance(load, Moves | Upgrade):
                await load.stop()

    async def stop(self) -> None:
        """All at once: whoever waits for the others to end works for nothing."""
        await asyncio.gather(*(load.stop() for load in self.running))

    async def read_everything(self) -> None:
        asked = [copying.GROUP] if "copy" in self.loads else []
        asked += [name for name in groups.KINDS if name in self.loads]
        for isolation in ("read_committed", "read_uncommitted"):
            if isolation == "read_uncommitted" and not self._has_transactions:
                continue
            reader = FinalRead(
                *self._common(f"reader {isolation}"),
                partitions=self.partitions(),
                groups=asked if isolation == "read_committed" else [],
                isolation=isolation,
                waits=isolation == "read_committed" and self._has_transactions,
            )
            reader.start()
            await reader.stop()
        if share_groups.GROUP in self.loads:
            drain = share_groups.ShareDrain(*self._common("share drain"), partitions=self.partitions(TOPIC))
            drain.start()
            await drain.stop()

    # --- what there is ---

    @property
    def _has_transactions(self) -> bool:
        return not {"transfers", "copy", "spark-sink"}.isdisjoint(self.loads)

    def _common(self, name: str) -> tuple[Any, ...]:
        return self.cluster, self.history, name, self.numbers, self.tempo

    def _made(self) -> Iterator[Workload]:
        for name in self.loads:
            yield from self._of(name)

    def _of(self, name: str) -> Iterator[Workload]:
        if name == "numbers":
            for number in (1, 2):
                yield self._producer(f"producer {number}", TOPIC, self.pause_s)
        elif name == "follow":
            yield Follower(*self._common("follower"), partitions=self.partitions(*self._still()))
            yield Watcher(*self._common("watcher"), partitions=self.partitions())
        elif name in groups.KINDS:
            for number in range(GROUP_MEMBERS):
                yield groups.Member(*self._common(f"{name} {number}"), kind=name, partitions=self.partitions(TOPIC))
        elif name == "transfers":
            yield from self._transfers()
        elif name == "copy":
            yield from self._copiers()
        elif name == share_groups.GROUP:
            for number in range(share_groups.MEMBERS):
                yield share_groups.ShareMember(*self._common(f"{name} {number}"), partitions=self.partitions(TOPIC))
        elif name == "spark-sink":
            yield SparkSink(*self._common("spark sink"), source=self.partitions(TOPIC), target=SUNK)
        else:
            yield from self._for_admins(name)

    def _still(self) -> list[str]:
        """Topics of which nothing goes away."""
        return [each.name for each in self.topics() if each.name not in cleaning.SETTINGS]

    def _transfers(self) -> Iterator[Workload]:
        for number, transactional_id in enumerate((ALONE, "shared", "shared"), 1):
            yield Transfers(
                *self._common(f"transfers {number}"),
                transactional_id=transactional_id,
                partitions=self.partitions(TRANSFERS),
                pause_s=self.pause_s * 2,
            )

    def _copiers(self) -> Iterator[Workload]:
        source = TRANSFERS if "transfers" in self.loads else TOPIC
        kind = self.cluster.random.choice(list(groups.KINDS))
        for number in (1, 2):
            name = f"copier {number}"
            yield copying.Copier(
                *self._common(name), transactional_id=name.replace(" ", "-"), source=source, target=COPIES, kind=kind
            )

    def _for_admins(self, name: str) -> Iterator[Workload]:
        if name == UPGRADE:
            yield Upgrade(*self._common("upgrade"))
        elif name == "churn":
            yield Churn(*self._common("churn"), copies=self.copies)
        elif name == "moves":
            partitions = self.partitions(TOPIC)
            yield Moves(*self._common("moves"), partitions=partitions, brokers=len(self.cluster.seats))
        else:
            yield self._producer(f"{name} producer", name, 0.2 * self.tempo.pace, has_keys=name == "compact")
            if name == "cut":
                yield cleaning.Cutter(*self._common("cutter"), partitions=self.partitions(name))

    def _producer(self, client: str, topic: str, pause_s: float, *, has_keys: bool = False) -> Numbers:
        partitions = self.partitions(topic)
        return Numbers(*self._common(client), partitions=partitions, pause_s=pause_s, has_keys=has_keys)


class _Maker(Workload):
    """Makes the topics."""

    topics: Sequence[NewTopic] = ()
    has_share_group = False

    async def run(self) -> None:
        async with self.admin() as admin:
            for topic in self.topics:
                await self._make(admin, topic)
            if self.has_share_group:
                await share_groups.configure(admin)

    async def _make(self, admin: Any, topic: NewTopic) -> None:
        while True:
            try:
                await admin.create_topics([topic])
                return
            except TopicAlreadyExists:
                return  # the answer to the first try was lost
            except OttlaError:
                await asyncio.sleep(0.5)
