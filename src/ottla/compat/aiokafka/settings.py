"""aiokafka's keyword arguments as ours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

DEFAULT_PORT: Final = 9092
UNLIMITED: Final = 50_000
"""How many records one getmany() gives when nobody says how many."""

_SAME: Final = (
    "client_id",
    "metadata_max_age_ms",
    "request_timeout_ms",
    "retry_backoff_ms",
    "connections_max_idle_ms",
    "security_protocol",
    "ssl_context",
)
_SASL: Final = (
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
)


def common(written: Mapping[str, Any]) -> dict[str, Any]:
    """What every client has."""
    if written.get("loop") is not None:
        warnings.warn("The loop argument is deprecated since 0.7.1", DeprecationWarning, stacklevel=4)
    if written.get("api_version") is not None:
        warnings.warn("The `api_version` parameter is a no-op", DeprecationWarning, stacklevel=4)
    found = {name: written[name] for name in _SAME if written[name] is not None}
    found["bootstrap_servers"] = addresses(written["bootstrap_servers"])
    if "SASL" in written["security_protocol"]:
        found |= {name: written[name] for name in _SASL if written[name] is not None}
        _add_provider(found, written["sasl_oauth_token_provider"])
    return found


def _add_provider(found: dict[str, Any], provider: Any) -> None:
    if provider is not None:
        found["sasl_oauthbearer_token_provider"] = provider.token
        if extensions := provider.extensions():
            found["sasl_oauthbearer_extensions"] = [f"{name}={value}" for name, value in extensions.items()]


def addresses(servers: Any) -> str:
    """With ports, in one text."""
    found = servers.split(",") if isinstance(servers, str) else list(servers)
    return ",".join(_with_port(each.strip()) for each in found)


def _with_port(address: str) -> str:
    bare = address.rpartition("]")[2] if address.startswith("[") else address
    return address if ":" in bare else f"{address}:{DEFAULT_PORT}"


def assignors(strategies: Any) -> str:
    """Their names."""
    return ",".join(each if isinstance(each, str) else str(each.name) for each in strategies)
