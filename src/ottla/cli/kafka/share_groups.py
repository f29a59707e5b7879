"""kafka-share-groups: list, describe and delete share groups, reset and delete where they start.

1. What the cluster refuses is told on stdout ("Error: ...") and ends with 0, as with kafka-consumer-groups.
2. --reset-offsets wants --dry-run or --execute to be said. A group that is not there yet is made by it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.group_commands import (
    RESETS,
    action_of,
    check_decided,
    check_scenarios,
    check_views,
    group_options,
    groups_of,
    listed,
    names_groups,
    print_failed_deletions,
    print_groups,
    print_resets,
    refused_deletions,
    reset_rows,
    timeout_s,
    why_not_deleted,
    working,
)
from ottla.cli.kafka.group_tables import NARROW, print_error
from ottla.cli.kafka.java_errors import described, first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order, partition_order
from ottla.cli.kafka.parser import Options, flag, parse, value
from ottla.cli.output import OK
from ottla.errors import GroupIdNotFound, OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

SUMMARY: Final = "This tool helps to list, describe, reset and delete share groups."
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCENARIOS: Final = ("to-datetime", "to-earliest", "to-latest")
KIND: Final = "share"
STATES: Final = ("Stable", "Empty", "Dead")
LOAD: Final = 0.75  # of Java's HashMap
OPTIONS: Final = (
    *group_options("share"),
    *RESETS,
    value("topic", "a topic, or some of its partitions: clicks:0,1; may be repeated", "topic"),
    flag("all-topics", "with --reset-offsets: every topic of the group"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-share-groups", SUMMARY, OPTIONS, words)
    _check(options)
    action = action_of(options, ACTIONS, ", ".join("--" + each for each in ACTIONS) + ".")
    try:
        with working(options, KIND) as admin:
            _RUNS[action](admin, options)
    except (OttlaError, TimeoutError) as error:
        shown = described if action == "describe" else message_of
        names = [*options.values("group"), *options.values("topic")]
        print_error(f"Executing share group command failed due to {shown(_first(error), *names)}")
    return OK


def _first(error: BaseException) -> BaseException:
    """Of several groups the first in the order of Java's map."""
    from ottla.client.admin.plans import PartlyFailed

    if isinstance(error, PartlyFailed):
        failure: OttlaError = error.failed[_copied_order(error.failed)[0]]
        return failure
    return first_failure(error)


def _copied_order(groups: Collection[str]) -> list[str]:
    """The order of a HashMap that was made as a copy: it is as small as they allow."""
    return hash_order(groups, int(len(groups) / LOAD + 1))


# --- what fits together ----------------------------------------------------------------------------------------------


