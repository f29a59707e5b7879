"""The server's half of GSSAPI (RFC 4752): Kerberos says who it is.

    client   tickets                             server   its own proof, until both believe each other
    client   nothing                             server   which protection it offers: none, TLS does that
    client   which it takes                      server   nothing: the login is complete

1. What is a ticket and whose it is, is the business of the system's Kerberos library (the `gssapi` package, extra
   `gssapi`); a context comes in as an argument, so the exchange itself is plain code.
2. No protection layer is offered, as in Kafka; a client that insists on one is refused.
3. The user is the short name of the ticket's name (kerberos_names.py), whatever the client asks to act as: kafka-python
   and aiokafka put the name of the service there, and Kafka does not look at it either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from ottla.errors import InvalidSetting
from ottla.net.sasl.kerberos_names import ShortNames
from ottla.net.sasl.server import Identity, LoginRefused

MESSAGE_LIMIT_BYTES: Final = 262_144
"""A ticket may carry the groups of its user, dozens of kilobytes of them."""
NO_LAYER: Final = b"\x01\x00\x00\x00"
"""One bit for "no protection", and no room for protected messages."""


class Context(Protocol):
    """One exchange of the Kerberos library; what it raises is a failure of the client."""

    @property
    def is_established(self) -> bool: ...
    def accept(self, token: bytes) -> bytes:
        """What to say to the client's token."""

    def peer(self) -> str:
        """The full name of whoever it is."""

    def wrap(self, message: bytes) -> bytes: ...
    def unwrap(self, message: bytes) -> bytes: ...


class GssapiServer:
    """One login."""

    def __init__(self, context: Context, names: ShortNames) -> None:
        self._context = context
        self._names = names
        self._has_offered = False
        self.identity: Identity | None = None

    def answered(self, message: bytes) -> bytes:
        if self.identity is not None or len(message) > MESSAGE_LIMIT_BYTES:
            raise LoginRefused("a message of GSSAPI that is too long, or comes after the end")
        if self._has_offered:
            return self._finish(self._context.unwrap(message))
        if not self._context.is_established:
            said = self._context.accept(message)
            if said or not self._context.is_established:
                return said
        elif message:
            raise LoginRefused("a message of GSSAPI where none is expected")
        self._has_offered = True
        return self._context.wrap(NO_LAYER)

    def _finish(self, chosen: bytes) -> bytes:
        if len(chosen) < len(NO_LAYER) or chosen[0] != NO_LAYER[0]:
            raise LoginRefused("the client wants a protection layer, which is not offered")
        self.identity = Identity(self._names.of(self._context.peer()))
        return b""


# -- the Kerberos library ----------------------------------------------------------------------------------------------


class KerberosContext:
    """A Context of the gssapi package."""

    def __init__(self, credentials: Any) -> None:
        library = kerberos_library()
        self._errors: type[Exception] = library.exceptions.GSSError
        self._context = library.SecurityContext(creds=credentials, usage="accept")

    @property
    def is_established(self) -> bool:
        return bool(self._context.complete)

    def accept(self, token: bytes) -> bytes:
        return self._checked(lambda: self._context.step(token) or b"")

    def peer(self) -> str:
        return str(self._context.initiator_name)

    def wrap(self, message: bytes) -> bytes:
        return self._checked(lambda: self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return self._checked(lambda: self._context.unwrap(message).message)

    def _checked(self, call: Callable[[], bytes]) -> bytes:
        try:
            return bytes(call())
        except self._errors as error:
            raise LoginRefused(f"Kerberos refuses: {type(error).__name__}") from None


def kerberos_credentials(principal: str, keytab: str | None) -> Any:
    """What the server shows of itself, from a keytab (or the system's); InvalidSetting when it cannot be read."""
    library = kerberos_library()
    try:
        name = library.Name(principal, library.NameType.kerberos_principal)
        store = None if keytab is None else {"keytab": keytab}
        return library.Credentials(name=name, usage="accept", store=store)
    except library.exceptions.GSSError as error:
        raise InvalidSetting(f"the keytab has no usable key for {principal}: {error}") from None


def kerberos_library() -> Any:
    """The gssapi package; InvalidSetting when it is not there."""
    try:
        import gssapi
    except ImportError:
        raise InvalidSetting("GSSAPI needs the Kerberos library: pip install 'ottla[gssapi]'") from None
    return gssapi
