"""kafka-consumer-groups: list, describe and delete groups of consumers, reset and delete their offsets.

1. As with Apache's tool an order that the cluster refuses is told on stdout ("Error: ...") and ends with 0; only wrong
   words end with 1. Scripts that look for the words find them.
2. Nothing is reset without --execute; group_resets.py finds the new offsets, group_tables.py prints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import WrongUsage, warn
from ottla.cli.kafka.group_resets import SCENARIOS
from ottla.cli.kafka.group_tables import print_error
from ottla.cli.kafka.java_errors import class_of, described, first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order, partition_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, number, parse, perhaps, value
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
TIMEOUT_MS: Final = 30_000
NARROW: Final = 15
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    value("group", "a group; may be repeated", "consumer group"),
    value("topic", "a topic, or some of its partitions: clicks:0,1; may be repeated", "topic"),
    flag("all-topics", "with --reset-offsets: every topic the group has committed for"),
    flag("list", "list groups"),
    flag("describe", "show offsets and lag, members or state"),
    flag("all-groups", "every group"),
    flag("delete", "delete groups with their offsets"),
    number("timeout", "milliseconds to wait at most", "timeout (ms)", default=TIMEOUT_MS),
    flag("reset-offsets", "commit other offsets for a group without members"),
    flag("delete-offsets", "forget offsets of topics"),
    flag("dry-run", "only show what would be reset"),
    flag("execute", "do reset"),
    flag("export", "print the new offsets as CSV"),
    number("to-offset", "reset to this offset", "offset"),
    value("from-file", "reset to what a CSV file says", "path to CSV file"),
    value("to-datetime", "reset to a time: YYYY-MM-DDThh:mm:ss.sss", "datetime"),
    value("by-duration", "reset to so long ago: PnDTnHnMnS", "duration"),
    flag("to-earliest", "reset to the beginning"),
    flag("to-latest", "reset to the end"),
    flag("to-current", "reset to what is committed"),
    number("shift-by", "reset by so many records", "number-of-offsets"),
    flag("members", "with --describe: the members", needs=("describe",)),
    flag("verbose", "with --describe: more columns", needs=("describe",)),
    flag("offsets", "with --describe: offsets and lag (what it shows anyway)", needs=("describe",)),
    perhaps("state", "show states; with --list only groups in these", needs=("describe", "list")),
    perhaps("type", "with --list: show types, only groups of these", needs=("list",)),
    value("validate-regex", "say whether a regular expression is one", "regex"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-consumer-groups", SUMMARY, OPTIONS, words)
    _check(options)
    if sum(map(options.has, ACTIONS)) != 1:
        options.wrong(f"Command must include exactly one action: {', '.join('--' + each for each in ACTIONS)}")
    if options.has("validate-regex"):
        _validate_regex(options.text("validate-regex"))
        return OK
    action = next(each for each in ACTIONS if options.has(each))
    try:
        with admin_of(options) as admin:
            _RUNS[action](admin, options)
    except WrongUsage as mistake:
        print_error(f"Executing consumer group command failed due to {mistake}")
    except ValueError as error:
        options.wrong(str(error))
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
    nobody = not options.has("group") and not options.has("all-groups")
    for action in ("describe", "delete", "reset-offsets"):
        if action == "reset-offsets" and options.has(action):
            _check_execution(options)
        if options.has(action) and nobody:
            options.wrong(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if options.has("describe"):
        _check_describe(options)
    if options.has("delete") and options.has("topic"):
        options.wrong("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        options.wrong("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        for scenario in SCENARIOS:
            options.exclude(scenario, [each for each in SCENARIOS if each != scenario])
    options.exclude("group", ["all-groups"])
    options.exclude("group", ["list"])
    options.exclude("topic", ["list", "describe"])


def _check_describe(options: Options) -> None:
    kinds = ("members", "offsets", "state")
    if sum(map(options.has, kinds)) > 1:
        listed = ", ".join(f"[{each}]" for each in kinds)
        options.wrong(f"Option [describe] takes at most one of these options: {listed}")
    if options.has("state") and options.value("state") is not None:
        options.wrong("Option [describe] does not take a value for [state]")


def _check_execution(options: Options) -> None:
    if options.has("dry-run") and options.has("execute"):
        options.wrong("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
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


def _timeout_s(options: Options) -> float:
    return (options.number("timeout") or TIMEOUT_MS) / 1000


def group_ids(admin: Admin, options: Options) -> list[str]:
    """The groups that are meant, in the order in which Apache's tool goes through them."""
    if options.has("all-groups"):
        found = admin.list_consumer_groups(timeout=_timeout_s(options))
        return hash_order(each.group_id for each in found)
    return options.values("group")


