"""Order: what one consumer gets, and what one producer sends, is in the order of the partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Partition, Poll, Send


def check_polls(facts: Facts) -> Iterator[Anomaly]:
    """nonmonotonic-poll, poll-skip, and the same within one poll."""
    filled = {is_raw: _filled(facts, is_raw=is_raw) for is_raw in (False, True)}
    last: dict[str, dict[Partition, int]] = defaultdict(dict)
    for poll in facts.polls:
        if isinstance(poll, str):
            last[poll].clear()
            continue
        before, here = last[poll.client], set[Partition]()
        for partition, offset, _ in poll.records:
            prefix = "int-" if partition in here else ""
            yield from _step(poll, prefix, partition, before.get(partition), offset, filled[poll.is_raw][partition])
            before[partition] = offset
            here.add(partition)


def _filled(facts: Facts, *, is_raw: bool) -> dict[Partition, list[int]]:
    """Offsets that a reader must not jump over: somebody who reads like it got them, or they are acknowledged."""
    filled: dict[Partition, list[int]] = defaultdict(list)
    for (partition, offset), values in sorted(facts.values_at.items()):
        if facts.is_hit(partition, offset):
            continue
        if partition not in facts.policies and any(_is_there(facts, value, is_raw) for value in values):
            filled[partition].append(offset)
    return filled


def _is_there(facts: Facts, value: int, is_raw: bool) -> bool:
    send = facts.sends.get(value)
    if is_raw or send is None or send.txn is None:
        return True
    return value in facts.seen


def _step(
    poll: Poll, prefix: str, partition: Partition, before: int | None, offset: int, filled: Sequence[int]
) -> Iterator[Anomaly]:
    if before is None:
        return
    client = poll.client
    if offset <= before:
        yield Anomaly(f"{prefix}nonmonotonic-poll", f"{client} got {partition}:{offset} after {partition}:{before}")
        return
    skipped = filled[bisect_right(filled, before) : bisect_left(filled, offset)] if offset > before + 1 else []
    if skipped:
        yield Anomaly(
            f"{prefix}poll-skip", f"{client} got {partition}:{offset} after {before}, and {skipped} are between"
        )


def check_sends(facts: Facts) -> Iterator[Anomaly]:
    """nonmonotonic-send, and the same within one transaction. A client that was killed begins anew: what it had sent
    may arrive after what it sends in its next life."""
    births: dict[str, list[int]] = defaultdict(list)
    for index, client in facts.new_lives:
        births[client].append(index)
    last: dict[tuple[str, int, Partition], tuple[Send, int]] = {}
    for send in facts.sends.values():
        offset = send.offset if send.offset is not None else facts.read.get(send.value)
        if offset is None:
            continue
        key = send.client, bisect_left(births[send.client], send.index), send.partition
        before = last.get(key)
        if before is not None and offset < before[1]:
            prefix = "int-" if send.txn is not None and send.txn == before[0].txn else ""
            yield Anomaly(
                f"{prefix}nonmonotonic-send",
                f"{send.client} sent {send.value} after {before[0].value} to {send.partition}, and it is at {offset}, "
                f"before {before[1]}",
            )
        last[key] = (send, offset)
