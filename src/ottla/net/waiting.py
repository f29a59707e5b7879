"""Requests that wait for their turn: the node is not ready, or has enough in flight.

1. First in, first out. A request leaves once: taken to be sent, expired, abandoned, or failed with all the others.
2. At most `limit` wait; whoever adds asks `is_full` first.
3. `next_deadline_ms` is never later than the earliest deadline of a request that waits.
"""

from __future__ import annotations

import math
from collections import deque

from ottla.light_tuples import NamedTuple
from ottla.protocol.api import WrittenRequest
from ottla.protocol.schema import Message


class WaitingRequest(NamedTuple):
    """A request nobody has written yet. `version` fixes its version, `at_most` limits the choice; `client_id` stands
    in its header instead of that of the connection."""

    ticket: object
    request: Message | WrittenRequest
    version: int | None
    at_most: int | None
    deadline_ms: float
    expects_response: bool
    client_id: str | None = None


class WaitingRequests:
    """The line in front of one node."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self.line: deque[WaitingRequest] = deque()  # to be looked at; it may be another one after each call
        self._earliest_ms = math.inf

    def __len__(self) -> int:
        return len(self.line)

    @property
    def is_full(self) -> bool:
        return len(self.line) >= self._limit

    @property
    def next_deadline_ms(self) -> float:
        return self._earliest_ms if self.line else math.inf

    def add(self, waiting: WaitingRequest) -> None:
        self.line.append(waiting)
        self._earliest_ms = min(self._earliest_ms, waiting.deadline_ms)

    def take(self) -> WaitingRequest:
        """The one whose turn it is."""
        return self.line.popleft()

    def abandon(self, ticket: object) -> bool:
        """Forget a request that nobody wants any more; False when it is not here."""
        kept = deque(waiting for waiting in self.line if waiting.ticket != ticket)
        found = len(kept) < len(self.line)
        self.line = kept
        return found

    def expire(self, now_ms: float) -> list[WaitingRequest]:
        """Take out those whose time is over."""
        if self.next_deadline_ms > now_ms:
            return []
        expired = [waiting for waiting in self.line if waiting.deadline_ms <= now_ms]
        self.line = deque(waiting for waiting in self.line if waiting.deadline_ms > now_ms)
        self._earliest_ms = min((waiting.deadline_ms for waiting in self.line), default=math.inf)
        return expired

    def take_all(self) -> list[WaitingRequest]:
        """Take out everything."""
        everything = list(self.line)
        self.line.clear()
        self._earliest_ms = math.inf
        return everything
