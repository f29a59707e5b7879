"""What must not be in a history, by the names that Jepsen has for it.

    anomalies = check(history.events, replicas={"t-0": {0: b"...", 1: b"..."}})

| name | what was found |
| --- | --- |
| lost-write | a value was acknowledged, a later offset of its partition was read, and nobody ever read the value |
| unseen | a value was acknowledged, and the last reads of the run did not get as far as it |
| duplicate | one value at two offsets |
| inconsistent-offsets | one offset with two values |
| aborted-read | a value was read whose send had failed for certain |
| misrouted | a value was read from another partition than it was sent to |
| nonmonotonic-poll | a consumer got an offset that was not behind the one before it |
| poll-skip | a consumer jumped over an offset that has a value |
| nonmonotonic-send | of two sends of a producer to one partition, the later one has the earlier offset |
| group-offset-regress | the committed offset of a group was less than one that was acknowledged before |
| replica-divergence | copies of a partition differ below the high watermark |
| final-read-incomplete | the last reads did not come to their end: the cluster did not heal |

It is a function of the history and touches nothing else. Actions it knows: `send` (partition, value; ok: offset),
`poll` (ok: records as [partition, offset, value]), `assign` (a consumer begins anew), `commit` and `committed` (group,
partition, offset), `final-poll` and `final-read` (ok: all partitions were read to their ends).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.light_tuples import NamedTuple
from ottla.simulation.history import Event

POLLS = ("poll", "final-poll")


class Anomaly(NamedTuple):
    """Something that must not be."""

    name: str
    story: str

    def __str__(self) -> str:
        return f"{self.name}: {self.story}"


def check(events: Sequence[Event], *, replicas: Mapping[str, Mapping[int, bytes]] | None = None) -> list[Anomaly]:
    """All anomalies of a history, and of the copies at its end: by partition and broker, the bytes below the high
    watermark."""
    facts = Facts(events)
    return [
        *_writes(facts),
        *_places(facts),
        *_polls(facts),
        *_sends(facts),
        *_commits(events),
        *_copies(replicas or {}),
        *_ending(events),
    ]


class Facts:
    """What the events say of each value and each offset."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.sent_to: dict[int, int] = {}  # the partition of each value
        self.acknowledged: dict[int, int] = {}  # the offset of each value
        self.failed: set[int] = set()
        self.read: dict[int, int] = {}  # an offset at which each value was read
        self.values_at: dict[tuple[int, int], dict[int, None]] = defaultdict(dict)
        self.offsets_of: dict[int, dict[tuple[int, int], None]] = defaultdict(dict)
        self.highest_read: dict[int, int] = {}
        self.polls: dict[str, list[list[tuple[int, int]] | None]] = defaultdict(list)  # None: begins anew
        self.sends: dict[tuple[str, int], list[int]] = defaultdict(list)  # values in the order of sending
        value_of: dict[int, int] = {}
        for event in events:
            if event.action == "send":
                self._add_send(event, value_of)
            elif event.action in POLLS and event.kind == "ok":
                self._add_poll(event)
            elif event.action == "assign" and event.kind == "invoke":
                self.polls[event.client].append(None)

    def _add_send(self, event: Event, value_of: dict[int, int]) -> None:
        if event.kind == "invoke":
            value, partition = event.facts["value"], event.facts["partition"]
            value_of[event.number] = value
            self.sent_to[value] = partition
            self.sends[event.client, partition].append(value)
        elif event.kind == "ok":
            value, offset = value_of[event.number], event.facts["offset"]
            self.acknowledged[value] = offset
            self._add_place(self.sent_to[value], offset, value)
        elif event.kind == "fail":
            self.failed.add(value_of[event.number])

    def _add_poll(self, event: Event) -> None:
        places = []
        for partition, offset, value in event.facts["records"]:
            self.read[value] = offset
            self.highest_read[partition] = max(self.highest_read.get(partition, -1), offset)
            self._add_place(partition, offset, value)
            places.append((partition, offset))
        self.polls[event.client].append(places)

    def _add_place(self, partition: int, offset: int, value: int) -> None:
        self.values_at[partition, offset][value] = None
        self.offsets_of[value][partition, offset] = None


def _writes(facts: Facts) -> Iterator[Anomaly]:
    for value, offset in facts.acknowledged.items():
        if value in facts.read:
            continue
        partition = facts.sent_to[value]
        highest = facts.highest_read.get(partition, -1)
        name = "lost-write" if offset < highest else "unseen"
        yield Anomaly(
            name, f"{value} was acknowledged at {partition}:{offset} and never read; the highest read is {highest}"
        )


