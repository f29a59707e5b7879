"""Which tables a query reads, without Spark."""

import pytest

from ottla.spark.pipelines.sql_names import tables_of


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM clicks", ["clicks"]),
        ("select * from clicks c join pages p on c.page = p.page where c.user in (select user from people)",
         ["clicks", "pages", "people"]),
        ("SELECT * FROM a, b AS x, c WHERE a.id = x.id", ["a", "b", "c"]),
        ("SELECT * FROM (SELECT * FROM inner_one) t LEFT JOIN `Quoted` USING (id)", ["inner_one", "Quoted"]),
        ("WITH good AS (SELECT * FROM clicks), x AS (SELECT 1 FROM good) SELECT * FROM good JOIN x", ["clicks"]),
        ("SELECT extract(HOUR FROM at), trim(BOTH 'x' FROM name) FROM clicks", ["clicks"]),
        ("SELECT a IS DISTINCT FROM b FROM clicks", ["clicks"]),
        ("SELECT 'FROM nowhere', `FROM x` FROM clicks -- FROM comment\n/* FROM other */", ["clicks"]),
        ("SELECT * FROM range(10), clicks", ["clicks"]),
        ("SELECT * FROM catalog.db.t JOIN clicks", ["clicks"]),
        ("SELECT * FROM clicks LATERAL VIEW explode(tags) t AS tag", ["clicks"]),
        ("SELECT page, window(at, '1 minute'), count(*) FROM clicks GROUP BY page, window(at, '1 minute')", ["clicks"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", ["a", "b"]),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)", ["a", "b"]),
        ("SELECT 1", []),
    ],
)  # fmt: skip
def test_tables_are_found_and_nothing_else(sql, names):
    assert [table.name for table in tables_of(sql)] == names


def test_positions_are_those_of_the_names_and_stream_is_seen():
    sql = "SELECT * FROM STREAM(clicks) JOIN STREAM pages JOIN plain"
    found = tables_of(sql)
    assert [(sql[table.start : table.end], table.streamed) for table in found] == [
        ("clicks", True),
        ("pages", True),
        ("plain", False),
    ]
