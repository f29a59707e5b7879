"""`ottla log`: look into the files of a log, without a broker. The only command that imports storage and records.

The files are Kafka's, so this reads the data directory of an Apache Kafka broker as well. Nothing is ever written, and
a broker may be running.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.cli.output import FAILED, OK, Failure, Output
from ottla.cli.show import shown_bytes, shown_time

if TYPE_CHECKING:
    from ottla.records import RecordBatch
    from ottla.records.stream import MessageSet

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"

EXAMPLES: Final = """\
examples:
  ottla log list /var/lib/ottla                          the partitions of a data directory
  ottla log dump clicks-0/00000000000000000000.log       its batches
  ottla log dump clicks-0/00000000000000000000.log --records --limit 20
  ottla log dump clicks-0/*.timeindex                    an index, entry by entry
  ottla log verify /var/lib/ottla                        check every CRC and every index
"""
BATCH_HEADINGS: Final = (
    "POSITION", "FIRST OFFSET", "LAST OFFSET", "RECORDS", "BYTES", "CODEC", "LAST TIMESTAMP", "EPOCH", "PRODUCER",
    "SEQUENCE", "KIND", "PROBLEM",
)  # fmt: skip


def add_verbs(verbs: Verbs) -> None:
    listing = _verb(verbs, "list", "the partitions in a data directory", run_list)
    listing.add_argument("directory", type=Path, metavar="DIR", help="a data directory (log.dirs), or one partition's")
    dump = _verb(verbs, "dump", "what is in a segment, an index, a snapshot or a checkpoint", run_dump)
    dump.add_argument("files", type=Path, nargs="+", metavar="FILE")
    dump.add_argument("--records", action="store_true", help="the records of each batch, not only its header")
    dump.add_argument("--from-offset", type=int, default=0, metavar="N", help="begin with this offset")
    dump.add_argument("--limit", type=int, default=None, metavar="N", help="at most so many rows")
    verify = _verb(verbs, "verify", "read everything and hold the indexes against it", run_verify)
    verify.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="data directories, partitions or segments")


def _verb(verbs: Verbs, name: str, help_text: str, run: Callable[[argparse.Namespace], int]) -> Any:
    parser = verbs.add_parser(
        name,
        help=help_text,
        description=f"{help_text[0].upper()}{help_text[1:]}. Reads only; works on Apache Kafka's files too.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)
    return parser


# --- list ------------------------------------------------------------------------------------------------------------


def run_list(options: argparse.Namespace) -> int:
    from ottla.cli import log_files

    directory = _existing(options.directory)
    if not directory.is_dir():
        raise Failure(
            f"{directory} is a file. Give a directory, or look into the file with: ottla log dump {directory}"
        )
    out = Output(sys.stdout, form=options.format)
    if files := log_files.segments(directory):
        rows = [(path.name, log_files.base_offset_of(path), path.stat().st_size) for path in files]
        out.table(("SEGMENT", "FIRST OFFSET", "BYTES"), rows)
        return OK
    found = log_files.partitions(directory)
    if not found:
        raise Failure(f"{directory} holds no log. Partitions are folders such as clicks-0 with .log files in them")
    out.table(("PARTITION", "SEGMENTS", "BYTES", "FIRST OFFSET", "NEXT OFFSET"), found)
    return OK


# --- dump ------------------------------------------------------------------------------------------------------------


def run_dump(options: argparse.Namespace) -> int:
    out = Output(sys.stdout, form=options.format)
    for path in options.files:
        headings, rows = _rows_of(_existing(path), options)
        if len(options.files) > 1:
            out.line(f"# {path}")
        out.table(headings, list(_at_most(rows, options.limit)))
    return OK


Table: TypeAlias = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


def _rows_of(path: Path, options: argparse.Namespace) -> Table:
    from ottla.cli import log_files

    match log_files.kind_of(path):
        case ".log":
            return _segment_rows(path, options)
        case ".index":
            return ("OFFSET", "POSITION"), log_files.offset_entries(path)
        case ".timeindex":
            entries = log_files.time_entries(path)
            return ("TIMESTAMP", "OFFSET"), [(shown_time(each.timestamp_ms), each.offset) for each in entries]
        case ".txnindex":
            return ("PRODUCER", "FIRST OFFSET", "LAST OFFSET", "STABLE OFFSET"), log_files.aborted_entries(path)
        case ".snapshot":
            return _snapshot_rows(path)
        case name if name.endswith("-checkpoint"):
            return _checkpoint_rows(path)
    known = ", ".join((*log_files.SUFFIXES, "*-checkpoint"))
    raise Failure(f"{path.name} is no file of a log that is known here. Known are {known}")


def _segment_rows(path: Path, options: argparse.Namespace) -> Table:
    if options.records:
        headings = ("OFFSET", "TIMESTAMP", "KEY", "VALUE", "HEADERS")
        return headings, _record_rows(path, options.from_offset)
    return BATCH_HEADINGS, _batch_rows(path, options.from_offset)


def _batch_rows(path: Path, from_offset: int) -> Iterator[tuple[object, ...]]:
    from ottla.records import RecordBatch

    for position, batch, problem in _checked_batches(path):
        if isinstance(batch, RecordBatch):
            if batch.last_offset >= from_offset:
                yield (position, *_facts(batch), problem)
        elif batch.next_offset > from_offset:
            facts = (None, batch.next_offset - 1, len(batch.records()), batch.size_bytes)
            yield (position, *facts, None, None, None, None, None, "message set", problem)


def _facts(batch: RecordBatch) -> tuple[object, ...]:
    has_producer = batch.producer_id >= 0
    producer = f"{batch.producer_id}/{batch.producer_epoch}" if has_producer else None
    sequence = batch.base_sequence if has_producer and batch.base_sequence >= 0 else None
    kind = "control" if batch.is_control else "transactional" if batch.is_transactional else None
    return (
        batch.base_offset, batch.last_offset, batch.record_count, batch.size_bytes, batch.compression.name.lower(),
        shown_time(batch.max_timestamp_ms), batch.leader_epoch, producer, sequence, kind,
    )  # fmt: skip


def _record_rows(path: Path, from_offset: int) -> Iterator[tuple[object, ...]]:
    from ottla.records import RecordBatch

    for _, batch, problem in _checked_batches(path):
        if problem is not None:
            yield (None, None, None, problem, None)
            continue
        is_control = isinstance(batch, RecordBatch) and batch.is_control
        for record in batch.records():
            if record.offset >= from_offset:
                value = _marker(record) if is_control else shown_bytes(record.value)
                headers = ", ".join(f"{key}={shown_bytes(value)}" for key, value in record.headers) or None
                yield (record.offset, shown_time(record.timestamp_ms), shown_bytes(record.key), value, headers)


def _marker(record: Any) -> str:
    from ottla.errors import CorruptMessage
    from ottla.records.control import read_control_type

    try:
        kind = read_control_type(record.key)
    except CorruptMessage as error:
        return str(error)
    return f"({kind.name.lower()} marker)" if hasattr(kind, "name") else f"(control record of type {kind})"


def _checked_batches(path: Path) -> Iterator[tuple[int, RecordBatch | MessageSet, str | None]]:
    """The batches; when they end in something that is none, a sentence on stderr after the last good one."""
    from ottla.cli import log_files
    from ottla.errors import CorruptMessage

    try:
        yield from log_files.batches(path)
    except CorruptMessage as error:
        print(f"ottla: {path.name}: {error.detail}; a broker cuts this off when it starts", file=sys.stderr)


def _snapshot_rows(path: Path) -> Table:
    from ottla.errors import OttlaError
    from ottla.storage.producers.snapshot import decode_snapshot

    try:
        entries = decode_snapshot(path.read_bytes())
    except OttlaError as error:
        raise Failure(f"{path}: {error}") from None
    headings = ("PRODUCER", "EPOCH", "LAST SEQUENCE", "LAST OFFSET", "LAST TIMESTAMP", "TRANSACTION SINCE")
    rows = [
        (
            each.producer_id, each.epoch, each.last_sequence, each.last_offset, shown_time(each.last_timestamp_ms),
            each.transaction_first_offset,
        )
        for each in entries
    ]  # fmt: skip
    return headings, rows


def _checkpoint_rows(path: Path) -> Table:
    lines = path.read_text().splitlines()
    rows = [tuple(line.split()) for line in lines[2:]]
    if path.name == "leader-epoch-checkpoint":
        return ("EPOCH", "START OFFSET"), rows
    return ("TOPIC", "PARTITION", "OFFSET"), rows


# --- verify ----------------------------------------------------------------------------------------------------------


def run_verify(options: argparse.Namespace) -> int:
    from ottla.cli import log_files
    from ottla.cli.progress import Progress

    found = [path for root in options.paths for path in _segments_under(_existing(root))]
    if not found:
        raise Failure("there is no segment (.log) in what you named")
    rows, bad = [], 0
    with Progress("verify", total=sum(path.stat().st_size for path in found), unit="B") as progress:
        for path in found:
            verified = log_files.verify_segment(path)
            bad += len(verified.problems)
            rows.append((f"{path.parent.name}/{path.name}", *verified[:4], "; ".join(verified.problems) or "sound"))
            progress.advance(path.stat().st_size)
    headings = ("SEGMENT", "BATCHES", "RECORDS", "FIRST OFFSET", "LAST OFFSET", "RESULT")
    Output(sys.stdout, form=options.format).table(headings, rows)
    return FAILED if bad else OK


def _segments_under(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(each for each in path.rglob("*.log") if each.stem.isdigit())


# --- small parts -----------------------------------------------------------------------------------------------------


def _existing(path: Path) -> Path:
    if not path.exists():
        raise Failure(f"there is no {path}")
    return path


def _at_most(rows: Iterable[tuple[object, ...]], limit: int | None) -> Iterator[tuple[object, ...]]:
    from itertools import islice

    return islice(iter(rows), limit)
