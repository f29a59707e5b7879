"""kafka-dump-log: what is in the files of a log, without a broker: records, indexes, snapshots of producers.

1. Nothing is changed or locked; the files of a running broker can be looked at.
2. Lines are those of Apache's tool. log_files.py reads the files, as for `ottla log`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli import log_files
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.parser import OPTIONAL, Option, Options, flag, number, parse, value
from ottla.cli.output import OK
from ottla.cluster.raft.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from ottla.cluster.raft.snapshots import parse_name
from ottla.errors import CorruptMessage, OttlaError
from ottla.records import MessageSet, RecordBatch
from ottla.records.layout import TimestampType

SUMMARY: Final = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly "
    "corrupt log segment."
)
NO_LIMIT: Final = 2**31 - 1
STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"
DECODERS: Final = (STRING_DECODER, "org.apache.kafka.tools.api.DefaultDecoder")
STORED: Final = {
    "offsets-decoder": "OFFSETS",
    "transaction-log-decoder": "TRANSACTIONS",
    "share-group-state-decoder": "SHARE_STATE",
}
OPTIONS: Final = (
    value("files", "REQUIRED: files, with commas between them", "file1, file2, ..."),
    flag("print-data-log", "print keys and values"),
    flag("verify-index-only", "check indexes and print nothing else"),
    flag("index-sanity-check", "only the check that a broker makes at its start"),
    number("max-message-size", "bytes of the largest batch", "size", default=5 * 1024 * 1024),
    number("max-bytes", "read no more than so many bytes of a log", "size", default=NO_LIMIT),
    flag("deep-iteration", "look at records, not only at batches"),
    Option("value-decoder-class", "how values are read", OPTIONAL, str, "class", STRING_DECODER),
    Option("key-decoder-class", "how keys are read", OPTIONAL, str, "class", STRING_DECODER),
    flag("offsets-decoder", "read records as those of __consumer_offsets"),
    flag("transaction-log-decoder", "read records as those of __transaction_state"),
    flag("cluster-metadata-decoder", "read records as those of the metadata log"),
    flag("remote-log-metadata-decoder", "read records as those of tiered storage; there are none here"),
    flag("share-group-state-decoder", "read records as those of __share_group_state"),
    flag("skip-record-metadata", "only keys and values"),
)
Contents = Callable[[Any], str]
"""Key and value of a record, as text."""


def run(words: Sequence[str]) -> int:
    options = parse("kafka-dump-log", SUMMARY, OPTIONS, words)
    options.require("files")
    if options.has("remote-log-metadata-decoder"):
        fail("--remote-log-metadata-decoder: records of tiered storage are not read here")
    dump = _Dump(options)
    for word in options.text("files").split(","):
        try:
            dump.file(Path(word))
        except OSError as error:
            fail(f"java.nio.file.NoSuchFileException: {error.filename or word}")
    dump.print_problems()
    return OK


class _Dump:
    """Prints files and gathers what is wrong with them, which is told at the end."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._contents = _contents(options)
        self._deep = options.has("deep-iteration") or self._contents is not None
        self._problems: list[str] = []

    def file(self, path: Path) -> None:
        print(f"Dumping {path}")
        kinds: dict[str, Callable[[Path], None]] = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._index,
            ".timeindex": self._time_index,
            ".snapshot": self._snapshot,
            ".txnindex": self._aborted,
        }
        show = kinds.get(path.suffix)
        if show is None:
            warn(f"Ignoring unknown file {path}")
        else:
            show(path)

    def print_problems(self) -> None:
        sys.stdout.flush()
        for each in self._problems:
            warn(each)

    # --- records ---

    def _log(self, path: Path) -> None:
        print(_heading(path))
        limit = self._options.number("max-bytes") or NO_LIMIT
        end, last, gaps = 0, -1, []
        try:
            for position, batch, problem in log_files.batches(path):
                if position + batch.size_bytes > limit:
                    break
                print(_batch_line(position, batch, problem is None))
                end = position + batch.size_bytes
                if self._deep and problem is None:
                    for record in batch.records():
                        if record.offset != last + 1:
                            gaps.append(f"  {last} is followed by {record.offset}")
                        last = record.offset
                        self._record(batch, record)
        except CorruptMessage:
            pass  # what follows is no batch: the line below says how much of it there is
        left = path.stat().st_size - end
        if left > 0 and limit == NO_LIMIT:
            print(f"Found {left} invalid bytes at the end of {path.name}")
        if gaps:
            self._problems += [f"Non-consecutive offsets in {path.absolute()}", *gaps]

    def _record(self, batch: RecordBatch | MessageSet, record: Any) -> None:
        line = ""
        if not self._options.has("skip-record-metadata"):
            line = _record_line(batch, record)
        is_control = isinstance(batch, RecordBatch) and batch.is_control
        if self._contents is not None and not is_control:
            shown = self._shown(line, record)
            line += (" " if line else "| ") + shown if shown else ""
        print(line)

    def _shown(self, line: str, record: Any) -> str:
        from ottla.cli.kafka.stored_json import MissingKey

        assert self._contents is not None
        try:
            return self._contents(record)
        except MissingKey as error:
            print(line)
            fail(str(error))

    # --- indexes and snapshots ---

    def _index(self, path: Path) -> None:
        entries = log_files.offset_entries(path)
        if not entries or path.stat().st_size == 0:
            print(f"{path} is empty.")
        elif self._options.has("index-sanity-check"):
            print(f"{path} passed sanity check.")
        else:
            wrong = []
            ends = _ends_by_position(path.with_suffix(".log"))
            for entry in entries:
                found = ends.get(entry.position)
                if found != entry.offset:
                    wrong.append(f"  Index offset: {entry.offset}, log offset: {-1 if found is None else found}")
                if not self._options.has("verify-index-only"):
                    print(f"offset: {entry.offset} position: {entry.position}")
            if wrong:
                self._problems += [f"Mismatches in :{path.absolute()}", *wrong]

    def _time_index(self, path: Path) -> None:
        if self._options.has("index-sanity-check"):
            print(f"{path} passed sanity check.")
            return
        times = _times_by_last_offset(path.with_suffix(".log"))
        missing, wrong, before = [], [], -1
        for entry in log_files.time_entries(path):
            found = times.get(entry.offset)
            if found is None:
                later = min((last for last in times if last >= entry.offset), default=-1)
                missing.append(f"Indexed offset: {entry.offset}, found log offset: {later}")
            elif found != entry.timestamp_ms:
                wrong.append(f"  Index timestamp: {entry.timestamp_ms}, log timestamp: {found}")
            elif before >= entry.timestamp_ms:
                self._problems += [
                    f"Found out of order timestamp in :{path.absolute()}",
                    f"  Index timestamp: {entry.timestamp_ms}, Previously indexed timestamp: {before}",
                ]
            if not self._options.has("verify-index-only"):
                print(f"timestamp: {entry.timestamp_ms} offset: {entry.offset}")
            before = entry.timestamp_ms
        if wrong:
            self._problems += [f"Found timestamp mismatch in :{path.absolute()}", *wrong]
        if missing:
            self._problems += [f"The following indexed offsets are not found in :{path.absolute()}", *missing]

    def _snapshot(self, path: Path) -> None:
        from ottla.storage.producers.snapshot import decode_snapshot

        try:
            entries = decode_snapshot(path.read_bytes())
        except OttlaError as error:
            warn(str(error))
            return
        for each in entries:
            open_since = each.transaction_first_offset
            line = (
                f"producerId: {each.producer_id} producerEpoch: {each.epoch} "
                f"coordinatorEpoch: {each.coordinator_epoch} currentTxnFirstOffset: {_optional(open_since)} "
                f"lastTimestamp: {each.last_timestamp_ms}"
            )
            if each.batches:
                first = each.batches[0]
                line += (
                    f" firstSequence: {first.first_sequence} lastSequence: {first.last_sequence} "
                    f"lastOffset: {first.last_offset} offsetDelta: {first.offset_delta} timestamp: {first.timestamp_ms}"
                )
            print(line)

    def _aborted(self, path: Path) -> None:
        for each in log_files.aborted_entries(path):
            print(
                f"version: 0 producerId: {each.producer_id} firstOffset: {each.first_offset} "
                f"lastOffset: {each.last_offset} lastStableOffset: {each.last_stable_offset}"
            )