def _check(options: Options) -> None:
    options.require("bootstrap-server")
    if options.has("describe"):
        if not names_groups(options):
            options.wrong("Option [describe] takes one of these options: [group], [all-groups]")
        check_views(options)
    if options.has("delete"):
        _check_delete(options)
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        options.wrong("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        _check_reset(options)
    options.exclude("group", ["all-groups", "list"])
    options.exclude("topic", ["list", "describe"])


def _check_delete(options: Options) -> None:
    if not names_groups(options):
        options.wrong("Option [delete] takes the options [group] or [all-groups]")
    if options.has("group") and options.has("all-groups"):
        options.wrong("Option [delete] takes either [group] or [all-groups], not both.")
    if options.has("topic"):
        options.wrong("Option [delete] does not take the option: [topic]")


def _check_reset(options: Options) -> None:
    check_decided(options)
    if not options.has("group"):
        options.wrong("Option [reset-offsets] takes the option: [group]")
    if not any(map(options.has, SCENARIOS)):
        options.wrong(f"Option [reset-offsets] takes one of these options: {listed(SCENARIOS)}")
    check_scenarios(options, SCENARIOS)


# --- list and describe -----------------------------------------------------------------------------------------------


def _list(admin: Admin, options: Options) -> None:
    print_groups(admin, options, KIND, STATES)


def _describe(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.share_tables import print_members, print_offsets, print_state

    wanted = options.values("group")
    if options.has("all-groups"):
        wanted = [each.group_id for each in groups_of(admin, options, KIND)]
    groups = admin.describe_share_groups(wanted, timeout=timeout_s(options)) if wanted else {}
    nodes = {node.id: node for node in admin.describe_cluster().nodes} if options.has("state") else {}
    verbose = options.has("verbose")
    for group_id in sorted(groups):
        if options.has("members"):
            print_members(groups[group_id], verbose)
        elif options.has("state"):
            print_state(groups[group_id], nodes, verbose)
        else:
            print_offsets(group_id, admin.list_share_group_offsets(group_id), verbose)


# --- delete ----------------------------------------------------------------------------------------------------------


def _delete(admin: Admin, options: Options) -> None:
    wanted, failed = refused_deletions(admin, options, KIND, "is not a share group.")
    for group in wanted:
        if group not in failed and (why := why_not_deleted(admin, group, timeout_s(options))) is not None:
            failed[group] = why
    done = ", ".join(f"'{group}'" for group in hash_order(wanted) if group not in failed)
    if not failed:
        print(f"Deletion of requested share groups ({done}) was successful.")
        return
    print_failed_deletions(failed, _copied_order(failed), KIND)
    if done:
        print(f"\nThese share groups were deleted successfully: {done}")


def _delete_offsets(admin: Admin, options: Options) -> None:
    group, topics = options.text("group"), list(dict.fromkeys(options.values("topic")))
    results, whole = _forget(admin, group, topics, timeout_s(options))
    if whole is not None:
        print_error(whole)
    width = max([NARROW, *map(len, results)])
    for topic, status in [("TOPIC", "STATUS"), *sorted(results.items())]:
        print(f"\n{topic:<{width}} {status}", end="")
    print()


def _forget(admin: Admin, group: str, topics: Sequence[str], timeout: float) -> tuple[dict[str, str], str | None]:
    """The status of each topic, and the sentence about the whole group if there is one."""
    from ottla.client.admin.plans import PartlyFailed
    from ottla.errors import TopicAuthorizationFailed, UnknownTopicOrPartition

    failed: dict[str, OttlaError] = {}
    whole = None
    try:
        admin.delete_share_group_offsets(group, topics, timeout=timeout)
    except PartlyFailed as error:
        failed = dict(error.failed)
    except OttlaError as error:
        failed = dict.fromkeys(topics, error)
        if not isinstance(error, TopicAuthorizationFailed | UnknownTopicOrPartition):
            whole = message_of(error, group)
    shown = {topic: f"Error: {message_of(error, topic)}" for topic, error in failed.items()}
    return {topic: shown.get(topic, "Successful") for topic in topics}, whole


# --- reset -----------------------------------------------------------------------------------------------------------


def _reset(admin: Admin, options: Options) -> None:
    group = options.text("group")
    try:
        state = admin.describe_share_groups([group], timeout=timeout_s(options))[group].state
    except GroupIdNotFound:
        state = "Dead"
    if state not in ("Empty", "Dead"):
        options.wrong(f"Share group '{group}' is not empty.")
    found = _targets(admin, options, group)
    if options.has("execute"):
        _alter(admin, group, found, timeout_s(options))
    print_resets(reset_rows({group: found}))


def _alter(admin: Admin, group: str, offsets: dict[TopicPartition, int], timeout: float) -> None:
    from ottla.cli.operations.outcomes import outcomes

    _, failed = outcomes(offsets, lambda: admin.alter_share_group_offsets(group, offsets, timeout=timeout))
    if failed:
        listed = ", ".join(f"{each.topic}-{each.partition}" for each in partition_order(failed))
        raise NotAltered(f"Failed altering group offsets for the following partitions: [{listed}]")


class NotAltered(OttlaError):
    """The cluster refused to let a share group start elsewhere."""


def _targets(admin: Admin, options: Options, group: str) -> dict[TopicPartition, int]:
    from ottla.cli.kafka.group_resets import at_time, check_partitions, existing_partitions, java_moment_ms
    from ottla.cli.operations.offsets import begins_of, ends_of

    if options.has("topic"):
        partitions = existing_partitions(admin, options.values("topic"))
    else:
        partitions = list(admin.list_share_group_offsets(group))
    check_partitions(admin, partitions)
    if options.has("to-earliest"):
        return begins_of(admin, partitions)
    if options.has("to-latest"):
        return ends_of(admin, partitions)
    return at_time(admin, partitions, java_moment_ms(options.text("to-datetime")))


_RUNS: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
