"""kafka-log-dirs: which partitions are in which directories of which brokers, and how large they are, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.cluster import admin_with, settings_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import class_of, described, first_failure
from ottla.cli.kafka.java_json import hashed, java_json
from ottla.cli.kafka.java_maps import hash_order, partition_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, parse, value
from ottla.cli.output import OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import LogDirDescription

SUMMARY: Final = "This tool helps to query log directory usage on the specified brokers."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("describe", "REQUIRED: show the directories"),
    value("topic-list", "only these topics: a,b,c", "Topic list", default=""),
    value("broker-list", "only these brokers: 0,1,2", "Broker list", default=""),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-log-dirs", SUMMARY, OPTIONS, words)
    options.require("bootstrap-server", "describe")
    settings = {"client.id": "log-dirs-tool"} | settings_of(options)
    try:
        wanted = {int(each) for each in _words(options, "broker-list")}
        with admin_with(settings) as admin:
            _print_directories(admin, wanted, set(_words(options, "topic-list")))
    except ValueError as error:
        fail(f"For input string: {str(error).rpartition(' ')[2]}")
    except (OttlaError, TimeoutError) as error:
        fail(described(first_failure(error)))
    return OK


def _words(options: Options, name: str) -> list[str]:
    return [each for each in options.text(name).split(",") if each]


def _print_directories(admin: Admin, wanted: set[int], topics: set[str]) -> None:
    there = {node.id for node in admin.describe_cluster().nodes}
    if missing := wanted - there:
        fail(
            f"ERROR: The given brokers do not exist from --broker-list: {_joined(missing)}. "
            f"Current existent brokers: {_joined(there)}"
        )
    print("Querying brokers for log directories information")
    brokers = wanted or there
    found = admin.describe_log_dirs(sorted(brokers))
    print(f"Received log directory information from brokers {_joined(brokers)}")
    shown = [hashed({"broker": id, "logDirs": _directories(found[id], topics)}) for id in sorted(found)]
    print(java_json(hashed({"version": 1, "brokers": shown})))


def _joined(ids: set[int]) -> str:
    return ",".join(map(str, sorted(ids)))


def _directories(directories: Mapping[str, LogDirDescription], topics: set[str]) -> list[dict[str, Any]]:
    found = []
    for path in hash_order(directories):
        each = directories[path]
        replicas = [name for name in each.replicas if not topics or name.topic in topics]
        partitions = [
            hashed(
                {
                    "partition": str(name),
                    "size": each.replicas[name].size_bytes,
                    "offsetLag": each.replicas[name].offset_lag,
                    "isFuture": each.replicas[name].is_future,
                }
            )
            for name in partition_order(replicas)
        ]
        error = None if each.error is None else class_of(each.error)
        found.append(hashed({"logDir": path, "error": error, "partitions": partitions}))
    return found
