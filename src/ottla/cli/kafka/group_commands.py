"""What the commands for groups of consumers, share groups and groups of Kafka Streams have in common: their options,
what of those fits together, lists of groups, and what is told of offsets and groups that were deleted.

Where Apache's three tools say it in other words, or in another order, the words are in the file of the command.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import WrongUsage
from ottla.cli.kafka.group_tables import NARROW, print_error
from ottla.cli.kafka.java_errors import class_of, described, first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order, partition_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Option, Options, flag, number, perhaps, value
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.groups import GroupListing
    from ottla.values import TopicPartition

TIMEOUT_MS: Final = 30_000
VIEWS: Final = ("members", "offsets", "state")
SCENARIOS: Final = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
"""Where committed offsets can be reset to."""
RESETS: Final = (
    flag("reset-offsets", "let a group without members start elsewhere"),
    flag("dry-run", "only show what would be reset"),
    flag("execute", "do reset"),
    value("to-datetime", "reset to a time: YYYY-MM-DDThh:mm:ss.sss", "datetime"),
    flag("to-earliest", "reset to the beginning"),
    flag("to-latest", "reset to the end"),
)
RESETS_OF_COMMITTED: Final = (
    *RESETS,
    flag("export", "print the new offsets as CSV"),
    number("to-offset", "reset to this offset", "offset"),
    value("from-file", "reset to what a CSV file says", "path to CSV file"),
    value("by-duration", "reset to so long ago: PnDTnHnMnS", "duration"),
    flag("to-current", "reset to what is committed"),
    number("shift-by", "reset by so many records", "number-of-offsets"),
)


def group_options(kind: str) -> tuple[Option, ...]:
    """The options of a command for groups of one kind, but for what it resets and of which topics."""
    return (
        BOOTSTRAP,
        COMMAND_CONFIG,
        value("group", f"a {kind} group; may be repeated", f"{kind} group"),
        flag("all-groups", f"every {kind} group"),
        flag("list", f"list {kind} groups"),
        flag("describe", "show offsets and lag, members or state"),
        flag("delete", "delete groups"),
        flag("delete-offsets", "forget offsets of topics"),
        number("timeout", "milliseconds to wait at most", "timeout (ms)", default=TIMEOUT_MS),
        flag("members", "with --describe: the members", needs=("describe",)),
        flag("verbose", "with --describe: more columns", needs=("describe",)),
        flag("offsets", "with --describe: offsets and lag (what it shows anyway)", needs=("describe",)),
        perhaps("state", "show states; with --list only groups in these", needs=("describe", "list")),
    )


def timeout_s(options: Options) -> float:
    return (options.number("timeout") or TIMEOUT_MS) / 1000


# --- what fits together ----------------------------------------------------------------------------------------------


def action_of(options: Options, actions: Sequence[str], sentence: str) -> str:
    """The one thing to do; the sentence when there is none, or more than one."""
    there = [each for each in actions if options.has(each)]
    if len(there) != 1:
        options.wrong(f"Command must include exactly one action: {sentence}")
    return there[0]


def names_groups(options: Options) -> bool:
    return options.has("group") or options.has("all-groups")


def listed(names: Iterable[str]) -> str:
    """Options, as joptsimple writes them."""
    return ", ".join(f"[{each}]" for each in names)


def check_views(options: Options) -> None:
    """With --describe: what to show."""
    if sum(map(options.has, VIEWS)) > 1:
        options.wrong(f"Option [describe] takes at most one of these options: {listed(VIEWS)}")
    if options.has("state") and options.value("state") is not None:
        options.wrong("Option [describe] does not take a value for [state]")


def check_not_both(options: Options) -> None:
    if options.has("dry-run") and options.has("execute"):
        options.wrong("Option [reset-offsets] only accepts one of [execute] and [dry-run]")


def check_decided(options: Options) -> None:
    """Either --dry-run or --execute must be said."""
    check_not_both(options)
    if not options.has("dry-run") and not options.has("execute"):
        options.wrong("Option [reset-offsets] takes the option: [execute] or [dry-run]")


def check_scenarios(options: Options, scenarios: Sequence[str]) -> None:
    """At most one place to go to."""
    for scenario in scenarios:
        options.exclude(scenario, [each for each in scenarios if each != scenario])


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


@contextmanager
def working(options: Options, kind: str) -> Iterator[Admin]:
    """An admin client; what is wrong with the command line is told as Apache's tools tell it when they work already."""
    try:
        with admin_of(options) as admin:
            yield admin
    except WrongUsage as mistake:
        print_error(f"Executing {kind} group command failed due to {mistake}")
    except ValueError as error:
        options.wrong(str(error))


# --- lists -----------------------------------------------------------------------------------------------------------


