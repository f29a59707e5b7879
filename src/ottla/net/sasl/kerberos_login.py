"""Tickets for GSSAPI: whose they are, where they are kept, and for which service of which host.

    login = KerberosLogin("kafka", principal="alice@REALM", keytab="/etc/alice.keytab")
    await login.prepare("broker-1")                 # before connecting: a ticket for kafka/broker-1
    login.mechanism("broker-1")                     # for one login there

1. The ticket is that of the system's ticket cache (`kinit`), or made from a keytab; then it is kept in memory only,
   one for all clients of the process with the same principal, and the library gets a new one when it ends.
2. A KDC is asked in a thread, before a connection is made. A login again in the middle of a session (KIP-368) finds the
   ticket in the cache; only when it ended meanwhile, the library asks for a new one and the loop waits for that.
3. The service's name is that of the host as the client knows it; what the library makes of it is up to krb5.conf
   (dns_canonicalize_hostname). `host` is for brokers whose principal has another name than their address.
4. What the library says is told: it names principals, caches and realms, and no secret. A KDC that cannot be reached is
   NotConnected, so it is tried again; everything else is AuthenticationFailed, and is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.errors import AuthenticationFailed, NotConnected
from ottla.net.sasl.gssapi_client import GssapiClient
from ottla.net.sasl.gssapi_server import kerberos_library

T = TypeVar("T")

_KDC_UNREACHABLE: Final = 2_529_639_068  # KRB5_KDC_UNREACH of MIT Kerberos


class KerberosLogin:
    """Who logs in, and at which service."""

    def __init__(
        self,
        service: str,
        *,
        host: str | None = None,
        principal: str | None = None,
        keytab: str | None = None,
        cache: str | None = None,
    ) -> None:
        """`keytab` and `cache` are files; without both the system's cache is used."""
        self._library = kerberos_library()
        self._service = service
        self._host = host
        self._principal = principal
        self._store: dict[str, str] = {}
        if keytab is not None:
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:ottla {principal} {keytab}"}
        elif cache is not None:
            self._store = {"ccache": cache}

    async def prepare(self, host: str) -> None:
        """Have a ticket for the service of that host; raises why there is none."""
        await asyncio.to_thread(lambda: self._context(host).initiate(None))

    def mechanism(self, host: str) -> GssapiClient:
        """For one login at that host."""
        return GssapiClient(self._context(host))

    def _context(self, host: str) -> KerberosContext:
        return _checked(self._library, lambda: KerberosContext(self._library, self._target(host), self._credentials()))

    def _target(self, host: str) -> Any:
        kind = self._library.NameType.hostbased_service
        return self._library.Name(f"{self._service}@{self._host or host}", kind)

    def _credentials(self) -> Any:
        library = self._library
        name = None
        if self._principal is not None:
            name = library.Name(self._principal, library.NameType.kerberos_principal)
        return library.Credentials(name=name, usage="initiate", store=self._store or None)


class KerberosContext:
    """A Context of the gssapi package."""

    def __init__(self, library: Any, target: Any, credentials: Any) -> None:
        flags = library.RequirementFlag
        self._library = library
        self._context = library.SecurityContext(
            name=target,
            creds=credentials,
            usage="initiate",
            mech=library.MechType.kerberos,
            flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
        )

    @property
    def is_established(self) -> bool:
        return bool(self._context.complete)

    def initiate(self, token: bytes | None) -> bytes:
        return _checked(self._library, lambda: bytes(self._context.step(token) or b""))

    def wrap(self, message: bytes) -> bytes:
        return _checked(self._library, lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return _checked(self._library, lambda: bytes(self._context.unwrap(message).message))


def _checked(library: Any, call: Callable[[], T]) -> T:
    try:
        return call()
    except library.exceptions.GSSError as error:
        kind = NotConnected if error.min_code == _KDC_UNREACHABLE else AuthenticationFailed
        raise kind(f"Kerberos: {error}") from None
