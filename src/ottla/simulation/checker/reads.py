"""What was read once is still there: readers get nothing that an election may take back."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import COMMITTED, RAW, Facts, Place, Poll


def check_reads(facts: Facts) -> Iterator[Anomaly]:
    """vanished-read: compared with the last read of the same isolation, in partitions from which nothing goes away."""
    found: dict[bool, set[tuple[Place, int]]] = {False: set(), True: set()}
    for poll in facts.polls:
        if isinstance(poll, Poll) and poll.is_final:
            found[poll.is_raw] |= {((partition, offset), value) for partition, offset, value in poll.records}
    reported: set[tuple[Place, int]] = set()
    for poll in facts.polls:
        if isinstance(poll, Poll) and not poll.is_final:
            yield from _vanished(facts, poll, found, reported)


def _vanished(
    facts: Facts, poll: Poll, found: dict[bool, set[tuple[Place, int]]], reported: set[tuple[Place, int]]
) -> Iterator[Anomaly]:
    isolation = RAW if poll.is_raw and RAW in facts.final_ends else COMMITTED
    ends = facts.final_ends.get(isolation, {})
    for partition, offset, value in poll.records:
        read = (partition, offset), value
        if partition in facts.policies or partition not in ends or read in reported or read in found[isolation == RAW]:
            continue
        reported.add(read)
        if facts.is_hit(partition, offset):
            continue
        yield Anomaly(
            "vanished-read", f"{poll.client} got {value} at {partition}:{offset}, and it is not there any more"
        )


def check_passes(facts: Facts) -> Iterator[Anomaly]:
    """unreadable: what a reader had to pass over must have rotted, every offset of it."""
    for event in facts.events:
        if event.action == "pass" and event.kind == "ok":
            partition, offset = event.facts["partition"], event.facts["first"]
            for first, following in sorted(facts.hits.get(partition, ())):
                offset = following if first <= offset < following else offset
            if offset < event.facts["following"]:
                last = event.facts["following"] - 1
                yield Anomaly("unreadable", f"{partition}:{offset} to {last} cannot be read, and no rot had hit them")
