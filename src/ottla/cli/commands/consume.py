"""`ottla consume`: records of topics on the screen, or into the next program.

1. Without a group every partition is read from the beginning (-o says otherwise), nothing is committed, and nobody
   else is disturbed. With a group it begins at the committed offsets and commits what was printed, after printing;
   at its end also where it stands in partitions that had nothing.
2. It follows until Ctrl-C, unless -e (stop at the end), -n (so many records), --until or --idle say when to stop.
3. With --share the group is a share group: a record goes to one of its members, and is accepted when it was printed.
4. Bytes are printed as they are; `-f json` gives one object per line, other formats take kcat's letters.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import describe, ensure, sentences, settings_of, wait_for_listener
from ottla.cli.moments import milliseconds
from ottla.cli.output import INTERRUPTED, OK, Failure
from ottla.cli.record_format import as_json, formatter
from ottla.cli.where import Kind, Where, parse_where
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.cli.share_reading import ShareReading
    from ottla.client.consumer.consumer import Consumer
    from ottla.values import TopicPartition

POLL_S: Final = 0.25
POSITION_S: Final = 1.0
EXAMPLES: Final = r"""
examples:
  ottla consume clicks                              everything, and what comes
  ottla consume clicks -o end                       only what comes
  ottla consume clicks -o -10 -e                    the last ten of each partition
  ottla consume clicks -o @-2h -f json -e           the last two hours, as JSON
  ottla consume clicks -g billing -n 100            a hundred records as a member of a group
  ottla consume clicks --share -g workers -n 10     ten records of a share group, accepted when printed
  ottla consume clicks -f '%t-%p@%o %k: %s\n'       kcat's letters

format: %s value, %S its length, %k key, %K its length, %t topic, %p partition, %o offset, %T time, %h headers,
\n \t \xHH; or json, or value (the default: the value and a newline)
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "-o", "--offset", metavar="WHERE",
        help="beginning, end, stored, N, -N, @TIME; with a group beginning or end, where it has committed nothing",
    )  # fmt: skip
    parser.add_argument("-p", "--partition", type=int, action="append", metavar="N", help="only this; may be repeated")
    parser.add_argument("-n", "--num-records", type=int, metavar="N", help="stop after so many")
    parser.add_argument("-e", "--exit-at-end", action="store_true", help="stop at what was the end at the start")
    parser.add_argument("--until", metavar="TIME", help="stop at records of this time or later")
    parser.add_argument("--idle", type=float, metavar="S", help="stop after so many seconds without a record")
    parser.add_argument("-g", "--group", metavar="GROUP", help="read as a member of this group")
    parser.add_argument("--share", action="store_true", help="the group is a share group")
    parser.add_argument("-f", "--format", default="value", metavar="FORMAT", help="value, json, or letters (see below)")
    parser.add_argument("--read-committed", action="store_true", help="pass over aborted and open transactions")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say how many there were")
    describe(parser, "read records of topics", run, EXAMPLES)


def run(options: argparse.Namespace) -> int:
    shown = _shown(options.format)
    if options.share:
        return _run_share(options, shown)
    where = _where(options)
    until_ms = _moment(options.until)
    ensure(options.group is None or options.partition is None, "a group chooses its partitions: leave out -p or -g")
    with sentences(), _consumer(options, where) as consumer:
        _begin(consumer, options, where)
        return _read(_Reading(consumer, options, shown, until_ms), options)


def _run_share(options: argparse.Namespace, shown: Callable[[Any], bytes]) -> int:
    from ottla.cli.share_reading import ShareReading, check, share_consumer

    check(options)
    with sentences(), share_consumer(options) as consumer:
        return _read(ShareReading(consumer, options, shown), options)


def _read(reading: _Reading | ShareReading, options: argparse.Namespace) -> int:
    try:
        reading.go_on()
        code = OK
    except KeyboardInterrupt:
        code = INTERRUPTED
    reading.commit()
    if not options.quiet and sys.stderr.isatty():
        print("1 record" if reading.count == 1 else f"{reading.count} records", file=sys.stderr)
    return code


def _shown(text: str) -> Callable[[Any], bytes]:
    if text == "json":
        return as_json
    return formatter(r"%s\n" if text == "value" else text)


def _where(options: argparse.Namespace) -> Where:
    if options.offset is None:
        return Where(Kind.BEGINNING if options.group is None else Kind.STORED)
    try:
        return parse_where(options.offset)
    except ValueError as error:
        raise Failure(f"-o {options.offset}: {error}") from None


def _moment(text: str | None) -> int | None:
    try:
        return None if text is None else milliseconds(text)
    except ValueError as error:
        raise Failure(f"--until {text}: {error}") from None


def _consumer(options: argparse.Namespace, where: Where) -> Consumer:
    from ottla.client.consumer.consumer import Consumer

    settings = settings_of(options)
    settings["enable.auto.commit"] = "false"
    timeout_ms = max(int(options.timeout * 1000), 1)
    settings.setdefault("default.api.timeout.ms", timeout_ms)
    settings.setdefault("request.timeout.ms", min(timeout_ms, 30_000))  # a call takes at least one request
    settings["allow.auto.create.topics"] = "false"  # looking at a topic must not make it
    settings.setdefault("auto.offset.reset", "latest" if where.kind is Kind.END else "earliest")
    if options.group is not None:
        settings["group.id"] = options.group
    if options.read_committed:
        settings["isolation.level"] = "read_committed"
    wait_for_listener(options, settings)
    return Consumer(settings)


