"""kafka-python's keyword arguments as ours: most are the same words, some concern only its own machinery.

1. A client takes the names of its DEFAULT_CONFIG and no others, as in kafka-python. What it writes is what counts; its
   own defaults that can be seen are kafka-python's.
2. A name that means nothing here is passed over; one line of the log names those that were written, once.
3. float("inf") means no limit, None means: not set.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ottla.compat.kafka.coordinator.assignors.range import RangePartitionAssignor
from ottla.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from ottla.compat.kafka.partitioner import DefaultPartitioner
from ottla.compat.kafka.version import __version__

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 9092
NO_LIMIT: Final = 2**31 - 1
_COMMON: Final[dict[str, Any]] = {
    "bootstrap_servers": "localhost",
    "client_id": f"kafka-python-{__version__}",
    "request_timeout_ms": 30_000,
    "connections_max_idle_ms": 540_000,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "max_in_flight_requests_per_connection": 5,
    "receive_message_max_bytes": 100_000_000,
    "receive_buffer_bytes": None,
    "send_buffer_bytes": None,
    "socket_options": None,
    "retry_backoff_ms": 100,
    "metadata_max_age_ms": 300_000,
    "client_dns_lookup": "use_all_dns_ips",
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_password": None,
    "ssl_crlfile": None,
    "api_version": None,
    "bootstrap_timeout_ms": 30_000,
    "selector": None,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "proxy_url": None,
    "socks5_proxy": None,
    "metric_reporters": [],
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30_000,
    "kafka_client": None,
}
ADMIN: Final[dict[str, Any]] = _COMMON
PRODUCER: Final[dict[str, Any]] = _COMMON | {
    "client_id": None,
    "key_serializer": None,
    "value_serializer": None,
    "enable_idempotence": True,
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "acks": -1,
    "compression_type": None,
    "retries": float("inf"),
    "batch_size": 16_384,
    "linger_ms": 0,
    "partitioner": DefaultPartitioner(),
    "max_block_ms": 60_000,
    "max_request_size": 1_048_576,
    "allow_auto_create_topics": True,
    "ssl_ciphers": None,
    "metrics_enabled": True,
}
CONSUMER: Final[dict[str, Any]] = _COMMON | {
    "client_rack": "",
    "group_id": None,
    "group_instance_id": None,
    "key_deserializer": None,
    "value_deserializer": None,
    "enable_incremental_fetch_sessions": True,
    "fetch_max_wait_ms": 500,
    "fetch_min_bytes": 1,
    "fetch_max_bytes": 52_428_800,
    "max_partition_fetch_bytes": 1_048_576,
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5_000,
    "default_offset_commit_callback": None,
    "check_crcs": True,
    "isolation_level": "read_uncommitted",
    "allow_auto_create_topics": True,
    "partition_assignment_strategy": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    "max_poll_records": 500,
    "max_poll_interval_ms": 300_000,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "consumer_timeout_ms": float("inf"),
    "ssl_ciphers": None,
    "metrics_enabled": True,
    "metric_group_prefix": "consumer",
    "exclude_internal_topics": True,
}
NO_EFFECT: Final[Mapping[str, str]] = {
    "api_version": "versions are always asked for",
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
    "sasl_kerberos_name": "give sasl_kerberos_service_name and sasl_kerberos_domain_name",
}
_CONSUMERS: Final = {"max_in_flight_requests_per_connection": "a consumer asks each broker once at a time"}
_PRODUCERS: Final = {"allow_auto_create_topics": "the broker decides whether topics are made by themselves"}
_HERE: Final = frozenset(
    {
        "bootstrap_timeout_ms", "key_serializer", "value_serializer", "key_deserializer", "value_deserializer",
        "partitioner", "default_offset_commit_callback",
    }
)  # fmt: skip
_warned: set[str] = set()


def ours(configs: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords for our client."""
    is_producer = "acks" in defaults
    unused = {**NO_EFFECT, **(_PRODUCERS if is_producer else _CONSUMERS)}
    _warn({name for name in configs if name in unused and configs[name] is not None}, unused)
    settings = {
        name: _plain(name, value)
        for name, value in {**defaults, **configs}.items()
        if name not in unused and name not in _HERE and value is not None and value != float("inf")
    }
    if is_producer:
        _fit_producer(settings, configs)
    elif "group_id" not in settings and "enable_auto_commit" in settings:
        settings["enable_auto_commit"] = False  # there is nowhere to commit to
    return settings


def _plain(name: str, value: Any) -> Any:
    if name == "bootstrap_servers":
        return ",".join(map(_with_port, value.split(",") if isinstance(value, str) else value))
    if name == "partition_assignment_strategy":
        return ",".join(each if isinstance(each, str) else str(each.name) for each in value)
    if name == "isolation_level":
        return value.lower() if isinstance(value, str) else ("read_uncommitted", "read_committed")[int(value)]
    if name == "acks":
        return "all" if value in (-1, "-1") else str(value)
    return value


def _with_port(address: str) -> str:
    address = address.strip()
    bare = address.rpartition("]")[2] if address.startswith("[") else address
    return address if ":" in bare else f"{address}:{DEFAULT_PORT}"


def _fit_producer(settings: dict[str, Any], configs: Mapping[str, Any]) -> None:
    """Idempotence is given up when acks or retries exclude it and nobody asked for it, as in kafka-python."""
    if "enable_idempotence" not in configs and (settings["acks"] != "all" or settings.get("retries") == 0):
        settings["enable_idempotence"] = False
    least = settings["linger_ms"] + settings["request_timeout_ms"]
    if settings["delivery_timeout_ms"] < least:
        settings["request_timeout_ms"] = max(settings["delivery_timeout_ms"] - settings["linger_ms"], 1)
        settings["linger_ms"] = min(settings["linger_ms"], settings["delivery_timeout_ms"] - 1)


def _warn(names: set[str], reasons: Mapping[str, str]) -> None:
    if new := names - _warned:
        _warned.update(new)
        shown = ", ".join(f"{name} ({reasons[name]})" for name in sorted(new))
        log.warning("settings of kafka-python that have no effect here: %s", shown)
