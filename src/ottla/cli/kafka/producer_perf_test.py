"""kafka-producer-perf-test: how fast records are written, with the result line that people parse.

1. Payloads are random capital letters of --record-size, lines of --payload-file at random, or numbers that count up.
2. Records are sent in portions, small ones when there is a rate to keep; the latency of a portion is that of its last
   record. producer_figures.py counts and prints.
3. With a transactional id, or a duration of transactions, everything is written in transactions of that length.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import file_settings
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.producer_figures import Figures
from ottla.cli.operations.load import keep_pace, portion_size, send_portion
from ottla.cli.output import OK
from ottla.clock import SystemClock
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

PORTION: Final = 500
TRANSACTION_MS: Final = 3000
LETTERS: Final = bytes(range(65, 91))
FILE_LIMIT_BYTES: Final = 1 << 30
Payload = Callable[[int], bytes]
"""The value of the record with this number."""


def _parser() -> ToolParser:
    parser = ToolParser(
        prog="kafka-producer-perf-test", description="This tool is used to verify the producer performance."
    )
    parser.add_argument("--bootstrap-server", metavar="BOOTSTRAP-SERVER", help="one or more brokers")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="where to write")
    parser.add_argument("--num-records", type=int, required=True, metavar="NUM-RECORDS", help="how many records")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, metavar="RECORD-SIZE", help="bytes of a record")
    payload.add_argument("--payload-file", metavar="PAYLOAD-FILE", help="a file of UTF-8 text with the values")
    payload.add_argument("--payload-monotonic", action="store_true", help="values are numbers that count up")
    parser.add_argument("--payload-delimiter", default="\\n", metavar="TEXT", help="what stands between values (\\n)")
    parser.add_argument("--throughput", type=float, required=True, metavar="RATE", help="records/sec; -1: no limit")
    parser.add_argument("--producer-props", nargs="+", metavar="NAME=VALUE", help="old name of --command-property")
    parser.add_argument("--command-property", nargs="+", metavar="NAME=VALUE", help="settings of the producer")
    parser.add_argument("--producer.config", dest="producer_config", help="old name of --command-config")
    parser.add_argument("--command-config", metavar="CONFIG-FILE", help="a file with settings of the producer")
    parser.add_argument("--print-metrics", action="store_true", help="print metrics at the end")
    parser.add_argument("--transactional-id", metavar="ID", help="write in transactions under this id")
    parser.add_argument("--transaction-duration-ms", type=int, metavar="MS", help="how long a transaction is (3000)")
    parser.add_argument("--warmup-records", type=int, default=0, metavar="N", help="left out of a second result line")
    parser.add_argument("--reporting-interval", type=int, default=5000, metavar="MS", help="how often to report")
    return parser


def run(words: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parsed(words)
    _check(parser, options)
    payload = _payload(options)
    settings = _settings(options)
    from ottla.client.producer.producer import Producer

    try:
        _Test(options, payload, Producer(settings)).run()
    except (OttlaError, TimeoutError) as error:
        fail(described(error, options.topic))
    return OK


def _check(parser: ToolParser, options: argparse.Namespace) -> None:
    sources = (
        options.bootstrap_server,
        options.command_property,
        options.producer_props,
        options.producer_config,
        options.command_config,
    )
    for wrong, text in (
        (options.num_records <= 0, "--num-records should be greater than zero."),
        (
            options.warmup_records >= options.num_records,
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records.",
        ),
        (
            options.record_size is not None and options.record_size <= 0,
            "--record-size should be greater than zero.",
        ),
        (
            all(each is None for each in sources),
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
            "--command-config must be specified.",
        ),
        (
            options.command_property is not None and options.producer_props is not None,
            "--command-property and --producer-props cannot be specified together.",
        ),
        (
            options.command_config is not None and options.producer_config is not None,
            "--command-config and --producer.config cannot be specified together.",
        ),
        (
            options.transaction_duration_ms is not None and options.transaction_duration_ms <= 0,
            "--transaction-duration-ms should be greater than zero.",
        ),
        (options.reporting_interval <= 0, "--reporting-interval should be greater than zero."),
    ):
        if wrong:
            parser.error(text)


def _payload(options: argparse.Namespace) -> Payload:
    random = Random(0)
    if options.payload_file is not None:
        values = _file_payloads(options.payload_file, options.payload_delimiter)
        return lambda number: random.choice(values)
    if options.payload_monotonic:
        return lambda number: b"%d" % number
    return lambda number: random.randbytes(options.record_size).translate(_TO_LETTERS)


_TO_LETTERS: Final = bytes(LETTERS[byte % len(LETTERS)] for byte in range(256))


def _file_payloads(path: str, delimiter: str) -> list[bytes]:
    from pathlib import Path

    file = Path(path)
    print(f"Reading payloads from: {file.absolute()}")
    if not file.is_file() or not file.stat().st_size:
        fail("File does not exist or empty file provided.")
    if file.stat().st_size > FILE_LIMIT_BYTES:
        fail(f"The payload file is larger than {FILE_LIMIT_BYTES} bytes.")
    values = file.read_text("utf-8").split("\n" if delimiter == "\\n" else delimiter)
    if not values[-1]:
        values.pop()
    print(f"Number of records read: {len(values)}")
    return [each.encode() for each in values]


def _settings(options: argparse.Namespace) -> dict[str, object]:
    for old, new, present in (
        ("producer-props", "command-property", options.producer_props),
        ("producer.config", "command-config", options.producer_config),
    ):
        if present is not None:
            print(f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.")
    settings: dict[str, object] = {}
    if (path := options.command_config or options.producer_config) is not None:
        settings |= file_settings(path)
    for word in options.command_property or options.producer_props or ():
        name, _, text = word.partition("=")
        if not name or not text or "=" in text:
            fail(f"Invalid property: {word}")
        settings[name] = text
    for serializer in ("key.serializer", "value.serializer"):
        settings.pop(serializer, None)  # payloads are bytes
    settings.setdefault("client.id", "perf-producer-client")
    if options.bootstrap_server is not None:
        settings["bootstrap.servers"] = options.bootstrap_server
    _add_transactions(options, settings)
    return settings


def _add_transactions(options: argparse.Namespace, settings: dict[str, object]) -> None:
    wanted = options.transaction_duration_ms or options.transactional_id or settings.get("transactional.id")
    if not wanted:
        return
    from os import urandom

    from ottla.values import random_uuid, uuid_to_text

    made = f"performance-producer-{uuid_to_text(random_uuid(urandom))}"
    settings["transactional.id"] = options.transactional_id or settings.get("transactional.id") or made
    options.transaction_duration_ms = options.transaction_duration_ms or TRANSACTION_MS


class _Test:
    """Writes what was asked for and counts it."""

    def __init__(self, options: argparse.Namespace, payload: Payload, producer: Producer) -> None:
        self._options = options
        self._payload = payload
        self._producer = producer
        self._clock = SystemClock()
        self._transaction_ms: int | None = options.transaction_duration_ms
        self._begun_ms: float | None = None
        self._all = Figures(self._clock, options.reporting_interval)
        self._steady: Figures | None = None

    def run(self) -> None:
        options, producer = self._options, self._producer
        if options.warmup_records > 0:
            print(
                f"Warmup first {options.warmup_records} records. Steady state results will print after the complete "
                "test summary."
            )
        try:
            if self._transaction_ms is not None:
                producer.init_transactions()
            self._send_all()
            if self._begun_ms is not None:
                producer.commit_transaction()
            self._end()
        finally:
            self._close()
        if options.print_metrics:
            from ottla.cli.kafka.metric_table import print_metrics

            print_metrics(producer.metrics())

    def _end(self) -> None:
        from ottla.client.producer.values import SendFailed

        try:
            self._producer.flush()
        except SendFailed as error:
            warn(str(error))
        self._all.print_total()
        if self._steady is not None:
            self._steady.print_total()

    def _close(self) -> None:
        from ottla.client.producer.values import SendFailed

        try:
            self._producer.close()
        except SendFailed:
            pass  # told by flush

    def _send_all(self) -> None:
        sent, total, warmup = 0, self._options.num_records, max(self._options.warmup_records, 0)
        rate = self._options.throughput
        size = portion_size(rate, PORTION)
        started_ms = self._clock.monotonic_ms()
        while sent < total:
            until = warmup if sent < warmup else total
            values = [self._payload(sent + place) for place in range(min(size, until - sent))]
            if warmup and sent == warmup:
                self._steady = Figures(self._clock, self._options.reporting_interval, steady=True)
                self._all.be_quiet()
            self._begin()
            self._send(values)
            sent += len(values)
            self._commit()
            keep_pace(self._clock, started_ms, sent, rate)

    def _send(self, values: list[bytes]) -> None:
        ended = partial(self._ended, sum(map(len, values)), self._steady)
        send_portion(self._producer, self._options.topic, values, ended, self._clock)

    def _ended(self, size: int, steady: Figures | None, count: int, sent_ms: float, future: Any) -> None:
        if (error := future.exception()) is not None:
            warn(described(error, self._options.topic))
            return
        latency_ms = self._clock.monotonic_ms() - sent_ms
        self._all.add(latency_ms, count, size)
        if steady is not None:
            steady.add(latency_ms, count, size)

    def _begin(self) -> None:
        if self._transaction_ms is not None and self._begun_ms is None:
            self._producer.begin_transaction()
            self._begun_ms = self._clock.monotonic_ms()

    def _commit(self) -> None:
        begun_ms, length_ms = self._begun_ms, self._transaction_ms
        if begun_ms is not None and length_ms is not None and self._clock.monotonic_ms() - begun_ms >= length_ms:
            self._producer.commit_transaction()
            self._begun_ms = None
