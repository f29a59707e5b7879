r"""`ottla produce`: lines become records. The console producer, with what people miss in it.

1. Every line is acknowledged (acks=all unless told otherwise) before the command ends with 0; what could not be written
   is counted, the first reasons are told, and the exit code is 1.
2. Lines from a terminal are sent as they are typed; a file is sent as fast as the cluster takes it, with a progress
   line on a terminal.
3. Ctrl-C sends what was read and then ends.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ottla.cli.connecting import describe, sentences, settings_of, wait_for_listener
from ottla.cli.output import INTERRUPTED, OK, Failure
from ottla.cli.progress import Progress
from ottla.cli.record_lines import LineError, LineRecord, LineRules, lines_of, numbered, record_of_json

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

EXAMPLES: Final = r"""
examples:
  ottla produce clicks                                   type lines, end with Ctrl-D
  echo hello | ottla produce clicks -k greeting
  ottla produce clicks events.txt -K '\t'                lines of key, tab, value
  ottla produce clicks events.jsonl --format json        what `ottla consume -f json` printed
  ottla produce clicks -H trace=7f -z zstd < events.txt
  echo user-7: | ottla produce users -K : -Z ''          a tombstone: -Z says which value means none
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="where lines come from (stdin)")
    parser.add_argument("--format", choices=("line", "json"), default="line", help="what a line is")
    parser.add_argument("-k", "--key", metavar="KEY", help="the key of every record")
    parser.add_argument("-K", "--key-separator", metavar="TEXT", help="what stands between key and value in a line")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="for every record")
    parser.add_argument("--parse-headers", action="store_true", help="lines begin with name:value,name:value and a tab")
    parser.add_argument("-p", "--partition", type=int, metavar="N", help="where to write (the key decides)")
    parser.add_argument("-D", "--delimiter", default="\\n", metavar="TEXT", help="what ends a line (\\n)")
    parser.add_argument("-Z", "--null-marker", metavar="TEXT", help="a value that means: no value")
    parser.add_argument(
        "-z",
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default=None,
        help="how batches are packed",
    )
    parser.add_argument("--acks", choices=("0", "1", "all"), default=None, help="who must have it (all)")
    parser.add_argument("--skip-bad-lines", action="store_true", help="pass over lines that are no records")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing when all went well")
    describe(parser, "write records into a topic, one for each line", run, EXAMPLES)


def run(options: argparse.Namespace) -> int:
    parse = _parser_of(options)
    with sentences():
        producer = _producer(options)
        with _source(options) as (stream, size_bytes):
            return _send_all(options, producer, lines_of(stream, _bytes_of(options.delimiter)), parse, size_bytes)


def _parser_of(options: argparse.Namespace) -> Callable[[bytes], LineRecord]:
    if options.format == "json":
        return record_of_json
    rules = LineRules(
        key_separator=None if options.key_separator is None else _bytes_of(options.key_separator),
        headers=options.parse_headers,
        null_marker=None if options.null_marker is None else _bytes_of(options.null_marker),
    )
    return rules.record


def _producer(options: argparse.Namespace) -> Producer:
    from ottla.client.producer.producer import Producer

    settings = settings_of(options)
    if options.compression is not None:
        settings["compression.type"] = options.compression
    if options.acks is not None:
        settings["acks"] = options.acks
        if options.acks != "all":
            settings.setdefault("enable.idempotence", "false")
    settings.setdefault("max.block.ms", max(int(options.timeout * 1000), 1))
    if sys.stdin.isatty() and options.file is None:
        settings.setdefault("linger.ms", 0)
    wait_for_listener(options, settings)
    return Producer(settings)


@contextlib.contextmanager
def _source(options: argparse.Namespace) -> Iterator[tuple[BinaryIO, int | None]]:
    if options.file is None:
        yield sys.stdin.buffer, None
        return
    try:
        stream = options.file.open("rb")
    except OSError as error:
        raise Failure(f"cannot read {options.file}: {error.strerror}") from None
    with stream:
        yield stream, options.file.stat().st_size


def _header(word: str) -> tuple[str, bytes]:
    """A name may come twice, and spaces of a value are part of it: headers are a list of bytes."""
    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise Failure(f"--header {word}: write it as NAME=VALUE")
    return name.strip(), value.encode()


def _send_all(
    options: argparse.Namespace,
    producer: Producer,
    lines: Iterator[bytes],
    parse: Callable[[bytes], LineRecord],
    size_bytes: int | None,
) -> int:
    sent = skipped = 0
    interrupted = False
    key = None if options.key is None else options.key.encode()
    extra = [_header(word) for word in options.header]
    progress = Progress("produce", total=size_bytes, unit="B") if size_bytes else None
    with producer, progress or contextlib.nullcontext():
        if options.partition is not None:
            _check_partition(producer, options.topic, options.partition)
        try:
            for record in numbered(lines, _within(producer, options.topic, parse)):
                if isinstance(record, LineError):
                    if not options.skip_bad_lines:
                        raise Failure(f"{record}; {sent} records were sent before it. --skip-bad-lines passes over it")
                    skipped += 1
                    continue
                _send(producer, options, record, key, extra)
                sent += 1
                if progress is not None:
                    progress.advance(len(record.value or b"") + len(record.key or b"") + 1)
        except KeyboardInterrupt:
            interrupted = True
        _flush(producer, options.timeout)
    if not options.quiet:
        more = f", {skipped} lines passed over" if skipped else ""
        print(f"{sent} {'record' if sent == 1 else 'records'} written to {options.topic}{more}", file=sys.stderr)
    return INTERRUPTED if interrupted else OK


def _flush(producer: Producer, timeout_s: float) -> None:
    """Whoever has waited for so long does not wait once more for the end of the producer."""
    from ottla.client.producer.values import SendFailed

    try:
        producer.flush(timeout_s)
    except TimeoutError:
        with contextlib.suppress(SendFailed):  # of the records that the time-out is about
            producer.close(0)
        raise


def _check_partition(producer: Producer, topic: str, partition: int) -> None:
    """A producer waits for a partition that may still be made; somebody at a terminal has mistyped it."""
    there = {each.partition for each in producer.partitions_for(topic)}
    if partition not in there:
        raise Failure(f"{topic} has no partition {partition}: it has {len(there)}, 0 to {max(there)}")


def _within(producer: Producer, topic: str, parse: Callable[[bytes], LineRecord]) -> Callable[[bytes], LineRecord]:
    """The same for a line that names its partition: one that the topic does not have is a bad line."""
    there: set[int] = set()

    def record_of(line: bytes) -> LineRecord:
        record = parse(line)
        if record.partition is not None and record.partition not in there:
            there.update(each.partition for each in producer.partitions_for(topic))
            if record.partition not in there:
                raise LineError(f"{topic} has no partition {record.partition}: it has {len(there)}, 0 to {max(there)}")
        return record

    return record_of


def _send(producer: Producer, options: argparse.Namespace, record: LineRecord, key: bytes | None, extra: Any) -> None:
    producer.produce(
        options.topic,
        record.value,
        key=record.key if record.key is not None else key,
        partition=options.partition if options.partition is not None else record.partition,
        timestamp_ms=record.timestamp_ms,
        headers=[*record.headers, *extra],
    )


def _bytes_of(text: str) -> bytes:
    r"""An option's text with its escapes (\n, \t, \x00) made real."""
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode()
    except UnicodeDecodeError:
        raise Failure(f"{text!r} ends in an unfinished escape; write \\\\ for a backslash") from None