# --- lines -----------------------------------------------------------------------------------------------------------


def _heading(path: Path) -> str:
    if path.suffix != SNAPSHOT_SUFFIX:
        return f"Log starting offset: {log_files.base_offset_of(path)}"
    snapshot = parse_name(path.name)
    if snapshot is None:
        return "KRaft bootstrap snapshot"
    return f"Snapshot end offset: {snapshot.id.end_offset}, epoch: {snapshot.id.epoch}"


def _java(condition: object) -> str:
    return "true" if condition else "false"


def _optional(number_or_none: int | None) -> str:
    return "OptionalLong.empty" if number_or_none is None else f"OptionalLong[{number_or_none}]"


def _time_name(batch: RecordBatch | MessageSet) -> str:
    is_append = isinstance(batch, RecordBatch) and batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return "LogAppendTime" if is_append else "CreateTime"


def _batch_line(position: int, batch: RecordBatch | MessageSet, is_valid: bool) -> str:
    if isinstance(batch, MessageSet):
        return (
            f"offset: {batch.next_offset - 1} position: {position} CreateTime: -1 size: {batch.size_bytes} "
            f"isvalid: {_java(is_valid)}"
        )
    horizon = batch.base_timestamp_ms if batch.has_delete_horizon else None
    last_sequence = batch.base_sequence
    if last_sequence >= 0:
        last_sequence = (last_sequence + batch.last_offset_delta) & 0x7FFFFFFF
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
        f"isTransactional: {_java(batch.is_transactional)} isControl: {_java(batch.is_control)} "
        f"deleteHorizonMs: {_optional(horizon)} position: {position} "
        f"{_time_name(batch)}: {batch.max_timestamp_ms} size: {batch.size_bytes} magic: {batch.magic} "
        f"compresscodec: {batch.compression.name.lower()} crc: {batch.crc} isvalid: {_java(is_valid)}"
    )


