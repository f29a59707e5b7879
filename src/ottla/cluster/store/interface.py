"""MetadataStore: where the truth about the cluster is kept, whoever keeps it.

1. `commit` takes a list of changes and makes all of them durable, or none; when it returns, they survive a crash.
2. With `expected` it is a compare-and-set: when the store has gone past that change number, it is StaleImage and
   nothing is written. Load, plan again, try again.
3. What others must know leaves as values: a Subscription holds what was committed until somebody takes it; nobody is
   called back. `changes_since` gives the same from a number on, or None when the store has forgotten how it began
   (then take the whole image).
4. A store that failed once refuses every further commit, because it cannot know what the disk has. Reading goes on.
5. Living together is optional: a store that several brokers share (ZooKeeper) has `membership` and `election`; one
   that belongs to a single broker answers both by itself, at once, in its own way: the broker that is there is the
   controller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker
from ottla.errors import KafkaStorageError, OttlaError

SUBSCRIPTION_LIMIT: Final = 1_000
"""Commits that a subscription holds. Nobody takes them so late without having lost its way; it gets `missed`."""


class StaleImage(OttlaError):
    """The metadata changed since it was read, so the change was not made. Read it again and decide again."""

    retriable = True


class StoreFailed(KafkaStorageError):
    """The metadata could not be written, so no change is accepted any more.
    Look at the disk of the first log directory, then restart the broker."""


class StoreClosed(KafkaStorageError):
    """The metadata store is closed; the broker is going down."""


class Committed(NamedTuple):
    """What one commit changed; `number` is the image's change number after it."""

    number: int
    changes: tuple[Change, ...]


class Controller(NamedTuple):
    """The broker that gives orders, and since which election."""

    broker_id: int
    epoch: int


class Subscription:
    """Commits that nobody has taken yet, oldest first; at most SUBSCRIPTION_LIMIT of them."""

    def __init__(self) -> None:
        self._waiting: deque[Committed] = deque()
        self.missed = False

    def put(self, committed: Committed) -> None:
        if len(self._waiting) >= SUBSCRIPTION_LIMIT:
            self._waiting.popleft()
            self.missed = True
        self._waiting.append(committed)

    def take(self) -> list[Committed]:
        """All that waits. When `missed` was true before, some are lost: take the whole image instead."""
        taken = list(self._waiting)
        self._waiting.clear()
        self.missed = False
        return taken


class Membership(Protocol):
    """Live registration: a broker is known for as long as it lives."""

    def register(self, broker: Broker) -> Broker:
        """Make the broker known; gives it back with the epoch of this registration."""

    def leave(self, broker_id: int) -> None:
        """Say that the broker goes, without waiting for somebody to notice."""


class Election(Protocol):
    """Who is controller."""

    def stand(self, broker_id: int) -> Controller:
        """Try to become controller; gives who is, which may be another one."""

    def resign(self, broker_id: int) -> None:
        """Stop being controller, if that is what the broker is."""


class MetadataStore(Protocol):
    """See above."""

    def load(self) -> ClusterImage:
        """The newest image. The first call reads what is kept, or makes a new cluster."""

    def commit(self, changes: Sequence[Change], *, expected: int | None = None) -> ClusterImage:
        """Make the changes; gives the image after them, when they are durable."""

    def changes_since(self, number: int) -> list[Committed] | None:
        """The commits after that change number, oldest first; None when they are not all known any more."""

    def subscribe(self) -> Subscription:
        """What is committed from now on."""

    def unsubscribe(self, subscription: Subscription) -> None:
        """Nobody takes from it any more."""

    @property
    def membership(self) -> Membership: ...

    @property
    def election(self) -> Election: ...

    def close(self) -> None:
        """Stop; closing again does nothing."""
