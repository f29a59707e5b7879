"""kafka-console-consumer: records of a topic on standard output.

1. Without a group it reads as console-consumer-N and commits nothing; with one it commits what it has printed.
2. It ends after --max-messages, after --timeout-ms without a record, at Ctrl-C, or when nobody reads its output, and
   says on stderr how many records it processed.
3. console_reading.py has what it shares with kafka-console-share-consumer: formatters, and when it is enough.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.console_reading import READING, Printer, Reading, printer_of, settings_and_group
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.parser import Options, flag, number, parse, value

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

SUMMARY: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
EARLIEST, LATEST = -2, -1
OPTIONS: Final = (
    *READING,
    value("include", "a regular expression of topics to read", "Java regex (String)"),
    number("partition", "the partition to read, from its end unless --offset says otherwise", "partition"),
    value("offset", "where to begin: a number, earliest or latest", "consume offset", default="latest"),
    value("consumer.config", "old name of --command-config", "config file"),
    flag("from-beginning", "begin with the oldest record unless the group has committed"),
    flag("skip-message-on-error", "pass over records that cannot be printed"),
    value("isolation-level", "read_committed or read_uncommitted", default="read_uncommitted"),
    value("group", "read as a member of this group", "consumer group id"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-console-consumer", SUMMARY, OPTIONS, words)
    _check(options)
    settings, group = settings_and_group(options, "consumer.config")
    if group is not None and options.has("partition"):
        options.wrong("Options group and partition cannot be specified together.")
    settings = _settings(options, settings, group)
    start = _start(options)
    return _consume(options, settings, start, printer_of(options))


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


# --- reading ---------------------------------------------------------------------------------------------------------


def _consume(options: Options, settings: dict[str, object], start: int, printer: Printer) -> int:
    from ottla.client.consumer.consumer import Consumer

    reading = _Skipping(options, printer) if options.has("skip-message-on-error") else Reading(options, printer)

    def read() -> int:
        with Consumer(settings) as consumer:
            _subscribe(consumer, options, start)
            return reading.until_the_end(consumer.poll)

    return reading.report_on(read)


class _Skipping(Reading):
    """Passes over what cannot be printed."""

    def _unreadable(self, record: Any, why: str) -> None:
        warn(f"Error processing message, skipping this message: {why}")


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
