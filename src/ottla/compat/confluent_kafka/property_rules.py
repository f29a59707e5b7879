"""librdkafka's rules between properties, checked when a client is made, with its own sentences.

`values` holds what the program wrote, by canonical name; what it did not write has librdkafka's default here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from ottla.compat.confluent_kafka.property_values import Parsed, refuse

ClientKind = Literal["producer", "consumer"]
Values = Mapping[str, Parsed]

_DEFAULTS: Final[Mapping[str, Any]] = {
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 10_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
    "transaction.timeout.ms": 60_000,
    "enable.gapless.guarantee": False,
    "session.timeout.ms": 45_000,
    "max.poll.interval.ms": 300_000,
    "fetch.max.bytes": 52_428_800,
    "message.max.bytes": 1_000_000,
    "receive.message.max.bytes": 100_000_000,
    "group.protocol": "classic",
}
IDEMPOTENT_IN_FLIGHT: Final = 5
RESPONSE_OVERHEAD: Final = 512
_ASSIGNORS: Final = {"range": "eager", "roundrobin": "eager", "cooperative-sticky": "cooperative"}
_BROKER_SIDE: Final = {
    "session.timeout.ms": "is not supported for `group.protocol=consumer` or share consumer. It is defined broker side",
    "partition.assignment.strategy": "is not supported for `group.protocol=consumer`. Use `group.remote.assignor`"
    " instead",
    "group.protocol.type": "is not supported for `group.protocol=consumer` or share consumer",
    "heartbeat.interval.ms": "is not supported for `group.protocol=consumer` or share consumer."
    " It is defined broker side",
}


def check(kind: ClientKind, values: Values) -> None:
    """Raise what librdkafka raises for values that do not go together."""
    problem = _common_problem(values) or (
        _producer_problem(values) if kind == "producer" else _consumer_problem(values)
    )
    if problem is not None:
        refuse(f"Failed to create {kind}: {problem}")


def warnings(values: Values) -> list[str]:
    """What librdkafka only warns of."""
    found = []
    protocol = str(values.get("security.protocol", "plaintext"))
    if "sasl.mechanisms" in values and not protocol.startswith("sasl"):
        found.append(
            f"Configuration property `sasl.mechanism` set to `{values['sasl.mechanisms']}` but `security.protocol` is"
            " not configured for SASL: recommend setting `security.protocol` to SASL_SSL or SASL_PLAINTEXT"
        )
    wait, longest = _of(values, "retry.backoff.ms"), _of(values, "retry.backoff.max.ms")
    if wait > longest:
        found.append(
            f"Configuration `retry.backoff.ms` with value {wait} is greater than configuration `retry.backoff.max.ms`"
            f" with value {longest}. A static backoff with value `retry.backoff.max.ms` will be applied."
        )
    return found


def _of(values: Values, name: str) -> Any:
    return values.get(name, _DEFAULTS[name])


def _common_problem(values: Values) -> str | None:
    if _of(values, "reconnect.backoff.max.ms") < _of(values, "reconnect.backoff.ms"):
        return "`reconnect.backoff.max.ms` must be >= `reconnect.backoff.ms`"
    protocol, mechanism = str(values.get("security.protocol", "")), values.get("sasl.mechanisms")
    if protocol.startswith("sasl") and mechanism == "PLAIN" and not _has_password(values):
        return "sasl.username and sasl.password must be set"
    return None


def _has_password(values: Values) -> bool:
    return bool(values.get("sasl.username") and values.get("sasl.password"))


def _producer_problem(values: Values) -> str | None:
    limit, linger = values.get("message.timeout.ms"), values.get("queue.buffering.max.ms")
    if values.get("transactional.id"):
        if values.get("enable.idempotence", True) is False:
            return "`transactional.id` requires `enable.idempotence=true`"
        if limit is not None and limit > _of(values, "transaction.timeout.ms"):
            return "`message.timeout.ms` must be set <= `transaction.timeout.ms`"
    if (values.get("transactional.id") or values.get("enable.idempotence")) and (found := _not_idempotent(values)):
        return found
    if _of(values, "enable.gapless.guarantee") and not values.get("enable.idempotence"):
        return "`enable.gapless.guarantee` requires `enable.idempotence` to be enabled"
    if limit and linger is not None and limit <= linger:  # type: ignore[operator]
        return "`message.timeout.ms` must be greater than `linger.ms`"
    return None


def _not_idempotent(values: Values) -> str | None:
    in_flight = values.get("max.in.flight.requests.per.connection", IDEMPOTENT_IN_FLIGHT)
    if in_flight > IDEMPOTENT_IN_FLIGHT:  # type: ignore[operator]
        return f"`max.in.flight` must be set <= {IDEMPOTENT_IN_FLIGHT} when `enable.idempotence` is true"
    if values.get("message.send.max.retries") == 0:
        return "`retries` must be set >= 1 when `enable.idempotence` is true"
    if values.get("request.required.acks", -1) != -1:
        return "`acks` must be set to `all` when `enable.idempotence` is true"
    if values.get("queuing.strategy") == "lifo":
        return "`queuing.strategy` must be set to `fifo` when `enable.idempotence` is true"
    return None


def _consumer_problem(values: Values) -> str | None:
    if _of(values, "group.protocol") == "consumer":
        for name, problem in _BROKER_SIDE.items():
            if name in values:
                return f"`{name}` {problem}"
    elif _of(values, "max.poll.interval.ms") < _of(values, "session.timeout.ms"):
        return "`max.poll.interval.ms`must be >= `session.timeout.ms`"
    if "fetch.max.bytes" in values and _of(values, "fetch.max.bytes") < _of(values, "message.max.bytes"):
        return "`fetch.max.bytes` must be >= `message.max.bytes`"
    if _of(values, "receive.message.max.bytes") < _of(values, "fetch.max.bytes") + RESPONSE_OVERHEAD and (
        "receive.message.max.bytes" in values
    ):
        return f"`receive.message.max.bytes` must be >= `fetch.max.bytes` + {RESPONSE_OVERHEAD}"
    return _assignor_problem(values.get("partition.assignment.strategy"))


def _assignor_problem(strategy: Parsed) -> str | None:
    if strategy is None:
        return None
    names = [each.strip() for each in str(strategy).split(",")]
    for each in names:
        if each not in _ASSIGNORS:
            return f"Unsupported partition.assignment.strategy: {each}"
    if len({_ASSIGNORS[each] for each in names}) > 1:
        return (
            f"All partition.assignment.strategy ({strategy}) assignors must have the same protocol type, online"
            " migration between assignors with different protocol types is not supported"
        )
    return None
