"""Groups: a committed offset never goes back, and a partition has one owner in each generation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Partition, Poll
from ottla.simulation.history import Event


def check_commits(events: Iterable[Event]) -> Iterator[Anomaly]:
    """group-offset-regress, group-offset-lost: less than what was acknowledged before the question was asked."""
    acknowledged: dict[tuple[str, Partition], int] = {}
    asked: dict[int, Event] = {}
    least: dict[int, int] = {}
    for event in events:
        if event.action not in ("commit", "committed"):
            continue
        if event.kind == "invoke":
            asked[event.number] = event
            least[event.number] = acknowledged.get((event.facts["group"], event.facts["partition"]), -1)
        elif event.kind == "ok" and event.action == "commit":
            facts = asked[event.number].facts
            key = facts["group"], facts["partition"]
            acknowledged[key] = max(acknowledged.get(key, -1), facts["offset"])
        elif event.kind == "ok" and event.facts["offset"] < least[event.number]:
            facts, found = asked[event.number].facts, event.facts["offset"]
            yield Anomaly(
                "group-offset-lost" if found < 0 else "group-offset-regress",
                f"{facts['group']} partition {facts['partition']}: {found} is committed, "
                f"{least[event.number]} was before",
            )


def check_owners(facts: Facts) -> Iterator[Anomaly]:
    """double-ownership."""
    owners: dict[tuple[str, int, Partition], dict[str, None]] = defaultdict(dict)
    for poll in facts.polls:
        if isinstance(poll, Poll) and poll.facts.get("generation", -1) >= 0:
            for partition, _, _ in poll.records:
                owners[poll.facts["group"], poll.facts["generation"], partition][poll.client] = None
    for (group, generation, partition), clients in owners.items():
        if len(clients) > 1:
            yield Anomaly(
                "double-ownership", f"{' and '.join(clients)} read {partition} in generation {generation} of {group}"
            )
