"""Schemas as text, read without a JVM."""

import pytest
from pyspark.sql.types import StructType

from ottla.spark.formats.ddl import UnreadableSchema, as_nullable, parse_schema


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("id BIGINT, name STRING", "struct<id:bigint,name:string>"),
        ("id: long, name:string", "struct<id:bigint,name:string>"),
        (
            "a array<map<string, struct<x: int, y: decimal(10,2)>>>",
            "struct<a:array<map<string,struct<x:int,y:decimal(10,2)>>>>",
        ),
        ("struct<a: int, b: struct<c: double>>", "struct<a:int,b:struct<c:double>>"),
        ("`odd name` DATE, `a``b` timestamp_ntz", "struct<odd name:date,a`b:timestamp_ntz>"),
        (
            "a tinyint, b smallint, c float, d boolean, e binary",
            "struct<a:tinyint,b:smallint,c:float,d:boolean,e:binary>",
        ),
        ("a DECIMAL, b NUMERIC(5), c VARCHAR(10)", "struct<a:decimal(10,0),b:decimal(5,0),c:string>"),
        ("a INT NOT NULL COMMENT 'it, is', b INT", "struct<a:int,b:int>"),
        ("struct INT", "struct<struct:int>"),
        ("1st INT", "struct<1st:int>"),
    ],
)
def test_ddl_is_read(text, simple):
    assert parse_schema(text).simpleString() == simple


def test_not_null_and_comments_are_kept():
    field = parse_schema("a INT NOT NULL COMMENT 'it, is'")["a"]
    assert not field.nullable
    assert field.metadata == {"comment": "it, is"}


def test_the_json_of_a_schema_is_read():
    schema = parse_schema("a INT, b ARRAY<STRUCT<c: STRING>>")
    assert parse_schema(schema.json()) == schema


@pytest.mark.parametrize(
    "text",
    ["", "a", "a INT,", "a INT b", "a ARRAY<INT", "a MAP<STRING>", "a NOSUCH", "a INT)", "{}", '{"type": "struct"}',
     "a DECIMAL(99)", "a DECIMAL(x)", ", INT", "a " + "ARRAY<" * 100 + "INT" + ">" * 100],
)  # fmt: skip
def test_what_is_no_schema_is_refused_in_words(text):
    with pytest.raises(UnreadableSchema):
        parse_schema(text)


def test_everything_may_be_null_when_it_comes_from_outside():
    strict = parse_schema("a INT NOT NULL, b ARRAY<STRUCT<c: STRING NOT NULL>> NOT NULL, d MAP<STRING, INT>")
    loose = as_nullable(strict)
    assert isinstance(loose, StructType)
    assert loose["a"].nullable
    assert loose["b"].dataType.elementType["c"].nullable
    assert loose.simpleString() == strict.simpleString()
