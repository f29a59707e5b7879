"""The audit log: who was allowed or denied what, by which rule, in Kafka's words and at Kafka's levels.

    Principal = User:eve is Denied operation = READ from host = 10.0.0.7 on resource = Topic:LITERAL:salaries
    for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny

1. What was asked for and denied is INFO, what was allowed DEBUG. What was only looked at, to filter a list or to tell
   the operations that are allowed, is TRACE.
2. One line per decision, and none is held back as other lines that repeat are (observe/log_lines.py). Names come from
   clients, so what could begin another line, or colour a terminal, is escaped.
3. A request may name a hundred thousand topics, and everybody else would wait for their lines: of one question
   LINES_LIMIT are written, and the number of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.observe.log_lines import AUDIT_LOG
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.rules import Verdict
from ottla.cluster.model import AclBinding
from ottla.protocol.access import AclOperation, AclResource, PatternType

DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
TRACE: Final = 5
LINES_LIMIT: Final = 100
"""Of one question about many resources; how many more there were is one line more."""

_TYPE_NAMES: Final = {of: "".join(part.capitalize() for part in of.name.split("_")) for of in AclResource}

audit_log = logging.getLogger(AUDIT_LOG)


def level_of(is_allowed: bool, *, is_filter: bool) -> int:
    if is_filter:
        return TRACE
    return DEBUG if is_allowed else INFO


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


def write_many(
    context: RequestContext,
    operation: AclOperation,
    resource_type: AclResource,
    names: Sequence[str],
    verdict_of: Callable[[str], Verdict],
    *,
    is_filter: bool,
) -> None:
    """Log the same decision about many resources; see 3."""
    for name in names[:LINES_LIMIT]:
        write(context, operation, resource_type, name, verdict_of(name), is_filter=is_filter)
    if len(names) > LINES_LIMIT:
        is_allowed = verdict_of(names[-1]).is_allowed
        audit_log.log(
            level_of(is_allowed, is_filter=is_filter),
            "Principal = %s is %s operation = %s from host = %s on %d more resources = %s:%s for request = %s",
            _printable(context.principal),
            "Allowed" if is_allowed else "Denied",
            operation.name,
            context.client_host,
            len(names) - LINES_LIMIT,
            _TYPE_NAMES[resource_type],
            PatternType.LITERAL.name,
            context.api_name,
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
