"""One listener with TLS: its contexts now, who its clients are, and handshakes that failed.

1. Handshakes that begin use the newest material; open connections keep what they began with.
2. A handshake that fails is one line at INFO, without a traceback, and one more in a metric; lines are bounded
   (log_limit.py).
3. Who a client is comes from its certificate by ssl.principal.mapping.rules; without a certificate it is anonymous.
"""

from __future__ import annotations

import logging
import ssl

from ottla.broker.observe.log_limit import LineLimit
from ottla.broker.observe.metric_table import LOOP, counter
from ottla.broker.security.principal_rules import PrincipalRules
from ottla.broker.security.tls_material import TlsMaterial, check_replacement, make_material, stamps_of
from ottla.broker.security.tls_options import tls_options
from ottla.broker.settings import BrokerSettings, Endpoint
from ottla.errors import InvalidSetting, TlsHandshakeFailed
from ottla.metrics import Counter, Registry
from ottla.net.tls.der import DerError
from ottla.net.tls.distinguished_name import subject_of

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

ANONYMOUS = "User:ANONYMOUS"


class HandshakeMetrics:
    """How many clients of a listener were authenticated, and how many were not: the families that logins count in
    (logins.py), because in Kafka a failed handshake is a failed authentication."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def of(self, listener: str) -> tuple[Counter, Counter]:
        """The counters of failures and successes."""
        return self._counter("failed", listener), self._counter("successful", listener)

    def _counter(self, kind: str, listener: str) -> Counter:
        name = f"kafka_server_socket_server_metrics_{kind}_authentication_total"
        return counter(self._registry, name).of(listener, LOOP)


class TlsListener:
    """See the module."""

    def __init__(
        self, endpoint: Endpoint, settings: BrokerSettings, metrics: HandshakeMetrics, *, is_for_brokers: bool
    ) -> None:
        self.name = endpoint.name
        self._protocol = endpoint.protocol
        self._is_for_brokers = is_for_brokers
        self._settings = settings
        self._failed, self._succeeded = metrics.of(endpoint.name)
        self._rules = PrincipalRules(settings.for_listener(self.name).ssl_principal_mapping_rules)
        self._material = self._made(settings)
        self._refused_stamps = self._material.stamps
        self.own_principal = self._own_principal()

    # -- what connections ask ----------------------------------------------------------------------------------------

    @property
    def context(self) -> ssl.SSLContext:
        """For handshakes that begin now."""
        return self._material.server

    @property
    def client_context(self) -> ssl.SSLContext:
        """For connections of this broker to the same listener of others."""
        assert self._material.client is not None, "asked only of the listener that brokers use"
        return self._material.client

    def handshake_ended(self, address: str, failure: str | None) -> None:
        """Count it; None is a success, which on SASL_SSL is the login's to count."""
        if failure is None:
            self._succeeded.value += self._protocol == "SSL"
        else:
            self._failed.value += 1
            log.info("listener %s: the TLS handshake with %s failed: %s", self.name, address, failure)

    def principal_of(self, certificate: bytes | None) -> str:
        """Who shows this certificate; TlsHandshakeFailed when no rule makes a name of it."""
        if certificate is None:
            return ANONYMOUS
        try:
            return f"User:{self._rules.name_of(subject_of(certificate))}"
        except DerError:
            raise TlsHandshakeFailed("the subject of the certificate cannot be read") from None

    def _own_principal(self) -> str | None:
        """Who this broker is to others that take its certificate; None where no rule makes a name of it."""
        try:
            return self.principal_of(self._material.certificate)
        except TlsHandshakeFailed:
            return None

    # -- new stores --------------------------------------------------------------------------------------------------

    def prepared(self, settings: BrokerSettings) -> TlsMaterial:
        """The material that these settings and the files make now; InvalidSetting when it cannot be used."""
        made = self._made(settings)
        own = settings.for_listener(self.name)
        check_replacement(self._material, made, allow_dn=own.ssl_allow_dn_changes, allow_san=own.ssl_allow_san_changes)
        return made

    def replace(self, settings: BrokerSettings, material: TlsMaterial) -> None:
        """Use it for everybody who comes from now on."""
        if material.options != self._material.options or material.stamps != self._material.stamps:
            log.info("listener %s: new TLS stores are in use", self.name)
        self._settings, self._material = settings, material
        self._refused_stamps = material.stamps
        self.own_principal = self._own_principal()

    def check_files(self) -> None:
        """Read the stores again when a file has changed; what is wrong with them is logged, and the old ones stay."""
        stamps = stamps_of(self._material.options)
        if stamps in (self._material.stamps, self._refused_stamps):
            return
        try:
            self.replace(self._settings, self.prepared(self._settings))
        except InvalidSetting as problem:
            self._refused_stamps = stamps
            log.error("listener %s: a TLS store has changed and is not used: %s", self.name, problem)

    def _made(self, settings: BrokerSettings) -> TlsMaterial:
        try:
            options = tls_options(settings, self.name, self._protocol)
            return make_material(options, is_for_brokers=self._is_for_brokers)
        except InvalidSetting as problem:
            raise InvalidSetting(f"listener {self.name}: {problem.detail}") from None
