"""Given records become files, and the plan reads these instead of topics: everything behind that is the real plan.

1. The rows of a topic are what `format("ottla")` would give for these records: the same columns, decoded by the same
   code (formats.py), with the place of each record. They are kept as Parquet, one file for each batch.
2. Rows of a files source are written in its own format (CSV with its header and separator), and read as ever.
3. A streaming source takes one file at a time, in their order: a batch of the test is a micro-batch of Spark. A source
   that a batch does not name has an empty file there, so that batches of several sources stay side by side.
4. Offsets count up in each partition, times are those that are given, else BEGIN and a second more for each record:
   nothing depends on the clock.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.pipelines.batches import TOPICS
from ottla.spark.pipelines.faults import PipelineWrong
from ottla.spark.pipelines.operations import Flow, Read, Target, View
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.testing.cases import Given

if TYPE_CHECKING:
    import pyarrow

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
MEMORY: Final = Target("memory", {})
FILES_AT_ONCE: Final = "maxFilesPerTrigger"
_REGISTRY: Final = "schemaregistryurl"
SETTINGS: Final = {"spark.sql.streaming.schemaInference": "true"}
"""A stream of the files written here takes its columns from them."""


def plan_of_test(
    plan: Plan, batches: Sequence[Mapping[str, Given]], sinks: Collection[str], rows_of: Iterable[str], place: Path
) -> Plan:
    """The same plan, reading what is given and writing into memory: these sinks, all dead letters, and the datasets in
    `rows_of`."""
    views = tuple(_view(view, batches, place) for view in plan.views)
    wanted = [flow for flow in plan.flows if flow.name in sinks or flow.dead_letters_of is not None]
    flows = [_in_memory(flow) for flow in wanted]
    flows += [Flow(table_of(name), name, (), MEMORY) for name in rows_of]
    settings = {**plan.settings, **SETTINGS}
    return dataclasses.replace(plan, storage=str(place / "storage"), views=views, flows=tuple(flows), settings=settings)


def table_of(dataset: str) -> str:
    """The table in memory with the rows of a source or step."""
    return f"{dataset}__rows"


def _in_memory(flow: Flow) -> Flow:
    """The rows or records of a flow; of one that replaces rows all that it would write in turn."""
    operations = flow.target.batch.record if flow.target.batch is not None else flow.operations
    return dataclasses.replace(flow, operations=operations, target=dataclasses.replace(MEMORY, mode=flow.target.mode))


def _view(view: View, batches: Sequence[Mapping[str, Given]], place: Path) -> View:
    read = view.beginning
    if not isinstance(read, Read):
        return view
    source = view.name.partition("__")[0]
    inputs = [batch.get(source) for batch in batches]
    if read.format != TOPICS and not any(inputs):
        return view  # the pipeline's own files
    directory = place / "given" / source
    directory.mkdir(parents=True, exist_ok=True)
    made = _topic(source, read, inputs, directory) if read.format == TOPICS else _files(read, inputs, directory)
    return dataclasses.replace(view, beginning=made)


def _in_order(files: Iterable[Path]) -> None:
    """Spark reads files by their time."""
    for number, file in enumerate(files):
        moment = BEGIN.timestamp() + number
        os.utime(file, (moment, moment))


# --- topics -----------------------------------------------------------------------------------------------------------


def _topic(source: str, read: Read, inputs: Sequence[Given | None], directory: Path) -> Read:
    import pyarrow as pa
    import pyarrow.parquet

    from ottla.spark.formats.formats import RowFormats
    from ottla.spark.source.options import SourceOptions
    from ottla.spark.source.schema import arrow_schema

    options = SourceOptions.parse(_without_registry(source, read.options, inputs), streaming=read.stream)
    formats = RowFormats(options, arrow_schema(options))
    records = _Records(options.value_format, options.value_schema, read.options.get("subscribe", source))
    files = []
    for number, each in enumerate(inputs or [None]):
        batch = records.batch(each.rows if each is not None else (), formats.raw_schema)
        files.append(directory / f"{number:06}.parquet")
        pa.parquet.write_table(pa.Table.from_batches([formats.decoded(batch)]), files[-1])
    _in_order(files)
    return Read("parquet", _one_at_a_time(str(directory), read.stream), read.stream)


def _one_at_a_time(path: str, stream: bool) -> dict[str, str]:
    return {"path": path, **({FILES_AT_ONCE: "1"} if stream else {})}


def _without_registry(source: str, options: Mapping[str, str], inputs: Sequence[Given | None]) -> dict[str, str]:
    """A test asks no registry: the schema stands in the test."""
    if not any(name.lower() == _REGISTRY for name in options):
        return dict(options)
    schema = next((each.schema for each in inputs if each is not None and each.schema is not None), None)
    if schema is None:
        raise PipelineWrong([f"{source}: its schema is in a registry; say it: {{schema: FILE.avsc, rows: [...]}}"])
    return {**{name: value for name, value in options.items() if name.lower() != _REGISTRY}, "valueSchema": schema}


class _Records:
    """Records as the broker would have them, with their places."""

    def __init__(self, value_format: str, value_schema: str | None, topics: str) -> None:
        self._format = value_format
        self._schema = value_schema
        self._topic = topics.partition(",")[0].strip()
        self._ends: dict[tuple[str, int], int] = {}
        self._count = 0

    def batch(self, rows: Sequence[Mapping[str, Any]], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_pylist([self._placed(row) for row in rows], schema=schema)

    def _placed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        topic, partition = str(row.get("topic") or self._topic), int(row.get("partition") or 0)
        offset = int(row.get("offset", self._ends.get((topic, partition), 0)))
        self._ends[topic, partition] = offset + 1
        self._count += 1
        headers = row.get("headers")
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        return {
            "key": as_bytes(row.get("key")),
            "value": self._value(row.get("value")),
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": moment_of(row.get("timestamp")) or BEGIN + timedelta(seconds=self._count - 1),
            "timestampType": 0,
            "headers": [{"key": str(name), "value": as_bytes(value)} for name, value in pairs] or None,
        }

    def _value(self, value: Any) -> bytes | None:
        if self._format == "avro" and isinstance(value, Mapping):
            return _as_avro(value, str(self._schema))
        return as_bytes(value)


def as_bytes(value: Any) -> bytes | None:
    """Bytes and NULL as they are, text as UTF-8, everything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value, default=_in_json).encode()


