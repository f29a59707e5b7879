"""What a peer can decide: values that say what to do or what happened, carried out by whoever drives the peer.

They compare by their fields, so that a test of a peer is a comparison of two lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.net.connection import ApiVersionTable, Completed, Failed
from ottla.net.framing import Buffer


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection, then call `connected` or `connect_failed`."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    """Write these buffers, one after the other; they must not change until they are written."""

    buffers: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Close:
    """Give up the connection or the attempt to make one; nothing from it is wanted any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Requests can be sent."""

    versions: ApiVersionTable


@dataclass(frozen=True, slots=True)
class BackingOff:
    """The connection failed. `retry_at_ms` is None when trying again is left to the user."""

    error: OttlaError
    retry_at_ms: float | None


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `tick` at this time; it comes before any other time asked for earlier."""

    ms: float


Decision: TypeAlias = Connect | Send | Close | Ready | BackingOff | WakeAt | Completed | Failed