def _list(admin: Admin, options: Options) -> None:
    with_type, with_state = options.has("type"), options.has("state")
    states = chosen(options.value("state"), STATES, "state")
    types = chosen(options.value("type"), TYPES, "types")
    found = admin.list_consumer_groups(states=states, types=types, timeout=_timeout_s(options))
    by_id = {each.group_id: each for each in found}
    listed = [by_id[group] for group in hash_order(by_id)]
    if with_type or with_state:
        _print_listing(listed, with_type, with_state)
    else:
        for each in listed:
            print(each.group_id)


def _print_listing(groups: Sequence[GroupListing], with_type: bool, with_state: bool) -> None:
    width = max([NARROW, *(len(each.group_id) for each in groups)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(each.group_id, (each.type or "Unknown").capitalize(), each.state or "Unknown") for each in groups]
    for group, kind, state in rows:
        print(f"{group:<{width}}" + f" {kind:<20}" * with_type + f" {state:<20}" * with_state)


def chosen(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """States or types by name, in any case; a name that is none of them is refused."""
    if not text:
        return []
    by_name = {each.lower(): each for each in known}
    words = [each.strip().lower() for each in text.split(",")]
    if any(word not in by_name for word in words):
        plural = "states" if what == "state" else "types"
        raise ValueError(f"Invalid {what} list '{text}'. Valid {plural} are: {', '.join(known)}")
    return [by_name[word] for word in words]


def _describe(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.group_tables import print_members, print_offsets, print_state

    wanted = group_ids(admin, options)
    groups = admin.describe_consumer_groups(wanted, timeout=_timeout_s(options)) if wanted else {}
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
    failed = _delete_groups(admin, wanted, _timeout_s(options))
    done = ", ".join(f"'{group}'" for group in hash_order(wanted) if group not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group in hash_order(failed):
        print(f"* Group '{group}' could not be deleted due to: {described(failed[group], group)}")
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

    group = options.text("group")
    partitions, unknown = named_partitions(admin, options.values("topic"))
    results: dict[TopicPartition, OttlaError | None] = dict.fromkeys(partitions)
    whole = _forget(admin, group, partitions, results, _timeout_s(options))
    if whole is not None:
        results = dict.fromkeys(partitions, whole)
        print_error(message_of(whole, group))
    elif any(results.values()):
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    _print_deletions({**results, **unknown})


def _forget(
    admin: Admin,
    group: str,
    partitions: Sequence[TopicPartition],
    results: dict[TopicPartition, OttlaError | None],
    timeout_s: float,
) -> OttlaError | None:
    """Delete offsets; the error of each partition goes into `results`, that of the whole order is returned."""
    from ottla.client.admin.plans import PartlyFailed
    from ottla.errors import GroupSubscribedToTopic, TopicAuthorizationFailed, UnknownTopicOrPartition

    try:
        admin.delete_consumer_group_offsets(group, partitions, timeout=timeout_s)
    except PartlyFailed as error:
        results |= error.failed
    except (GroupSubscribedToTopic, TopicAuthorizationFailed, UnknownTopicOrPartition) as error:
        results |= dict.fromkeys(partitions, error)
    except OttlaError as error:
        return error
    return None


def _print_deletions(results: dict[TopicPartition, OttlaError | None]) -> None:
    width = max([NARROW, *(len(each.topic) for each in results)])
    rows: list[tuple[object, ...]] = [("TOPIC", "PARTITION", "STATUS")]
    for each in sorted(results, key=lambda each: f"{each.topic}{each.partition}"):
        error = results[each]
        status = "Successful" if error is None else f"Error: {class_of(error)}: {message_of(error, each.topic)}"
        rows.append((each.topic, each.partition if each.partition >= 0 else "-", status))
    for topic, index, shown in rows:
        print(f"\n{topic:<{width}} {index:<10} {shown:<15}", end="")
    print()


# --- reset -----------------------------------------------------------------------------------------------------------


def _reset(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.group_resets import new_offsets

    found: dict[str, dict[TopicPartition, int]] = {}
    for group in group_ids(admin, options):
        found[group] = new_offsets(admin, options, group)
        if options.has("execute") and found[group]:
            admin.alter_consumer_group_offsets(group, found[group], timeout=_timeout_s(options))
    rows = [
        (group, *partition, found[group][partition])
        for group in hash_order(found)
        for partition in partition_order(found[group])
    ]
    if options.has("export"):
        alone = len(options.values("group")) == 1
        print("".join(",".join(map(str, row[alone:])) + "\n" for row in rows))
    else:
        print_resets(rows)


def print_resets(rows: Sequence[tuple[object, ...]]) -> None:
    """Group, topic, partition and new offset of each row."""
    widths = [max([NARROW, *(len(str(row[place])) for row in rows)]) for place in (0, 1)]
    for group, topic, partition, offset in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows]:
        print(f"\n{group:<{widths[0]}} {topic:<{widths[1]}} {partition:<10} {offset}", end="")
    print()


_RUNS: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
