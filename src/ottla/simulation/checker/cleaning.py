"""What was deleted stays deleted."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Partition, Poll


def check_cleaning(facts: Facts) -> Iterator[Anomaly]:
    """deleted-read, log-start-regress: after everything was healed. A reader in the middle of a run may have fetched
    the records before they were deleted."""
    starts: dict[Partition, int] = {}
    asked = {}
    for event in facts.events:
        if event.action == "delete-records" and event.kind == "invoke":
            asked[event.number] = event.facts["partition"]
        elif event.action == "delete-records" and event.kind == "ok":
            partition = asked[event.number]
            starts[partition] = max(starts.get(partition, 0), event.facts["start"])
    for partition, start in starts.items():
        if facts.starts.get(partition, start) < start:
            yield Anomaly("log-start-regress", f"{partition} begins at {facts.starts[partition]}, and was at {start}")
    for poll in facts.polls:
        if isinstance(poll, Poll) and poll.is_final:
            for partition, offset, value in poll.records:
                if offset < starts.get(partition, 0):
                    yield Anomaly("deleted-read", f"{value} at {partition}:{offset} was deleted and is read again")
