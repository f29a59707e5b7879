"""Ends: high watermarks and last stable offsets never go back, copies are alike, and everything comes to an end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import RAW, Facts, Partition
from ottla.simulation.history import Event


def check_ends(events: Iterable[Event]) -> Iterator[Anomaly]:
    """hw-regress, lso-regress: less than what somebody had been told before the question was asked."""
    known: dict[str, dict[Partition, int]] = defaultdict(dict)
    asked: dict[int, tuple[str, dict[Partition, int]]] = {}
    for event in events:
        if event.action != "ends":
            continue
        if event.kind == "invoke":
            isolation = event.facts["isolation"]
            asked[event.number] = isolation, dict(known[isolation])
        elif event.kind == "ok":
            isolation, least = asked.pop(event.number)
            for partition, end in event.facts["ends"].items():
                if end < least.get(partition, 0):
                    name = "hw-regress" if isolation == RAW else "lso-regress"
                    yield Anomaly(name, f"{partition} ends at {end}, and ended at {least[partition]} before")
                known[isolation][partition] = max(known[isolation].get(partition, 0), end)


def check_copies(replicas: Mapping[str, Mapping[int, bytes]]) -> Iterator[Anomaly]:
    """replica-divergence."""
    for name, copies in replicas.items():
        if len(set(copies.values())) > 1:
            sizes = {broker: len(copy) for broker, copy in copies.items()}
            where = _first_difference(list(copies.values()))
            yield Anomaly("replica-divergence", f"{name}: the copies differ from byte {where} on; sizes {sizes}")


def _first_difference(copies: Sequence[bytes]) -> int:
    low, high = 0, min(map(len, copies))
    while low < high:  # the first length at which not all beginnings are equal
        middle = (low + high) // 2
        if len({copy[: middle + 1] for copy in copies}) > 1:
            high = middle
        else:
            low = middle + 1
    return low


def check_ending(facts: Facts) -> Iterator[Anomaly]:
    """final-read-incomplete, unavailable."""
    done = {event.number for event in facts.events if event.kind in ("ok", "fail")}
    for event in facts.events:
        if event.kind != "invoke" or event.number in done:
            continue
        if event.action in ("final-read", "final-committed"):
            yield Anomaly("final-read-incomplete", f"{event.client} did not come to the end of what was written")
        elif _is_owed(facts, event):
            yield Anomaly("unavailable", f"{event.client} could not send {event.facts['value']}, and all was healed")


def _is_owed(facts: Facts, event: Event) -> bool:
    """A send outside of transactions, after everything was healed."""
    is_plain = event.action == "send" and event.facts.get("txn") is None
    return is_plain and facts.healed_s is not None and event.time_s > facts.healed_s
