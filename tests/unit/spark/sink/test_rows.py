"""Which columns are written, and how the batches of a task are sent."""

from __future__ import annotations

import pytest

pyarrow = pytest.importorskip("pyarrow", reason="needs PyArrow: pip install 'ottla[arrow]'")
types = pytest.importorskip("pyspark.sql.types", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.sink.options import SinkOptions  # noqa: E402
from ottla.spark.sink.rows import TaskRows, UnfitColumns, chosen_columns  # noqa: E402

HEADERS = types.ArrayType(types.StructType().add("key", "string").add("value", "binary"))


def columns(schema: dict, **options: object) -> tuple[str, ...]:
    made = types.StructType()
    for name, kind in schema.items():
        made.add(name, kind)
    return chosen_columns(made, SinkOptions(streaming=True, **{"topic": "t", **options}))


def test_rows_of_a_source_can_be_written_as_they_are():
    source = {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "integer",
        "offset": "long",
        "timestamp": "timestamp",
        "timestampType": "integer",
        "headers": HEADERS,
    }
    assert columns(source) == ("key", "value", "partition", "headers")
    assert columns(source, topic=None) == ("key", "value", "topic", "partition", "headers")
    assert columns(source, include_timestamp=True, include_headers=False) == ("key", "value", "partition", "timestamp")


@pytest.mark.parametrize("kind", ["string", types.VarcharType(5), types.CharType(3)])
def test_texts_of_every_kind_are_texts(kind):
    assert columns({"value": kind}) == ("value",)


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    [
        ({}, {}, "no column `value`; there are none"),
        ({"Value": "string"}, {}, "no column `value`; there are Value"),
        ({"value": "string"}, {"topic": None}, "neither an option `topic` nor a column"),
        ({"value": "string", "key": "long"}, {}, "column `key` is bigint"),
        ({"value": "string", "topic": "integer"}, {"topic": None}, "column `topic` is int, it must be string"),
        ({"value": "string", "partition": "short"}, {}, "column `partition` is smallint, it must be int"),
        ({"value": "string", "headers": types.MapType(types.StringType(), types.BinaryType())}, {}, "headers"),
        ({"value": "string", "timestamp": "long"}, {"include_timestamp": True}, "must be timestamp"),
    ],
)
def test_columns_that_do_not_fit_are_told(schema, options, told):
    with pytest.raises(UnfitColumns) as caught:
        columns(schema, **options)
    assert told in str(caught.value)


class Sent:
    def __init__(self) -> None:
        self.rows: list = []

    def send_arrow(self, topic, batch):
        self.rows.append((topic, batch.to_pydict()))


def test_batches_are_sent_one_by_one_with_the_chosen_columns():
    def batches():
        for values in ([], ["a", "b"], [], ["c"]):
            yield pyarrow.record_batch(
                [pyarrow.array(values, "string"), pyarrow.array(values, "string")], ["value", "x"]
            )

    rows, sent = TaskRows(batches(), ("value",)), Sent()
    assert not rows.is_empty
    rows.send(sent, "t")
    assert sent.rows == [("t", {"value": ["a", "b"]}), ("t", {"value": ["c"]})]
    assert rows.row_count == 3


def test_a_task_with_empty_batches_has_no_rows():
    empty = pyarrow.record_batch([pyarrow.array([], "string")], ["value"])
    rows = TaskRows(iter([empty, empty]), ("value",))
    assert rows.is_empty
    rows.send(Sent(), "t")
    assert rows.row_count == 0
