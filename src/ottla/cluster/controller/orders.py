"""The orders for brokers: the difference between what they know and what is true.

1. LeaderAndIsr goes to the replicas of partitions with a new leader epoch: brokers ignore others. A broker that
   is new, or gets its partitions again, gets all of them (type FULL).
2. UpdateMetadata goes to every broker that is there, for every partition that looks different, and always has all
   brokers with all their listeners. A new broker gets everything. Leader -2 says that a topic is being deleted.
3. StopReplica goes to a broker whose replica moved away (delete), whose topic is being deleted (delete, leader epoch
   -2: whatever it knows), that shuts down and follows, or whose disk failed (both: stop, keep). A broker that is new,
   or gets its partitions again, is ordered to stop every replica it should not have: one may have moved away while
   the broker was down, or while there was no controller.
4. The sequence at one broker: a new broker gets UpdateMetadata before LeaderAndIsr, every other after it. StopReplica
   comes last.
5. Two states that brokers cannot tell apart give no orders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from ottla.cluster.controller.control_messages import (
    AssignedPartition,
    Topics,
    leader_and_isr,
    metadata_states,
    stop_replica,
    update_metadata,
    visible_state,
)
from ottla.cluster.controller.replica_states import DELETION_STARTED
from ottla.cluster.controller.state import ControllerState, Replica, is_being_deleted
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Partition
from ottla.cluster.store.events import NO_STATE
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

EPOCH_OF_DELETION: Final = -2
STRAYS_LIMIT: Final = 50_000
"""How many replicas a new broker is ordered to stop, in case it has them. More would delay everything else."""


class Order(NamedTuple):
    """A request for the broker with this id and epoch."""

    broker_id: int
    broker_epoch: int
    request: Message


class Stop(NamedTuple):
    """One replica to be stopped."""

    name: TopicPartition
    leader_epoch: int
    delete: bool


def orders(
    before: ControllerState,
    after: ControllerState,
    *,
    resend_partitions: Collection[int] = (),
    resend_everything: Collection[int] = (),
    topics: Collection[str] | None = None,
) -> list[Order]:
    """The orders that make brokers that know `before` know `after`, each broker's in the order it must get them.

    Brokers in `resend_partitions` get all their partitions again; those in `resend_everything` get everything, as if
    they had just come. `topics` are those that may be different when the brokers are the same; None is all."""
    if not resend_partitions and not resend_everything and _is_same(before, after):
        return []
    writer = _Writer(before, after, topics)
    found: list[Order] = []
    for broker in after.image.brokers.values():
        is_new = broker.id in resend_everything or _epoch(before.image, broker.id) != broker.epoch
        requests = writer.requests(broker, is_new=is_new, whole=is_new or broker.id in resend_partitions)
        found += [Order(broker.id, broker.epoch, each) for each in requests]
    return found


class _Writer:
    """Writes the requests for one broker after another; what is the same for all of them is made once."""

    def __init__(self, before: ControllerState, after: ControllerState, topics: Collection[str] | None) -> None:
        self._before = before
        self._after = after
        self._changed = _changed(before, after, topics)
        self._has_news = bool(self._changed) or _visible(before.image) != _visible(after.image)
        self._news: list[Topics] | None = None

    def requests(self, broker: Broker, *, is_new: bool, whole: bool) -> Iterator[Message]:
        before, after = self._before, self._after
        states = _whole_states(after, broker.id) if whole else _new_states(before, after, self._changed, broker)
        if is_new:
            yield from update_metadata(after, broker, metadata_states(after, _everything(after)), whole=True)
        yield from leader_and_isr(after, broker, states, whole=whole)
        if not is_new and self._has_news:
            yield from update_metadata(after, broker, self._shared_update(), whole=False)
        yield from stop_replica(after, broker, sorted(set(_stops(before, after, self._changed, broker, whole=whole))))

    def _shared_update(self) -> list[Topics]:
        if self._news is None:
            self._news = metadata_states(self._after, self._changed)
        return self._news


def announcement(state: ControllerState) -> list[Order]:
    """What a controller that takes over says first: UpdateMetadata with everything, to every broker that is there."""
    everything = metadata_states(state, _everything(state))
    return [
        Order(broker.id, broker.epoch, request)
        for broker in state.image.brokers.values()
        for request in update_metadata(state, broker, everything, whole=True)
    ]


def _epoch(image: ClusterImage, broker_id: int) -> int | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None else broker.epoch


def _visible(image: ClusterImage) -> list[tuple[object, ...]]:
    return [(each.id, each.epoch, each.endpoints, each.rack) for each in image.brokers.values()]


# --- which partitions look different ---------------------------------------------------------------------------------


def _is_same(before: ControllerState, after: ControllerState) -> bool:
    same_image = before.image is after.image
    return same_image and before.offline_replicas == after.offline_replicas and before.deletions == after.deletions


def _changed(before: ControllerState, after: ControllerState, topics: Collection[str] | None) -> list[TopicPartition]:
    """Partitions of which anything is different, in order. Topics that are gone are not among them: the order
    to delete them was the last about them."""
    everywhere = before.image.brokers is not after.image.brokers or before.offline_replicas != after.offline_replicas
    names: list[TopicPartition] = []
    for topic_name in after.image.topics() if everywhere or topics is None else sorted(topics):
        topic, known = after.image.topic(topic_name), before.image.topic(topic_name)
        is_same = (
            known is topic and not everywhere and _is_deleting(before, topic_name) == _is_deleting(after, topic_name)
        )
        if topic is None or is_same:
            continue
        for index in range(len(topic.partitions)):
            name = TopicPartition(topic_name, index)
            if known is None or known.id != topic.id or visible_state(before, name) != visible_state(after, name):
                names.append(name)
    return names


def _is_deleting(state: ControllerState, topic: str) -> bool:
    return is_being_deleted(state.image, topic)


def _everything(state: ControllerState) -> list[TopicPartition]:
    return [name for name, _ in state.image.partitions()]


# --- per broker ------------------------------------------------------------------------------------------------------


def _whole_states(after: ControllerState, broker_id: int) -> list[AssignedPartition]:
    return [
        AssignedPartition(name, partition, is_new=False)
        for name, partition in after.image.partitions()
        if broker_id in partition.replicas and _is_led(after, name, partition)
    ]


def _is_led(state: ControllerState, name: TopicPartition, partition: Partition) -> bool:
    return partition.leader_epoch != NO_STATE and not is_being_deleted(state.image, name.topic)


def _new_states(
    before: ControllerState, after: ControllerState, changed: Iterable[TopicPartition], broker: Broker
) -> Iterator[AssignedPartition]:
    for name in changed:
        was, now = _same_topic(before, after, name), after.image.partition(*name)
        if now is None or broker.id not in now.replicas or not _is_led(after, name, now):
            continue
        if was is not None and was.leader_epoch == now.leader_epoch:
            continue
        if broker.in_controlled_shutdown and broker.id not in (now.leader, None if was is None else was.leader):
            continue  # it stopped following
        yield AssignedPartition(
            name, now, is_new=was is None or was.leader_epoch == NO_STATE or broker.id not in was.replicas
        )


def _same_topic(before: ControllerState, after: ControllerState, name: TopicPartition) -> Partition | None:
    """The partition as it was; None when it was one of another topic of that name."""
    if before.image.topic_id(name.topic) != after.image.topic_id(name.topic):
        return None
    return before.image.partition(*name)


def _stops(
    before: ControllerState,
    after: ControllerState,
    changed: Iterable[TopicPartition],
    broker: Broker,
    *,
    whole: bool,
) -> Iterator[Stop]:
    for replica, state in after.deletions.items():
        was_ordered = before.deletions.get(replica) is DELETION_STARTED and not whole
        if replica.broker_id == broker.id and state is DELETION_STARTED and not was_ordered:
            yield Stop(TopicPartition(replica.topic, replica.partition), EPOCH_OF_DELETION, delete=True)
    for name in changed:
        was, now = _same_topic(before, after, name), after.image.partition(*name)
        if was is not None and now is not None and broker.id in was.replicas and broker.id not in now.replicas:
            yield Stop(name, now.leader_epoch, delete=True)
    yield from _strays(after, broker) if whole else ()
    yield from _stops_that_keep(before, after, broker)


def _strays(after: ControllerState, broker: Broker) -> Iterator[Stop]:
    """What the broker should not have, if it has it."""
    elsewhere = (
        Stop(name, EPOCH_OF_DELETION if _is_deleting(after, name.topic) else partition.leader_epoch, delete=True)
        for name, partition in after.image.partitions()
        if broker.id not in partition.replicas and partition.leader_epoch != NO_STATE
    )
    return islice(elsewhere, STRAYS_LIMIT)


def _stops_that_keep(before: ControllerState, after: ControllerState, broker: Broker) -> Iterator[Stop]:
    known = before.image.brokers.get(broker.id)
    if broker.in_controlled_shutdown and known is not None and not known.in_controlled_shutdown:
        for name, now in after.image.partitions():
            was = before.image.partition(*name)
            follows = (
                broker.id in now.replicas and len(now.replicas) > 1 and was is not None and was.leader != broker.id
            )
            if follows and not is_being_deleted(after.image, name.topic):
                yield Stop(name, now.leader_epoch, delete=False)
    for topic, index, broker_id in after.offline_replicas - before.offline_replicas:
        failed = after.image.partition(topic, index)
        if broker_id == broker.id and failed is not None and Replica(topic, index, broker_id) not in after.deletions:
            yield Stop(TopicPartition(topic, index), failed.leader_epoch, delete=False)
