"""What a controller looks at again and again, beside what it is asked.

    fence stale brokers       one at a time, when a session may have ended
    preferred leaders         leader.imbalance.check.interval.seconds, where auto.leader.rebalance.enable
    unclean elections         unclean.leader.election.interval.ms
    expired delegation tokens delegation.token.expiry.check.interval.ms
    a sign of life            metadata.max.idle.interval.ms: a NoOpRecord, so that followers see how far the log is

Each of the first four is a function from the image to changes. One that made as many elections as are made at once is
due again at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ottla.cluster.changes import Change, ChangePartition, SetStoredValue
from ottla.cluster.delegation_tokens import KIND, token_key
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER
from ottla.cluster.quorum_controller.fencing import fenced
from ottla.cluster.quorum_controller.partition_changes import Election, Wanted
from ottla.cluster.quorum_controller.rules import ControllerRules, Decider
from ottla.cluster.token_text import read_token


def fence_broker(image: ClusterImage, broker_id: int, rules: ControllerRules) -> list[Change]:
    """A broker was silent for too long."""
    broker = image.brokers.get(broker_id)
    return [] if broker is None or broker.fenced else fenced(image, broker, rules)


def imbalanced(image: ClusterImage) -> Iterator[tuple[str, int]]:
    """Partitions that are led by another one than the first replica."""
    for topic in image.topics_by_name.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader not in (partition.replicas[0], NO_LEADER):
                yield topic.name, index


def preferred_leaders(image: ClusterImage, rules: ControllerRules) -> list[Change]:
    """Leaderships back to those who come first, where they can be."""
    decider = Decider(image, rules)

    def found() -> Iterator[ChangePartition]:
        for topic in image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                first = partition.replicas[0]
                if partition.leader == first or first not in partition.isr or not decider.may_lead(partition, first):
                    continue
                after = decider.changed(topic, partition, Wanted(election=Election.PREFERRED))
                if after is not partition:
                    yield ChangePartition(topic.id, index, after)

    return list(islice(found(), rules.elections_at_once))


def unclean_leaders(image: ClusterImage, rules: ControllerRules) -> list[Change]:
    """Leaders for partitions without one, where that is allowed whatever it costs."""
    decider = Decider(image, rules)

    def found() -> Iterator[ChangePartition]:
        for topic in image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader != NO_LEADER or not decider.unclean_allowed(topic.name):
                    continue
                after = decider.changed(topic, partition, Wanted(election=Election.UNCLEAN))
                if after is not partition:
                    yield ChangePartition(topic.id, index, after)

    return list(islice(found(), rules.elections_at_once))


def expired_tokens(image: ClusterImage, now_ms: int) -> list[Change]:
    """Tokens whose time is over."""
    tokens = (read_token(token_id, text) for token_id, text in image.stored(KIND).items())
    return [SetStoredValue(token_key(token.id), None) for token in tokens if token.is_expired(now_ms)]
