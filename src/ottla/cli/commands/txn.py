"""`ottla txn`: transactions that are open, who holds them, and how to end one that hangs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, output_of
from ottla.cli.moments import duration_ms
from ottla.cli.output import OK, Failure
from ottla.cli.show import shown_duration, shown_time
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.admin.transactions import TransactionDescription

EXAMPLES: Final = """\
examples:
  ottla txn list
  ottla txn list --state Ongoing --longer-than 15m
  ottla txn describe billing-7
  ottla txn producers clicks 0                     who writes into a partition, and what is open there
  ottla txn find-hanging clicks 0                  open here, but unknown to their coordinator
  ottla txn abort clicks 0 --start-offset 4711     abort what began there
  ottla txn fence billing-7                        fence whoever uses this id
"""


def add_verbs(verbs: Verbs) -> None:
    listing = add_verb(verbs, "list", "transactional ids of all coordinators", run_list, EXAMPLES)
    listing.add_argument("--state", action="append", default=[], metavar="STATE", help="only in this state")
    listing.add_argument("--longer-than", metavar="TIME", help="only open for longer than this (15m, 2h)")
    add_format(listing)
    describe = add_verb(verbs, "describe", "one transactional id", run_describe, EXAMPLES)
    describe.add_argument("ids", nargs="+", metavar="ID")
    add_format(describe)
    producers = add_verb(verbs, "producers", "who writes into a partition", run_producers, EXAMPLES)
    _add_partition(producers)
    add_format(producers)
    hanging = add_verb(verbs, "find-hanging", "transactions nobody will ever end", run_find_hanging, EXAMPLES)
    _add_partition(hanging)
    add_format(hanging)
    abort = add_verb(verbs, "abort", "abort a hanging transaction in one partition", run_abort, EXAMPLES)
    _add_partition(abort)
    abort.add_argument("--start-offset", type=int, required=True, metavar="N", help="where the transaction began")
    abort.add_argument("-y", "--yes", action="store_true", help="do not ask")
    fence = add_verb(verbs, "fence", "fence producers by their transactional ids", run_fence, EXAMPLES)
    fence.add_argument("ids", nargs="+", metavar="ID")


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("partition", type=int, metavar="PARTITION")


def run_list(options: argparse.Namespace) -> int:
    try:
        longer = None if options.longer_than is None else duration_ms(options.longer_than)
    except ValueError as error:
        raise Failure(f"--longer-than {options.longer_than}: {error}") from None
    with admin_of(options) as admin:
        found = admin.list_transactions(states=options.state, running_longer_than_ms=longer)
    rows = [(each.transactional_id, each.producer_id, each.state) for each in found]
    output_of(options).table(("TRANSACTIONAL ID", "PRODUCER", "STATE"), rows)
    return OK


def run_describe(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        found = admin.describe_transactions(options.ids)
    now_ms = SystemClock().now_ms()
    rows = [
        (
            each.transactional_id, each.producer_id, each.producer_epoch, each.state, shown_time(each.start_time_ms),
            _open_for(each, now_ms),
            shown_duration(each.timeout_ms / 1000), ", ".join(map(str, sorted(each.partitions))) or None,
        )
        for each in found.values()
    ]  # fmt: skip
    headings = ("TRANSACTIONAL ID", "PRODUCER", "EPOCH", "STATE", "SINCE", "OPEN FOR", "TIMEOUT", "PARTITIONS")
    output_of(options).table(headings, rows)
    return OK


def _open_for(found: TransactionDescription, now_ms: int) -> str | None:
    """How long it has been open; None when it is over: an id keeps the time of its last transaction."""
    is_open = found.state == "Ongoing" or found.state.startswith("Prepare")
    return (
        shown_duration((now_ms - found.start_time_ms) / 1000) if is_open and found.start_time_ms is not None else None
    )


_PRODUCER_HEADINGS: Final = (
    "PRODUCER",
    "EPOCH",
    "LAST SEQUENCE",
    "LAST WRITE",
    "COORDINATOR EPOCH",
    "OPEN SINCE OFFSET",
)


def run_producers(options: argparse.Namespace) -> int:
    from ottla.values import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    with admin_of(options) as admin:
        found = admin.describe_producers([partition])[partition]
    output_of(options).table(_PRODUCER_HEADINGS, [_row(each) for each in found])
    return OK


def _row(each: object) -> tuple[object, ...]:
    from ottla.client.admin.transactions import ProducerState

    assert isinstance(each, ProducerState)
    return (
        each.producer_id, each.producer_epoch, each.last_sequence, shown_time(each.last_timestamp_ms),
        each.coordinator_epoch, each.transaction_start_offset,
    )  # fmt: skip


def run_find_hanging(options: argparse.Namespace) -> int:
    """Open in the partition, but no coordinator knows of an open transaction with that producer and partition."""
    from ottla.cli.operations.transactions import hanging
    from ottla.values import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    with admin_of(options) as admin:
        found = admin.describe_producers([partition])[partition]
        left = hanging(admin, [(partition, each) for each in found if each.transaction_start_offset is not None])
    output_of(options).table(_PRODUCER_HEADINGS, [_row(each) for _, each in left])
    return OK


def run_abort(options: argparse.Namespace) -> int:
    from ottla.cli.operations.transactions import began_at
    from ottla.values import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    with admin_of(options) as admin:
        producer = began_at(admin, partition, options.start_offset)
        if producer is None:
            raise Failure(f"no transaction is open in {partition} that began at offset {options.start_offset}")
        question = f"Abort the transaction of producer {producer.producer_id} in {partition}?"
        if confirmed(question, yes=options.yes):
            admin.abort_transaction(
                partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=producer.coordinator_epoch or 0,
            )
            print(f"aborted in {partition}")
    return OK


def run_fence(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        found = admin.fence_producers(options.ids)
    for name, identity in found.items():
        print(f"{name}: fenced; the next producer gets id {identity.producer_id} epoch {identity.epoch + 1} or later")
    return OK
