"""The thin loop of one table: does what the worker (worker.py) says, and tells it what came of it.

    loop = TableLoop("clicks", settings, table_of("clicks", settings), cluster, registry, clock)
    while not stopped:
        wait_ms = loop.step()

1. Everything that can fail for a moment (a broker, a store, a catalog, a registry) is tried again, later and later, and
   the status says what it waits for; the topic does not notice. Only a commit is different: its lost answer is the
   worker's to judge. Where reading fails the topic is described again before: its log may begin later now.
2. What wants a person halts the table: the reason stands in the status and in the log. A halted table is looked at
   again after HALTED_MS, and at once when its settings change; that is safe, because nothing but the marker is state.
3. A portion is read, decoded, sorted by partition and offset and written; bad records are dead letters before that.
4. The schema grows while files are staged: the table's, with what the staged rows have beside (evolution.py). Where the
   format cannot make a column wider, rows whose values fit go on, and the others are bad records.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.clock import Clock
from ottla.errors import InvalidSetting, OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.schemas.arrow.evolution import Unfit, Widened, evolution, fitted
from ottla.table_settings import DEAD_LETTERS, STOP, TableSettings
from ottla.tables.cluster import Cluster
from ottla.tables.columns import plain_schema
from ottla.tables.decoding import BadRecord, RecordDecoder, Rows
from ottla.tables.finding import OFFSET, PARTITION, LibraryMissing, TopicTable
from ottla.tables.formats import TableFormat, TableRefused, UpkeepRules, Upkept
from ottla.tables.marker import Marker, UnreadableMarker
from ottla.tables.reach import Halt, TopicDescription, gap_sentence
from ottla.tables.worker import (
    Commit,
    DescribeTopic,
    Discard,
    LoadTable,
    Portion,
    Stage,
    State,
    TableRules,
    TableWorker,
    Wait,
)

PORTION_BYTES: Final = 33_554_432
FIRST_RECORD_BYTES: Final = 1_000
SAMPLE_RECORDS: Final = 1_000
RETRY_MS: Final = 1_000
RETRY_MAX_MS: Final = 60_000
HALTED_MS: Final = 300_000
BAD_TOLD: Final = 3
"""So many bad records of a portion are told one by one in the log."""

log = logging.getLogger(__name__)


@dataclass
class TableStatus:
    """How a table is doing, for people."""

    topic: str
    state: str = "starting"
    reason: str = ""
    epoch: int = 0
    next_offsets: Mapping[int, int] = field(default_factory=dict)
    end_offsets: Mapping[int, int] = field(default_factory=dict)
    begin_offsets: Mapping[int, int] = field(default_factory=dict)
    behind_since_ms: float | None = None
    commits: int = 0
    rows: int = 0
    read_bytes: int = 0
    bad_records: int = 0
    last_bad: str = ""
    last_commit_ms: int = 0
    upkeep: str = ""

    @property
    def records_behind(self) -> int:
        """Offsets that the table does not have yet."""
        return sum(
            max(0, end - max(self.next_offsets.get(partition, 0), self.begin_offsets.get(partition, 0)))
            for partition, end in self.end_offsets.items()
        )


def rules_of(settings: TableSettings) -> TableRules:
    """What the settings of a topic say to the worker."""
    return TableRules(
        lag_ms=settings.ottla_table_lag_ms,
        commit_bytes=settings.ottla_table_commit_bytes,
        portion_bytes=min(PORTION_BYTES, settings.ottla_table_commit_bytes),
        poll_interval_ms=min(1_000, settings.ottla_table_lag_ms),
        stops_at_gaps=settings.ottla_table_gaps == STOP,
    )


class NotYet(OttlaError):
    """A table cannot begin yet. The message says what it waits for."""


class TableLoop:
    """Runs the worker of one table; called by one thread at a time."""

    def __init__(
        self,
        topic: str,
        settings: TableSettings,
        where: TopicTable,
        cluster: Cluster,
        registry: SchemaRegistry | None,
        clock: Clock,
        opened: Callable[[TopicTable], TableFormat] = TopicTable.opened,
    ) -> None:
        self.settings = settings
        self.status = TableStatus(topic)
        self._topic = topic
        self._where = where
        self._cluster = cluster
        self._registry = registry
        self._clock = clock
        self._opened = opened
        self._fields = settings.partition_fields
        self._failures = 0
        self._begin()

    def _begin(self) -> None:
        """From the marker again, with nothing remembered."""
        self._worker = TableWorker(rules_of(self.settings))
        self._format: TableFormat | None = None
        self._decoder: RecordDecoder | None = None
        self._schema: pa.Schema | None = None
        self._described: TopicDescription | None = None
        self._record_bytes = FIRST_RECORD_BYTES
        self._files = 0
        self._upkeep_at_ms: float | None = None

    # -- one step ------------------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Do the next thing; after how many milliseconds to come again."""
        action = self._worker.next()
        try:
            wait_ms = self._act(action)
        except (TableRefused, UnreadableMarker, InvalidSetting, LibraryMissing) as error:
            return self._halted(str(error))
        except Exception as error:
            return self._failed(action, error)
        self._failures = 0
        return wait_ms

    def _act(self, action: Any) -> float:
        match action:
            case LoadTable():
                self._load()
            case DescribeTopic():
                self._describe()
            case Stage():
                self._show("reading")
                self._stage(action)
            case Commit():
                self._commit(action)
            case Discard():
                self._drop_staged()
                self._worker.discarded()
            case Wait():
                return self._wait(action)
            case Halt():
                return self._halted(action.reason, passes=not action.is_final)
        return 0.0

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_ms())

    def _table(self) -> TableFormat:
        if self._format is None:
            self._format = self._opened(self._where)
        return self._format

    def _wait(self, action: Wait) -> float:
        self._upkeep_if_due()
        left_ms = action.until_ms - self._now_ms()
        if left_ms > 0:
            self._show("waiting" if self.status.records_behind else "current")
            return float(left_ms)
        self._worker.woken()
        return 0.0

    def _show(self, state: str, reason: str = "") -> None:
        self.status.state, self.status.reason = state, reason

    def _failed(self, action: Any, error: Exception) -> float:
        """Something did not work for now; commits are the worker's to judge."""
        sentence = _sentence(error)
        log.log(
            logging.WARNING if self.status.reason != sentence else logging.DEBUG,
            "table %s: %s is tried again: %s",
            self._topic,
            type(action).__name__,
            sentence,
            exc_info=not isinstance(error, OttlaError | OSError) and log.isEnabledFor(logging.DEBUG),
        )
        self._show("failing", sentence)
        if isinstance(action, Commit):
            self._worker.answer_lost(self._now_ms())
        elif isinstance(action, Stage):
            self._worker.staged(Portion((), {}, 0, None), self._now_ms())  # nothing: the topic is looked at again
        self._failures += 1
        return float(min(RETRY_MAX_MS, RETRY_MS * 2 ** min(self._failures - 1, 10)))

    def _halted(self, reason: str, *, passes: bool = False) -> float:
        """Nothing more until a person has looked; what stands in the table stays right."""
        if self.status.state != "halted" or self.status.reason != reason:
            log.error("table %s halts: %s", self._topic, reason)
        self._show("halted", reason)
        self._drop_staged()
        self._begin()  # nothing but the marker is state, so looking again is beginning again
        return float(RETRY_MAX_MS if passes else HALTED_MS)

    def close(self) -> None:
        """Another process has the table now, or nobody: what no commit names is deleted, as far as that works."""
        self._drop_staged()
        self._show("stopped")

    def _drop_staged(self) -> None:
        files = self._worker.abandoned()
        if not files or self._format is None:
            return
        try:
            self._format.discard(files)
        except Exception as error:
            log.info("table %s: %d files without a commit are left to the upkeep: %s", self._topic, len(files), error)

    # -- the table and its topic ---------------------------------------------------------------------------------------

    def _load(self) -> None:
        loaded = self._table().load()
        if loaded.schema is not None:
            self._table().check_partitioning(self._fields)
        self._schema = loaded.schema
        self._note(loaded.marker)
        self._worker.table_loaded(loaded.marker)

    def _note(self, marker: Marker | None) -> None:
        if marker is not None:
            self.status.epoch, self.status.next_offsets = marker.epoch, marker.next_offsets

    def _describe(self) -> None:
        topic = self._described = self._cluster.describe(self._topic)
        self.status.end_offsets = {partition: seen.last_stable for partition, seen in topic.partitions.items()}
        self.status.begin_offsets = {partition: seen.log_start for partition, seen in topic.partitions.items()}
        now_ms = self._clock.monotonic_ms()
        if not self.status.records_behind:
            self.status.behind_since_ms = None
        elif self.status.behind_since_ms is None:
            self.status.behind_since_ms = now_ms
        self._worker.topic_described(topic, self._now_ms())

    def _commit(self, action: Commit) -> None:
        schema = action.schema or self._schema
        if schema is None:
            schema = self._first_schema()
        assert isinstance(schema, pa.Schema), "a portion of ours has a schema of Arrow"
        is_claim = self._worker.state is State.CLAIMING
        if action.gaps:
            log.warning("table %s: %s", self._topic, gap_sentence(action.gaps))
        if self._table().commit(action, schema, self._fields):
            self._worker.committed(self._now_ms())
            self._note(self._worker.marker)
            self._committed(action)
            if is_claim:
                self._schema = self._table().load().schema
                log.info("table %s: claimed with epoch %d", self._topic, action.after.epoch)
        else:
            self._worker.refused(self._table().load().marker, self._now_ms())

    def _committed(self, action: Commit) -> None:
        self.status.commits += 1
        self.status.last_commit_ms = self._clock.now_ms()
        self.status.behind_since_ms = None
        self._upkeep_if_due()

    def _first_schema(self) -> pa.Schema:
        """The columns that a new table begins with; its partition fields must be among them."""
        known = self._columns_of(self._decoded().empty())
        if any(each.column not in known.names for each in self._fields):
            known = self._columns_of(self._sample())
        return known

    def _columns_of(self, rows: pa.Schema) -> pa.Schema:
        plain = plain_schema(rows)
        if isinstance(plain, Unfit):
            raise TableRefused(f"the schema of {self._topic} has no columns: {plain.reason}")
        return plain

    def _sample(self) -> pa.Schema:
        """What the first records have: a table that is partitioned by one of their columns has to begin with it."""
        assert self._described is not None, "a table is claimed behind the description of its topic"
        ranges = {
            partition: (seen.log_start, min(seen.last_stable, seen.log_start + SAMPLE_RECORDS))
            for partition, seen in self._described.partitions.items()
            if seen.last_stable > seen.log_start
        }
        decoder = self._decoded()
        found = self._columns_of(decoder.empty())
        for batch in self._cluster.read(self._topic, self._described.topic_id, ranges):
            change = evolution(found, self._columns_of(decoder.decode(batch).batch.schema))
            found = found if isinstance(change, Unfit) else change.schema
        missing = [each for each in self._fields if each.column not in found.names]
        if missing and not ranges:
            raise NotYet(f"the table is partitioned by {missing[0]}, and no record has said yet what that is")
        return found

    def _decoded(self) -> RecordDecoder:
        if self._decoder is None:
            self._decoder = RecordDecoder(self._topic, self.settings, self._registry)
        self._decoder.begin(self._schema)
        return self._decoder

    # -- portions ------------------------------------------------------------------------------------------------------

    def _stage(self, action: Stage) -> None:
        assert self._described is not None, "a topic is described before it is read"
        ranges = clipped(action.ranges, max(1, action.bytes_max // self._record_bytes))
        decoder = self._decoded()
        batches: list[pa.RecordBatch] = []
        ends = {partition: start for partition, (start, _) in ranges.items()}
        size = 0
        for batch in self._cluster.read(self._topic, self._described.topic_id, ranges):
            batches.append(batch)
            size += batch.nbytes
            if size > 2 * action.bytes_max:
                break  # records are larger than those before: the rest is read in the next portion
        else:
            ends = {partition: end for partition, (_, end) in ranges.items()}
        for batch in batches:
            for partition, last in _last_offsets(batch).items():
                ends[partition] = max(ends[partition], last + 1)
        count = sum(batch.num_rows for batch in batches)
        if count:
            self._record_bytes = max(1, size // count)
        known = self._schema
        files, halt = self._write(decoder, batches)
        if halt is not None:
            self._schema = known
            self._worker.staging_stopped(halt)
            return
        self.status.rows += count
        self.status.read_bytes += size
        schema = self._schema if files else None
        self._worker.staged(Portion(files, ends, size, schema), self._now_ms())

    def _write(self, decoder: RecordDecoder, batches: Sequence[pa.RecordBatch]) -> tuple[tuple[str, ...], Halt | None]:
        """The files with the rows of these records; a Halt when a bad record stops the table."""
        good: list[pa.RecordBatch] = []
        for batch in batches:
            rows = self._into_table(decoder.decode(batch))
            if rows.bad:
                halt = self._bury(batch, rows.bad)
                if halt is not None:
                    return (), halt
            if rows.batch.num_rows:
                good.append(rows.batch)
        if not good:
            return (), None
        assert self._schema is not None, "rows have columns"
        assert self._described is not None, "a topic is described before it is read"
        whole = pa.Table.from_batches([fitted(batch, self._schema) for batch in good], schema=self._schema)
        self._files += 1
        assert self._worker.marker is not None, "a table is claimed before its rows are written"
        epoch = self._worker.marker.epoch
        name = f"topic-{self._described.topic_id}/{epoch}-{self._files}-{uuid.uuid4().hex[:8]}"
        return self._table().stage(_ordered(whole), name, self._fields), None

    def _into_table(self, rows: Rows) -> Rows:
        """The rows as the table can have them; the others are bad."""
        plain = plain_schema(rows.batch.schema)
        if isinstance(plain, Unfit):
            return _all_bad(rows, plain.reason)
        batch = rows.batch.select(plain.names)
        if batch.schema != plain:
            batch = batch.cast(plain)
        if self._schema is None:
            self._schema = plain
        change = evolution(self._schema, plain)
        if isinstance(change, Unfit):
            return _all_bad(rows, change.reason)
        narrow = [each for each in change.widened if not self._table().can_widen(each)]
        if narrow:
            batch, reasons = narrowed(batch, narrow)
            bad = tuple(sorted((*rows.bad, *_bad_rows(rows, reasons))))
            again = evolution(self._schema, batch.schema)
            if isinstance(again, Unfit):
                return _all_bad(rows, again.reason)
            rows, change = Rows(batch, bad), again
            mask = pa.array([row not in reasons for row in range(batch.num_rows)])
            batch = batch.filter(mask)
        self._schema = change.schema
        return Rows(batch, rows.bad)

    def _bury(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> Halt | None:
        """What the topic's setting says of bad records."""
        first = bad[0]
        sentence = f"partition {first.partition} offset {first.offset} is no row of the table: {first.reason}"
        if self.settings.ottla_table_invalid == STOP:
            return Halt(f"{sentence}. Repair what reads it, or set ottla.table.invalid to dead_letters or skip")
        for each in bad[:BAD_TOLD]:
            log.warning("table %s: partition %d offset %d: %s", self._topic, each.partition, each.offset, each.reason)
        if len(bad) > BAD_TOLD:
            log.warning("table %s: and %d more bad records", self._topic, len(bad) - BAD_TOLD)
        if self.settings.ottla_table_invalid == DEAD_LETTERS:
            into = self.settings.dead_letters_of(self._topic)
            self._cluster.send_dead_letters(into, self._topic, batch, bad)
        self.status.bad_records += len(bad)
        self.status.last_bad = sentence
        return None

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def _upkeep_if_due(self) -> None:
        """Between two commits, when there is time; a failure is told and is no failure of the table."""
        now_ms = self._clock.monotonic_ms()
        if self._worker.marker is None or self._schema is None:
            return
        if self._upkeep_at_ms is None:
            self._upkeep_at_ms = now_ms + self.settings.ottla_table_upkeep_ms
        if now_ms < self._upkeep_at_ms:
            return
        self._upkeep_at_ms = now_ms + self.settings.ottla_table_upkeep_ms
        try:
            self.upkeep()
        except Exception as error:
            self.status.upkeep = f"failed: {_sentence(error)}"
            log.warning("table %s: upkeep is tried again later: %s", self._topic, _sentence(error))

    def upkeep(self) -> Upkept:
        """One round of it."""
        rules = UpkeepRules(self.settings.ottla_table_file_bytes, self.settings.ottla_table_retention_ms)
        done = self._table().upkeep(rules, self._clock.now_ms())
        self.status.upkeep = str(done)
        log.info("table %s: upkeep: %s", self._topic, done)
        return done


# -- plain -------------------------------------------------------------------------------------------------------------


def clipped(ranges: Mapping[int, tuple[int, int]], records: int) -> dict[int, tuple[int, int]]:
    """About so many records of these ranges, from all of them the same share."""
    left = sorted(ranges.items(), key=lambda each: each[1][1] - each[1][0])
    found = {}
    for number, (partition, (start, end)) in enumerate(left):
        share = max(1, records // (len(left) - number))
        found[partition] = (start, min(end, start + share))
        records -= found[partition][1] - start
    return dict(sorted(found.items()))


def _last_offsets(batch: pa.RecordBatch) -> dict[int, int]:
    table = pa.table([batch.column(PARTITION), batch.column(OFFSET)], names=[PARTITION, OFFSET])
    found = table.group_by(PARTITION).aggregate([(OFFSET, "max")])
    return dict(zip(found.column(PARTITION).to_pylist(), found.column(f"{OFFSET}_max").to_pylist(), strict=True))


def _ordered(rows: pa.Table) -> pa.Table:
    """By partition and offset; each batch lies in that order already."""
    least = pc.min_max(rows.column(PARTITION)).as_py()
    if least["min"] == least["max"]:
        return rows
    return rows.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


def _bad_rows(rows: Rows, reasons: Mapping[int, str]) -> list[BadRecord]:
    """Bad ones among rows that were decoded; where they stood in their batch is found by their offsets."""
    places, offsets = rows.batch.column(PARTITION), rows.batch.column(OFFSET)
    return [
        BadRecord(rows.row_of(row), places[row].as_py(), offsets[row].as_py(), reason)
        for row, reason in reasons.items()
    ]


def _all_bad(rows: Rows, reason: str) -> Rows:
    reasons = dict.fromkeys(range(rows.batch.num_rows), reason)
    return Rows(rows.batch.slice(0, 0), tuple(sorted((*rows.bad, *_bad_rows(rows, reasons)))))


def narrowed(batch: pa.RecordBatch, widened: Sequence[Widened]) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The batch in the types that the table has, and why some rows have no place in them."""
    reasons: dict[int, str] = {}
    columns = {field.name: batch.column(field.name) for field in batch.schema}
    for each in widened:
        name = each.path[0]
        if len(each.path) > 1:
            reasons |= dict.fromkeys(range(batch.num_rows), _cannot(each))
            continue
        column = columns[name]
        back = column.cast(each.before, safe=False)
        same = pc.fill_null(pc.equal(back.cast(column.type, safe=False), column), True)
        for row in pc.indices_nonzero(pc.invert(same)).to_pylist():
            reasons[row] = _cannot(each, column[row].as_py())
        columns[name] = back
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema), reasons


def _cannot(change: Widened, value: Any = None) -> str:
    what = f"has {value}" if value is not None else f"would be {change.after}"
    return f"column {'.'.join(change.path)} is {change.before} in the table, which cannot be changed, and {what}"


def _sentence(error: Exception) -> str:
    """What went wrong in one line; libraries write several."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 500 else f"{text[:500]}..."
