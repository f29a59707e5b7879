"""kafka-get-offsets: where partitions begin and end, or which offset belongs to a time, as topic:partition:offset."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_with, check_servers, settings_of
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.java_errors import described, first_failure, message_of
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, parse, value
from ottla.cli.kafka.topics import include_pattern
from ottla.cli.operations.outcomes import outcomes
from ottla.cli.output import OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.offsets import Place
    from ottla.values import OffsetAndTimestamp, TopicPartition

SUMMARY: Final = "An interactive shell for getting topic-partition offsets."
PLACES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
NO_BORDER: Final = 2**31 - 1
OPTIONS: Final = (
    BOOTSTRAP,
    value("topic-partitions", "patterns of partitions: clicks:0-3,.*:5-", "topic1:1,topic2:0-3,topic3,topic4:5-"),
    value("topic", "a topic, or a regular expression of topics", "topic"),
    value("partitions", "partitions by number: 0,1,2", "partition ids"),
    value("time", f"a time in milliseconds, or {', '.join(PLACES)} (-1 to -6)", "time", default="latest"),
    COMMAND_CONFIG,
    flag("exclude-internal-topics", "leave the cluster's own topics out"),
)
Filter = Callable[[str, int | None], bool]
"""Whether a partition is meant; with None whether any partition of the topic may be."""


def run(words: Sequence[str]) -> int:
    options = parse("kafka-get-offsets", SUMMARY, OPTIONS, words)
    options.require("bootstrap-server")
    check_servers(options)
    try:
        _print_offsets(options)
    except (OttlaError, TimeoutError, ValueError) as error:
        fail(f"Error occurred: {message_of(first_failure(error))}")
    return OK


def _print_offsets(options: Options) -> None:
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise ValueError("--topic-partitions cannot be used with --topic or --partitions")
    place = _place(options.text("time"))
    wanted = _filter(options)
    settings = settings_of(options) | {"client.id": "GetOffsetShell"}
    with admin_with(settings) as admin:
        partitions = _partitions(admin, wanted, not options.has("exclude-internal-topics"))
        if not partitions:
            raise ValueError("Could not match any topic-partitions with the specified filters")
        found = _offsets(admin, partitions, place)
    for each in sorted(found, key=str):
        if found[each].offset >= 0:
            print(f"{each.topic}:{each.partition}:{found[each].offset}")


def _place(text: str) -> Place:
    if text in PLACES:
        return PLACES[text]
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a specified long format "
            "timestamp"
        ) from None


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], place: Place
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """What is found; what is not is told and left out."""
    found, failed = outcomes(partitions, lambda: admin.list_offsets(dict.fromkeys(partitions, place)))
    for each, cause in failed.items():
        warn(f"Skip getting offsets for topic-partition {each} due to error: {described(cause, each.topic)}")
    return found


def _partitions(admin: Admin, wanted: Filter, internal: bool) -> list[TopicPartition]:
    from ottla.values import TopicPartition

    names = [name for name in admin.list_topics(include_internal=internal) if wanted(name, None)]
    described_topics = admin.describe_topics(names) if names else {}
    return [
        TopicPartition(name, each.partition)
        for name, topic in described_topics.items()
        for each in topic.partitions
        if wanted(name, each.partition)
    ]


def _filter(options: Options) -> Filter:
    if options.has("topic-partitions"):
        rules = [_rule(each) for each in options.text("topic-partitions").split(",")]
        return lambda topic, partition: any(rule(topic, partition) for rule in rules)
    pattern = include_pattern(options.value("topic") or ".*")
    text = options.text("partitions")
    try:
        numbers = {int(each) for each in text.split(",")} if text else set()
    except ValueError:
        raise ValueError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None
    return lambda topic, partition: bool(
        pattern.fullmatch(topic) and (partition is None or not numbers or partition in numbers)
    )


def _rule(text: str) -> Filter:
    found = RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"org.apache.kafka.tools.TerseException: Invalid rule specification: {text}")
    topic, single, low, high = found.groups()
    pattern = include_pattern(topic or ".*")
    first, end = (int(single), int(single) + 1) if single else (int(low or 0), int(high) if high else NO_BORDER)
    return lambda name, partition: bool(pattern.fullmatch(name) and (partition is None or first <= partition < end))
