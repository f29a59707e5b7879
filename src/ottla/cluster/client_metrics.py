"""What a client-metrics resource may set (KIP-714): which clients send which metrics how often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.errors import InvalidConfig, InvalidRegularExpression, InvalidRequest
from ottla.settings import LIST, Settings, setting

INTERVAL_MS_AT_LEAST: Final = 100
INTERVAL_MS_AT_MOST: Final = 3_600_000
MATCHED: Final = frozenset(
    {
        *("client_instance_id", "client_id", "client_software_name", "client_software_version"),
        *("client_source_address", "client_source_port"),
    }
)


class ClientMetricsSettings(Settings):
    """The settings of one subscription to the metrics of clients."""

    metrics = setting(
        "metrics",
        LIST,
        default=(),
        dynamic="cluster-wide",
        doc="Beginnings of the names of metrics; * is all.",
    )
    interval_ms = setting(
        "interval.ms",
        int,
        default=300_000,
        unit="ms",
        dynamic="cluster-wide",
        doc="How often clients send metrics.",
    )
    match = setting(
        "match",
        LIST,
        default=(),
        dynamic="cluster-wide",
        doc="Which clients: pairs of a property and a regular expression, as client_id=app-.*; none is all clients.",
    )


def check_client_metrics(
    name: str,
    values: Mapping[str, str],
    declared: type[Settings],
    check_pattern: Callable[[str], object] = re.compile,
) -> None:
    """Kafka's rules for a subscription, with its error codes; `check_pattern` raises when a pattern cannot be read."""
    if not name:
        raise InvalidRequest("the name of a client metrics subscription must not be empty")
    known = {each.name: each for each in declared.declared()}
    for key in values:
        if key not in known:
            raise InvalidRequest(f"unknown client metrics configuration: {key}")
    settings = declared(values).as_dict()
    interval_ms = settings["interval.ms"]
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_AT_LEAST <= interval_ms <= INTERVAL_MS_AT_MOST:
        raise InvalidRequest(
            f"interval.ms={interval_ms} must be between {INTERVAL_MS_AT_LEAST} and {INTERVAL_MS_AT_MOST}"
        )
    patterns = settings["match"]
    assert isinstance(patterns, tuple)
    for pattern in match_of(patterns).values():
        try:
            check_pattern(pattern)
        except (re.error, InvalidRegularExpression):
            raise InvalidConfig(f"illegal client matching pattern: {pattern}") from None


def match_of(patterns: Sequence[str]) -> dict[str, str]:
    """Regular expressions by the property that they are for; of two for the same the later one counts."""
    found = {}
    for text in patterns:
        parts = text.split("=")
        if len(parts) != 2 or parts[0].strip() not in MATCHED:
            raise InvalidConfig(f"illegal client matching pattern: {text}")
        found[parts[0].strip()] = parts[1].strip()
    return found
