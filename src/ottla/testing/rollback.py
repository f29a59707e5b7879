"""Make a running broker forget what was written since a moment, so that tests can share one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.broker.broker import Broker
from ottla.cluster.changes import RemoveTopic
from ottla.cluster.plan import Plan
from ottla.values import TopicPartition


async def forget_since(broker: Broker, end_offsets: Mapping[TopicPartition, int], topics: Collection[str]) -> None:
    """Remove topics that are not among `topics`, cut logs back to these ends, load the coordinators again."""
    known = map(broker.image.topic, broker.image.topics())
    new = [topic.id for topic in known if topic is not None and topic.name not in topics]
    if new:
        await broker.link.change(lambda image: Plan[None](tuple(map(RemoveTopic, new)), []))
    now_ms = broker.clock.now_ms()
    for partition in list(broker.replicas):
        end = end_offsets.get(partition.name)
        if end is None or end >= partition.log.log_end_offset:
            continue
        partition.log.truncate_to(end, now_ms)
        coordinator = broker.coordinators.of_topic(partition.name.topic)
        if coordinator is not None:
            coordinator.load(partition)
        broker.progress.advanced(partition)
    await broker.loads.wait()
