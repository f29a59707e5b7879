"""Delta and Iceberg as the worker wants them: commits that are comparisons, columns that come later, upkeep."""

import os
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.schemas.arrow.evolution import evolution
from ottla.table_settings import TableSettings
from ottla.tables.columns import BASE_SCHEMA
from ottla.tables.finding import table_of
from ottla.tables.formats import TableRefused, UpkeepRules
from ottla.tables.marker import Marker
from ottla.tables.worker import Commit
from ottla.values import uuid_to_text

TOPIC_ID = uuid_to_text(bytes(range(16)))
PLAIN = pa.schema([*BASE_SCHEMA, ("key", pa.binary()), ("id", pa.int64())])
WIDE = pa.schema(
    [*PLAIN, ("place", pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])), ("day", pa.date32())]
)
RULES = UpkeepRules(file_bytes=1_000_000, retention_ms=0, orphan_ms=-1)


@pytest.fixture(params=["delta", "iceberg"])
def where(request, tmp_path):
    values = {"ottla.table.mode": "json", "ottla.table.format": request.param}
    return table_of("clicks", TableSettings({**values, "ottla.table.location": f"{tmp_path}/the lake/{{topic}}"}))


def marker(epoch, *offsets):
    return Marker(TOPIC_ID, epoch, dict(enumerate(offsets)))


def rows(first, last, schema=PLAIN, partition=0):
    made = {
        "partition": pa.array([partition] * (last - first), pa.int32()),
        "offset": pa.array(range(first, last), pa.int64()),
        "timestamp": pa.array([offset * 3_600_000_000 for offset in range(first, last)], PLAIN.field("timestamp").type),
        "headers": pa.array([[]] * (last - first), PLAIN.field("headers").type),
        "key": pa.array([b"k%d" % (offset % 3) for offset in range(first, last)], pa.binary()),
        "id": pa.array(range(first, last), pa.int64()),
    }
    if schema is not PLAIN:
        made["place"] = pa.array(
            [{"x": offset, "tags": ["a"]} for offset in range(first, last)], WIDE.field("place").type
        )
        made["day"] = pa.array([None] * (last - first), pa.date32())
    return pa.table([made[field.name] for field in schema], schema=schema)


def claimed(where, fields=(), schema=PLAIN):
    table = where.opened()
    assert table.load().schema is None
    assert table.commit(Commit(None, marker(1, 0)), schema, fields)
    return table


def append(table, first, last, schema=PLAIN, fields=(), name=None):
    before = table.load()
    target = evolution(before.schema, schema).schema
    batch = rows(first, last, schema)
    whole = pa.table(
        [batch[f.name] if f.name in batch.column_names else pa.nulls(len(batch), f.type) for f in target], schema=target
    )
    files = table.stage(whole, f"topic-{TOPIC_ID}/{name or first}", fields)
    return table.commit(
        Commit(before.marker, before.marker._replace(next_offsets={0: last}), files, target), target, fields
    )


def offsets(where):
    """What a reader finds, by the contract alone."""
    found = []
    for file in where.snapshot().files:
        table = pq.read_table(unquote(urlsplit(file.uri).path), partitioning=None)
        assert len(table) == file.rows
        found += table["offset"].to_pylist()
    return sorted(found)


def on_disk(where):
    return {
        path
        for path in Path(unquote(urlsplit(where.location).path)).rglob("*.parquet")
        if "_delta_log" not in str(path)
    }


def test_a_new_table_is_claimed_and_found_again(where):
    assert where.snapshot() is None
    claimed(where)
    loaded = where.opened().load()
    assert loaded.marker == marker(1, 0)
    assert loaded.schema == PLAIN
    assert where.snapshot().files == ()


def test_rows_and_marker_are_one_commit(where):
    table = claimed(where)
    assert append(table, 0, 5)
    assert append(table, 5, 7)
    snapshot = where.snapshot()
    assert snapshot.marker == marker(1, 7)
    assert offsets(where) == list(range(7))
    assert sum(file.rows for file in snapshot.files) == 7


def test_a_commit_is_refused_when_the_table_has_another_marker(where):
    first, second = claimed(where), where.opened()
    assert second.load().marker == marker(1, 0)
    assert second.commit(Commit(marker(1, 0), marker(2, 0)), PLAIN, ())
    files = first.stage(rows(0, 5), f"topic-{TOPIC_ID}/a", ())
    assert not first.commit(Commit(marker(1, 0), marker(1, 5), files), PLAIN, ())
    first.discard(files)
    assert on_disk(where) == set()
    assert not first.commit(Commit(None, marker(1, 0)), PLAIN, ())
    assert first.load().marker == marker(2, 0)


def test_two_commits_on_one_version_are_one(where):
    first, second = claimed(where), where.opened()
    second.load()
    opened = [first._open(), second._open()]
    first._open, second._open = (lambda: opened[0]), (lambda: opened[1])
    files = [each.stage(rows(0, 5), f"topic-{TOPIC_ID}/{name}", ()) for each, name in ((first, "a"), (second, "b"))]
    assert first.commit(Commit(marker(1, 0), marker(1, 5), files[0]), PLAIN, ())
    assert not second.commit(Commit(marker(1, 0), marker(1, 5), files[1]), PLAIN, ())
    assert offsets(where) == list(range(5))


