"""A set that remembers in which order its members came.

Python's own set iterates in the order of hashes, and those of objects and texts are other ones in every process. Where
several are woken, asked or ended one after the other, that order is seen from outside; with this one the same calls
have the same outcome every time, which a simulation from one seed lives on (docs/decisions/0055).
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class OrderedSet(dict[T, None]):
    """Iterates from the oldest to the newest member."""

    def add(self, member: T) -> None:
        self[member] = None

    def discard(self, member: T) -> None:
        self.pop(member, None)
