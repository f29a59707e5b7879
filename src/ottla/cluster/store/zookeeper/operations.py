"""What can be done to the nodes of ZooKeeper, as values; session.py does it."""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla.light_tuples import NamedTuple

ANY_VERSION: Final = -1


class Create(NamedTuple):
    """Make a node; refused when it is there."""

    path: str
    data: bytes | None = None
    sequential: bool = False
    ephemeral: bool = False


class Ensure(NamedTuple):
    """Make an empty node unless it is there. Done before the others, because a transaction knows no "unless"."""

    path: str


class SetData(NamedTuple):
    """Write into a node; refused when it is not there or has another version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Take a node away."""

    path: str
    version: int = ANY_VERSION


class DeleteTree(NamedTuple):
    """Take a node and all below it away, if they are there. `expected` is what there should be, deepest first; when
    that turns out to be wrong, or is not known, somebody has to look."""

    path: str
    expected: tuple[str, ...] | None = None


class Check(NamedTuple):
    """Refuse the whole transaction when the node has another version."""

    path: str
    version: int


Write: TypeAlias = Create | Ensure | SetData | Delete | DeleteTree | Check
