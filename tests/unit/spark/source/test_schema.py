"""The rows of the source: Spark's own connector's columns, in Arrow to the letter."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from ottla.spark.source.options import SourceOptions
from ottla.spark.source.schema import SchemaMismatch, arrow_schema, chosen_columns, row_schema


def options(**more):
    return SourceOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **more}, streaming=False)


def test_the_columns_are_those_of_sparks_own_connector():
    assert row_schema(options()).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    headers = row_schema(options(includeHeaders="true"))["headers"]
    assert headers.dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert all(field.nullable for field in row_schema(options()))


def test_arrow_has_exactly_what_spark_checks_for():
    for each in (options(), options(includeHeaders="true")):
        assert arrow_schema(each).equals(to_arrow_schema(row_schema(each), timezone="UTC"), check_metadata=True)
    assert arrow_schema(options()).field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_formats_change_the_types_of_keys_and_values():
    chosen = options(keyFormat="string", valueFormat="json", valueSchema="id BIGINT NOT NULL, tags ARRAY<STRING>")
    assert row_schema(chosen)["key"].dataType == StringType()
    value = row_schema(chosen)["value"].dataType
    assert value.simpleString() == "struct<id:bigint,tags:array<string>>"
    assert value["id"].nullable  # what comes from outside may leave out anything


def test_a_schema_of_the_user_chooses_columns_and_their_order():
    asked = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    assert chosen_columns(options(), asked).names == ["offset", "value"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (StructType([]), "no column"),
        (StructType([StructField("vlaue", BinaryType())]), "there is no column 'vlaue'"),
        (StructType([StructField("value", StringType())]), "column 'value' is binary, not string"),
        (StructType([StructField("headers", StringType())]), "includeHeaders=true"),
        (StructType([StructField("value", BinaryType()), StructField("value", BinaryType())]), "twice"),
    ],
)
def test_a_schema_that_asks_for_others_is_refused(asked, words):
    with pytest.raises(SchemaMismatch, match=words):
        chosen_columns(options(), asked)
