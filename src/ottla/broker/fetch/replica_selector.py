"""Which replica a consumer is sent to (KIP-392, replica.selector.class).

A consumer that names its rack is sent to an in-sync replica of that rack, if the leader is not in it itself: the one
that is furthest ahead, then the one that caught up last, then the one with the largest id. Only replicas that have the
offset are asked. Everybody else stays with the leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.errors import InvalidConfig
from ottla.light_tuples import NamedTuple

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"


class View(NamedTuple):
    """A replica that could serve."""

    broker_id: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    caught_up_ms: float


def is_rack_aware(selector_class: str | None) -> bool:
    """What the setting asks for; Kafka's two selectors are known, by their names there."""
    if selector_class in (None, "", LEADER):
        return False
    if selector_class == RACK_AWARE:
        return True
    raise InvalidConfig(f"replica.selector.class is {selector_class!r}; there are {RACK_AWARE} and {LEADER}")


def preferred(rack: str, offset: int, leader_rack: str | None, followers: Iterable[View]) -> int | None:
    """Where a consumer of this rack should read that offset; None for the leader."""
    if not rack or leader_rack == rack:
        return None
    near = [each for each in followers if each.rack == rack and each.log_start_offset <= offset <= each.log_end_offset]
    if not near:
        return None
    return max(near, key=lambda each: (each.log_end_offset, each.caught_up_ms, each.broker_id)).broker_id
