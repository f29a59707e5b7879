"""All listeners with TLS of a broker: made at the start, and kept up to date while it runs.

1. Files are looked at every CHECK_MS: a certificate that was renewed on the disk is used without a restart.
2. A change of settings (AlterConfigs) is checked before it is stored: a store that cannot be used is refused with the
   reason, and nothing has changed.
3. A store that was set while running and cannot be used at the next start is passed over with an error in the log: the
   listener has the store of the broker's file then, and everything else that was changed still holds. When that cannot
   be used either, the broker does not start.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from ottla.broker.security.tls_listener import HandshakeMetrics, TlsListener
from ottla.broker.settings import BrokerSettings, Endpoint
from ottla.broker.settings.dynamic import DynamicSettings, is_of_store
from ottla.broker.settings.tls import TlsSettings
from ottla.clock import Clock, Timer
from ottla.errors import InvalidSetting
from ottla.metrics import Registry

log = logging.getLogger(__name__)

CHECK_MS: Final = 5_000
_NAMES: Final = tuple(each.name for each in TlsSettings.declared() if each.dynamic is not None)


class TlsListeners:
    def __init__(
        self,
        dynamic: DynamicSettings,
        registry: Registry,
        clock: Clock,
        *,
        endpoints: Sequence[Endpoint],
        is_member: bool,
    ) -> None:
        """`endpoints` may speak TLS or not. `is_member` of a cluster: then one listener is used by other brokers.
        InvalidSetting when a listener cannot do TLS as it should."""
        self._dynamic = dynamic
        self._metrics = HandshakeMetrics(registry)
        self._brokers = dynamic.current.inter_broker_listener.name if is_member else None
        self._clock = clock
        self._timer: Timer | None = None
        secure = [each for each in endpoints if each.protocol.endswith("SSL")]
        self._by_name = {each.name: self._first(each) for each in secure}

    def _first(self, endpoint: Endpoint) -> TlsListener:
        """The listener with the stores that were set while running, or else with those it was started with."""
        try:
            return self._made(endpoint)
        except InvalidSetting as problem:
            changed = {*self._dynamic.values("per-broker"), *self._dynamic.values("cluster-wide")}
            stores = [name for name in _names_of(endpoint.name) if name in changed and is_of_store(name)]
            if not stores:
                raise
            log.error("%s. It was set while running, and %s: not used", problem.detail, ", ".join(stores))
            self._dynamic.pass_over(stores)
            return self._made(endpoint)

    def _made(self, endpoint: Endpoint) -> TlsListener:
        is_for_brokers = endpoint.name == self._brokers
        return TlsListener(endpoint, self._dynamic.current, self._metrics, is_for_brokers=is_for_brokers)

    def get(self, name: str) -> TlsListener | None:
        """The listener of that name, when it speaks TLS."""
        return self._by_name.get(name)

    def start(self) -> None:
        """Follow files and settings from now on."""
        for each in self._by_name.values():
            self._follow(each)
        if self._by_name:
            self._schedule()

    def _follow(self, listener: TlsListener) -> None:
        def apply(_: BrokerSettings, new: BrokerSettings) -> None:
            listener.replace(new, listener.prepared(new))

        self._dynamic.subscribe(_names_of(listener.name), apply)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def check(self, settings: BrokerSettings) -> None:
        """InvalidSetting when a listener could not use these settings."""
        for each in self._by_name.values():
            each.prepared(settings)

    def _schedule(self) -> None:
        self._timer = self._clock.call_later(CHECK_MS, self._check_files)

    def _check_files(self) -> None:
        for each in self._by_name.values():
            each.check_files()
        self._schedule()


def _names_of(listener: str) -> Collection[str]:
    """What a listener's TLS is made of, in both forms it may be set."""
    return [prefix + name for prefix in ("", f"listener.name.{listener.lower()}.") for name in _NAMES]
