"""kafka-topics: make, list, describe, grow and delete topics.

1. --topic is a regular expression (Java's; Python's here) but for --create, with `,` for `|`.
2. Errors of the work are one line on stdout, "Error while executing topic command : ...", and code 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.java_errors import first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, number, parse, value
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigEntry
    from ottla.client.admin.replicas import PartitionReassignment
    from ottla.client.admin.topics import NewTopic, PartitionDescription, TopicDescription
    from ottla.values import TopicPartition

SUMMARY: Final = "This tool helps to create, delete, describe, or change a topic."
EMPTY: Final = "Create, delete, describe, or change a topic."
ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
OVERRIDES: Final = "topics-with-overrides"
CONFIGS_HINT: Final = " (To alter topic configurations, the kafka-configs tool can be used.)"
REPLICATION_MAX: Final = 32767
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("list", "list topics"),
    flag("create", "make a topic"),
    flag("delete", "delete topics"),
    flag("alter", "give topics more partitions"),
    flag("describe", "show partitions, leaders, replicas and settings of topics"),
    value("topic", "a topic; a regular expression unless it is made", "topic"),
    value("topic-id", "the topic to describe by its id", "topic-id"),
    value("config", "a setting of the topic to make; may be repeated", "name=value"),
    value("delete-config", "not supported since 4.0", "name"),
    number("partitions", "how many partitions in all", "# of partitions"),
    number("replication-factor", "how many copies", "replication factor"),
    value("replica-assignment", "brokers of each partition: 1:2,2:3", "broker:broker,broker:broker"),
    flag("under-replicated-partitions", "with --describe: only partitions that lack copies"),
    flag("unavailable-partitions", "with --describe: only partitions without a live leader"),
    flag("under-min-isr-partitions", "with --describe: only partitions with too few copies in sync"),
    flag("at-min-isr-partitions", "with --describe: only partitions with just enough copies in sync"),
    flag(OVERRIDES, "with --describe: only topics with settings of their own"),
    flag("if-exists", "be content if there is no such topic"),
    flag("if-not-exists", "be content if the topic is there already"),
    flag("exclude-internal", "leave the cluster's own topics out"),
    number("partition-size-limit-per-response", "partitions in one answer at most", "partitions"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-topics", SUMMARY, OPTIONS, words, when_empty=EMPTY)
    _check(options)
    action = next(each for each in ACTIONS if options.has(each))
    try:
        with admin_of(options) as admin:
            _RUNS[action](admin, options)
    except (OttlaError, OSError, ValueError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        names = options.values("topic")
        print(f"Error while executing topic command : {message_of(first_failure(error), *names)}")
        return FAILED
    return OK


# --- what fits together ----------------------------------------------------------------------------------------------


def _check(options: Options) -> None:
    if sum(map(options.has, ACTIONS)) != 1:
        options.wrong("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if options.has("delete-config"):
        warn(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases."
        )
    if not options.has("bootstrap-server"):
        fail("--bootstrap-server must be specified")
    _check_topic(options)
    if options.has("alter"):
        if options.has("config"):
            both = "[[bootstrap-server], [config]]"
            options.wrong(f'Option combination "{both}" can\'t be used with option "[alter]"{CONFIGS_HINT}')
        options.require("partitions")
    _check_exclusions(options)


def _check_topic(options: Options) -> None:
    if options.has("describe") and options.has("if-exists"):
        if not options.has("topic") and not options.has("topic-id"):
            options.wrong("--topic or --topic-id is required to describe a topic")
        if options.has("topic") and options.has("topic-id"):
            print(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                "Uuid.ZERO_UUID"
            )
    if not options.has("list") and not options.has("describe"):
        options.require("topic")


def _check_exclusions(options: Options) -> None:
    for name, allowed in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("alter", "create")),
    ):
        options.exclude(name, _actions_without(*allowed))
    if options.has("create"):
        options.exclude("replica-assignment", ("partitions", "replication-factor"))
    for report in REPORTS:
        options.exclude(report, [*_actions_without("describe"), OVERRIDES])
    options.exclude(OVERRIDES, [*_actions_without("describe"), *REPORTS])
    options.exclude("if-exists", _actions_without("alter", "delete", "describe"))
    options.exclude("if-not-exists", _actions_without("create"))
    options.exclude("exclude-internal", _actions_without("list", "describe"))


def _actions_without(*allowed: str) -> list[str]:
    return [each for each in ACTIONS if each not in allowed]


# --- make, grow, delete ----------------------------------------------------------------------------------------------


def _create(admin: Admin, options: Options) -> None:
    from ottla.errors import TopicAlreadyExists

    topic = _new_topic(options)
    if "." in topic.name or "_" in topic.name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if topic.replication_factor is not None and not 1 <= topic.replication_factor <= REPLICATION_MAX:
        raise ValueError(f"The replication factor must be between 1 and {REPLICATION_MAX} inclusive")
    if topic.num_partitions is not None and topic.num_partitions < 1:
        raise ValueError("The partitions must be greater than 0")
    try:
        admin.create_topics([topic])
    except TopicAlreadyExists:
        if not options.has("if-not-exists"):
            raise
    else:
        print(f"Created topic {topic.name}.")


def _new_topic(options: Options) -> NewTopic:
    from ottla.client.admin.topics import NewTopic

    partitions, copies = options.number("partitions"), options.number("replication-factor")
    assignment = parse_assignment(options.text("replica-assignment"))
    configs = _configs_of(options.values("config"))
    if configs:
        from ottla.cli.kafka.topic_checks import check_configs

        check_configs(configs)
    return NewTopic(options.text("topic"), partitions, copies, configs, assignment or None)


def parse_assignment(text: str) -> dict[int, list[int]]:
    """1:2,2:3 as the brokers of each partition."""
    found: dict[int, list[int]] = {}
    for index, part in enumerate(text.split(",") if text else ()):
        brokers = [int(each.strip()) for each in part.split(":")]
        twice = sorted({each for each in brokers if brokers.count(each) > 1})
        if twice:
            raise ValueError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        found[index] = brokers
        if len(brokers) != len(found[0]):
            raise ValueError(f"Partition {index} has different replication factor: {brokers}")
    return found


def _configs_of(words: Sequence[str]) -> dict[str, str]:
    parts = [re.split(r"\s*=\s*", word) for word in words]
    if any(len(each) != 2 for each in parts):
        raise ValueError(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    return {name.strip(): setting.strip() for name, setting in parts}


def _alter(admin: Admin, options: Options) -> None:
    topics = _existing(admin, options)
    if not topics:
        return
    count = options.number("partitions") or 0
    assignments = {}
    assignment = parse_assignment(options.text("replica-assignment"))
    if assignment:
        described = admin.describe_topics(topics)
        rows = list(assignment.values())
        assignments = {name: rows[len(described[name].partitions) :] for name in topics}
    admin.create_partitions(dict.fromkeys(topics, count), assignments=assignments)


def _delete(admin: Admin, options: Options) -> None:
    if topics := _existing(admin, options):
        admin.delete_topics(topics)


# --- look ------------------------------------------------------------------------------------------------------------


def _list(admin: Admin, options: Options) -> None:
    print("\n".join(_matching(admin, options)))


def _existing(admin: Admin, options: Options) -> list[str]:
    """The topics that are meant; none is a failure unless --if-exists is there."""
    topics = _matching(admin, options)
    wanted = options.value("topic")
    if wanted and not topics and not options.has("if-exists"):
        raise ValueError(f"Topic '{wanted}' does not exist as expected")
    return topics


def _matching(admin: Admin, options: Options) -> list[str]:
    names = sorted(admin.list_topics(include_internal=not options.has("exclude-internal")))
    wanted = options.value("topic")
    if wanted is None:
        return names
    pattern = include_pattern(wanted)
    return [name for name in names if pattern.fullmatch(name)]


def include_pattern(text: str) -> re.Pattern[str]:
    """A list of topics as people write it: `,` for `|`, spaces and quotes around it left out."""
    cleaned = re.sub("[\"']+$", "", re.sub("^[\"']+", "", text.strip().replace(",", "|").replace(" ", "")))
    try:
        return re.compile(cleaned)
    except re.error as error:
        raise ValueError(f"{cleaned} is an invalid regex. {error}") from None


def _describe(admin: Admin, options: Options) -> None:
    from ottla.client.admin.configs import ConfigResource, ConfigResourceType

    described = _described(admin, options)
    if not described:
        return
    resources = {name: ConfigResource(ConfigResourceType.TOPIC, name) for name in described}
    configs = admin.describe_configs(resources.values())
    live = {node.id for node in admin.describe_cluster().nodes}
    moves = _reassignments(admin, described)
    for name in hash_order(described, len(described)):
        entries = configs[resources[name]]
        _print_topic(options, described[name], entries, moves)
        if not options.has(OVERRIDES):
            for line in _partition_lines(options, described[name], entries, live, moves):
                print(line)


def _described(admin: Admin, options: Options) -> dict[str, TopicDescription]:
    from ottla.values import ZERO_UUID, uuid_from_text

    text = options.value("topic-id")
    wanted = uuid_from_text(text) if text else ZERO_UUID
    if wanted != ZERO_UUID:
        internal = not options.has("exclude-internal")
        names = [each.name for each in admin.list_topics(include_internal=internal).values() if each.topic_id == wanted]
        if not names and not options.has("if-exists"):
            raise ValueError(f"TopicId '{text}' does not exist as expected")
    else:
        names = _existing(admin, options)
    limit = options.number("partition-size-limit-per-response")
    return admin.describe_topics(names, partitions_per_page=limit) if names else {}


def _reassignments(
    admin: Admin, described: Mapping[str, TopicDescription]
) -> Mapping[TopicPartition, PartitionReassignment]:
    from ottla.errors import ClusterAuthorizationFailed, UnsupportedVersion
    from ottla.values import TopicPartition

    partitions = [
        TopicPartition(name, each.partition) for name, topic in described.items() for each in topic.partitions
    ]
    try:
        return admin.list_partition_reassignments(partitions)
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return {}


def _print_topic(
    options: Options,
    topic: TopicDescription,
    entries: Mapping[str, ConfigEntry],
    moves: Mapping[TopicPartition, PartitionReassignment],
) -> None:
    from ottla.values import TopicPartition, uuid_to_text

    own = [f"{name}={entries[name].value}" for name in hash_order(entries) if not entries[name].is_default]
    if any(map(options.has, REPORTS)) or (options.has(OVERRIDES) and not own):
        return
    first = topic.partitions[0]
    copies = _copies(first, moves.get(TopicPartition(topic.name, first.partition)))
    topic_id = f"\tTopicId: {uuid_to_text(topic.topic_id)}" if topic.topic_id else ""
    print(
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {copies}"
        f"\tConfigs: {','.join(own)}"
    )


def _copies(partition: PartitionDescription, move: PartitionReassignment | None) -> int:
    """The replication factor; while brokers change, what it was."""
    if move is not None and set(partition.replicas) & {*move.adding, *move.removing}:
        return len(move.replicas) - len(move.adding)
    return len(partition.replicas)


def _partition_lines(
    options: Options,
    topic: TopicDescription,
    entries: Mapping[str, ConfigEntry],
    live: set[int],
    moves: Mapping[TopicPartition, PartitionReassignment],
) -> Iterator[str]:
    from ottla.values import TopicPartition

    least = int(entries["min.insync.replicas"].value or 1)
    for each in sorted(topic.partitions, key=lambda each: each.partition):
        move = moves.get(TopicPartition(topic.name, each.partition))
        reports = {
            "under-replicated-partitions": _copies(each, move) > len(each.in_sync),
            "under-min-isr-partitions": each.leader is None or len(each.in_sync) < least,
            "at-min-isr-partitions": len(each.in_sync) == least,
            "unavailable-partitions": each.leader not in live,
        }
        asked = [name for name in REPORTS if options.has(name)]
        if not asked or any(reports[name] for name in asked):
            yield _partition_line(topic.name, each, move)


def _partition_line(topic: str, partition: PartitionDescription, move: PartitionReassignment | None) -> str:
    parts = [
        f"\tTopic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {'none' if partition.leader is None else partition.leader}",
        f"Replicas: {_joined(partition.replicas)}",
        f"Isr: {_joined(partition.in_sync)}",
    ]
    if move is not None:
        parts += [f"Adding Replicas: {_joined(move.adding)}", f"Removing Replicas: {_joined(move.removing)}"]
    for name, ids in (
        ("Elr", partition.eligible_leaders),
        ("LastKnownElr", partition.last_known_eligible_leaders),
    ):
        parts.append(f"{name}: {'N/A' if ids is None else _joined(ids)}")
    return "\t".join(parts)


def _joined(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


_RUNS: Final = {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}
