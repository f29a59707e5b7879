"""kafka-verifiable-consumer: reads a topic as a member of a group and tells every event as JSON.

SIGTERM and Ctrl-C end it in order.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import file_settings
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.events import print_event
from ottla.cli.kafka.java_errors import described, message_of
from ottla.cli.output import OK
from ottla.errors import FencedInstanceId, OttlaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.values import TopicPartition

POLL_S: Final = 0.25
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def _parser() -> ToolParser:
    parser = ToolParser(
        prog="verifiable-consumer",
        description="This tool consumes messages from a specific topic and emits consumer events as JSON objects.",
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT", help="one or more brokers")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="what to read")
    parser.add_argument("--group-protocol", default="classic", help="classic or consumer (classic)")
    parser.add_argument("--group-remote-assignor", metavar="NAME", help="the broker's assignor, with consumer")
    parser.add_argument("--group-id", required=True, metavar="GROUP-ID", help="the group to be in")
    parser.add_argument("--group-instance-id", metavar="ID", help="a name that stays, for static membership")
    parser.add_argument("--max-messages", type=int, default=-1, metavar="N", help="how many; -1: until it is ended")
    parser.add_argument("--session-timeout", type=int, metavar="MS", help="session.timeout.ms, with classic")
    parser.add_argument("--verbose", action="store_true", help="tell every record")
    parser.add_argument("--enable-autocommit", action="store_true", help="commit by the clock")
    parser.add_argument("--reset-policy", default="earliest", help="earliest, latest or none (earliest)")
    parser.add_argument("--assignment-strategy", default=RANGE, metavar="CLASS", help="with classic")
    parser.add_argument("--consumer.config", dest="consumer_config", help="old name of --command-config")
    parser.add_argument("--command-config", metavar="FILE", help="a file with settings of the consumer")
    return parser


def run(words: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parsed(words)
    settings = _settings(parser, options)
    from ottla.client.consumer.consumer import Consumer

    try:
        consumer = Consumer(settings)
    except (OttlaError, ValueError) as error:
        fail(described(error))
    work = _Work(options, consumer)
    before = signal.signal(signal.SIGTERM, work.stop)
    try:
        work.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    return OK


def _settings(parser: ToolParser, options: argparse.Namespace) -> dict[str, object]:
    settings: dict[str, object] = {}
    if options.consumer_config is not None:
        if options.command_config is not None:
            parser.error("Options --consumer.config and --command-config are mutually exclusive.")
        print(
            "Option --consumer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    if (path := options.command_config or options.consumer_config) is not None:
        settings |= file_settings(path)
    protocol = options.group_protocol.lower()
    settings |= {
        "group.protocol": protocol,
        "group.id": options.group_id,
        "bootstrap.servers": options.bootstrap_server,
        "enable.auto.commit": str(options.enable_autocommit).lower(),
        "auto.offset.reset": options.reset_policy,
    }
    if protocol == "classic":
        settings["partition.assignment.strategy"] = options.assignment_strategy
    elif options.group_remote_assignor is not None:
        settings["group.remote.assignor"] = options.group_remote_assignor
    if options.session_timeout is not None:
        settings["session.timeout.ms"] = options.session_timeout
    if options.group_instance_id is not None:
        settings["group.instance.id"] = options.group_instance_id
    return settings


class _Work:
    """Reads until it is enough, or until somebody says so."""

    def __init__(self, options: argparse.Namespace, consumer: Consumer) -> None:
        self._options = options
        self._consumer = consumer
        self._is_over = False
        self._count = 0

    def stop(self, *_: object) -> None:
        print_event("shutdown_requested")
        self._is_over = True

    def run(self) -> None:
        try:
            print_event("startup_complete")
            self._consumer.subscribe([self._options.topic], listener=self)
            while not self._is_over and not self._is_enough():
                records = self._consumer.poll(POLL_S, max_records=self._room())
                if records:
                    self._received(records)
        except KeyboardInterrupt:
            self.stop()
        except (OttlaError, TimeoutError) as error:
            warn(f"Error during processing, terminating consumer process: {described(error)}")
        finally:
            self._consumer.close()
            print_event("shutdown_complete")
            if not self._is_over:  # Apache's has a hook that says so whenever its process ends
                print_event("shutdown_requested")

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        print_event("partitions_assigned", partitions=[_named(each) for each in partitions])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        print_event("partitions_revoked", partitions=[_named(each) for each in partitions])

    def _is_enough(self) -> bool:
        return bool(0 <= self._options.max_messages <= self._count)

    def _room(self) -> int | None:
        limit = self._options.max_messages
        return None if limit < 0 else limit - self._count

    def _received(self, records: Sequence[Any]) -> None:
        from ottla.values import TopicPartition

        by_partition: dict[TopicPartition, list[Any]] = {}
        for each in records:
            by_partition.setdefault(TopicPartition(each.topic, each.partition), []).append(each)
            if self._options.verbose:
                _print_record(each)
        self._count += len(records)
        summaries = [
            {**_named(each), "count": len(found), "minOffset": found[0].offset, "maxOffset": found[-1].offset}
            for each, found in by_partition.items()
        ]
        print_event("records_consumed", count=len(records), partitions=summaries)
        if not self._options.enable_autocommit:
            self._commit({each: found[-1].offset + 1 for each, found in by_partition.items()})

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        shown = [{**_named(each), "offset": offset} for each, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except FencedInstanceId:
            raise
        except (OttlaError, TimeoutError) as error:
            print_event("offsets_committed", offsets=shown, error=message_of(error), success=False)
        else:
            print_event("offsets_committed", offsets=shown, success=True)


def _named(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


def _print_record(record: Any) -> None:
    key, text = (None if each is None else each.decode("utf-8", "replace") for each in (record.key, record.value))
    print_event(
        "record_data", key=key, value=text, topic=record.topic, partition=record.partition, offset=record.offset
    )
