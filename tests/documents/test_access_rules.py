"""docs/access-rules.md has of every API what its handler declares; OTTLA_WRITE_ACCESS_RULES=1 writes it anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ottla.broker.requests.served import BROKER_APIS, CLUSTER_APIS, served
from ottla.broker.security.needs import Need, Refused
from ottla.protocol.access import AclResource
from ottla.protocol.api import APIS

DOCUMENT = Path(__file__).parents[2] / "docs" / "access-rules.md"
HEADER = ("API", "needs", "when", "refused")
ALIKE = {AclResource.DELEGATION_TOKEN: "delegation token", AclResource.TRANSACTIONAL_ID: "transactional id"}


def table() -> list[str]:
    rows = [HEADER, ("---",) * len(HEADER)]
    for key in sorted(CLUSTER_APIS, key=lambda key: APIS[key].name):
        rows += _rows(key)
    return [f"| {' | '.join(row)} |" for row in rows]


def _rows(key: int) -> Iterator[tuple[str, ...]]:
    name = APIS[key].name + (" (brokers only)" if key in BROKER_APIS else "")
    needs = served(APIS[key]).needs
    if not needs:
        yield name, "nothing", "", ""
    for need in needs:
        yield name, _wanted(need), need.when, _refusal(need)
        name = ""


def _wanted(need: Need) -> str:
    text = f"{need.operation.name} on {_kind(need)}"
    if need.unless is None:
        return text
    place = need.unless.when or f"on {_kind(need.unless)}"
    return f"{text}, or {need.unless.operation.name} {place}"


def _kind(need: Need) -> str:
    kind = ALIKE.get(need.resource) or need.resource.name.lower()
    return f"the {kind}"


def _refusal(need: Need) -> str:
    if need.refused is Refused.LEFT_OUT:
        return need.refused.value
    return f"{need.error.name} {need.refused.value}"


def test_the_table_of_operations_is_what_the_handlers_declare() -> None:
    lines = DOCUMENT.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| API "))
    end = next((number for number, line in enumerate(lines) if number > start and not line.startswith("|")), len(lines))
    if os.environ.get("OTTLA_WRITE_ACCESS_RULES"):
        lines[start:end] = table()
        DOCUMENT.write_text("\n".join(lines) + "\n")
        return
    assert lines[start:end] == table()
