"""Values of librdkafka's properties as values of our settings.

Most are the same number or text under another name (properties.py). Here is the rest: units (kilobytes), numbers with
a meaning of their own (0 and -1 for "never" or "no limit"), other words for the same choice, and what must fit together
in our client and need not in librdkafka's (a record may live shorter than one request takes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from ottla.compat.confluent_kafka.partitioners import PARTITIONERS
from ottla.compat.confluent_kafka.properties import properties
from ottla.compat.confluent_kafka.property_values import Parsed

NO_LIMIT_MS: Final = 2**31 - 1
NEVER_MS: Final = 2**40
DEFAULT_LINGER_MS: Final = 5
DEFAULT_PORT: Final = 9092
DEFAULT_REQUEST_MS: Final = 30_000
_RESETS: Final = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
_ACKS: Final = {-1: "all"}

# By the property's name; None leaves the setting out.
_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "auto.offset.reset": lambda word: _RESETS.get(word, word),
    "request.required.acks": lambda number: _ACKS.get(number, str(number)),
    "queue.buffering.max.ms": math.ceil,
    "queue.buffering.max.kbytes": lambda kbytes: kbytes * 1024,
    "queued.max.messages.kbytes": lambda kbytes: kbytes * 1024,
    "connections.max.idle.ms": lambda limit: limit or -1,
    "socket.send.buffer.bytes": lambda size: size or -1,
    "socket.receive.buffer.bytes": lambda size: size or -1,
    "topic.metadata.refresh.interval.ms": lambda every: NEVER_MS if every < 0 else every,
    "message.timeout.ms": lambda limit: limit or NO_LIMIT_MS,
    "compression.level": lambda level: None if level < 0 else level,
    "security.protocol": str.upper,
    "ssl.ca.location": lambda place: None if place == "probe" else place,
    "partitioner": PARTITIONERS.__getitem__,
    "bootstrap.servers": lambda servers: ",".join(_address(each) for each in servers.split(",") if each.strip()),
}


def _address(server: str) -> str:
    """host:port of [protocol://]host[:port]; librdkafka takes 9092 for a port that is not there."""
    bare = server.strip().rpartition("://")[2].rstrip("/")
    name = bare.rpartition("]")[2] if bare.startswith("[") else bare
    return bare if ":" in name else f"{bare}:{DEFAULT_PORT}"


def translated(
    values: Mapping[str, Parsed], oauth_cb: Callable[..., Any] | None, declared: Collection[str]
) -> dict[str, Any]:
    """The settings of ours that these properties stand for, of those that our client has."""
    found: dict[str, Any] = {}
    for name in sorted(values, key=_order):
        ours = properties()[name].ours
        if ours is not None and ours in declared:
            value = _VALUES[name](values[name]) if name in _VALUES else values[name]
            if value is not None:
                found[ours] = value
    _fit_times(values, found, declared)
    _fit_heartbeat(found)
    _fit_reconnects(found)
    if "transactional.id" in found:
        found["enable.idempotence"] = True
    if "ssl.keystore.location" in found:
        found["ssl.keystore.type"] = "PKCS12"
    _add_tokens(values, oauth_cb, found)
    return found


def _order(name: str) -> tuple[bool, str]:
    """metadata.max.age.ms is how old librdkafka's cache may be: the interval of refreshing is nearer to ours."""
    return name == "topic.metadata.refresh.interval.ms", name


def _fit_times(values: Mapping[str, Parsed], found: dict[str, Any], declared: Collection[str]) -> None:
    """Both limits of a request are one here, the longer; a record that lives shorter makes requests shorter."""
    asked = [int(values[name]) for name in ("request.timeout.ms", "socket.timeout.ms") if name in values]  # type: ignore[arg-type]
    if asked:
        found["request.timeout.ms"] = max(asked)
    if "delivery.timeout.ms" not in declared:
        return
    if values.get("transactional.id") and "delivery.timeout.ms" not in found:
        found["delivery.timeout.ms"] = min(300_000, int(values.get("transaction.timeout.ms", 60_000)))  # type: ignore[arg-type]
    limit_ms = found.get("delivery.timeout.ms", 300_000)
    linger_ms = found.get("linger.ms", DEFAULT_LINGER_MS)
    if linger_ms >= limit_ms:
        linger_ms = found["linger.ms"] = max(limit_ms - 1, 0)
    if linger_ms + found.get("request.timeout.ms", DEFAULT_REQUEST_MS) > limit_ms:
        found["request.timeout.ms"] = max(limit_ms - linger_ms, 1)


def _fit_heartbeat(found: dict[str, Any]) -> None:
    session_ms, heartbeat_ms = found.get("session.timeout.ms", 45_000), found.get("heartbeat.interval.ms", 3_000)
    if heartbeat_ms >= session_ms and found.get("group.protocol") != "consumer":
        found["heartbeat.interval.ms"] = max(session_ms // 3, 1)
        if session_ms == 1:
            found["session.timeout.ms"] = 2


def _fit_reconnects(found: dict[str, Any]) -> None:
    if "reconnect.backoff.ms" in found:
        found.setdefault("reconnect.backoff.max.ms", max(found["reconnect.backoff.ms"], 10_000))
    elif "reconnect.backoff.max.ms" in found:
        found["reconnect.backoff.ms"] = min(50, found["reconnect.backoff.max.ms"])


def _add_tokens(values: Mapping[str, Parsed], oauth_cb: Callable[..., Any] | None, found: dict[str, Any]) -> None:
    config = str(values.get("sasl.oauthbearer.config") or "")
    if oauth_cb is not None:
        found["sasl.oauthbearer.token.provider"] = lambda: oauth_cb(config)[:2]
    elif values.get("enable.sasl.oauthbearer.unsecure.jwt"):
        found["sasl.jaas.config"] = _unsecured(config)


def _unsecured(config: str) -> str:
    """librdkafka's `principal=admin scope=a lifeSeconds=60` as Java's options for a token without a signature."""
    parts = dict(each.partition("=")[::2] for each in config.split())
    options = [f'unsecuredLoginStringClaim_{parts.get("principalClaimName", "sub")}="{parts.get("principal", "")}"']
    if "scope" in parts:
        options.append(f'unsecuredLoginStringClaim_{parts.get("scopeClaimName", "scope")}="{parts["scope"]}"')
    if "lifeSeconds" in parts:
        options.append(f'unsecuredLoginLifetimeSeconds="{parts["lifeSeconds"]}"')
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return f"{module} required {' '.join(options)};"
