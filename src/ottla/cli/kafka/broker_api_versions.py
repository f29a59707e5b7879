"""kafka-broker-api-versions: which requests in which versions every broker speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, parse
from ottla.cli.output import OK
from ottla.errors import OttlaError
from ottla.protocol.api import APIS

if TYPE_CHECKING:
    from ottla.client.admin.copies import ApiRange

SUMMARY: Final = "This tool helps to retrieve broker version information."
OTHERS: Final = {80: "AddRaftVoter", 81: "RemoveRaftVoter"}
"""Requests of clients that ours does not have; those of brokers among themselves are not told when they are missing."""
BETWEEN_BROKERS: Final = (7, 27, 56, 67)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-broker-api-versions", SUMMARY, (BOOTSTRAP, COMMAND_CONFIG), words)
    options.require("bootstrap-server")
    try:
        with admin_of(options) as admin:
            nodes = {node.id: node for node in admin.describe_cluster().nodes}
            found = admin.describe_api_versions()
    except (OttlaError, TimeoutError) as error:
        fail(described(first_failure(error)))
    for broker, ranges in found.items():
        versions = {each.key: each for each in ranges}
        node = nodes[broker]
        rack = node.rack or "null"
        lines = ",\n\t".join(_lines(versions))
        print(f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false) -> (\n\t{lines}\n)")
    return OK


def _lines(versions: Mapping[int, ApiRange]) -> list[str]:
    known = {key for key in APIS if key not in BETWEEN_BROKERS} | set(OTHERS)
    return [_line(key, versions.get(key)) for key in sorted({*known, *versions})]


def _line(key: int, there: ApiRange | None) -> str:
    name = APIS[key].name if key in APIS else OTHERS.get(key)
    if there is None:
        return f"{name}({key}): UNSUPPORTED"
    span = str(there.min) if there.min == there.max else f"{there.min} to {there.max}"
    if name is None:
        return f"UNKNOWN({key}): {span}"
    if key not in APIS:
        return f"{name}({key}): {span}"
    ours = APIS[key].versions
    if ours.max < there.min:
        usable = "unusable: node too new"
    elif there.max < ours.min:
        usable = "unusable: node too old"
    else:
        usable = f"usable: {min(ours.max, there.max)}"
    return f"{name}({key}): {span} [{usable}]"
