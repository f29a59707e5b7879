"""kafka-console-consumer: records of a topic on standard output.

1. Without a group it reads as console-consumer-N and commits nothing; with one it commits what it has printed.
2. It ends after --max-messages, after --timeout-ms without a record, at Ctrl-C, or when nobody reads its output, and
   says on stderr how many records it processed.
3. Formatters: the default one, the one that prints nothing, the one that logs as well, and those for the cluster's own
   topics (stored_printer.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ottla.cli.kafka.cluster import file_settings, pairs_of, renamed
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.parser import BOOTSTRAP, Options, flag, number, parse, value
from ottla.cli.kafka.record_printer import RecordPrinter, UnreadableBytes
from ottla.cli.output import FAILED, INTERRUPTED, OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

SUMMARY: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
PACKAGE: Final = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER: Final = PACKAGE + "DefaultMessageFormatter"
EARLIEST, LATEST = -2, -1
POLL_S: Final = 0.25
POLL_RECORDS: Final = 500
OPTIONS: Final = (
    BOOTSTRAP,
    value("topic", "the topic to read", "topic"),
    value("include", "a regular expression of topics to read", "Java regex (String)"),
    number("partition", "the partition to read, from its end unless --offset says otherwise", "partition"),
    value("offset", "where to begin: a number, earliest or latest", "consume offset", default="latest"),
    value("consumer-property", "old name of --command-property", "consumer_prop"),
    value("command-property", "a setting of the consumer; may be repeated", "consumer_prop"),
    value("consumer.config", "old name of --command-config", "config file"),
    value("command-config", "a file with settings of the consumer", "config file"),
    value("formatter", "what prints records", "class", default=DEFAULT_FORMATTER),
    value("property", "old name of --formatter-property", "prop"),
    value(
        "formatter-property",
        "print.timestamp, print.key, print.offset, print.partition, print.headers, print.value, print.epoch, "
        "print.delivery, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
        "value.deserializer, headers.deserializer",
        "prop",
    ),
    value("formatter-config", "a file with properties of the formatter", "config file"),
    flag("from-beginning", "begin with the oldest record unless the group has committed"),
    number("max-messages", "end after so many records", "num_messages"),
    number("timeout-ms", "end after so many milliseconds without a record", "timeout_ms"),
    flag("skip-message-on-error", "pass over records that cannot be printed"),
    value("key-deserializer", "what reads keys", "deserializer for key"),
    value("value-deserializer", "what reads values", "deserializer for values"),
    flag("enable-systest-events", "say when it ends"),
    value("isolation-level", "read_committed or read_uncommitted", default="read_uncommitted"),
    value("group", "read as a member of this group", "consumer group id"),
)
Printer = Callable[[Any, BinaryIO], None]


def run(words: Sequence[str]) -> int:
    options = parse("kafka-console-consumer", SUMMARY, OPTIONS, words)
    _check(options)
    property_option = renamed(options, "consumer-property", "command-property", "Option")
    config_option = renamed(options, "consumer.config", "command-config", "Option")
    settings: dict[str, object] = {}
    if (path := options.value(config_option)) is not None:
        settings |= file_settings(path)
    extra = pairs_of(options.values(property_option))
    group = _group(options, settings, extra)
    settings = _settings(options, settings | extra, group)
    start = _start(options)
    return _consume(options, settings, start, _printer(options))


def _check(options: Options) -> None:
    options.one_of("topic", "include")
    if options.has("partition"):
        if not options.has("topic"):
            options.wrong("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            options.wrong("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        options.wrong("The partition is required when offset is specified.")
    options.require("bootstrap-server")


def _group(options: Options, from_file: Mapping[str, object], extra: Mapping[str, str]) -> str | None:
    places = [options.value("group"), from_file.get("group.id"), extra.get("group.id")]
    groups = list(dict.fromkeys(str(each) for each in places if each is not None))
    if len(groups) > 1:
        shown = ", ".join(f"'{each}'" for each in groups)
        options.wrong(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {shown}"
        )
    if groups and options.has("partition"):
        options.wrong("Options group and partition cannot be specified together.")
    return groups[0] if groups else None


def _settings(options: Options, settings: dict[str, object], group: str | None) -> dict[str, object]:
    reset = settings.get("auto.offset.reset")
    if reset is None:
        settings["auto.offset.reset"] = "earliest" if options.has("from-beginning") else "latest"
    elif options.has("from-beginning") and reset != "earliest":
        fail(f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option")
    settings["bootstrap.servers"] = options.text("bootstrap-server")
    settings.setdefault("client.id", "console-consumer")
    if options.has("isolation-level") or "isolation.level" not in settings:
        settings["isolation.level"] = options.text("isolation-level")
    for deserializer in ("key.deserializer", "value.deserializer"):
        settings.pop(deserializer, None)  # the formatter gets bytes
    if group is None:
        settings["group.id"] = f"console-consumer-{int.from_bytes(os.urandom(4), 'big') % 100_000}"
        settings.setdefault("enable.auto.commit", "false")
    else:
        settings["group.id"] = group
    return settings


def _start(options: Options) -> int:
    """The offset to begin with in the one partition that is read."""
    if not options.has("offset"):
        return EARLIEST if options.has("from-beginning") else LATEST
    text = options.text("offset")
    named = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if named is not None:
        return named
    if not text.isdigit():
        options.wrong(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(text)


# --- printing --------------------------------------------------------------------------------------------------------


def _printer(options: Options) -> Printer:
    name = options.text("formatter")
    if name not in FORMATTERS:
        return _stored(options, name)
    option = renamed(options, "property", "formatter-property", "Option")
    properties: dict[str, str] = {}
    if (path := options.value("formatter-config")) is not None:
        properties |= {key: str(text) for key, text in file_settings(path).items()}
    for setting, flag_name in (("key.deserializer", "key-deserializer"), ("value.deserializer", "value-deserializer")):
        if wanted := options.value(flag_name):
            properties[setting] = wanted
    return FORMATTERS[name](properties | pairs_of(options.values(option)))


def _stored(options: Options, name: str) -> Printer:
    from ottla.cli.kafka.stored_printer import STORED, StoredPrinter

    if name.removeprefix(PACKAGE) not in STORED:
        options.wrong(name)
    return StoredPrinter(name.removeprefix(PACKAGE))


def _silent(_: Mapping[str, str]) -> Printer:
    return lambda record, stream: None


def _logging(properties: Mapping[str, str]) -> Printer:
    plain = RecordPrinter(properties)

    def show(record: Any, stream: BinaryIO) -> None:
        plain(record, stream)
        key, text = (None if each is None else each.decode("utf-8", "replace") for each in (record.key, record.value))
        warn(f"CreateTime:{record.timestamp_ms}, key:{_java(key)}, value:{_java(text)}")

    return show


def _java(text: str | None) -> str:
    return "null" if text is None else text


FORMATTERS: Final[Mapping[str, Callable[[Mapping[str, str]], Printer]]] = {
    DEFAULT_FORMATTER: RecordPrinter,
    PACKAGE + "NoOpMessageFormatter": _silent,
    PACKAGE + "LoggingMessageFormatter": _logging,
}


# --- reading ---------------------------------------------------------------------------------------------------------


def _consume(options: Options, settings: dict[str, object], start: int, printer: Printer) -> int:
    from ottla.client.consumer.consumer import Consumer

    reading = _Reading(options, printer)
    try:
        with Consumer(settings) as consumer:
            _subscribe(consumer, options, start)
            code = reading.until_the_end(consumer)
    except (OttlaError, TimeoutError) as error:
        warn(f"Unknown error when running consumer: {described(error)}")
        code = FAILED
    warn(f"Processed a total of {reading.count} messages")
    if options.has("enable-systest-events"):
        print("shutdown_complete")
    return code


def _subscribe(consumer: Consumer, options: Options, start: int) -> None:
    from ottla.values import TopicPartition

    partition = options.number("partition")
    if partition is None:
        if options.has("topic"):
            consumer.subscribe([options.text("topic")])
        else:
            consumer.subscribe(pattern=options.text("include"))
        return
    wanted = TopicPartition(options.text("topic"), partition)
    consumer.assign([wanted])
    if start == EARLIEST:
        consumer.seek_to_beginning(wanted)
    elif start == LATEST:
        consumer.seek_to_end(wanted)
    else:
        consumer.seek(wanted, start)


class _Reading:
    """Prints what comes, and knows when it is enough."""

    def __init__(self, options: Options, printer: Printer) -> None:
        from ottla.clock import SystemClock

        self.count = 0
        self._printer = printer
        self._limit = options.number("max-messages")
        timeout_ms = options.number("timeout-ms")
        self._timeout_ms = None if timeout_ms is None or timeout_ms < 0 else timeout_ms
        self._skip = options.has("skip-message-on-error")
        self._clock = SystemClock()
        self._stdout = sys.stdout.buffer

    def until_the_end(self, consumer: Consumer) -> int:
        last_ms = self._clock.monotonic_ms()
        try:
            while self._limit is None or self._limit == -1 or self.count < self._limit:
                records = consumer.poll(POLL_S, max_records=self._room())
                if records:
                    self._print(records)
                    last_ms = self._clock.monotonic_ms()
                elif self._timeout_ms is not None and self._clock.monotonic_ms() - last_ms > self._timeout_ms:
                    warn(
                        "Error processing message, terminating consumer process: "
                        "org.apache.kafka.common.errors.TimeoutException"
                    )
                    break
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            warn("Unable to write to standard out, closing consumer.")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK

    def _room(self) -> int:
        """No more than is wanted is taken, so that no more than was printed is committed."""
        if self._limit is None or self._limit == -1:
            return POLL_RECORDS
        return min(self._limit - self.count, POLL_RECORDS)

    def _print(self, records: Sequence[Any]) -> None:
        for record in records:
            self.count += 1
            try:
                self._printer(record, self._stdout)
            except UnreadableBytes as error:
                if not self._skip:
                    raise OttlaError(str(error)) from None
                warn(f"Error processing message, skipping this message: {error}")
        self._stdout.flush()
