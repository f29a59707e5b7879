"""The server's half of a login, whatever its mechanism: what comes in, what goes out, and who it was in the end.

    mechanism = PlainServer(users)
    said = mechanism.answered(b"\\0alice\\0secret")      # bytes for the client; LoginRefused ends the login
    mechanism.identity                                   # Identity("alice") once the login is complete

1. A mechanism is plain code, made anew for every login: bytes in, bytes out. Nothing in it waits.
2. A refusal has two texts: `reason` is for the log, `answer_text` for the client, which must learn nothing that helps
   to guess. Without `answer_text` it gets the sentence that is the same for every failure of the mechanism.
"""

from __future__ import annotations

from typing import Protocol

from ottla.errors import AuthenticationFailed
from ottla.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in. `expires_ms` is when what was shown stops being good, in milliseconds since 1970."""

    name: str
    by_token: bool = False
    expires_ms: float | None = None


class LoginRefused(AuthenticationFailed):
    """A login failed. Check the user name, the password or token, and the mechanism."""

    def __init__(self, reason: str, *, answer_text: str | None = None, last_bytes: bytes = b"") -> None:
        """`last_bytes` is what the mechanism itself says to the client at the end, if it has words for that."""
        super().__init__(reason)
        self.reason = reason
        self.answer_text = answer_text
        self.last_bytes = last_bytes


class ServerMechanism(Protocol):
    """One login in one mechanism, the server's half."""

    @property
    def identity(self) -> Identity | None:
        """Who it was; None while the login is not complete."""

    def answered(self, message: bytes) -> bytes:
        """What to say to the client's next message; LoginRefused when the login is over."""
