"""Brokers come, go and come back; directories fail; a controller takes over.

All of it is one question asked of every partition: with those that are there now, who leads and who is in sync? So a
controller that takes over in the middle asks it again and comes to the same end.

1. A broker that is gone loses its leaderships and its places in in-sync sets, except as the last one.
2. A broker with a larger epoch than known was away and came back: it is treated as gone, then as new, in one decision,
   so that whatever it led is led in a new epoch, even when it leads it again.
3. A broker that comes finds partitions without a leader: those that it may lead it will lead.
4. A replica on a failed directory is away while its broker is not, until the broker registers again or says it is
   back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from ottla.cluster.changes import Change, ChangePartition, RegisterBroker, UnregisterBroker, apply_all
from ottla.cluster.controller import leaders
from ottla.cluster.controller.events import LeaderAndIsrAnswered, ReassignmentsDue
from ottla.cluster.controller.state import ControllerState, Decided, Replica, is_being_deleted
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Partition
from ottla.cluster.store.events import NO_STATE, BrokersChanged
from ottla.errors import NONE, KafkaStorageError
from ottla.light_dataclasses import replace
from ottla.values import TopicPartition


def brokers_changed(state: ControllerState, event: BrokersChanged) -> Decided:
    """Note which brokers are there, and elect leaders where they are needed."""
    known = state.image.brokers
    live = {broker.id: broker for broker in event.live}
    gone = [each for each in known if each not in live]
    bounced = [each.id for each in event.live if each.id in known and each.epoch > known[each.id].epoch]
    came = [each for each in event.live if each.id not in known or each.id in bounced]
    updated = [_renewed(known[each.id], each) for each in event.live if each.id in known and each not in came]
    away = _without(state, [*gone, *bounced])
    after = _register(away, [*came, *(each for each in updated if each != known[each.id])])
    changes = _difference(state.image, after.image)
    # Twice: first without those that bounced, so that what they led changes hands, then with them.
    partitions = _elections(away, {})
    partitions = _distrusted_partitions(after, came, partitions, led_too=True)
    partitions = _elections(after, partitions)
    return Decided(
        after.with_image(state.image),
        (*changes, *_as_changes(state.image, partitions)),
        then=(ReassignmentsDue(_moving(state.image)),) if came else (),
    )


def _renewed(known: Broker, registered: Broker) -> Broker:
    """A registration of the same epoch may have other endpoints; that it shuts down only we know. One of an older
    epoch is outdated."""
    if registered.epoch < known.epoch:
        return known
    return replace(registered, in_controlled_shutdown=known.in_controlled_shutdown)


def _without(state: ControllerState, broker_ids: Collection[int]) -> ControllerState:
    image = apply_all(state.image, [UnregisterBroker(each) for each in broker_ids])
    offline = frozenset(each for each in state.offline_replicas if each.broker_id not in broker_ids)
    return replace(state, image=image, offline_replicas=offline)


def _register(state: ControllerState, brokers: Iterable[Broker]) -> ControllerState:
    return state.with_image(apply_all(state.image, [RegisterBroker(each) for each in brokers]))


def _difference(before: ClusterImage, after: ClusterImage) -> list[Change]:
    gone: list[Change] = [UnregisterBroker(each) for each in before.brokers if each not in after.brokers]
    return gone + [
        RegisterBroker(broker) for each, broker in after.brokers.items() if before.brokers.get(each) != broker
    ]


Partitions = dict[TopicPartition, Partition]


def _elections(state: ControllerState, so_far: Partitions) -> Partitions:
    """The partitions that need another leader or in-sync set, with it; `so_far` replaces what the image has.

    Topics that are being deleted are left alone: they never get a leader again."""
    if state.offline_replicas:
        questions = None  # whether a broker is there is another question for every partition
    else:
        brokers = state.image.brokers.values()
        live = frozenset(broker.id for broker in brokers if not broker.fenced)
        active = frozenset(broker.id for broker in brokers if broker.is_active)
        questions = live.__contains__, active.__contains__
    found = dict(so_far)
    for name, partition in state.image.partitions():
        now = so_far.get(name, partition)
        if questions is not None and now.leader in now.isr and live.issuperset(now.isr):
            continue  # as nearly all of ten thousand partitions are
        after = elect_if_needed(state, name, now, questions)
        if after is not now:
            found[name] = after
    return found


def elect_if_needed(
    state: ControllerState,
    name: TopicPartition,
    partition: Partition,
    questions: tuple[leaders.BrokerTest, leaders.BrokerTest] | None = None,
) -> Partition:
    """One partition with a leader and in-sync set of live brokers; the same object when nothing is to be done.
    `questions` are who is alive and who may lead, where that is the same for all partitions."""
    alive, may_lead = questions or (partial(state.is_alive, name), partial(state.may_lead, name))
    if leaders.has_live_leader_and_isr(partition, alive) or is_being_deleted(state.image, name.topic):
        return partition
    if partition.leader_epoch == NO_STATE:
        return leaders.first_led(partition, may_lead)
    unclean = state.rules.unclean_allowed(state.image, name.topic)
    min_insync = state.rules.min_insync_replicas(state.image, name.topic)
    return leaders.elected_if_needed(partition, alive, may_lead, unclean=unclean, min_insync=min_insync)


def _distrusted_partitions(
    state: ControllerState, came: Iterable[Broker], so_far: Partitions, *, led_too: bool
) -> Partitions:
    """Without trust in those that lost their memory, among these; `led_too`: also in those in sync with a leader."""
    unclean = [each.id for each in came if state.rules.started_uncleanly(each)]
    found = dict(so_far)
    for name, partition in state.image.partitions() if unclean else ():
        is_led = not led_too and partition.leader not in unclean and state.is_alive(name, partition.leader)
        for broker_id in unclean:
            now = found.get(name, partition)
            if is_led and broker_id in now.isr and broker_id != partition.leader:
                continue
            if (after := leaders.distrusted(now, broker_id)) is not now:
                found[name] = after
    return found


def _as_changes(image: ClusterImage, partitions: Partitions) -> list[Change]:
    """One change for each, in the epochs that follow what the image has: one write is one epoch."""
    changes: list[Change] = []
    for name in sorted(partitions):
        topic, before = image.topic(name.topic), image.partition(name.topic, name.partition)
        if topic is not None and before is not None and before != partitions[name]:
            changes.append(ChangePartition(topic.id, name.partition, _next_epochs(before, partitions[name])))
    return changes


def _next_epochs(before: Partition, after: Partition) -> Partition:
    epochs = before.leader_epoch + 1, before.partition_epoch + 1
    if before.leader_epoch == NO_STATE or epochs == (after.leader_epoch, after.partition_epoch):
        return after
    return replace(after, leader_epoch=epochs[0], partition_epoch=epochs[1])


def _moving(image: ClusterImage) -> tuple[TopicPartition, ...]:
    return tuple(name for name, partition in image.partitions() if partition.is_reassigning)


def elect_all(state: ControllerState) -> list[Change]:
    """The changes for all partitions that need another leader or in-sync set."""
    return _as_changes(state.image, _elections(state, {}))


def changes_on_takeover(state: ControllerState) -> list[Change]:
    """What a controller that takes over has to change.

    A broker that lost its memory may have come before we knew anything, so it is not trusted; only who is in sync with
    another one, that leads and is there, has become so since. One that leads may have led before it went down: neither
    it nor who was in sync with it is trusted, when both lost theirs."""
    partitions = _distrusted_partitions(state, state.image.brokers.values(), {}, led_too=False)
    return _as_changes(state.image, _elections(state, partitions))


# --- directories -----------------------------------------------------------------------------------------------------


def leader_and_isr_answered(state: ControllerState, event: LeaderAndIsrAnswered) -> Decided:
    """Replicas whose disk failed go offline, those that the broker reports without an error come back."""
    broker = state.image.brokers.get(event.broker_id)
    if broker is None or broker.epoch != event.broker_epoch or event.response.error_code != NONE:
        return Decided(state)
    failed, fine = _reported(state.image, event)
    offline = (state.offline_replicas | failed) - fine
    if offline == state.offline_replicas:
        return Decided(state)
    after = replace(state, offline_replicas=offline)
    return Decided(after, tuple(elect_all(after)))


def _reported(image: ClusterImage, event: LeaderAndIsrAnswered) -> tuple[frozenset[Replica], frozenset[Replica]]:
    failed, fine = set(), set()
    for topic in event.response.topics:
        name = image.topic_name(topic.topic_id)
        for each in topic.partition_errors if name is not None else ():
            replica = Replica(name or "", each.partition_index, event.broker_id)
            if each.error_code == KafkaStorageError.code:
                failed.add(replica)
            elif each.error_code == NONE:
                fine.add(replica)
    return frozenset(failed), frozenset(fine)
