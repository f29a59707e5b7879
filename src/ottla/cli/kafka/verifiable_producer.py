"""kafka-verifiable-producer: writes numbers that count up, and tells of each whether it was acknowledged.

SIGTERM and Ctrl-C end it in order: what was sent is waited for, then it says how much there was.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import file_settings
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.events import print_event
from ottla.cli.kafka.java_errors import class_of, described, message_of
from ottla.cli.output import OK
from ottla.clock import SystemClock
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

PACE_S: Final = 0.01


def _parser() -> ToolParser:
    parser = ToolParser(
        prog="verifiable-producer",
        description="This tool produces increasing integers to the specified topic and prints JSON metadata to stdout.",
    )
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="where to write")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT", help="one or more brokers")
    parser.add_argument("--max-messages", type=int, default=-1, metavar="N", help="how many; -1: until it is ended")
    parser.add_argument("--throughput", type=int, default=-1, metavar="N", help="records/sec; -1: no limit")
    parser.add_argument("--acks", type=int, choices=(0, 1, -1), default=-1, help="who must have it (-1)")
    parser.add_argument("--producer.config", dest="producer_config", help="old name of --command-config")
    parser.add_argument("--message-create-time", type=int, default=-1, metavar="MS", help="time of the first record")
    parser.add_argument("--value-prefix", type=int, metavar="N", help="a number and a dot before every value")
    parser.add_argument("--repeating-keys", type=int, metavar="N", help="keys from 0 to N-1, again and again")
    parser.add_argument("--command-config", metavar="FILE", help="a file with settings of the producer")
    return parser


def run(words: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parsed(words)
    settings = _settings(parser, options)
    from ottla.client.producer.producer import Producer

    try:
        work = _Work(options, Producer(settings))
    except OttlaError as error:
        fail(described(error))
    before = signal.signal(signal.SIGTERM, work.stop)
    try:
        work.run()
    except KeyboardInterrupt:
        pass
    finally:
        work.close()
        signal.signal(signal.SIGTERM, before)
    return OK


def _settings(parser: ToolParser, options: argparse.Namespace) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": options.bootstrap_server,
        "acks": str(options.acks),
        "retries": "0",
    }
    if options.acks != -1:
        settings["enable.idempotence"] = "false"
    if options.producer_config is not None:
        if options.command_config is not None:
            parser.error("Options --producer.config and --command-config are mutually exclusive.")
        print(
            "Option --producer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    if (path := options.command_config or options.producer_config) is not None:
        settings |= file_settings(path)
    return settings


class _Work:
    """Sends until it is enough, or until somebody says so."""

    def __init__(self, options: argparse.Namespace, producer: Producer) -> None:
        self._options = options
        self._producer = producer
        self._clock = SystemClock()
        self._started_ms = self._clock.now_ms()
        self._create_ms: int | None = None if options.message_create_time == -1 else options.message_create_time
        self._is_over = False
        self._sent = self._acked = 0

    def stop(self, *_: object) -> None:
        self._is_over = True

    def run(self) -> None:
        print_event("startup_complete")
        limit = self._options.max_messages
        while not self._is_over and (limit < 0 or self._sent < limit):
            self._send(self._sent)
            self._keep_pace()

    def _send(self, number: int) -> None:
        options = self._options
        keys = options.repeating_keys
        key = None if keys is None else str(number % keys)
        text = str(number) if options.value_prefix is None else f"{options.value_prefix}.{number}"
        self._sent += 1
        try:
            self._producer.send(
                options.topic,
                text.encode(),
                key=None if key is None else key.encode(),
                timestamp_ms=self._create_time(),
                on_delivery=lambda metadata, error: self._ended(key, text, metadata, error),
            )
        except (OttlaError, TimeoutError) as error:
            self._ended(key, text, None, error)

    def _create_time(self) -> int | None:
        found = self._create_ms
        if found is not None:
            self._create_ms = found + self._clock.now_ms() - self._started_ms
        return found

    def _ended(self, key: str | None, text: str, metadata: Any, error: BaseException | None) -> None:
        topic = self._options.topic
        if error is None:
            self._acked += 1
            print_event(
                "producer_send_success",
                key=key,
                value=text,
                offset=-1 if metadata.offset is None else metadata.offset,
                topic=topic,
                partition=metadata.partition,
            )
        else:
            name, message = f"class {class_of(error)}", message_of(error, topic)
            print_event("producer_send_error", key=key, value=text, topic=topic, exception=name, message=message)

    def _keep_pace(self) -> None:
        rate = self._options.throughput
        if rate >= 0:
            import time

            while not self._is_over and self._is_ahead(rate):
                time.sleep(PACE_S)

    def _is_ahead(self, rate: int) -> bool:
        return rate == 0 or self._sent * 1000 > rate * max(self._clock.now_ms() - self._started_ms, 1)

    def close(self) -> None:
        from ottla.client.producer.values import SendFailed

        try:
            self._producer.close()
        except SendFailed:
            pass  # each was told when it failed
        print_event("shutdown_complete")
        elapsed_ms = max(self._clock.now_ms() - self._started_ms, 1)
        print_event(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._options.throughput,
            avg_throughput=1000 * self._acked / elapsed_ms,
        )
