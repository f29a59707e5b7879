"""The audit log: who was allowed or denied what, by which rule, in Kafka's words and at Kafka's levels.

    Principal = User:eve is Denied operation = READ from host = 10.0.0.7 on resource = Topic:LITERAL:salaries
    for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny

1. What was asked for and denied is INFO, what was allowed DEBUG. What was only looked at, to filter a list or to tell
   the operations that are allowed, is TRACE.
2. One line per decision. Names come from clients, so what could begin another line, or colour a terminal, is escaped.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.security.rules import Verdict
from ottla.cluster.model import AclBinding
from ottla.protocol.access import AclOperation, AclResource, PatternType

LOGGER: Final = "kafka.authorizer.logger"
TRACE: Final = 5
_TYPE_NAMES: Final = {of: "".join(part.capitalize() for part in of.name.split("_")) for of in AclResource}

audit_log = logging.getLogger(LOGGER)


def level_of(is_allowed: bool, *, is_filter: bool) -> int:
    if is_filter:
        return TRACE
    return logging.DEBUG if is_allowed else logging.INFO


def write(
    context: RequestContext,
    operation: AclOperation,
    resource_type: AclResource,
    name: str,
    verdict: Verdict,
    *,
    is_filter: bool,
) -> None:
    """Log a decision."""
    audit_log.log(
        level_of(verdict.is_allowed, is_filter=is_filter),
        "Principal = %s is %s operation = %s from host = %s on resource = %s:%s:%s for request = %s "
        "with resourceRefCount = 1 based on rule %s",
        _printable(context.principal),
        "Allowed" if verdict.is_allowed else "Denied",
        operation.name,
        context.client_host,
        _TYPE_NAMES[resource_type],
        PatternType.LITERAL.name,
        _printable(name),
        context.api_name,
        _rule_text(verdict.rule),
    )


def _rule_text(rule: AclBinding | str) -> str:
    if isinstance(rule, str):
        return rule
    pattern, entry = rule
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={pattern.resource_type.name}, "
        f"resourceName={_printable(pattern.name)}, patternType={pattern.pattern_type.name}, "
        f"principal={_printable(entry.principal)}, host={_printable(entry.host)}, "
        f"operation={entry.operation.name}, permissionType={entry.permission.name}))"
    )


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]
