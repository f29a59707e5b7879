"""kafka-consumer-groups: list, describe and delete groups of consumers, reset and delete their offsets.

1. As with Apache's tool an order that the cluster refuses is told on stdout ("Error: ...") and ends with 0; only wrong
   words end with 1. Scripts that look for the words find them.
2. Nothing is reset without --execute; group_resets.py finds the new offsets, group_tables.py prints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.ends import warn
from ottla.cli.kafka.group_commands import (
    RESETS_OF_COMMITTED,
    SCENARIOS,
    action_of,
    check_not_both,
    check_scenarios,
    check_views,
    chosen,
    delete_offsets,
    group_options,
    in_order,
    names_groups,
    print_exported,
    print_failed_deletions,
    print_resets,
    reset_rows,
    timeout_s,
    working,
)
from ottla.cli.kafka.group_tables import NARROW, print_error
from ottla.cli.kafka.java_errors import described, first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.parser import Options, flag, parse, perhaps, value
from ottla.cli.output import OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.groups import GroupListing
    from ottla.values import TopicPartition

SUMMARY: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets."
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
STATES: Final = ("Assigning", "Dead", "Empty", "Stable", "Reconciling", "CompletingRebalance", "PreparingRebalance")
TYPES: Final = ("Classic", "Consumer")
OPTIONS: Final = (
    *group_options("consumer"),
    *RESETS_OF_COMMITTED,
    value("topic", "a topic, or some of its partitions: clicks:0,1; may be repeated", "topic"),
    flag("all-topics", "with --reset-offsets: every topic the group has committed for"),
    perhaps("type", "with --list: show types, only groups of these", needs=("list",)),
    value("validate-regex", "say whether a regular expression is one", "regex"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-consumer-groups", SUMMARY, OPTIONS, words)
    _check(options)
    action = action_of(options, ACTIONS, ", ".join("--" + each for each in ACTIONS))
    if action == "validate-regex":
        _validate_regex(options.text("validate-regex"))
        return OK
    try:
        with working(options, "consumer") as admin:
            _RUNS[action](admin, options)
    except (OttlaError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        shown = message_of if action == "reset-offsets" else described
        names = [*options.values("group"), *options.values("topic")]
        print_error(f"Executing consumer group command failed due to {shown(first_failure(error), *names)}")
    return OK


# --- what fits together ----------------------------------------------------------------------------------------------


def _check(options: Options) -> None:
    if not options.has("validate-regex"):
        options.require("bootstrap-server")
    for action in ("describe", "delete", "reset-offsets"):
        if action == "reset-offsets" and options.has(action):
            _check_execution(options)
        if options.has(action) and not names_groups(options):
            options.wrong(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if options.has("describe"):
        check_views(options)
    if options.has("delete") and options.has("topic"):
        options.wrong("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        options.wrong("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        check_scenarios(options, SCENARIOS)
    options.exclude("group", ["all-groups"])
    options.exclude("group", ["list"])
    options.exclude("topic", ["list", "describe"])


def _check_execution(options: Options) -> None:
    check_not_both(options)
    if not options.has("dry-run") and not options.has("execute"):
        warn(
            "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
            "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if "
            "you are scripting this command and want to keep the current default behavior without prompting."
        )


def _validate_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        print(f"The regular expression `{pattern}` is invalid: {error.msg}.")
    else:
        print(f"The regular expression `{pattern}` is valid.")


# --- list and describe -----------------------------------------------------------------------------------------------


def group_ids(admin: Admin, options: Options) -> list[str]:
    """The groups that are meant, in the order in which Apache's tool goes through them."""
    if options.has("all-groups"):
        found = admin.list_consumer_groups(timeout=timeout_s(options))
        return hash_order(each.group_id for each in found)
    return options.values("group")


def _list(admin: Admin, options: Options) -> None:
    with_type, with_state = options.has("type"), options.has("state")
    states = chosen(options.value("state"), STATES, "state")
    types = chosen(options.value("type"), TYPES, "types")
    found = admin.list_consumer_groups(states=states, types=types, timeout=timeout_s(options))
    if with_type or with_state:
        _print_listing(in_order(found), with_type, with_state)
    else:
        for each in in_order(found):
            print(each.group_id)


def _print_listing(groups: Sequence[GroupListing], with_type: bool, with_state: bool) -> None:
    width = max([NARROW, *(len(each.group_id) for each in groups)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(each.group_id, (each.type or "Unknown").capitalize(), each.state or "Unknown") for each in groups]
    for group, kind, state in rows:
        print(f"{group:<{width}}" + f" {kind:<20}" * with_type + f" {state:<20}" * with_state)


def _describe(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.group_tables import print_members, print_offsets, print_state

    wanted = group_ids(admin, options)
    groups = admin.describe_consumer_groups(wanted, timeout=timeout_s(options)) if wanted else {}
    nodes = {node.id: node for node in admin.describe_cluster().nodes} if options.has("state") else {}
    for group_id in sorted(groups):
        group, verbose = groups[group_id], options.has("verbose")
        if options.has("members"):
            print_members(group, verbose)
        elif options.has("state"):
            print_state(group, nodes, verbose)
        else:
            print_offsets(admin, group, verbose)


# --- delete ----------------------------------------------------------------------------------------------------------


def _delete(admin: Admin, options: Options) -> None:
    wanted = group_ids(admin, options)
    failed = _delete_groups(admin, wanted, timeout_s(options))
    done = ", ".join(f"'{group}'" for group in hash_order(wanted) if group not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    reasons = {group: described(error, group) for group, error in failed.items()}
    print_failed_deletions(reasons, hash_order(failed), "consumer")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {done}")


def _delete_groups(admin: Admin, groups: Sequence[str], timeout_s: float) -> dict[str, OttlaError]:
    from ottla.client.admin.plans import PartlyFailed

    if not groups:
        return {}
    try:
        admin.delete_consumer_groups(groups, timeout=timeout_s)
    except PartlyFailed as error:
        return dict(error.failed)
    except OttlaError as error:
        return {groups[0]: error}
    return {}


def _delete_offsets(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.group_resets import named_partitions

    delete_offsets(admin, options, *named_partitions(admin, options.values("topic")))


# --- reset -----------------------------------------------------------------------------------------------------------


def _reset(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.group_resets import new_offsets

    found: dict[str, dict[TopicPartition, int]] = {}
    for group in group_ids(admin, options):
        found[group] = new_offsets(admin, options, group)
        if options.has("execute") and found[group]:
            admin.alter_consumer_group_offsets(group, found[group], timeout=timeout_s(options))
    rows = reset_rows(found)
    if options.has("export"):
        print_exported(rows, options)
    else:
        print_resets(rows)


_RUNS: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
