"""The client's half of GSSAPI (RFC 4752): a ticket of Kerberos for the broker's service.

    client   a ticket for kafka/HOST               broker   its own proof, until both believe each other
    client   nothing                               broker   which protections it offers
    client   none of them: TLS does that           broker   nothing: the login is complete

1. The exchange is plain code; the Kerberos library comes in as a Context.
2. The broker proves who it is (mutual authentication): a context that does not say so is never established.
3. A broker that insists on a protection layer is refused: Kafka has none.
4. We act for ourselves: the name behind the choice is left empty, and the broker takes that of the ticket.
"""

from __future__ import annotations

from typing import Final, Protocol

from ottla.errors import AuthenticationFailed
from ottla.net.sasl.gssapi_server import NO_LAYER


class Context(Protocol):
    """One exchange of the Kerberos library; what it raises is AuthenticationFailed."""

    @property
    def is_established(self) -> bool: ...
    def initiate(self, token: bytes | None) -> bytes:
        """What to say to the broker's token; None begins."""

    def wrap(self, message: bytes) -> bytes: ...
    def unwrap(self, message: bytes) -> bytes: ...


class GssapiClient:
    """One login."""

    name: Final = "GSSAPI"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._has_chosen = False

    @property
    def is_complete(self) -> bool:
        """Whether everything was said from our side."""
        return self._has_chosen

    def first(self) -> bytes:
        return self._context.initiate(None)

    def answered(self, challenge: bytes) -> bytes | None:
        if self._has_chosen:
            return None  # the broker said no with an error code, or did not
        if not self._context.is_established:
            return self._context.initiate(challenge)
        return self._chosen(self._context.unwrap(challenge))

    def _chosen(self, offer: bytes) -> bytes:
        if len(offer) != len(NO_LAYER) or not offer[0] & NO_LAYER[0]:
            raise AuthenticationFailed("the broker insists on a protection layer of GSSAPI, which Kafka does not have")
        self._has_chosen = True
        return self._context.wrap(NO_LAYER)
