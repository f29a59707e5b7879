"""Share groups: every record is delivered until it is accepted, rejected or archived, and never after that.

A delivery by a broker that does not know yet that it lost its lead is no error: it cannot be acknowledged. So some
rules hold only for consumers that are `sure` (workloads/share_groups.py), and compare with what was known before such a
consumer began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ottla.light_dataclasses import dataclass
from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Partition, Place, Poll
from ottla.simulation.history import Event

FINAL_WORDS = ("ACCEPT", "REJECT")


@dataclass(frozen=True, slots=True)
class Life:
    """One consumer, from where in the history on."""

    index: int
    is_sure: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A delivery, or an acknowledgement that was answered."""

    index: int
    count: int


def check_shares(facts: Facts) -> Iterator[Anomaly]:
    """share-redelivered, share-count-regress, share-stale-acknowledged, share-lost, share-stuck, share-not-drained."""
    yield from _Shares(facts).anomalies()


class _Shares:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._lives: dict[int, Life] = {}
        self._partitions: set[Partition] = set()
        self._limit = 0
        self._delivered: dict[Place, list[Seen]] = defaultdict(list)
        self._kept: dict[Place, Seen] = {}  # accepted or rejected, and answered
        self._asked: dict[Place, set[int]] = defaultdict(set)  # by which operations it was accepted or rejected
        self._said: dict[int, list[list[Any]]] = {}
        self._drains: dict[int, bool] = {}

    def anomalies(self) -> Iterator[Anomaly]:
        for index, event in enumerate(self._facts.events):
            if event.action == "share-life" and event.kind == "ok":
                self._begin(index, event)
            elif event.action == "share-poll" and event.kind == "ok":
                for partition, offset, value, count in event.facts["records"]:
                    yield from self._deliver(index, event, (partition, offset), value, count)
            elif event.action == "share-ack":
                yield from self._acknowledge(index, event)
            elif event.action == "share-drain":
                self._drains[event.number] = event.kind == "ok"
        yield from self._at_the_end()

    def _begin(self, index: int, event: Event) -> None:
        self._lives[event.number] = Life(index, event.facts["sure"])
        self._partitions.update(event.facts["partitions"])
        self._limit = event.facts["limit"]

    def _deliver(self, index: int, event: Event, place: Place, value: int, count: int) -> Iterator[Anomaly]:
        where, life = f"{place[0]}:{place[1]}", self._lives[event.facts["life"]]
        others = self._facts.values_at.get(place, {value: None})
        if value not in others:
            yield Anomaly("inconsistent-offsets", f"{event.client} got {value} at {where}, others {list(others)}")
        kept = self._kept.get(place)
        if kept is not None and (count > kept.count or (life.is_sure and life.index > kept.index)):
            yield Anomaly(
                "share-redelivered", f"{event.client} got {where} (delivery {count}) after it was acknowledged"
            )
        before = [seen.count for seen in self._delivered[place] if seen.index < life.index]
        if life.is_sure and before and count < max(before):
            yield Anomaly("share-count-regress", f"{event.client} got {where} as delivery {count} after {max(before)}")
        self._delivered[place].append(Seen(index, count))

    def _acknowledge(self, index: int, event: Event) -> Iterator[Anomaly]:
        if event.kind == "invoke":
            self._said[event.number] = event.facts["said"]
            for partition, offset, _, word in event.facts["said"]:
                if word in FINAL_WORDS:
                    self._asked[partition, offset].add(event.number)
        elif event.kind == "ok":
            answered = {(partition, offset) for partition, offset in event.facts["kept"]}
            for partition, offset, count, word in self._said[event.number]:
                if word in FINAL_WORDS and (partition, offset) in answered:
                    yield from self._keep(index, event, (partition, offset), count)

    def _keep(self, index: int, event: Event, place: Place, count: int) -> Iterator[Anomaly]:
        """Who is too late is answered all the same when the record is done: it lies before the start offset then."""
        latest = max(seen.count for seen in self._delivered[place])
        if latest > count and self._asked[place] == {event.number}:
            story = f"{event.client} was answered delivery {count} of {place[0]}:{place[1]}, and {latest} had begun"
            yield Anomaly("share-stale-acknowledged", story)
        self._kept[place] = Seen(index, latest)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _at_the_end(self) -> Iterator[Anomaly]:
        if not self._drains:
            return
        if not any(self._drains.values()):
            yield Anomaly("share-not-drained", "a share consumer did not come to the end of what was written")
            return
        for place in sorted(self._written()):
            where = f"{place[0]}:{place[1]}"
            if place not in self._delivered:
                yield Anomaly("share-lost", f"{where} was never delivered to the share group")
            elif place not in self._kept and place not in self._asked and not self._is_archived(place):
                yield Anomaly("share-stuck", f"{where} was delivered, never acknowledged, and did not come again")

    def _written(self) -> set[Place]:
        """What the last reads of the run found in the partitions of the group."""
        return {
            (partition, offset)
            for poll in self._facts.polls
            if isinstance(poll, Poll) and poll.is_final
            for partition, offset, _ in poll.records
            if partition in self._partitions
        }

    def _is_archived(self, place: Place) -> bool:
        return max(seen.count for seen in self._delivered[place]) >= self._limit
