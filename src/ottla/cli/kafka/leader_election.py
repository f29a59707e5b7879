"""kafka-leader-election: let preferred leaders be elected, or any replica where none in sync is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.cluster import admin_with, settings_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.java_maps import partition_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, number, parse, value
from ottla.cli.kafka.partition_files import field_of, read_json
from ottla.cli.output import OK
from ottla.errors import ClusterAuthorizationFailed, ElectionNotNeeded, OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

SUMMARY: Final = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas."
)
TIMEOUT_MS: Final = 30_000
SCOPES: Final = ("topic", "all-topic-partitions", "path-to-json-file")
OPTIONS: Final = (
    BOOTSTRAP,
    value("admin.config", "old name of --command-config", "config file"),
    COMMAND_CONFIG,
    value("path-to-json-file", 'a file like {"partitions": [{"topic": "foo", "partition": 1}]}', "Path to JSON file"),
    value("topic", "the topic of the partition", "topic name"),
    number("partition", "the partition", "partition id"),
    flag("all-topic-partitions", "every partition"),
    value("election-type", "REQUIRED: preferred or unclean", "election type"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-leader-election", SUMMARY, OPTIONS, words)
    _check(options)
    config = "command-config"
    if options.has("admin.config"):
        config = "admin.config"
        print(
            "Option --admin.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    settings: dict[str, object] = {"default.api.timeout.ms": TIMEOUT_MS, "request.timeout.ms": TIMEOUT_MS // 2}
    settings |= settings_of(options, config)
    try:
        partitions = _partitions(options)
        with admin_with(settings) as admin:
            _elect(admin, options.text("election-type").upper(), partitions)
    except TimeoutError:
        print("Timeout waiting for election results")
        fail("Timeout waiting for election results")
    except ClusterAuthorizationFailed:
        print("Not authorized to perform leader election")
        fail("Not authorized to perform leader election")
    except OttlaError as error:
        fail(f"java.util.concurrent.ExecutionException: {described(first_failure(error))}")
    except ValueError as error:
        fail(str(error))
    return OK


def _check(options: Options) -> None:
    kind = options.value("election-type")
    if kind is not None and kind.upper() not in ("PREFERRED", "UNCLEAN"):
        options.wrong(f"Cannot parse argument '{kind}' of option election-type")
    if missing := [each for each in ("bootstrap-server", "election-type") if not options.has(each)]:
        fail(f"Missing required option(s): {', '.join(missing)}")
    options.exclude("admin.config", ["command-config"])
    if sum(map(options.has, SCOPES)) != 1:
        fail(f"One and only one of the following options is required: {', '.join(SCOPES)}")
    if options.has("topic") and not options.has("partition"):
        fail("Missing required option(s): partition")
    if not options.has("topic") and options.has("partition"):
        fail("Option partition is only allowed if topic is used")


def _partitions(options: Options) -> list[TopicPartition] | None:
    from ottla.values import TopicPartition

    if options.has("path-to-json-file"):
        return parse_partitions(read_json(options.text("path-to-json-file")))
    partition = options.number("partition")
    return None if partition is None else [TopicPartition(options.text("topic"), partition)]


def parse_partitions(data: Any) -> list[TopicPartition]:
    from ottla.values import TopicPartition

    if data is None:
        raise ValueError("Replica election data is empty")
    if not isinstance(data, dict) or "partitions" not in data:
        raise ValueError('Replica election data is missing "partitions" field')
    found = [
        TopicPartition(field_of(entry, "topic", str), field_of(entry, "partition", int))
        for entry in field_of(data, "partitions", list)
    ]
    if twice := [str(each) for each in dict.fromkeys(found) if found.count(each) > 1]:
        raise ValueError(f"Replica election data contains duplicate partitions: [{', '.join(twice)}]")
    return found


def _elect(admin: Admin, kind: str, partitions: list[TopicPartition] | None) -> None:
    from ottla.client.admin.replicas import ElectionType

    results = admin.elect_leaders(partitions, election_type=ElectionType[kind])
    done = [each for each, error in results.items() if error is None]
    needless = [each for each, error in results.items() if isinstance(error, ElectionNotNeeded)]
    failed = {each: error for each, error in results.items() if error and each not in needless}
    if done:
        print(f"Successfully completed leader election ({kind}) for partitions {_joined(done)}")
    if needless:
        print(f"Valid replica already elected for partitions {_joined(needless)}")
    if failed:
        _print_failures(kind, failed)


def _print_failures(kind: str, failed: Mapping[TopicPartition, OttlaError]) -> None:
    for each in partition_order(failed):
        error = described(failed[each], each.topic)
        print(f"Error completing leader election ({kind}) for partition: {each}: {error}")
    fail(f"{len(failed)} replica(s) could not be elected")


def _joined(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partition_order(partitions)))
