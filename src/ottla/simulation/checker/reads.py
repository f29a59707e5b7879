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
        yield Anomaly(
            "vanished-read", f"{poll.client} got {value} at {partition}:{offset}, and it is not there any more"
        )
