"""Groups: a committed offset never goes back, and a partition has one owner in each generation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Partition, Poll
from ottla.simulation.history import Event


def check_commits(events: Iterable[Event]) -> Iterator[Anomaly]:
    """group-offset-regress, group-offset-lost: less than what was acknowledged before the question was asked."""
    acknowledged: dict[tuple[str, Partition], int] = {}
    asked: dict[int, Event] = {}
    least: dict[int, dict[Partition, int]] = {}
    for event in events:
        if event.action not in ("commit", "committed", "final-committed"):
            continue
        if event.kind == "invoke":
            asked[event.number], group = event, event.facts["group"]
            least[event.number] = {name: offset for (each, name), offset in acknowledged.items() if each == group}
        elif event.kind == "ok" and event.action == "commit":
            facts = asked[event.number].facts
            key = facts["group"], facts["partition"]
            acknowledged[key] = max(acknowledged.get(key, -1), facts["offset"])
        elif event.kind == "ok":
            yield from _too_little(asked[event.number], event, least[event.number])


def _too_little(asked: Event, answer: Event, least: Mapping[Partition, int]) -> Iterator[Anomaly]:
    if asked.action == "committed":
        found = {asked.facts["partition"]: answer.facts["offset"]}
    else:
        found = {partition: answer.facts["offsets"].get(partition, -1) for partition in least}
    for partition, offset in found.items():
        if offset < least.get(partition, -1):
            yield Anomaly(
                "group-offset-lost" if offset < 0 else "group-offset-regress",
                f"{asked.facts['group']} partition {partition}: {offset} is committed, {least[partition]} was before",
            )


def check_owners(facts: Facts) -> Iterator[Anomaly]:
    """double-ownership."""
    yield from _read_too_early(facts)
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


def _read_too_early(facts: Facts) -> Iterator[Anomaly]:
    """A member read what another one had, which then asked to commit it in the same generation and was allowed to. Who
    is asked to give a partition back does so in its next poll, so it had it all the time."""
    polls = {poll.index: poll for poll in facts.polls if isinstance(poll, Poll) and poll.facts.get("group") is not None}
    readers: dict[tuple[str, Partition], list[tuple[str, int]]] = defaultdict(list)  # member and generation, in order
    commits: dict[int, tuple[Event, list[tuple[str, int]]]] = {}
    for index, event in enumerate(facts.events):
        if (poll := polls.get(index)) is not None:
            for partition in {partition: None for partition, _, _ in poll.records}:
                readers[poll.facts["group"], partition].append((poll.client, poll.facts.get("generation", -1)))
        elif event.action == "commit" and event.kind == "invoke":
            commits[event.number] = event, list(readers[event.facts["group"], event.facts["partition"]])
        elif event.action == "commit" and event.kind == "ok":
            yield from _later_reader(*commits[event.number])


def _later_reader(commit: Event, readers: Sequence[tuple[str, int]]) -> Iterator[Anomaly]:
    generation = commit.facts.get("generation", -1)
    own = [at for at, reader in enumerate(readers) if reader == (commit.client, generation)]
    for other, theirs in readers[own[-1] + 1 :] if own and generation >= 0 else ():
        if other != commit.client and theirs > generation:
            group, partition = commit.facts["group"], commit.facts["partition"]
            yield Anomaly(
                "double-ownership",
                f"{other} read {partition} in generation {theirs} of {group}, and {commit.client} had it since "
                f"{generation} and could still commit",
            )
            return
