"""How something moves through a table of states, and the story that an illegal move carries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from itertools import pairwise
from typing import TypeVar

from ottla.errors import OttlaError

S = TypeVar("S", bound=Hashable)


class IllegalMove(OttlaError):
    """The controller was about to move something between states that do not follow each other, so it did not.
    This is a bug in Ottla; please report it with the story in the message."""


def move(moves: Mapping[S, Set[S]], subject: object, path: Sequence[S]) -> S:
    """The last state of the path, if every step of it is in the table; else IllegalMove."""
    for here, there in pairwise(path):
        if there not in moves[here]:
            story = " -> ".join(str(each) for each in path)
            raise IllegalMove(f"{subject} cannot go from {here} to {there}; it was on the path {story}")
    return path[-1]
