"""Lost writes: what was acknowledged, alone or by the end of its transaction, must be read by somebody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Partition, Send


def check_writes(facts: Facts) -> Iterator[Anomaly]:
    """lost-write, unseen, compaction-lost."""
    cuts = _cuts(facts)
    last_of_key = _last_of_keys(facts)
    for send in facts.sends.values():
        if facts.status(send) != "committed" or send.value in facts.seen:
            continue
        policy = facts.policies.get(send.partition)
        if policy == "gone" or _is_cut(facts, send, policy, cuts) or facts.is_hit(send.partition, send.offset):
            continue
        if policy == "compact":
            if (send.offset or 0) >= last_of_key.get((send.partition, send.key), -1):
                yield Anomaly("compaction-lost", f"{send.value} is the last value of {send.key} and is gone")
            continue
        yield _lost(facts, send)


def _lost(facts: Facts, send: Send) -> Anomaly:
    highest = facts.highest_read.get(send.partition, -1)
    is_lost = send.offset is not None and send.offset < highest
    how = "acknowledged" if send.txn is None else f"committed by transaction {send.txn}"
    return Anomaly(
        "lost-write" if is_lost else "unseen",
        f"{send.value} was {how} at {send.partition}:{send.offset} and never read; the highest read is {highest}",
    )


def _cuts(facts: Facts) -> dict[Partition, int]:
    """How far somebody asked for records to be deleted."""
    cuts: dict[Partition, int] = {}
    for event in facts.events:
        if event.action == "delete-records" and event.kind == "invoke":
            partition = event.facts["partition"]
            cuts[partition] = max(cuts.get(partition, 0), event.facts["before"])
    return cuts


def _is_cut(facts: Facts, send: Send, policy: str | None, cuts: dict[Partition, int]) -> bool:
    start = facts.starts.get(send.partition, 0)
    if policy == "cut":
        start = min(start, cuts.get(send.partition, 0))
    return policy in ("cut", "retention") and (send.offset is None or send.offset < start)


def _last_of_keys(facts: Facts) -> dict[tuple[Partition, str | None], int]:
    """The highest offset at which a value of each key was read, or was before it rotted."""
    last: dict[tuple[Partition, str | None], int] = defaultdict(lambda: -1)
    for value, offset in facts.seen.items():
        send = facts.sends.get(value)
        if send is not None and send.key is not None:
            last[send.partition, send.key] = max(last[send.partition, send.key], offset)
    for send in facts.sends.values():
        if send.key is not None and send.offset is not None and facts.is_hit(send.partition, send.offset):
            last[send.partition, send.key] = max(last[send.partition, send.key], send.offset)
    return last
