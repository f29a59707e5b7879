"""kafka-console-share-consumer: records of a topic on standard output, read as a member of a share group.

1. What is printed is accepted, or with --reject or --release that. A record that cannot be printed ends the command and
   comes again, or is rejected with --reject-message-on-error.
2. Only as many records are acquired as are wanted, so that other members get the rest. What was acquired and did not
   come out is released at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.cli.kafka.console_reading import READING, Printer, Reading, printer_of, settings_and_group
from ottla.cli.kafka.ends import warn
from ottla.cli.kafka.parser import Options, flag, parse, value

SUMMARY: Final = "This tool helps to read data from Kafka topics using share groups and outputs it to standard output."
NAME: Final = "console-share-consumer"
"""The group and the client, unless they are named."""
OPTIONS: Final = (
    *READING,
    value("consumer-config", "old name of --command-config", "config file"),
    flag("reject", "reject records that were printed: nobody gets them again"),
    flag("release", "release records that were printed: somebody gets them again"),
    flag("reject-message-on-error", "reject records that cannot be printed, and go on"),
    value("group", "the share group", "share group id"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-console-share-consumer", SUMMARY, OPTIONS, words)
    if not options.has("topic"):
        options.wrong("--topic is a required argument")
    options.require("bootstrap-server")
    if options.has("reject") and options.has("release"):
        options.wrong("At most one of --reject and --release may be specified.")
    settings, group = settings_and_group(options, "consumer-config")
    for deserializer in ("key.deserializer", "value.deserializer"):
        settings.pop(deserializer, None)  # the formatter gets bytes
    settings.setdefault("client.id", NAME)
    settings.setdefault("share.acquire.mode", "record_limit")
    settings |= {
        "bootstrap.servers": options.text("bootstrap-server"),
        "group.id": group or NAME,
        "share.acknowledgement.mode": "explicit",
    }
    return _consume(options, settings, printer_of(options))


def _consume(options: Options, settings: dict[str, object], printer: Printer) -> int:
    from ottla.client.share.share_consumer import ShareConsumer

    reading = _ShareReading(options, printer)

    def read() -> int:
        with ShareConsumer(options.text("topic"), settings) as consumer:
            return reading.until_the_end(consumer.poll)

    return reading.report_on(read)


class _ShareReading(Reading):
    """Says of each record what became of it."""

    def __init__(self, options: Options, printer: Printer) -> None:
        super().__init__(options, printer)
        self._said = next((each for each in ("reject", "release") if options.has(each)), "accept")
        self._rejects = options.has("reject-message-on-error")

    def _unreadable(self, record: Any, why: str) -> None:
        if not self._rejects:
            super()._unreadable(record, why)
        warn(f"Error processing message, rejecting this message: {why}")
        record.reject()

    def _printed(self, records: Sequence[Any]) -> None:
        for record in records:
            getattr(record, self._said)()