def in_order(groups: Iterable[GroupListing]) -> list[GroupListing]:
    """Groups in the order in which Apache's tools list them."""
    by_id = {each.group_id: each for each in groups}
    return [by_id[group] for group in hash_order(by_id)]


def groups_of(admin: Admin, options: Options, kind: str, states: Sequence[str] = ()) -> list[GroupListing]:
    """The groups of a kind that brokers call by that name."""
    return in_order(admin.list_groups(types=[kind], states=states, timeout=timeout_s(options)))


def print_groups(admin: Admin, options: Options, kind: str, states: Sequence[str]) -> None:
    """--list: the names, with --state a table; `states` are those that groups of the kind can be in."""
    if not options.has("state"):
        for each in groups_of(admin, options, kind):
            print(each.group_id)
        return
    groups = groups_of(admin, options, kind, chosen(options.value("state"), states, "state"))
    width = max([NARROW, *(len(each.group_id) for each in groups)])
    for group, state in [("GROUP", "STATE"), *((each.group_id, each.state or "Unknown") for each in groups)]:
        print(f"{group:<{width}} {state}")


# --- deleted groups --------------------------------------------------------------------------------------------------


def refused_deletions(admin: Admin, options: Options, kind: str, not_listed: str) -> tuple[list[str], dict[str, str]]:
    """The groups that are to be deleted, and those of them that cannot be, as far as the list of groups says."""
    there = {each.group_id: each for each in groups_of(admin, options, kind)}
    wanted = list(there) if options.has("all-groups") else list(dict.fromkeys(options.values("group")))
    failed = {}
    for name in wanted:
        state = there[name].state if name in there else None
        if name not in there:
            failed[name] = f"java.lang.IllegalArgumentException: Group '{name}' {not_listed}"
        elif state == "Dead":
            failed[name] = f"java.lang.IllegalStateException: {kind.capitalize()} group '{name}' group state is DEAD."
        elif state not in (None, "Empty"):
            text = f"{kind.capitalize()} group '{name}' is not EMPTY."
            failed[name] = f"org.apache.kafka.common.errors.GroupNotEmptyException: {text}"
    return wanted, failed


def why_not_deleted(admin: Admin, group: str, timeout: float) -> str | None:
    """Delete a group of whatever kind; what the cluster says against it."""
    try:
        admin.delete_consumer_groups([group], timeout=timeout)
    except OttlaError as error:
        return described(first_failure(error), group)
    return None


def print_failed_deletions(failed: dict[str, str], order: Collection[str], kind: str) -> None:
    print_error(f"Deletion of some {kind} groups failed:")
    for group in order:
        print(f"* Group '{group}' could not be deleted due to: {failed[group]}")


# --- deleted offsets -------------------------------------------------------------------------------------------------


def delete_offsets(
    admin: Admin,
    options: Options,
    partitions: Sequence[TopicPartition],
    unknown: dict[TopicPartition, OttlaError],
) -> None:
    """Let a group forget what it committed for these partitions; `unknown` are those that do not exist."""
    group = options.text("group")
    results: dict[TopicPartition, OttlaError | None] = dict.fromkeys(partitions)
    whole = _forget(admin, group, partitions, results, timeout_s(options))
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
    timeout: float,
) -> OttlaError | None:
    """Delete offsets; the error of each partition goes into `results`, that of the whole order is returned."""
    from ottla.client.admin.plans import PartlyFailed
    from ottla.errors import GroupSubscribedToTopic, TopicAuthorizationFailed, UnknownTopicOrPartition

    try:
        admin.delete_consumer_group_offsets(group, partitions, timeout=timeout)
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


# --- new offsets -----------------------------------------------------------------------------------------------------


def reset_rows(found: Mapping[str, Mapping[TopicPartition, int]]) -> list[tuple[object, ...]]:
    """Group, topic, partition and new offset, in the order in which Apache's tools print them."""
    return [
        (group, *partition, found[group][partition])
        for group in hash_order(found)
        for partition in partition_order(found[group])
    ]


def print_exported(rows: Sequence[tuple[object, ...]], options: Options) -> None:
    """New offsets as CSV; the name of the group is left out where there is only one."""
    alone = len(options.values("group")) == 1
    print("".join(",".join(map(str, row[alone:])) + "\n" for row in rows))


def print_resets(rows: Sequence[tuple[object, ...]]) -> None:
    """Group, topic, partition and new offset of each row."""
    widths = [max([NARROW, *(len(str(row[place])) for row in rows)]) for place in (0, 1)]
    for group, topic, partition, offset in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows]:
        print(f"\n{group:<{widths[0]}} {topic:<{widths[1]}} {partition:<10} {offset}", end="")
    print()
