"""Ends: high watermarks and last stable offsets never go back, copies are alike, and everything comes to an end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import COMMITTED, RAW, Facts, Partition, Poll
from ottla.simulation.history import Event


def check_ends(facts: Facts) -> Iterator[Anomaly]:
    """hw-regress, lso-regress: less than what the same client had been told, or had read, before it asked. Another one
    may have asked a leader that does not know yet that it is none any more."""
    known: dict[tuple[str, str], dict[Partition, int]] = defaultdict(dict)
    asked: dict[int, tuple[str, str, dict[Partition, int]]] = {}
    polls = {poll.index: poll for poll in facts.polls if isinstance(poll, Poll)}
    for index, event in enumerate(facts.events):
        if (poll := polls.get(index)) is not None:
            _read_up_to(known[poll.client, RAW if poll.is_raw else COMMITTED], poll)
        if event.action == "client-kill" and event.kind == "invoke":
            for isolation in (RAW, COMMITTED):
                known.pop((event.facts["whom"], isolation), None)  # its next life has heard of nothing
        if event.action != "ends":
            continue
        if event.kind == "invoke":
            key = event.client, event.facts["isolation"]
            asked[event.number] = *key, dict(known[key])
        elif event.kind == "ok":
            client, isolation, least = asked.pop(event.number)
            for partition, end in event.facts["ends"].items():
                if end < least.get(partition, 0):
                    name = "hw-regress" if isolation == RAW else "lso-regress"
                    yield Anomaly(name, f"{partition} ends at {end}, and ended at {least[partition]} before")
                ends = known[client, isolation]
                ends[partition] = max(ends.get(partition, 0), end)


def _read_up_to(ends: dict[Partition, int], poll: Poll) -> None:
    for partition, offset, _ in poll.records:
        ends[partition] = max(ends.get(partition, 0), offset + 1)


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
            what = event.facts.get("value", "")
            yield Anomaly("unavailable", f"{event.client} could not {event.action} {what}, and all was healed")


def _is_owed(facts: Facts, event: Event) -> bool:
    """A send outside of transactions, or a deletion of records, after everything was healed."""
    is_plain = event.action == "send" and event.facts.get("txn") is None
    is_plain = is_plain or event.action == "delete-records"
    return is_plain and facts.healed_s is not None and event.time_s > facts.healed_s
