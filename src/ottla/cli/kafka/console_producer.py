"""kafka-console-producer: lines of standard input become records.

1. What is typed is sent as Apache's tool sends it: acks=-1, three retries, batches of 16 KiB that wait for a second;
   options say otherwise, --command-property and --command-config too.
2. A record that is not acknowledged is told on stderr and does not change the exit code, as with Apache's tool; with
   --sync the first one ends the command with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.cluster import check_servers, file_settings, pairs_of, renamed
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.line_reader import LineReader, UnreadableLine
from ottla.cli.kafka.parser import BOOTSTRAP, Options, flag, number, parse, perhaps, value
from ottla.cli.output import OK
from ottla.cli.record_lines import LineRecord, lines_of
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

SUMMARY: Final = "This tool helps to read data from standard input and publish it to Kafka."
READER: Final = "org.apache.kafka.tools.LineMessageReader"
MERGED: Final = {
    "timeout": "linger.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "socket-buffer-size": "send.buffer.bytes",
    "max-memory-bytes": "buffer.memory",
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-block-ms": "max.block.ms",
}
"""Options that are settings of the producer; a setting from a file or a property is stronger than a default here."""
OPTIONS: Final = (
    BOOTSTRAP,
    value("topic", "REQUIRED: the topic to write to", "topic"),
    flag("sync", "wait for every record before the next"),
    perhaps("compression-codec", "none, gzip, snappy, lz4 or zstd; gzip if nothing is said", "compression-codec"),
    number("batch-size", "bytes of a batch", "size", default=16 * 1024),
    number("message-send-max-retries", "how often to try again", default=3),
    number("retry-backoff-ms", "milliseconds before another try", default=100),
    number("timeout", "milliseconds a batch waits for more", "timeout_ms", default=1000),
    value("request-required-acks", "who must have it: 0, 1, -1", "request required acks", default="-1"),
    number("request-timeout-ms", "milliseconds for an answer", "request timeout ms", default=1500),
    number("metadata-expiry-ms", "milliseconds until leaders are asked for again", default=300_000),
    number("max-block-ms", "milliseconds a record waits for room", "max block on send", default=60_000),
    number("max-memory-bytes", "bytes of all that waits", "total memory in bytes", default=32 * 1024 * 1024),
    number("max-partition-memory-bytes", "old name of --batch-size", "memory in bytes", default=16 * 1024),
    value("line-reader", "what reads lines", "reader_class", default=READER),
    number("socket-buffer-size", "bytes of the socket's buffer", "size", default=100 * 1024),
    value("property", "old name of --reader-property", "prop"),
    value(
        "reader-property",
        "parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator, "
        "ignore.error, null.marker",
        "prop",
    ),
    value("reader-config", "a file with properties of the reader", "config file"),
    value("producer-property", "old name of --command-property", "producer_prop"),
    value("command-property", "a setting of the producer; may be repeated", "producer_prop"),
    value("producer.config", "old name of --command-config", "config file"),
    value("command-config", "a file with settings of the producer", "config file"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-console-producer", SUMMARY, OPTIONS, words)
    options.require("topic")
    names = {
        new: renamed(options, old, new, "Warning:", new_first=True)
        for old, new in (
            ("producer-property", "command-property"),
            ("producer.config", "command-config"),
            ("property", "reader-property"),
        )
    }
    if options.has("max-partition-memory-bytes"):
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )
    check_servers(options)
    try:
        reader = _reader(options, names["reader-property"])
        _write(options, _settings(options, names), reader)
    except UnreadableLine as error:
        fail(f"org.apache.kafka.common.KafkaException: {error}")
    except (OttlaError, TimeoutError) as error:
        fail(described(error, options.text("topic")))
    return OK


def _reader(options: Options, property_option: str) -> LineReader:
    name = options.text("line-reader")
    if name != READER:
        fail(f"java.lang.ClassNotFoundException: {name}")
    properties: dict[str, str] = {}
    if (path := options.value("reader-config")) is not None:
        properties |= {key: str(text) for key, text in file_settings(path).items()}
    return LineReader(properties | pairs_of(options.values(property_option)))


def _settings(options: Options, names: Mapping[str, str]) -> dict[str, object]:
    settings: dict[str, object] = {}
    if (path := options.value(names["command-config"])) is not None:
        settings |= file_settings(path)
    settings |= pairs_of(options.values(names["command-property"]))
    settings["bootstrap.servers"] = options.text("bootstrap-server")
    codec = options.value("compression-codec") or "gzip"
    settings["compression.type"] = codec if options.has("compression-codec") else "none"
    settings.setdefault("client.id", "console-producer")
    for option, setting in MERGED.items():
        if options.has(option) or setting not in settings:
            is_text = option == "request-required-acks"
            settings[setting] = options.text(option) if is_text else options.number(option)
    for serializer in ("key.serializer", "value.serializer"):
        settings.pop(serializer, None)  # lines are bytes, whatever the file of settings says
    if str(settings["acks"]) not in ("-1", "all"):
        settings.setdefault("enable.idempotence", "false")  # Java turns it off by itself
    return settings


def _write(options: Options, settings: dict[str, object], reader: LineReader) -> None:
    from ottla.client.producer.producer import Producer
    from ottla.client.producer.values import SendFailed

    topic = options.text("topic")
    prompt = sys.stdin.isatty()
    producer = Producer(settings)
    try:
        for record in reader.records(_prompted(lines_of(sys.stdin.buffer), prompt)):
            _send(producer, topic, record, options.has("sync"))
    finally:
        try:
            producer.close()
        except SendFailed:
            pass  # each was told when it failed


def _prompted(lines: Any, prompt: bool) -> Any:
    """The lines, with a `>` before each where somebody types them."""
    waiting = iter(lines)
    while True:
        if prompt:
            print(">", end="", flush=True)
        try:
            yield next(waiting)
        except StopIteration:
            return


def _send(producer: Producer, topic: str, record: LineRecord, sync: bool) -> None:
    if sync:
        producer.send(topic, record.value, key=record.key, headers=record.headers).result()
    else:
        producer.send(
            topic, record.value, key=record.key, headers=record.headers, on_delivery=_error_printer(topic, record)
        )


def _error_printer(topic: str, record: LineRecord) -> Callable[..., None]:
    def print_error(_: object, error: BaseException | None) -> None:
        if error is not None:
            key, text = (("null" if each is None else f"{len(each)} bytes") for each in (record.key, record.value))
            warn(
                f"Error when sending message to topic {topic} with key: {key}, value: {text} with error: "
                f"{described(error, topic)}"
            )

    return print_error
