"""kafka-streams-groups: list, describe and delete groups of Kafka Streams, reset and delete their offsets.

1. What the cluster refuses as a whole ends with 1, unlike with the tools for other groups; what fails for one group or
   partition of several is told on stdout, and ends with 0.
2. --reset-offsets wants --dry-run or --execute to be said. Topics that the application made for itself (repartition
   topics and changelogs) go with --delete-internal-topic and --delete-all-internal-topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import WrongUsage
from ottla.cli.kafka.group_commands import (
    RESETS_OF_COMMITTED,
    SCENARIOS,
    action_of,
    check_decided,
    check_scenarios,
    check_views,
    delete_offsets,
    group_options,
    groups_of,
    names_groups,
    print_exported,
    print_failed_deletions,
    print_groups,
    refused_deletions,
    reset_rows,
    timeout_s,
    why_not_deleted,
)
from ottla.cli.kafka.group_tables import print_error
from ottla.cli.kafka.java_errors import described, first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.parser import Options, flag, parse, value
from ottla.cli.output import FAILED, OK
from ottla.errors import GroupIdNotFound, OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.streams_groups import StreamsGroupDescription
    from ottla.values import TopicPartition

SUMMARY: Final = "This tool helps to list, or describe streams groups."
KIND: Final = "streams"
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
STATES: Final = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
OPTIONS: Final = (
    *group_options(KIND),
    *RESETS_OF_COMMITTED,
    value("input-topic", "a topic it reads, or some of its partitions: clicks:0,1; may be repeated", "topic"),
    flag("all-input-topics", "every topic that the group reads"),
    value("delete-internal-topic", "with --reset-offsets --execute: a topic of the application to delete", "topic"),
    flag("delete-all-internal-topics", "with --delete or --reset-offsets --execute: all topics of the application"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-streams-groups", SUMMARY, OPTIONS, words)
    _check(options)
    *others, last = ("--" + each for each in ACTIONS)
    action = action_of(options, ACTIONS, f"{', '.join(others)}, or {last}.")
    try:
        with admin_of(options) as admin:
            _RUNS[action](admin, options)
    except WrongUsage:
        raise
    except ValueError as error:
        options.wrong(str(error))
    except NotListed as error:
        print_error(f"Executing streams group command failed due to java.util.concurrent.ExecutionException: {error}")
        return FAILED
    except (OttlaError, TimeoutError) as error:
        names = [*options.values("group"), *options.values("input-topic")]
        shown = message_of if action == "reset-offsets" else described
        print_error(f"Executing streams group command failed due to {shown(first_failure(error), *names)}")
        return FAILED
    return OK


class NotListed(Exception):
    """It cannot be found out what a group reads; Apache's tool tells that in a wrapping of its own."""


# --- what fits together ----------------------------------------------------------------------------------------------