def _places(facts: Facts) -> Iterator[Anomaly]:
    for value, places in facts.offsets_of.items():
        where = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(places))
        sent_to = facts.sent_to.get(value)
        if sent_to is None:
            yield Anomaly("misrouted", f"{value} is at {where}, and nobody sent it")
        elif any(partition != sent_to for partition, _ in places):
            yield Anomaly("misrouted", f"{value} was sent to partition {sent_to} and is at {where}")
        elif len(places) > 1:
            yield Anomaly("duplicate", f"{value} is at {where}")
        if value in facts.failed and value in facts.read:
            yield Anomaly("aborted-read", f"{value} at {where} was read, and its send had failed")
    for (partition, offset), values in facts.values_at.items():
        if len(values) > 1:
            yield Anomaly("inconsistent-offsets", f"{partition}:{offset} has the values {sorted(values)}")


def _polls(facts: Facts) -> Iterator[Anomaly]:
    filled: dict[int, list[int]] = defaultdict(list)
    for partition, offset in sorted(facts.values_at):
        filled[partition].append(offset)
    for client, polls in facts.polls.items():
        last: dict[int, int] = {}
        for places in polls:
            if places is None:
                last = {}
                continue
            for partition, offset in places:
                yield from _step(client, partition, last.get(partition), offset, filled[partition])
                last[partition] = offset


def _step(client: str, partition: int, before: int | None, offset: int, filled: list[int]) -> Iterator[Anomaly]:
    if before is None:
        return
    if offset <= before:
        yield Anomaly("nonmonotonic-poll", f"{client} got {partition}:{offset} after {partition}:{before}")
        return
    skipped = list(_between(filled, before, offset)) if offset > before + 1 else []
    if skipped:
        yield Anomaly("poll-skip", f"{client} got {partition}:{offset} after {before}, and {skipped} are between")


def _between(filled: list[int], low: int, high: int) -> Iterator[int]:
    return (each for each in filled if low < each < high)


def _sends(facts: Facts) -> Iterator[Anomaly]:
    for (client, partition), values in facts.sends.items():
        last: tuple[int, int] | None = None
        for value in values:
            offset = facts.acknowledged.get(value, facts.read.get(value))
            if offset is None:
                continue
            if last is not None and offset < last[1]:
                yield Anomaly(
                    "nonmonotonic-send",
                    f"{client} sent {value} after {last[0]} to {partition}, and it is at {offset}, before {last[1]}",
                )
            last = (value, offset)


def _commits(events: Iterable[Event]) -> Iterator[Anomaly]:
    acknowledged: dict[tuple[str, int], int] = {}
    asked: dict[int, Event] = {}
    least: dict[int, int] = {}
    for event in events:
        if event.action == "commit" and event.kind == "invoke":
            asked[event.number] = event
        elif event.action == "commit" and event.kind == "ok":
            facts = asked[event.number].facts
            key = facts["group"], facts["partition"]
            acknowledged[key] = max(acknowledged.get(key, -1), facts["offset"])
        elif event.action == "committed" and event.kind == "invoke":
            asked[event.number] = event
            least[event.number] = acknowledged.get((event.facts["group"], event.facts["partition"]), -1)
        elif event.action == "committed" and event.kind == "ok" and event.facts["offset"] < least[event.number]:
            facts = asked[event.number].facts
            yield Anomaly(
                "group-offset-regress",
                f"{facts['group']} partition {facts['partition']}: {event.facts['offset']} is committed, "
                f"{least[event.number]} was before",
            )


def _copies(replicas: Mapping[str, Mapping[int, bytes]]) -> Iterator[Anomaly]:
    for name, copies in replicas.items():
        shortest = min(map(len, copies.values()), default=0)
        if len({copy[:shortest] for copy in copies.values()}) > 1 or len(set(map(len, copies.values()))) > 1:
            sizes = {broker: len(copy) for broker, copy in copies.items()}
            where = _first_difference(list(copies.values()))
            yield Anomaly("replica-divergence", f"{name}: the copies differ from byte {where} on; sizes {sizes}")


def _first_difference(copies: Sequence[bytes]) -> int:
    shortest = min(map(len, copies))
    low, high = 0, shortest
    while low < high:  # the first length at which not all beginnings are equal
        middle = (low + high) // 2
        if len({copy[: middle + 1] for copy in copies}) > 1:
            high = middle
        else:
            low = middle + 1
    return low


def _ending(events: Iterable[Event]) -> Iterator[Anomaly]:
    begun = [event for event in events if event.action == "final-read" and event.kind == "invoke"]
    done = {event.number for event in events if event.action == "final-read" and event.kind == "ok"}
    for event in begun:
        if event.number not in done:
            yield Anomaly("final-read-incomplete", f"{event.client} did not come to the end of what was written")
