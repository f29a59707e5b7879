"""What becomes of the changes that an administrator's plan wants, as the controller of a metadata log makes them.

A plan says what shall be true. Some of it has consequences that plans of a single broker do not know:

1. Other replicas of a partition are a reassignment, which may be over at once, and may need another leader.
2. A broker that is forgotten leads nothing and is in sync nowhere.
3. With eligible leader replicas, another min.insync.replicas leaves nobody eligible: who left a set that was too small
   to acknowledge anything may have missed what is acknowledged from now on.
4. Eligible leader replicas that are switched on need to know what is enough for every topic: min.insync.replicas of the
   whole cluster, which no single broker may contradict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.cluster.changes import (
    AlterConfig,
    Change,
    ChangePartition,
    SetFeature,
    UnregisterBroker,
    apply,
    apply_all,
    in_runs,
)
from ottla.cluster.features import ELR_VERSION
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, ConfigResource, Partition, ResourceType
from ottla.cluster.quorum_controller.fencing import unregistered
from ottla.cluster.quorum_controller.partition_changes import Wanted
from ottla.cluster.quorum_controller.rules import ControllerRules, Decider
from ottla.light_dataclasses import replace

MIN_INSYNC: Final = "min.insync.replicas"


def admitted(
    image: ClusterImage, changes: Iterable[Change], rules: ControllerRules, *, default_min_insync: int = 1
) -> tuple[Change, ...]:
    """The changes to commit for those that a plan wants."""
    made: list[Change] = []
    for run in in_runs(changes):
        if isinstance(run, list):
            now = list(_reassigned(image, run, rules))
        elif isinstance(run, UnregisterBroker):
            now = unregistered(image, run.broker_id, rules)
        elif isinstance(run, AlterConfig):
            now = [run, *_without_eligible(image, run)]
        elif isinstance(run, SetFeature) and run.name == ELR_VERSION:
            now = [run, *_enough_of_all(image, run, default_min_insync)]
        else:
            now = [run]
        made += now
        image = apply_all(image, now) if len(now) != 1 else apply(image, now[0])
    return tuple(made)


def _reassigned(image: ClusterImage, run: Iterable[ChangePartition], rules: ControllerRules) -> Iterator[Change]:
    decider = Decider(image, rules)
    for change in run:
        topic = image.topic_by_id(change.topic_id)
        before = None if topic is None else topic.partitions[change.index]
        if topic is None or before is None or not _has_other_replicas(before, change.partition):
            yield change
            continue
        after = change.partition
        isr = after.isr if after.isr != before.isr else None
        wanted = Wanted(isr=isr, replicas=after.replicas, adding=after.adding, removing=after.removing)
        moved = decider.changed(topic, before, wanted)
        if moved is not before:
            yield replace(change, partition=moved)


def _has_other_replicas(before: Partition, after: Partition) -> bool:
    return (before.replicas, before.adding, before.removing) != (after.replicas, after.adding, after.removing)


def _without_eligible(image: ClusterImage, change: AlterConfig) -> Iterator[Change]:
    if not image.feature(ELR_VERSION) or all(name != MIN_INSYNC for name, _ in change.values):
        return
    kind, name = change.resource
    if kind is ResourceType.TOPIC:
        topics = [image.topics_by_name.get(name)]
    else:
        topics = list(image.topics_by_name.values()) if change.resource == ALL_BROKERS else []
    for topic in topics:
        for index, partition in enumerate(() if topic is None else topic.partitions):
            if partition.elr or partition.last_known_elr:
                epoch = partition.partition_epoch + 1
                cleared = replace(partition, elr=(), last_known_elr=(), partition_epoch=epoch)
                yield ChangePartition(topic.id, index, cleared)


def _enough_of_all(image: ClusterImage, change: SetFeature, default: int) -> Iterator[Change]:
    if not change.level:
        return
    if MIN_INSYNC not in image.config(ALL_BROKERS):
        yield AlterConfig(ALL_BROKERS, ((MIN_INSYNC, str(default)),))
    for broker_id in image.brokers:
        own = ConfigResource(ResourceType.BROKER, str(broker_id))
        if MIN_INSYNC in image.config(own):
            yield AlterConfig(own, ((MIN_INSYNC, None),))
