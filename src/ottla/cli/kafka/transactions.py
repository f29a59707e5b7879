"""kafka-transactions: who has transactions open, which of them hang, and how to end one.

A transaction hangs when a partition has it open for longer than any may last and its coordinator knows nothing of it:
hanging_transactions.py finds those.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.arguments import ToolParser, Version
from ottla.cli.kafka.cluster import admin_with, file_settings
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import first_failure, message_of
from ottla.cli.kafka.java_maps import partition_order
from ottla.cli.kafka.tables import print_table
from ottla.cli.output import OK
from ottla.errors import OttlaError, TransactionalIdNotFound

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import TransactionDescription

PRODUCER_HEADINGS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
DESCRIBE_HEADINGS: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)


def _parser() -> ToolParser:
    parser = ToolParser(
        prog="kafka-transactions.sh",
        description="This tool is used to analyze the transactional state of producers in the cluster.",
    )
    parser.add_argument("-v", "--version", action=Version, nargs=0, help="print the version")
    parser.add_argument("--command-config", metavar="FILE", help="a file with client settings")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="one or more brokers")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="list transactions")
    listing.add_argument("--duration-filter", type=int, help="only those open for longer, in milliseconds")
    listing.add_argument("--transactional-id-pattern", help="only ids that match this regular expression")
    describe = commands.add_parser("describe", help="describe the state of an active transactional-id")
    describe.add_argument("--transactional-id", required=True, help="transactional id")
    producers = commands.add_parser("describe-producers", help="who writes into a partition")
    producers.add_argument("--broker-id", type=int, help="ask this replica instead of the leader")
    _add_partition(producers)
    abort = commands.add_parser("abort", help="abort a hanging transaction (requires administrative privileges)")
    _add_partition(abort)
    abort.add_argument("--start-offset", type=int, help="where the transaction begins")
    abort.add_argument("--producer-id", type=int, help="for brokers before 3.0")
    abort.add_argument("--producer-epoch", type=int, help="for brokers before 3.0")
    abort.add_argument("--coordinator-epoch", type=int, help="for brokers before 3.0")
    hanging = commands.add_parser("find-hanging", help="find hanging transactions")
    hanging.add_argument("--broker-id", type=int, help="search on this broker")
    hanging.add_argument("--max-transaction-timeout", type=int, default=15, help="minutes a transaction may last (15)")
    hanging.add_argument("--topic", help="search in this topic")
    hanging.add_argument("--partition", type=int, help="search in this partition of the topic")
    force = commands.add_parser("forceTerminateTransaction", help="abort what a transactional id has open")
    force.add_argument("--transactionalId", dest="transactional_id", required=True, help="transactional id")
    return parser


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, help="topic name")
    parser.add_argument("--partition", type=int, required=True, help="partition number")


def run(words: Sequence[str]) -> int:
    options = _parser().parse_args(words)
    settings = {} if options.command_config is None else file_settings(options.command_config)
    with admin_with(settings | {"bootstrap.servers": options.bootstrap_server}) as admin:
        _RUNS[options.command](admin, options)
    return OK


@contextmanager
def failing_with(text: str, *names: str) -> Iterator[None]:
    """An error of the cluster ends the command with this text before it."""
    try:
        yield
    except (OttlaError, TimeoutError) as error:
        fail(f"{text}: {message_of(first_failure(error), *names)}. Enable debug logging for additional detail.")


def _list(admin: Admin, options: argparse.Namespace) -> None:
    with failing_with("Failed to list transactions"):
        found = admin.list_transactions(
            running_longer_than_ms=options.duration_filter, transactional_id_pattern=options.transactional_id_pattern
        )
    rows = [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found]
    print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def _state_of(admin: Admin, name: str) -> TransactionDescription:
    try:
        return admin.describe_transactions([name])[name]
    except TransactionalIdNotFound:
        raise TransactionalIdNotFound(
            f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found"
        ) from None


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    from ottla.clock import SystemClock

    name = options.transactional_id
    with failing_with(f"Failed to describe transaction state of transactional-id `{name}`", name):
        each = _state_of(admin, name)
    started = each.start_time_ms
    row = (
        each.coordinator,
        name,
        each.producer_id,
        each.producer_epoch,
        each.state,
        each.timeout_ms,
        "None" if started is None else started,
        "None" if started is None else SystemClock().now_ms() - started,
        ",".join(map(str, partition_order(each.partitions))),
    )
    print_table(DESCRIBE_HEADINGS, [row])


def _describe_producers(admin: Admin, options: argparse.Namespace) -> None:
    from ottla.values import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    whom = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    with failing_with(f"Failed to describe producers for partition {partition} on {whom}", options.topic):
        found = admin.describe_producers([partition], broker=options.broker_id)[partition]
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            -1 if each.coordinator_epoch is None else each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            "None" if each.transaction_start_offset is None else each.transaction_start_offset,
        )
        for each in found
    ]
    print_table(PRODUCER_HEADINGS, rows)


def _abort(admin: Admin, options: argparse.Namespace) -> None:
    from ottla.cli.operations.transactions import began_at
    from ottla.values import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    if options.start_offset is None and options.producer_id is None:
        fail(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if options.start_offset is None:
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, name) is None:
                fail(f"Missing required argument --{name.replace('_', '-')}")
        producer = (options.producer_id, options.producer_epoch, max(options.coordinator_epoch, 0))
    else:
        with failing_with(f"Failed to validate producer state for partition {partition}", options.topic):
            held = began_at(admin, partition, options.start_offset)
        if held is None:
            where = f"offset {options.start_offset} on partition {partition}"
            fail(f"Could not find any open transactions starting at {where}")
        producer = (held.producer_id, held.producer_epoch, held.coordinator_epoch or 0)
    number, epoch, coordinator = producer
    about = (
        f"AbortTransactionSpec(topicPartition={partition}, producerId={number}, producerEpoch={epoch}, "
        f"coordinatorEpoch={coordinator})"
    )
    with failing_with(f"Failed to abort transaction {about}", options.topic):
        admin.abort_transaction(partition, producer_id=number, producer_epoch=epoch, coordinator_epoch=coordinator)


def _find_hanging(admin: Admin, options: argparse.Namespace) -> None:
    from ottla.cli.kafka.hanging_transactions import find_hanging

    if options.topic is None and options.broker_id is None:
        fail("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
    if options.partition is not None and options.topic is None:
        fail("The --partition argument requires --topic to be provided")
    find_hanging(admin, options)


def _force(admin: Admin, options: argparse.Namespace) -> None:
    name = options.transactional_id
    with failing_with(f"Failed to force terminate transactionalId `{name}`", name):
        admin.fence_producers([name])


_RUNS: Final[Mapping[str, Callable[[Admin, argparse.Namespace], None]]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force,
}
