"""kafka-groups: list groups of every kind with their type and protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, parse, value
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupListing

SUMMARY: Final = "This tool helps to list groups of all types."
TYPES: Final = ("classic", "consumer", "share", "streams")
TIMEOUT_S: Final = 30
NARROW: Final = 20
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("list", "list groups"),
    value("group-type", f"only groups of this type: {', '.join(TYPES)}", "type"),
    value("protocol", "only groups of this protocol", "protocol"),
    flag("consumer", "only groups of consumers, whatever their type"),
    flag("share", "only share groups"),
    flag("streams", "only streams groups"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-groups", SUMMARY, OPTIONS, words)
    _check(options)
    try:
        with admin_of(options) as admin:
            found = {each.group_id: each for each in admin.list_groups(timeout=TIMEOUT_S)}
    except (OttlaError, TimeoutError) as error:
        print(f"Error while executing groups command : {message_of(first_failure(error))}")
        return FAILED
    _print([found[name] for name in hash_order(found) if _is_wanted(options, found[name])])
    return OK


def _check(options: Options) -> None:
    if not options.has("bootstrap-server"):
        options.wrong("Missing required option(s) [bootstrap-server]")
    if not options.has("list"):
        options.wrong("Command must include exactly one action: --list.")
    kind = options.value("group-type")
    if kind is not None and kind.lower() not in TYPES:
        fail("--group-type must be a valid group type.")
    for name in ("consumer", "share", "streams"):
        others = [each for each in ("consumer", "group-type", "protocol", "share", "streams") if each != name]
        options.exclude(name, others)


def _is_wanted(options: Options, group: GroupListing) -> bool:
    kind = (group.type or "").lower()
    protocol = options.value("protocol")
    if options.has("group-type"):
        return kind == options.text("group-type").lower() and protocol in (None, group.protocol_type)
    if protocol is not None:
        return group.protocol_type == protocol
    if options.has("consumer"):
        return group.protocol_type in ("consumer", "") or kind == "consumer"
    return not any(options.has(name) and kind != name for name in ("share", "streams"))


def _print(groups: Sequence[GroupListing]) -> None:
    rows = [(each.group_id, (each.type or "").capitalize(), each.protocol_type) for each in groups]
    width = max([NARROW, *(len(cell) for row in rows for cell in row)])
    print(" ".join(f"{cell:<{width}}" for cell in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))