def _check(options: Options) -> None:
    options.require("bootstrap-server")
    for action in ("describe", "delete"):
        if options.has(action) and not names_groups(options):
            options.wrong(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if options.has("describe"):
        check_views(options)
    with_topics = options.has("input-topic") or options.has("all-input-topics")
    if options.has("delete") and with_topics:
        options.wrong("Kafka Streams does not support topic-specific offset deletion from a streams group.")
    if options.has("delete-offsets"):
        _check_delete_offsets(options, with_topics)
    if options.has("reset-offsets"):
        check_decided(options)
        if not names_groups(options):
            options.wrong("Option [reset-offsets] takes one of these options: [all-groups], [group]")
        check_scenarios(options, SCENARIOS)
    _check_internal_topics(options)
    if (options.has("dry-run") or options.has("execute")) and not options.has("reset-offsets"):
        options.wrong("Only Option [reset-offsets] accepts [execute] or [dry-run]")
    options.exclude("list", ["members", "offsets"])
    options.exclude("group", ["all-groups", "list"])
    options.exclude("input-topic", ["list", "describe", "delete"])


def _check_delete_offsets(options: Options, with_topics: bool) -> None:
    groups = options.values("group")
    if not with_topics or not groups:
        options.wrong(
            "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
        )
    if len(groups) > 1:
        options.wrong(f"Option [delete-offsets] supports only one [group] at a time, but found: [{', '.join(groups)}]")


def _check_internal_topics(options: Options) -> None:
    resets, executes = options.has("reset-offsets"), options.has("execute")
    if options.has("delete-all-internal-topics"):
        if not resets and not options.has("delete"):
            options.wrong("Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]")
        if resets and not executes:
            options.wrong("Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used.")
    elif options.has("delete-internal-topic") and not (resets and executes):
        options.wrong("Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.")


# --- list and describe -----------------------------------------------------------------------------------------------


def _list(admin: Admin, options: Options) -> None:
    print_groups(admin, options, KIND, STATES)


def _wanted(admin: Admin, options: Options) -> list[str]:
    if options.has("all-groups"):
        return [each.group_id for each in groups_of(admin, options, KIND)]
    return options.values("group")


def _described(admin: Admin, options: Options, group: str) -> StreamsGroupDescription:
    found: StreamsGroupDescription = admin.describe_streams_groups([group], timeout=timeout_s(options))[group]
    return found


def _describe(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.streams_tables import print_members, print_offsets, print_state

    verbose = options.has("verbose")
    for name in _wanted(admin, options):
        group = _described(admin, options, name)
        if options.has("members"):
            print_members(group, verbose)
        elif options.has("state"):
            print_state(group, {node.id: node for node in admin.describe_cluster().nodes}, verbose)
        elif group.members:
            print_offsets(admin, group, _committed(admin, group, repartitioned=True), verbose)


def _committed(admin: Admin, group: StreamsGroupDescription, *, repartitioned: bool) -> dict[TopicPartition, Any]:
    """What the group committed for topics that it reads, its own between two parts of the topology too or not."""
    topics = {topic for part in group.subtopologies for topic in part.source_topics}
    if repartitioned:
        topics |= {topic.name for part in group.subtopologies for topic in part.repartition_source_topics}
    found = admin.list_consumer_group_offsets(group.group_id)
    return {each: place for each, place in found.items() if each.topic in topics}


def _input_partitions(admin: Admin, options: Options, name: str) -> list[TopicPartition]:
    """The partitions of its input that the group has committed for."""
    try:
        return list(_committed(admin, _described(admin, options, name), repartitioned=False))
    except OttlaError as error:
        raise NotListed(described(first_failure(error), name)) from None


# --- delete ----------------------------------------------------------------------------------------------------------


def _delete(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.streams_topics import delete_topics, internal_topics, print_topic_deletions

    wanted, failed = refused_deletions(admin, options, KIND, "does not exist or is not a streams group.")
    asked = [group for group in wanted if group not in failed]
    topics = (
        internal_topics(_described(admin, options, group) for group in asked)
        if options.has("delete-all-internal-topics")
        else {}
    )
    for group in asked:
        if (why := why_not_deleted(admin, group, timeout_s(options))) is not None:
            failed[group] = why
    done = [group for group in hash_order(asked) if group not in failed]
    names = "', '".join(done)
    not_deleted = delete_topics(admin, {group: topics[group] for group in done if group in topics})
    if not failed:
        print(f"Deletion of requested streams groups ('{names}') was successful.")
    else:
        print_failed_deletions(failed, hash_order(failed), KIND)
        if done:
            print(f"\nThese streams groups were deleted successfully: '{names}'.")
    if topics and done:
        print_topic_deletions([group for group in done if group in topics], not_deleted)


def _delete_offsets(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.group_resets import named_partitions

    if options.has("all-input-topics"):
        delete_offsets(admin, options, _input_partitions(admin, options, options.text("group")), {})
    else:
        delete_offsets(admin, options, *named_partitions(admin, options.values("input-topic")))


# --- reset -----------------------------------------------------------------------------------------------------------


def _reset(admin: Admin, options: Options) -> None:
    found: dict[str, dict[TopicPartition, int]] = {}
    for name in hash_order(_wanted(admin, options)):
        found[name] = _moved(admin, options, name)
    rows = reset_rows(found)
    if options.has("export"):
        print_exported(rows, options)
        return
    for group, topic, partition, offset in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] * bool(found) + rows:
        print(f"\n{group:<30} {topic:<30} {partition:<10} {offset:<15}", end="")
    print()


def _moved(admin: Admin, options: Options, name: str) -> dict[TopicPartition, int]:
    """Where a group starts now, or would with --execute."""
    from ottla.cli.kafka.group_resets import is_inactive, targets
    from ottla.cli.kafka.streams_topics import delete_after_reset

    try:
        group = _described(admin, options, name)
    except GroupIdNotFound:
        group = None
    if group is not None and not is_inactive(name, group.state):
        return {}

    def committed() -> dict[TopicPartition, Any]:
        return _committed(admin, group or _described(admin, options, name), repartitioned=True)

    partitions = _scope(admin, options, name)
    found = targets(admin, options, name, partitions, committed)
    if options.has("execute"):
        if found:
            admin.alter_consumer_group_offsets(name, found, timeout=timeout_s(options))
        if group is not None:
            delete_after_reset(admin, name, _topics_to_delete(options, group))
    return found


def _scope(admin: Admin, options: Options, name: str) -> list[TopicPartition]:
    from ottla.cli.kafka.group_resets import check_partitions, existing_partitions

    if options.has("all-input-topics"):
        return _input_partitions(admin, options, name)
    if options.has("input-topic"):
        wanted = existing_partitions(admin, options.values("input-topic"))
        check_partitions(admin, wanted)
        known = admin.list_consumer_group_offsets(name)
        if all(each in known for each in wanted):
            return wanted
        print_error(f"One or more topics are not part of the group '{name}'.")
    elif not options.has("from-file"):
        options.wrong("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


def _topics_to_delete(options: Options, group: StreamsGroupDescription) -> list[str]:
    from ottla.cli.kafka.streams_topics import internal_topics

    if options.has("delete-all-internal-topics"):
        return internal_topics([group]).get(group.group_id, [])
    return options.values("delete-internal-topic")


_RUNS: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
