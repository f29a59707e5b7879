"""Who sent a request, and at which version: what a handler knows of its request beside the request itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.security.authorizer import Decisions

from ottla.broker.quotas.charges import Charges
from ottla.light_dataclasses import dataclass, field


class ClientConnection(Protocol):
    """The part of a connection (network/processor.py) that the handling of a request may use."""

    client_software: tuple[str, str]
    kernel_portion_bytes: int  # of a file, that are sent to this client in one turn

    @property
    def port(self) -> int:
        """Of the client."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has left."""

    @property
    def is_held(self) -> bool:
        """Whether a long request of this connection is being handled."""

    def left(self) -> asyncio.Future[None]:
        """Resolved when the client has left."""

    def hold(self) -> None:
        """Begin no other request of this connection until the current one is answered."""

    def throttle(self, for_ms: float) -> None:
        """Read no requests for a while."""

    def end(self, reason: Exception) -> None:
        """Close it, and say why in the log."""


class Memo:
    """What the authorizer decided for requests like the last one; a context is kept for as long as its connection."""

    __slots__ = ("decisions",)

    def __init__(self) -> None:
        self.decisions: Decisions | None = None


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, and at which version."""

    api_version: int
    client_id: str
    client_host: str
    principal: str = "User:ANONYMOUS"
    listener: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"
    by_token: bool = False
    """Whether its sender logged in with a delegation token."""
    api_name: str = ""
    """Which API it is a request of, for logs."""
    connection: ClientConnection | None = None
    """The connection it came by; None in tests and for requests of our own."""
    charges: Charges | None = None
    """What its client's quotas count; None without quotas."""
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)