def _in_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def moment_of(value: Any) -> datetime | None:
    """A time as YAML, ISO or milliseconds say it; one without a zone is in UTC."""
    if value is None:
        return None
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _as_avro(value: Mapping[str, Any], schema: str) -> bytes:
    import fastavro

    text = schema if schema.lstrip().startswith(("{", "[", '"')) else Path(schema).read_text()
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(text)), value)
    return content.getvalue()


# --- files ------------------------------------------------------------------------------------------------------------


def _files(read: Read, inputs: Sequence[Given | None], directory: Path) -> Read:
    files = []
    for number, each in enumerate(inputs):
        if each is not None:
            files.append(directory / f"{number:06}.{read.format}")
            content = each.file.read_bytes() if each.file is not None else _written(read, each.rows)
            files[-1].write_bytes(content)
    _in_order(files)
    return dataclasses.replace(read, options={**read.options, **_one_at_a_time(str(directory), read.stream)})


def _written(read: Read, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows in the format of a source's files."""
    if read.format == "json":
        return b"".join((as_bytes(dict(row)) or b"") + b"\n" for row in rows)
    if read.format == "text":
        return "".join(f"{row.get('value', '')}\n" for row in rows).encode()
    if read.format == "csv":
        return _as_csv(read, rows).encode()
    return _as_table(read, rows)


def _as_csv(read: Read, rows: Sequence[Mapping[str, Any]]) -> str:
    options = {name.lower(): value for name, value in read.options.items()}
    columns = _columns(read) or list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=options.get("sep", options.get("delimiter", ",")), lineterminator="\n")
    if options.get("header", "false").lower() == "true":
        writer.writerow(columns)
    for row in rows:
        writer.writerow("" if (value := row.get(name)) is None else _csv_cell(value) for name in columns)
    return text.getvalue()


def _csv_cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def _columns(read: Read) -> list[str]:
    from ottla.spark.formats.ddl import parse_schema

    return [] if read.schema is None else parse_schema(read.schema).names


def _as_table(read: Read, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Parquet or ORC, with the columns of the source's schema when it has one."""
    import pyarrow as pa
    import pyarrow.orc
    import pyarrow.parquet

    from ottla.spark.formats.ddl import parse_schema
    from ottla.spark.running.arrow_types import as_arrow

    schema = None if read.schema is None else as_arrow(parse_schema(read.schema))
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    content = io.BytesIO()
    if read.format == "orc":
        pa.orc.write_table(table, content)
    else:
        pa.parquet.write_table(table, content)
    return content.getvalue()
