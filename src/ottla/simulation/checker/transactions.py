"""Transactions: nothing of what was aborted is read, nothing before its time, and all of them or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Place, Poll


def check_transactions(facts: Facts) -> Iterator[Anomaly]:
    """aborted-read, dirty-read, precommitted-read, torn-transaction."""
    for poll in facts.polls:
        if isinstance(poll, Poll):
            yield from _too_early(facts, poll)
    for value, send in facts.sends.items():
        if value in facts.seen and facts.status(send) == "aborted":
            what = "its send had failed" if send.txn is None else f"its transaction {send.txn} was not committed"
            yield Anomaly("aborted-read", f"{value} at {send.partition}:{facts.seen[value]} was read, and {what}")
    yield from _torn(facts)


def _too_early(facts: Facts, poll: Poll) -> Iterator[Anomaly]:
    """A reader of what is committed gets a value before anybody asked for its commit."""
    if poll.is_raw:
        return
    for partition, offset, value in poll.records:
        send = facts.sends.get(value)
        if send is None or send.txn is None:
            continue
        txn = facts.txns[send.txn]
        if txn.asked_index is not None and poll.index < txn.asked_index:
            name = "precommitted-read" if poll.client == txn.client else "dirty-read"
            yield Anomaly(
                name, f"{poll.client} got {value} at {partition}:{offset} before transaction {txn.number} was committed"
            )


def _torn(facts: Facts) -> Iterator[Anomaly]:
    for txn in facts.txns.values():
        if txn.state != "unknown":
            continue  # lost-write and aborted-read say it
        gone = [send for send in txn.sends if send.value not in facts.seen]
        if gone and len(gone) < len(txn.sends):
            missing = ", ".join(f"{send.value} of {send.partition}" for send in gone)
            yield Anomaly("torn-transaction", f"of transaction {txn.number} by {txn.client} {missing} is missing")


def check_copying(facts: Facts) -> Iterator[Anomaly]:
    """consume-count, hanging-transaction."""
    copies: dict[str, dict[Place, list[int]]] = defaultdict(lambda: defaultdict(list))
    for send in facts.sends.values():
        if send.source is not None and send.group is not None and send.value in facts.seen:
            copies[send.group][send.source].append(send.value)
    members = {event.facts["group"] for event in facts.events if _is(event, "commit", "invoke")}
    asked = {event.number: event.facts["group"] for event in facts.events if _is(event, "final-committed", "invoke")}
    for event in facts.events:
        if _is(event, "final-committed", "ok"):
            group = asked[event.number]
            if group in members:
                continue  # they make no copies
            yield from _counted(facts, group, copies[group], event.facts["offsets"])
        elif _is(event, "final-stable", "info"):
            yield Anomaly("hanging-transaction", event.facts["reason"])


def _is(event: object, action: str, kind: str) -> bool:
    return getattr(event, "action", None) == action and getattr(event, "kind", None) == kind


def _counted(facts: Facts, group: str, copies: dict[Place, list[int]], committed: dict[str, int]) -> Iterator[Anomaly]:
    for (partition, offset), values in sorted(copies.items()):
        if len(values) > 1:
            yield Anomaly("consume-count", f"{group} made {sorted(values)} of {partition}:{offset}")
        elif offset >= committed.get(partition, 0):
            where = committed.get(partition, 0)
            yield Anomaly("consume-count", f"{group} made {values} of {partition}:{offset} and has committed {where}")
    for value, offset in facts.seen.items():
        send = facts.sends.get(value)
        if send is None or offset >= committed.get(send.partition, 0):
            continue
        if (send.partition, offset) not in copies:
            yield Anomaly("consume-count", f"{group} committed more than {send.partition}:{offset} and made no copy")
