"""All listeners with TLS of a broker: made at the start, and kept up to date while it runs.

1. Files are looked at every CHECK_MS: a certificate that was renewed on the disk is used without a restart.
2. A change of settings (AlterConfigs) is checked before it is stored: a store that cannot be used is refused with the
   reason, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.security.tls_listener import HandshakeMetrics, TlsListener
from ottla.broker.security.tls_material import TlsMaterial
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.dynamic import DynamicSettings
from ottla.broker.settings.tls import TlsSettings
from ottla.clock import Clock, Timer
from ottla.metrics import Registry

CHECK_MS: Final = 5_000
_NAMES: Final = tuple(each.name for each in TlsSettings.declared() if each.dynamic is not None)


class TlsListeners:
    def __init__(self, settings: BrokerSettings, registry: Registry, clock: Clock, *, is_member: bool) -> None:
        """`is_member` of a cluster: then one listener is used by other brokers. InvalidSetting when a listener cannot
        do TLS as it should."""
        metrics = HandshakeMetrics(registry)
        brokers = settings.inter_broker_listener.name if is_member else None
        self._clock = clock
        self._timer: Timer | None = None
        self._by_name = {
            each.name: TlsListener(each, settings, metrics, is_for_brokers=each.name == brokers)
            for each in settings.endpoints
            if each.protocol.endswith("SSL")
        }

    def get(self, name: str) -> TlsListener | None:
        """The listener of that name, when it speaks TLS."""
        return self._by_name.get(name)

    def start(self, dynamic: DynamicSettings) -> None:
        """Follow files and settings from now on."""
        if self._by_name:
            dynamic.subscribe(self._setting_names(), lambda _, new: self._apply(new))
            self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def check(self, settings: BrokerSettings) -> None:
        """InvalidSetting when a listener could not use these settings."""
        self._prepared(settings)

    def _prepared(self, settings: BrokerSettings) -> list[tuple[TlsListener, TlsMaterial]]:
        return [(each, each.prepared(settings)) for each in self._by_name.values()]

    def _apply(self, settings: BrokerSettings) -> None:
        for listener, material in self._prepared(settings):
            listener.replace(settings, material)

    def _setting_names(self) -> Iterable[str]:
        prefixes = ("", *(f"listener.name.{name.lower()}." for name in self._by_name))
        return [prefix + name for prefix in prefixes for name in _NAMES]

    def _schedule(self) -> None:
        self._timer = self._clock.call_later(CHECK_MS, self._check_files)

    def _check_files(self) -> None:
        for each in self._by_name.values():
            each.check_files()
        self._schedule()
