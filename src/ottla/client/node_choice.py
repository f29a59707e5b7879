"""Which node is asked when any of them will do, and why none could be: decided from what connections look like now."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.client.connections import Connections
from ottla.errors import NotConnected, OttlaError
from ottla.net.peer import State
from ottla.net.retries import RandomSource
from ottla.values import Node

NAMED_LIMIT: Final = 3


def least_loaded(
    nodes: Iterable[Node], connections: Connections, tried: Collection[int], random: RandomSource
) -> Node | None:
    """Ready before connecting before not connected, then the fewest requests; equals by chance. None when all were
    tried or are backing off."""
    best: Node | None = None
    best_rank = (math.inf, math.inf, 0.0)
    for node in nodes:
        connection = connections.get(node.id)
        if node.id in tried or (connection is not None and connection.is_backing_off):
            continue
        state = State.DISCONNECTED if connection is None else connection.peer.state
        step = 0 if state is State.READY else 2 if state is State.DISCONNECTED else 1
        rank = (step, 0 if connection is None else connection.peer.load, random.random())
        if rank < best_rank:
            best, best_rank = node, rank
    return best


def why_nobody(nodes: Iterable[Node], connections: Connections, tried: Mapping[int, OttlaError]) -> OttlaError:
    """Why nobody could be asked: the reason of each node, the first few of them; or the one that only the user can
    mend."""
    reasons = [error.detail or error.what for error in tried.values()]
    for node in nodes:
        connection = connections.get(node.id)
        if node.id not in tried and connection is not None and connection.peer.failure is not None:
            failure = connections.explained(connection, connection.peer.failure)
            if failure.invalid_configuration:
                return copy.copy(failure)
            reasons.append(failure.detail or failure.what)
    more = f" (and {len(reasons) - NAMED_LIMIT} more)" if len(reasons) > NAMED_LIMIT else ""
    return NotConnected("; ".join(reasons[:NAMED_LIMIT]) + more or "no broker is known")
