"""Who is told when the group gives partitions and takes them.

    on_assigned(partitions)    after they were assigned, before their first records: the place to seek
    on_revoked(partitions)     before others get them: the place to commit what was worked on
    on_lost(partitions)        they are gone already, others may be reading them; without it on_revoked is called

A listener has some of these methods, or the same with kafka-python's names (on_partitions_assigned ...). They are
called inside poll() (and unsubscribe() and close()), in the thread of the caller; those of an AsyncConsumer may be
coroutines. An error in one is raised by that poll(), after the change was carried out: the group does not wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ottla.client.consumer.membership.decisions import Assigned, Change, Lost
from ottla.values import TopicPartition

Calling = tuple[str, Callable[[list[TopicPartition]], Any], list[TopicPartition]]


class Listener:
    """A user's listener with one form."""

    def __init__(self, listener: object) -> None:
        self._listener = listener
        kinds = ("assigned", "revoked", "lost")
        if listener is not None and not any(self._method(kind) for kind in kinds):
            raise TypeError(
                f"{listener!r} is no rebalance listener: it has none of on_assigned, on_revoked and on_lost"
            )

    @property
    def has_coroutines(self) -> bool:
        return any(inspect.iscoroutinefunction(self._method(kind)) for kind in ("assigned", "revoked", "lost"))

    def calls(self, change: Change) -> Calling | None:
        """What to call for a change: its kind, the method and the partitions; None when there is nothing to call."""
        if isinstance(change, Assigned):
            kind, partitions = "assigned", change.added
        else:
            kind, partitions = ("lost" if isinstance(change, Lost) else "revoked"), change.partitions
        method = self._method(kind) or (self._method("revoked") if kind == "lost" else None)
        # A rebalance that gave nothing new is told too, as Java does: some count rebalances this way.
        if method is None or (not partitions and kind != "assigned"):
            return None
        return kind, method, sorted(partitions)

    def _method(self, kind: str) -> Callable[..., Any] | None:
        for name in (f"on_{kind}", f"on_partitions_{kind}"):
            method: Callable[..., Any] | None = getattr(self._listener, name, None)
            if callable(method):
                return method
        return None