# --- where to begin --------------------------------------------------------------------------------------------------


def _begin(consumer: Consumer, options: argparse.Namespace, where: Where) -> None:
    if options.group is not None:
        ensure(where.kind in (Kind.STORED, Kind.BEGINNING, Kind.END), "with a group -o can be stored, beginning or end")
        consumer.subscribe(options.topics)
        return
    ensure(where.kind is not Kind.STORED, "-o stored needs a group: add -g GROUP")
    partitions = _partitions(consumer, options)
    consumer.assign(partitions)
    _seek(consumer, partitions, where)


def _partitions(consumer: Consumer, options: argparse.Namespace) -> list[TopicPartition]:
    from ottla.values import TopicPartition

    found: list[TopicPartition] = []
    known = consumer.topics()
    for topic in options.topics:
        ensure(topic in known, f"there is no topic {topic!r}; `ottla topic list` shows which there are")
        there = sorted(each.partition for each in known[topic])
        wanted = there if options.partition is None else options.partition
        unknown = sorted(set(wanted) - set(there))
        ensure(not unknown, f"{topic} has no partition {', '.join(map(str, unknown))}; it has {len(there)}")
        found += [TopicPartition(topic, each) for each in wanted]
    return found


def _seek(consumer: Consumer, partitions: list[TopicPartition], where: Where) -> None:
    match where.kind:
        case Kind.BEGINNING:
            consumer.seek_to_beginning(*partitions)
        case Kind.END:
            consumer.seek_to_end(*partitions)
        case Kind.TIME:
            consumer.seek_to_time(dict.fromkeys(partitions, where.amount))
        case Kind.OFFSET:
            # One that ends before is read from its end: a position that it does not have would be reset.
            ends = consumer.end_offsets(partitions)
            for partition in partitions:
                consumer.seek(partition, min(where.amount, ends[partition]))
        case Kind.BEFORE_END:
            begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            for partition in partitions:
                consumer.seek(partition, max(ends[partition] - where.amount, begins[partition]))
        case Kind.STORED:
            pass


# --- reading ---------------------------------------------------------------------------------------------------------


class _Reading:
    """Prints what comes until it is time to stop."""

    def __init__(
        self, consumer: Consumer, options: argparse.Namespace, shown: Callable[[Any], bytes], until_ms: int | None
    ) -> None:
        self.count = 0
        self._consumer = consumer
        self._options = options
        self._shown = shown
        self._until_ms = until_ms
        self._stdout = sys.stdout.buffer
        self._clock = SystemClock()
        self._last_ms = self._clock.monotonic_ms()
        self._ends: dict[TopicPartition, int] | None = None
        self._printed: dict[TopicPartition, int] = {}
        self._heard: set[TopicPartition] = set()  # partitions that had records for us

    def go_on(self) -> None:
        limit = self._options.num_records
        while limit is None or self.count < limit:
            records = self._consumer.poll(POLL_S, max_records=None if limit is None else min(limit - self.count, 500))
            if not self._print(records) or self._is_over():
                break

    def _print(self, records: list[Any]) -> bool:
        """Whether there may be more."""
        from ottla.values import TopicPartition

        if records or not self._consumer.assignment():
            self._last_ms = self._clock.monotonic_ms()  # while the group shares out partitions nobody is idle
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            self._heard.add(partition)
            if self._until_ms is not None and record.timestamp_ms >= self._until_ms:
                self._consumer.pause(partition)
                if not set(self._consumer.assignment()) - set(self._consumer.paused()):
                    self._stdout.flush()
                    return False
                continue
            if partition in self._consumer.paused():
                continue
            self._stdout.write(self._shown(record))
            self.count += 1
            self._printed[partition] = record.offset + 1
        self._stdout.flush()
        if records and self._options.group is not None:
            self._commit_printed()
        return True

    def _is_over(self) -> bool:
        idle_s = (self._clock.monotonic_ms() - self._last_ms) / 1000
        if self._options.idle is not None and idle_s >= self._options.idle:
            return True
        return bool(self._options.exit_at_end) and self._at_the_end()

    def _at_the_end(self) -> bool:
        assigned = list(self._consumer.assignment())
        if not assigned:
            return False
        if self._ends is None or set(self._ends) != set(assigned):
            self._ends = self._consumer.end_offsets(assigned)
        return all(self._consumer.position(each) >= self._ends[each] for each in assigned)

    def commit(self) -> None:
        """At the end a group also remembers where it stands in partitions that had nothing for it: the next
        run must not pass over what comes there, and it counts as lag."""
        self._commit_printed()
        if self._options.group is None:
            return
        from ottla.errors import OttlaError

        with suppress(OttlaError):  # the position of one may not be known yet, and the next run begins as this one did
            silent = set(self._consumer.assignment()) - self._heard
            if silent:
                self._consumer.commit({each: self._consumer.position(each, timeout=POSITION_S) for each in silent})

    def _commit_printed(self) -> None:
        """Say what was printed, when we are a member of a group."""
        if self._options.group is not None and self._printed:
            owned = set(self._consumer.assignment())
            done = {partition: offset for partition, offset in self._printed.items() if partition in owned}
            self._printed = {}
            if done:
                self._consumer.commit(done)
