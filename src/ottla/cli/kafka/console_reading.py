"""What kafka-console-consumer and kafka-console-share-consumer have in common: options, formatters, and when it is
enough.

1. They end after --max-messages, after --timeout-ms without a record, at Ctrl-C, or when nobody reads their output, and
   say on stderr how many records they processed.
2. Formatters: the default one, the one that prints nothing, the one that logs as well, and those for the cluster's own
   topics (stored_printer.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final, Protocol

from ottla.cli.kafka.cluster import file_settings, pairs_of, renamed
from ottla.cli.kafka.ends import warn
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.parser import BOOTSTRAP, Options, flag, number, value
from ottla.cli.kafka.record_printer import RecordPrinter, UnreadableBytes
from ottla.cli.output import FAILED, INTERRUPTED, OK
from ottla.errors import OttlaError

PACKAGE: Final = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER: Final = PACKAGE + "DefaultMessageFormatter"
POLL_S: Final = 0.25
POLL_RECORDS: Final = 500
READING: Final = (
    BOOTSTRAP,
    value("topic", "the topic to read", "topic"),
    value("consumer-property", "old name of --command-property", "consumer_prop"),
    value("command-property", "a setting of the consumer; may be repeated", "consumer_prop"),
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
    number("max-messages", "end after so many records", "num_messages"),
    number("timeout-ms", "end after so many milliseconds without a record", "timeout_ms"),
    value("key-deserializer", "what reads keys", "deserializer for key"),
    value("value-deserializer", "what reads values", "deserializer for values"),
    flag("enable-systest-events", "say when it ends"),
)
"""Options of both commands."""
Printer = Callable[[Any, BinaryIO], None]


def settings_and_group(options: Options, old_config: str) -> tuple[dict[str, object], str | None]:
    """The settings of the file and over them those of the command line, and the group that all of them mean."""
    property_option = renamed(options, "consumer-property", "command-property", "Option")
    config_option = renamed(options, old_config, "command-config", "Option")
    settings: dict[str, object] = {}
    if (path := options.value(config_option)) is not None:
        settings |= file_settings(path)
    extra = pairs_of(options.values(property_option))
    places = [options.value("group"), settings.get("group.id"), extra.get("group.id")]
    groups = list(dict.fromkeys(str(each) for each in places if each is not None))
    if len(groups) > 1:
        shown = ", ".join(f"'{each}'" for each in groups)
        options.wrong(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--{old_config}') do not match. Detected group ids: {shown}"
        )
    return settings | extra, groups[0] if groups else None


# --- printing --------------------------------------------------------------------------------------------------------


def printer_of(options: Options) -> Printer:
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


class Poll(Protocol):
    """How records are taken."""

    def __call__(self, timeout: float, /, *, max_records: int) -> Sequence[Any]: ...


class Reading:
    """Prints what comes, and knows when it is enough."""

    def __init__(self, options: Options, printer: Printer) -> None:
        from ottla.clock import SystemClock

        self.count = 0
        self._says_when_it_ends = options.has("enable-systest-events")
        self._printer = printer
        self._limit = options.number("max-messages")
        timeout_ms = options.number("timeout-ms")
        self._timeout_ms = None if timeout_ms is None or timeout_ms < 0 else timeout_ms
        self._clock = SystemClock()
        self._stdout = sys.stdout.buffer

    def report_on(self, read: Callable[[], int]) -> int:
        """Read, and tell how it went and how many there were."""
        try:
            code = read()
        except (OttlaError, TimeoutError) as error:
            warn(f"Unknown error when running consumer: {described(error)}")
            code = FAILED
        warn(f"Processed a total of {self.count} messages")
        if self._says_when_it_ends:
            print("shutdown_complete")
        return code

    def until_the_end(self, poll: Poll) -> int:
        last_ms = self._clock.monotonic_ms()
        try:
            while self._limit is None or self._limit == -1 or self.count < self._limit:
                records = poll(POLL_S, max_records=self._room())
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
        printed = []
        for record in records:
            self.count += 1
            try:
                self._printer(record, self._stdout)
            except UnreadableBytes as error:
                self._unreadable(record, str(error))
            else:
                printed.append(record)
        self._stdout.flush()
        self._printed(printed)

    def _unreadable(self, record: Any, why: str) -> None:
        """A record cannot be printed: the end, unless the command knows better."""
        raise OttlaError(why)

    def _printed(self, records: Sequence[Any]) -> None:
        """These are out."""
