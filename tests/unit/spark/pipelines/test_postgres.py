"""What PostgreSQL is asked for, without one."""

import pytest

from ottla.spark.pipelines.postgres import Table, column_type, is_json, quoted_name, selected

TABLE = Table("sales.totals", [("user", "string"), ("at", "timestamp"), ("tags", "array<struct<a:int>>")], ["user"])


def test_names_are_quoted_and_a_table_may_have_a_schema():
    assert quoted_name('sales.to"tals') == '"sales"."to""tals"'
    assert TABLE.markers == "sales.ottla_batches"
    assert Table("t", []).markers == "ottla_batches"


def test_a_table_is_made_with_its_key():
    assert TABLE.create() == (
        'CREATE TABLE "sales"."totals" ("user" text, "at" timestamptz, "tags" jsonb, PRIMARY KEY ("user"))'
    )


def test_rows_replace_what_their_key_had_and_deletions_come_first():
    gone, put = TABLE.merge("update")
    assert gone.startswith('DELETE FROM "sales"."totals" USING ottla_staged WHERE _ottla_deleted AND')
    assert 'ON CONFLICT ("user") DO UPDATE SET "at" = excluded."at", "tags" = excluded."tags"' in put
    assert put.endswith('IS DISTINCT FROM (excluded."at", excluded."tags")'), "what is the same is not written"
    whole, _ = TABLE.merge("complete")
    assert "WHERE NOT EXISTS (SELECT FROM ottla_staged" in whole
    (added,) = TABLE.merge("append")
    assert "CONFLICT" not in added
    only_key = Table("t", [("user", "string")], ["user"])
    assert only_key.merge("update")[1].endswith('ON CONFLICT ("user") DO NOTHING')


def test_a_batch_is_written_only_by_who_puts_its_number_down():
    assert "WHERE known.batch < excluded.batch RETURNING batch" in TABLE.mark()


@pytest.mark.parametrize(
    ("spark", "postgres", "json"),
    [
        ("bigint", "bigint", False),
        ("decimal(10,2)", "numeric(10,2)", False),
        ("array<bigint>", "bigint[]", False),
        ("array<string>", "text[]", False),
        ("array<struct<a:int>>", "jsonb", True),
        ("map<string,int>", "jsonb", True),
        ("interval day to second", "text", False),
    ],
)
def test_types(spark, postgres, json):
    assert (column_type(spark), is_json(spark)) == (postgres, json)


def test_a_time_is_sent_with_its_distance_from_greenwich():
    user, at, tags, deleted = selected(TABLE, "gone")
    assert user == "CAST(`user` AS STRING) AS `user`"
    assert at.startswith("date_format(`at`, ")
    assert "XXX" in at
    assert tags == "to_json(`tags`) AS `tags`"
    assert deleted == "coalesce((gone), false) AS _ottla_deleted"
    assert selected(TABLE, None)[-1] == "false AS _ottla_deleted"
