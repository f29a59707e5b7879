"""Metadata of a column reaches the tasks, with a PySpark that keeps it in Arrow and with one that does not."""

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
pa = pytest.importorskip("pyarrow", reason="needs PyArrow: pip install 'ottla[arrow]'")

from pyspark.sql.types import BinaryType, StructField, StructType, TimestampType  # noqa: E402

from ottla.spark.running.arrow_types import as_arrow, metadata_of, with_metadata  # noqa: E402

VALUE = StructField("value", BinaryType(), True, {"ottla": "planned"})
SCHEMA = StructType([VALUE, StructField("at", TimestampType())])


def test_metadata_and_the_time_zone_are_in_arrow():
    found = as_arrow(SCHEMA)
    assert [metadata_of(field) for field in found] == [{"ottla": "planned"}, {}]
    assert found.field("at").type == pa.timestamp("us", "UTC")


def test_a_schema_of_an_older_pyspark_becomes_the_same():
    bare = pa.schema([field.remove_metadata() for field in as_arrow(SCHEMA)])
    assert with_metadata(bare, SCHEMA).equals(as_arrow(SCHEMA), check_metadata=True)