def _record_line(batch: RecordBatch | MessageSet, record: Any) -> str:
    sizes = [-1 if each is None else len(each) for each in (record.key, record.value)]
    line = (
        f"| offset: {record.offset} {_time_name(batch)}: {record.timestamp_ms} keySize: {sizes[0]} "
        f"valueSize: {sizes[1]}"
    )
    if isinstance(batch, RecordBatch):
        sequence = batch.base_sequence
        if sequence >= 0:
            sequence = (sequence + record.offset - batch.base_offset) & 0x7FFFFFFF
        line += f" sequence: {sequence} headerKeys: [{','.join(name for name, _ in record.headers)}]"
        if batch.is_control:
            line += _marker(record)
    return line


def _marker(record: Any) -> str:
    from ottla.records.control import read_control_type

    kind = read_control_type(record.key)
    name = getattr(kind, "name", None)
    if name is None:
        return f" controlType: UNKNOWN({int(kind)})"
    if name not in ("ABORT", "COMMIT"):
        from ottla.cli.kafka.metadata_json import control_text

        return f" {control_text(int(kind), record.value)}"
    epoch = int.from_bytes(record.value[2:6], "big", signed=True)
    return f" endTxnMarker: {name} coordinatorEpoch: {epoch}"


def _contents(options: Options) -> Contents | None:
    if options.has("cluster-metadata-decoder"):
        from ottla.cli.kafka.metadata_json import metadata_text

        return lambda record: _joined(None, metadata_text(record.value, record.offset))
    for name, constant in STORED.items():
        if options.has(name):
            from ottla.cli.kafka import stored_json

            kinds = stored_json.kinds_of(getattr(stored_json, constant))
            return lambda record: _joined(*stored_json.stored_text(kinds, record.key, record.value, record.offset))
    for name in ("key-decoder-class", "value-decoder-class"):
        if options.text(name) not in DECODERS:
            print(f"Dumping {options.text('files').partition(',')[0]}")
            fail(f"Failed to load decoder class: {options.text(name)}")
    if not any(map(options.has, ("print-data-log", "key-decoder-class", "value-decoder-class"))):
        return None
    return lambda record: _joined(_text(record.key), _text(record.value))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _joined(key: str | None, payload: str | None) -> str:
    parts = [] if key is None else [f"key: {key}"]
    return " ".join(parts + ([] if payload is None else [f"payload: {payload}"]))


# --- what indexes should say -----------------------------------------------------------------------------------------


def _batches(path: Path) -> Iterator[tuple[int, RecordBatch]]:
    try:
        for position, batch, _ in log_files.batches(path, check=False):
            if isinstance(batch, RecordBatch):
                yield position, batch
    except CorruptMessage:
        return  # what comes behind the last whole batch is told by the dump of the log itself


def _ends_by_position(path: Path) -> dict[int, int]:
    return {position: batch.last_offset for position, batch in _batches(path)}


def _times_by_last_offset(path: Path) -> dict[int, int]:
    return {batch.last_offset: batch.max_timestamp_ms for _, batch in _batches(path)}
