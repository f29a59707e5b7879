"""Tables of databases as sinks, judged without a connection.

1. PostgreSQL is written by psycopg, exactly once and by key; every other database by Spark's JDBC writer and its own
   driver, at least once and row by row (docs/decisions/0177).
2. `jdbc` is the address as Java's drivers want it. Behind `jdbc:` it is the one that PostgreSQL's own library wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.spark.pipelines.definition import Sink

_POSTGRESQL: Final = "jdbc:postgresql:"


def is_postgresql(sink: Sink) -> bool:
    """Whether this is a table that we write ourselves."""
    return sink.jdbc is not None and sink.jdbc.startswith(_POSTGRESQL)


def key_columns(sink: Sink) -> tuple[str, ...]:
    """The columns of a table's key."""
    return tuple(name.strip().strip("`") for name in (sink.key or "").split(",") if name.strip())


def shown_address(sink: Sink) -> str:
    """The address without what stands behind it: that may be a password."""
    return re.split("[?;]", str(sink.jdbc))[0]


def database_faults(sink: Sink) -> Iterator[tuple[str, str]]:
    """(word, sentence): what is wrong with a sink that is a table."""
    if sink.table is None:
        yield "jdbc", "a database needs a table"
    if not str(sink.jdbc).startswith("jdbc:"):
        yield "jdbc", f"{sink.jdbc!r} is no address; it begins with jdbc:"
    elif not is_postgresql(sink):
        for word in ("key", "delete", "order_by"):
            if getattr(sink, word) is not None:
                yield word, "only PostgreSQL is written by key (jdbc:postgresql://...); others get every row as it is"
        if sink.mode != "append":
            yield "mode", f"{sink.mode} is for topics and PostgreSQL; another database gets final rows: say append"
    elif not str(sink.jdbc).startswith(f"{_POSTGRESQL}//"):
        yield "jdbc", "write it as jdbc:postgresql://HOST:PORT/DATABASE"
