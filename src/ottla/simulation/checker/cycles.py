"""Transactions that depend on each other in a circle: no order of them could have given this history.

1. ww: of two values that are neighbours in a partition, the transaction of the second depends on that of the first.
2. wr: who read a value in a transaction (a poll with `txn`, or a send with `source`) depends on the one that wrote it.
3. G1c has a circle of wr edges. With ww edges in it, and G0 with nothing else, Kafka allows them: producers do not wait
   for each other, so the values of two open transactions lie among each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts, Poll

Edges = dict[int, set[int]]


def check_cycles(facts: Facts, *, strict: bool) -> Iterator[Anomaly]:
    """G1c; with `strict` G0, and G1c by writes too."""
    reads, writes = _read_edges(facts), _write_edges(facts)
    for circle in circles(reads):
        yield Anomaly("G1c", f"transactions {circle} read from each other in a circle")
    if strict:
        for circle in circles(writes):
            yield Anomaly("G0", f"transactions {circle} wrote after each other in a circle")
        both = {txn: reads.get(txn, set()) | writes.get(txn, set()) for txn in {**reads, **writes}}
        for circle in circles(both):
            yield Anomaly("G1c", f"transactions {circle} read and wrote after each other in a circle")


def _read_edges(facts: Facts) -> Edges:
    edges: Edges = defaultdict(set)

    def add(value: int, reader: int) -> None:
        send = facts.sends.get(value)
        if send is not None and send.txn is not None and send.txn != reader:
            edges[send.txn].add(reader)

    for poll in facts.polls:
        if isinstance(poll, Poll) and poll.facts.get("txn") is not None:
            for _, _, value in poll.records:
                add(value, poll.facts["txn"])
    for send in facts.sends.values():
        if send.source is not None and send.txn is not None:
            for value in facts.values_at.get(send.source, ()):
                add(value, send.txn)
    return edges


def _write_edges(facts: Facts) -> Edges:
    edges: Edges = defaultdict(set)
    last: dict[object, int] = {}
    for (partition, _), values in sorted(facts.values_at.items()):
        send = facts.sends.get(min(values))
        if send is None or send.txn is None:
            continue
        before = last.get(partition)
        if before is not None and before != send.txn:
            edges[before].add(send.txn)
        last[partition] = send.txn
    return edges


def circles(edges: Mapping[int, set[int]]) -> list[list[int]]:
    """Strongly connected components of more than one node (Tarjan), without recursion."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[list[int]] = []
    for root in sorted(edges):
        if root not in order:
            _visit(root, edges, order, low, stack, found)
    return found


def _visit(
    root: int,
    edges: Mapping[int, set[int]],
    order: dict[int, int],
    low: dict[int, int],
    stack: list[int],
    found: list[list[int]],
) -> None:
    work = [(root, iter(sorted(edges.get(root, ()))))]
    order[root] = low[root] = len(order)
    stack.append(root)
    while work:
        node, followers = work[-1]
        following = next(followers, None)
        if following is None:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == order[node]:
                component = _popped(stack, node)
                found += [sorted(component)] if len(component) > 1 else []
        elif following not in order:
            order[following] = low[following] = len(order)
            stack.append(following)
            work.append((following, iter(sorted(edges.get(following, ())))))
        elif following in stack:
            low[node] = min(low[node], order[following])


def _popped(stack: list[int], node: int) -> list[int]:
    component = [stack.pop()]
    while component[-1] != node:
        component.append(stack.pop())
    return component
