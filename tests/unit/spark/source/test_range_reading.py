"""What a task keeps between two runs: readers by their settings, bounded, closed when idle, never shared by a fork."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.patience import HANG_S

from ottla.spark.source import range_reading
from ottla.spark.source.kept import KeptForTasks
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reading import read_ranges
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.schema import arrow_schema
from ottla.testing import FakeBroker

PLAIN = {"bootstrap.servers": "h:1"}
OTHER = {"bootstrap.servers": "h:2"}


class Reader:
    def __init__(self, settings):
        self.settings = settings
        self.is_usable = True

    def close(self):
        self.is_usable = False


class Timer:
    made: list["Timer"]

    def __init__(self, seconds, call):
        self.seconds, self.call, self.is_cancelled = seconds, call, False
        Timer.made.append(self)

    def cancel(self):
        self.is_cancelled = True


@pytest.fixture
def kept():
    Timer.made = []
    return KeptForTasks(Reader, kept_max=2, idle_s=9, timer=Timer)


def test_the_next_task_with_the_same_settings_gets_the_same_reader(kept):
    first = kept.take(PLAIN)
    kept.give_back(PLAIN, first)
    assert kept.take(OTHER) is not first
    assert kept.take(dict(PLAIN)) is first
    assert Timer.made[0].is_cancelled


def test_two_tasks_at_a_time_have_two_readers(kept):
    assert kept.take(PLAIN) is not kept.take(PLAIN)


def test_the_one_that_waited_longest_makes_room(kept):
    readers = [kept.take(PLAIN) for _ in range(3)]
    for reader in readers:
        kept.give_back(PLAIN, reader)
    assert [reader.is_usable for reader in readers] == [False, True, True]


def test_one_that_is_idle_for_long_is_closed(kept):
    reader = kept.take(PLAIN)
    kept.give_back(PLAIN, reader)
    assert Timer.made[0].seconds == 9
    Timer.made[0].call()
    assert not reader.is_usable
    assert kept.take(PLAIN) is not reader


def test_a_timer_that_comes_too_late_closes_nobodys_reader(kept):
    reader = kept.take(PLAIN)
    kept.give_back(PLAIN, reader)
    assert kept.take(PLAIN) is reader
    Timer.made[0].call()
    assert reader.is_usable


def test_closing_closes_all_that_wait(kept):
    readers = [kept.take(PLAIN), kept.take(OTHER)]
    kept.give_back(PLAIN, readers[0])
    kept.give_back(OTHER, readers[1])
    kept.close()
    assert not any(reader.is_usable for reader in readers)


def test_a_forked_process_begins_with_nothing(kept, monkeypatch):
    reader = kept.take(PLAIN)
    kept.give_back(PLAIN, reader)
    monkeypatch.setattr(os, "getpid", lambda: -7)
    assert kept.take(PLAIN) is not reader
    assert reader.is_usable


# -- with a broker ----------------------------------------------------------------------------------------------------


@pytest.fixture
def fake():
    with FakeBroker() as fake:
        fake.create_topic("t", 2)
        fake.append("t", [b"%d" % number for number in range(100)])
        yield fake
    range_reading._kept.close()


def options(fake, **more):
    base = {"kafka.bootstrap.servers": fake.bootstrap_servers, "subscribe": "t", "kafka.group.id": "g"}
    return SourceOptions.parse({**base, **more}, streaming=False)


def test_tasks_share_a_connection_and_give_exactly_what_spark_wants(fake):
    chosen = options(fake)
    schema = arrow_schema(chosen)
    for _ in range(8):
        batches = list(read_ranges(chosen, [OffsetRange("t", 0, 10, 20)], schema))
        assert [batch.schema.equals(schema, check_metadata=True) for batch in batches] == [True]
        assert batches[0].column("value").to_pylist() == [b"%d" % number for number in range(10, 20)]
    assert fake.asked("Metadata") <= 3


def test_a_task_that_is_given_up_keeps_its_reader_and_one_that_failed_does_not(fake):
    chosen = options(fake, valueFormat="json", valueSchema="a INT")
    with pytest.raises(Exception, match="it is 0 and no object"):
        list(read_ranges(chosen, [OffsetRange("t", 0, 0, 5)], arrow_schema(chosen)))
    assert range_reading._kept._waiting == []
    plain = options(fake)
    reading = read_ranges(plain, [OffsetRange("t", 0, 0, 5)], arrow_schema(plain))
    next(reading)
    reading.close()
    assert len(range_reading._kept._waiting) == 1


FORK = """
import os, sys
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reading import read_ranges
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.schema import arrow_schema
options = SourceOptions.parse({"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t"}, streaming=False)
def read():
    return sum(batch.num_rows for batch in read_ranges(options, [OffsetRange("t", 0, 0, 100)], arrow_schema(options)))
print(read(), flush=True)
if os.fork() == 0:
    print(read(), flush=True)
    os._exit(0)
os.wait()
print(read(), flush=True)
"""


def test_a_forked_worker_has_connections_of_its_own(fake):
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, fake.bootstrap_servers],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert found.stdout.split() == ["100", "100", "100"], found.stderr


def test_only_what_the_schema_asks_for_is_read(fake):
    found = list(read_ranges(options(fake), [OffsetRange("t", 0, 98, 100)], pa.schema([("offset", pa.int64())])))
    assert [batch.to_pydict() for batch in found] == [{"offset": [98, 99]}]
