"""GSSAPI at ZooKeeper: kazoo's SASL library with our half of a Kerberos login instead of its own.

pure-sasl would need the old `kerberos` package; here the login is the one that clients use at brokers
(net/sasl/gssapi_client.py, extra `gssapi`), with a keytab or the system's ticket cache.

1. kazoo runs a login in a thread of its own, so asking the KDC there makes nobody else wait.
2. A login that fails says why in the log; kazoo tries it again with its next connection, as with any mechanism.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.net.sasl.kerberos_login import KerberosLogin

log = logging.getLogger(__name__)

NAME: Final = "GSSAPI of Ottla"
"""Never sent: ZooKeeper has no names of mechanisms."""


class GssapiMechanism:
    """What pure-sasl calls a mechanism; one for each connection."""

    name: Final = NAME

    def __init__(self, sasl: Any, *, login: KerberosLogin) -> None:
        self.complete = False
        self._host = sasl.host
        self._login = login
        self._client: Any = None

    def process(self, challenge: bytes | None = None) -> bytes:
        try:
            return self._answer(challenge)
        except OttlaError as error:
            log.warning("the login at ZooKeeper on %s failed: %s", self._host, error)
            raise

    def _answer(self, challenge: bytes | None) -> bytes:
        if self._client is None:
            self._client = self._login.mechanism(self._host)
            return bytes(self._client.first())
        answer = self._client.answered(challenge or b"")
        self.complete = self._client.is_complete
        return bytes(answer or b"")

    def dispose(self) -> None:
        self._client = None


def sasl_options(service: str, principal: str | None, keytab: str | None) -> dict[str, Any]:
    """What kazoo is told; InvalidSetting when the Kerberos library is missing."""
    from puresasl import mechanisms

    login = KerberosLogin(service, principal=principal, keytab=keytab)
    mechanisms.mechanisms.setdefault(NAME, GssapiMechanism)
    return {"mechanism": NAME, "service": service, "login": login}
