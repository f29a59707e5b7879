"""Batches into a real PostgreSQL, without Spark: each is there once, whoever writes it, and whenever somebody dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.patience import HANG_S
from tests.postgres import postgres

from ottla.spark.pipelines.postgres import Table
from ottla.spark.pipelines.postgres_batches import TableUnfit, connected, write

pytest.importorskip("psycopg", reason="needs ottla[postgres]")

__all__ = ["postgres"]  # a fixture
Line = tuple[Any, ...]
COLUMNS = [("user", "string"), ("clicks", "bigint")]
KEYED, PLAIN = Table("totals", COLUMNS, ["user"]), Table("clicks", COLUMNS)
CHILD = """
import sys, time
from ottla.spark.pipelines.postgres import Table
from ottla.spark.pipelines.postgres_batches import connected, write

def lines():
    yield ("killed", 1, False)
    print("begun", flush=True)
    time.sleep({limit})

table = Table("clicks", [("user", "string"), ("clicks", "bigint")])
write(connected({{"url": sys.argv[1]}}), table, "append", lines, "flow", 0)
"""


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    """A database with nothing of ours in it."""
    address = f"jdbc:postgresql://{postgres}/postgres?user=postgres"
    yield address
    with connected({"url": address}) as connection:
        connection.execute("DROP TABLE IF EXISTS totals, clicks, ottla_batches")


def put(url: str, table: Table, mode: str, lines: list[Line], batch_id: int, flow: str = "flow") -> None:
    with connected({"url": url}) as connection:
        write(connection, table, mode, lambda: lines, flow, batch_id)


def rows(url: str, table: Table) -> list[Line]:
    with connected({"url": url}) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table.name}").fetchall())


def test_a_batch_is_written_once_however_often_it_is_tried(url: str) -> None:
    for batch_id in (0, 0, 1, 1, 0):
        put(url, PLAIN, "append", [(f"user-{batch_id}", 1, False)], batch_id)
    put(url, PLAIN, "append", [("another flow", 1, False)], 0, "other")
    assert rows(url, PLAIN) == [("another flow", 1), ("user-0", 1), ("user-1", 1)]


def test_rows_replace_what_their_key_had_and_deletions_delete(url: str) -> None:
    put(url, KEYED, "update", [("a", 1, False), ("b", 1, False)], 0)
    put(url, KEYED, "update", [("a", 2, False), ("b", None, True), ("c", 3, False), ("never", None, True)], 1)
    assert rows(url, KEYED) == [("a", 2), ("c", 3)]
    put(url, KEYED, "complete", [("a", 2, False), ("d", 4, False)], 2)
    assert rows(url, KEYED) == [("a", 2), ("d", 4)]


def test_two_who_write_one_batch_at_the_same_time_write_it_once(url: str) -> None:
    put(url, PLAIN, "append", [], 0)
    is_second_there, asked = threading.Event(), []

    def first_lines() -> Iterator[Line]:
        twin.start()
        assert is_second_there.wait(HANG_S)
        yield ("first", 1, False)

    def second_lines() -> list[Line]:
        asked.append("second")
        return [("second", 1, False)]

    def second() -> None:
        with connected({"url": url}) as connection:
            is_second_there.set()
            write(connection, PLAIN, "append", second_lines, "flow", 1)

    twin = threading.Thread(target=second)
    with connected({"url": url}) as connection:
        write(connection, PLAIN, "append", first_lines, "flow", 1)
    twin.join(HANG_S)
    assert rows(url, PLAIN) == [("first", 1)]
    assert asked == [], "who comes second does not even compute its rows"


def test_of_a_writer_that_was_killed_in_a_batch_nothing_is_there_and_the_next_one_writes_it(url: str) -> None:
    put(url, PLAIN, "append", [], 0, "makes the tables")
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(limit=HANG_S), url], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait(HANG_S)
    put(url, PLAIN, "append", [("next", 1, False)], 0)
    assert rows(url, PLAIN) == [("next", 1)]


def test_a_table_that_does_not_fit_is_told_and_the_batch_is_not_done(url: str) -> None:
    with connected({"url": url}) as connection:
        connection.execute('CREATE TABLE totals ("user" text, clicks bigint)')
    with pytest.raises(TableUnfit, match="table totals: there is no unique or exclusion constraint"):
        put(url, KEYED, "update", [("a", 1, False)], 0)
    with connected({"url": url}) as connection:
        connection.execute('ALTER TABLE totals ADD PRIMARY KEY ("user")')
    put(url, KEYED, "update", [("a", 1, False)], 0)
    assert rows(url, KEYED) == [("a", 1)]
