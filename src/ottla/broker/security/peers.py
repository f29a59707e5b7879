"""Who is a broker of this cluster: only they may give orders, follow, write markers.

    broker.peers.refusal(context)          why whoever sent this is no broker, as far as is known; None when he is one
    await broker.peers.admit(context)      raise unless he is one, after a fresh look at who is registered

1. Brokers ask on the listener of brokers (inter.broker.listener.name); on any other nobody is one.
2. With an authorizer a broker is who may CLUSTER_ACTION on the cluster, as in Kafka.
3. Without one, where brokers log in, a broker is who logs in as we do ourselves, or as one of super.users. A delegation
   token is no login of a broker. Whom we log in as is not known when our token comes from a provider: then super.users
   must say it, or addresses count (5).
4. So it is where brokers show certificates (TLS with ssl.client.auth): a broker has our own certificate's name, as
   ssl.principal.mapping.rules makes it, or is one of super.users.
5. Where brokers prove nothing (PLAINTEXT, TLS without certificates of clients), and where somebody is anonymous, he
   must ask from an address of a broker: one that a registered broker advertises, or one of ottla.broker.networks, for
   brokers behind an address translation (cluster/broker_addresses.py). It is a fence and no lock: what strangers can
   reach needs logins.
6. A broker that is alone has no others: nobody is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.network.processor import ANONYMOUS, CloseConnection
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.access import principals
from ottla.errors import BrokerError, ClusterAuthorizationFailed

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Refusal: TypeAlias = BrokerError | CloseConnection


class Peers:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings: BrokerSettings | None = None  # those that the next three were read from
        self._listener = ""
        self._logins: frozenset[str] = frozenset()
        self._by_certificate = False
        self.own_certificate: Callable[[], str | None] = lambda: None  # whose it is; the server knows

    def refusal(self, context: RequestContext) -> Refusal | None:
        """Why he is no broker; decided at once, on what is known."""
        broker = self._broker
        self._read_settings()
        if broker.link.is_alone:
            return ClusterAuthorizationFailed("this broker is a cluster of its own")
        if context.listener != self._listener:
            return ClusterAuthorizationFailed(f"brokers ask each other on the listener {self._listener} only")
        if broker.access.is_on:
            if not CLUSTER_ACTION.is_met(broker, context):
                return CLUSTER_ACTION.refusal(context)
            return None if context.principal != ANONYMOUS else self._wrong_address(context)
        if not self._logins and not self._by_certificate:
            return self._wrong_address(context)
        if context.by_token or not self._is_name_of_broker(context.principal):
            return ClusterAuthorizationFailed(
                f"{context.principal} is not whom brokers of this cluster log in as; super.users may name it"
            )
        return None if context.principal != ANONYMOUS else self._wrong_address(context)

    def _is_name_of_broker(self, principal: str) -> bool:
        return principal in self._logins or (self._by_certificate and principal == self.own_certificate())

    async def admit(self, context: RequestContext) -> None:
        """Raise unless he is a broker; the registered brokers are read again before an address is refused."""
        refusal, addresses = self.refusal(context), self._broker.link.addresses
        if isinstance(refusal, CloseConnection) and addresses and await addresses.admits(context.client_host):
            refusal = None
        if refusal is not None:
            raise refusal

    def _read_settings(self) -> None:
        """Whom brokers log in as, without an authorizer: nobody where they prove nothing."""
        settings = self._broker.settings
        if settings is self._settings:
            return
        self._logins = frozenset()
        if settings.brokers_authenticate:
            from ottla.broker.security.own_login import own_principal  # few brokers log in at others

            own = own_principal(settings)
            known = () if own is None else (own,)
            self._logins = frozenset((*known, *principals(settings.super_users)))
        self._by_certificate = settings.brokers_authenticate and settings.inter_broker_listener.protocol == "SSL"
        self._listener = settings.inter_broker_listener.name
        self._settings = settings

    def _wrong_address(self, context: RequestContext) -> CloseConnection | None:
        """No answer instead of an error: a controller repeats an order only when it got none, and its broker may have
        been registered a moment ago."""
        addresses = self._broker.link.addresses
        if addresses is not None and addresses.includes(context.client_host):
            return None
        return CloseConnection(f"{context.client_host} is no address of a broker of this cluster")
