"""kafka-python's keyword arguments as ours: most are the same words, some concern only its own machinery."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

log = logging.getLogger(__name__)

NO_EFFECT: Final[Mapping[str, str]] = {
    "api_version": "versions are always asked for",
    "api_version_auto_timeout_ms": "versions are always asked for",
    "bootstrap_timeout_ms": "calls have time limits of their own",
    "kafka_client": "there is one client here",
    "selector": "there is an event loop here",
    "socket_options": "the sockets belong to the event loop",
    "socks5_proxy": "proxies are not supported",
    "proxy_url": "proxies are not supported",
    "metrics_enabled": "metrics are always counted",
    "metric_reporters": "read them with metrics()",
    "metric_group_prefix": "the names are Java's",
    "metrics_num_samples": "the names are Java's",
    "metrics_sample_window_ms": "the names are Java's",
    "enable_incremental_fetch_sessions": "sessions are always used",
    "receive_message_max_bytes": "answers are bounded by fetch.max.bytes",
    "max_in_flight_requests_per_connection": "a consumer asks each broker once at a time",
    "default_offset_commit_callback": "failures of auto commit are logged",
    "sasl_kerberos_name": "give sasl_kerberos_service_name and sasl_kerberos_domain_name",
    "legacy_iterator": "there is one iterator",
    "wakeup_timeout_ms": "nobody waits for a wake-up",
}
_warned: set[str] = set()


def ours(configs: Mapping[str, Any], *, keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keywords for our client; None means: not given."""
    settings: dict[str, Any] = {}
    for name, value in configs.items():
        if name in NO_EFFECT and name not in keep:
            if value is not None and name not in _warned:
                _warned.add(name)
                log.warning("the setting %s of kafka-python has no effect here: %s", name, NO_EFFECT[name])
        elif value is not None:
            settings[name] = _plain(name, value)
    return settings


def _plain(name: str, value: Any) -> Any:
    """kafka-python takes infinity for `no limit`, and classes and objects where we want functions."""
    if isinstance(value, float) and value == float("inf"):
        return 2**31 - 1
    if name in ("bootstrap_servers",) and isinstance(value, list | tuple | set):
        return ",".join(value)
    if name.endswith("serializer") and not callable(value):
        method = getattr(value, "serialize", None) or getattr(value, "deserialize", None)
        return value if method is None else lambda topic, data: method(topic, data)
    if name == "partition_assignment_strategy":
        return ",".join(_assignor(each) for each in value)
    return value


def _assignor(each: Any) -> str:
    return each if isinstance(each, str) else str(getattr(each, "name", each))