def test_files_of_a_refused_commit_are_committed_on_the_new_version(where):
    table, other = claimed(where), where.opened()
    files = table.stage(rows(0, 5), f"topic-{TOPIC_ID}/a", ())
    assert append(other, 0, 0, WIDE)  # somebody adds columns beside
    other_marker = other.load().marker
    assert table.commit(Commit(other_marker, marker(1, 5), files), other.load().schema, ())
    assert offsets(where) == list(range(5))
    assert where.snapshot().schema == WIDE


def test_new_columns_come_with_the_rows_that_have_them(where):
    table = claimed(where)
    assert append(table, 0, 3)
    assert append(table, 3, 6, WIDE)
    assert append(table, 6, 8)
    assert table.load().schema == WIDE
    assert offsets(where) == list(range(8))
    reread = where.opened()
    assert reread.load().marker == marker(1, 8)


def test_a_claim_of_an_old_table_leaves_its_rows(where):
    assert append(claimed(where), 0, 3)
    table = where.opened()
    before = table.load()
    assert table.commit(Commit(before.marker, marker(2, 3)), before.schema, ())
    assert (offsets(where), where.snapshot().marker) == ([0, 1, 2], marker(2, 3))


@pytest.mark.parametrize("spec", ["day(timestamp)", "bucket(4, key)", "id", "day(timestamp),bucket(2, key)"])
def test_parts_of_a_table_have_their_files(where, spec):
    fields = TableSettings({"ottla.table.partition.by": spec}).partition_fields
    table = claimed(where, fields)
    assert append(table, 0, 30, fields=fields)
    assert append(table, 30, 40, WIDE, fields=fields)
    assert offsets(where) == list(range(40))
    assert len(where.snapshot().files) > 1
    again = where.opened()
    again.load()
    again.check_partitioning(fields)
    with pytest.raises(TableRefused, match="Set it back"):
        again.check_partitioning(())
    for number in range(3):
        assert append(table, 40 + number, 41 + number, fields=fields)
    done = table.upkeep(RULES, int(time.time() * 1000) + 5_000)
    assert bool(done.compacted_files) == (spec != "id")  # there each row is a part
    assert offsets(where) == list(range(43))


def test_what_cannot_be_a_part_is_refused_with_a_sentence(where):
    for spec, words in [("day(id)", "id is int64"), ("nothing", "name one of these"), ("place", "place is struct")]:
        fields = TableSettings({"ottla.table.partition.by": spec}).partition_fields
        with pytest.raises(TableRefused, match=words):
            where.opened().commit(Commit(None, marker(1, 0)), WIDE, fields)


def test_upkeep_makes_small_files_one_and_keeps_rows_and_marker(where):
    table = claimed(where)
    for number in range(6):
        assert append(table, number * 10, number * 10 + 10, WIDE if number == 3 else PLAIN)
    orphan = next(iter(on_disk(where))).parent / "orphan.parquet"
    orphan.write_bytes(b"left by a killed writer")
    os.utime(orphan, (1, 1))
    before = where.snapshot()
    done = table.upkeep(RULES, int(time.time() * 1000) + 5_000)
    after = where.snapshot()
    assert (done.compacted_files, done.written_files) == (6, 1)
    assert (after.marker, after.schema) == (before.marker, before.schema)
    assert len(after.files) == 1
    assert offsets(where) == list(range(60))
    assert not orphan.exists()
    assert append(table, 60, 65)
    assert offsets(where) == list(range(65))
    assert where.opened().load().marker == marker(1, 65)


def test_upkeep_beside_a_reader_leaves_him_his_files(where):
    table = claimed(where)
    assert append(table, 0, 5)
    assert append(table, 5, 9)
    snapshot = where.snapshot()
    done = table.upkeep(RULES._replace(retention_ms=3_600_000_000, orphan_ms=3_600_000_000), int(time.time() * 1000))
    assert done.compacted_files == 2
    for file in snapshot.files:
        assert Path(unquote(urlsplit(file.uri).path)).exists()


def test_files_that_somebody_else_made_one_are_not_made_one_again(where, monkeypatch):
    """A worker that was fenced may still be in its upkeep."""
    import importlib

    table = claimed(where)
    for number in range(3):
        assert append(table, number, number + 1)
    module = importlib.import_module(f"ottla.tables.{where.format}")
    groups = list(module._small_groups(table._open(), RULES))
    other = where.opened()
    assert other.upkeep(RULES._replace(retention_ms=3_600_000_000), int(time.time() * 1000)).compacted_files == 3
    monkeypatch.setattr(module, "_small_groups", lambda *_: iter(groups))
    assert table.upkeep(RULES._replace(retention_ms=3_600_000_000), int(time.time() * 1000)).compacted_files == 0
    assert offsets(where) == [0, 1, 2]


def test_upkeep_is_bounded(where):
    table = claimed(where)
    for number in range(4):
        assert append(table, number, number + 1)
    size = max(file.size_bytes for file in where.snapshot().files)
    done = table.upkeep(RULES._replace(round_bytes=2 * size), int(time.time() * 1000))
    assert done.compacted_files == 2


def test_a_table_of_somebody_else_is_refused(where):
    location = unquote(urlsplit(where.location).path)
    if where.format == "delta":
        from deltalake import write_deltalake

        write_deltalake(location, pa.table({"x": [1]}))
    else:
        from ottla.tables.iceberg import catalog_of

        catalog = catalog_of(where)
        catalog.create_namespace("ottla")
        catalog.create_table(("ottla", "clicks"), schema=pa.schema([("x", pa.int64())]), location=f"file://{location}")
    with pytest.raises(TableRefused, match="no worker of ours has made"):
        where.opened().load()
    assert where.snapshot().marker is None
