"""Workers of tables as real processes that are killed at every step; then the table is compared with the log.

What may never happen: a row twice, a row lost, a row of nothing. What a killed worker leaves behind is files that no
version names.
"""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.tables.topics import Lake, check, write

from ottla.testing.broker import KafkaBroker

PROGRAM = Path(__file__).with_name("killed_worker.py")
STEPS = (
    "before data",
    "after data",
    "before commit",
    "in commit",
    "after commit",
    "before compaction",
    "in compaction",
    "after compaction",
    "in expiry",
)
SAMPLE = ("after data", "in commit:1", "after commit", "in compaction")
HANG_S = 120
FORMS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def servers():
    with KafkaBroker() as broker:
        yield broker.bootstrap_servers


class Killed:
    """A topic, its table, and workers that do not live long."""

    def __init__(self, servers, directory, form, partitions=2):
        self.lake = Lake(servers, directory, form)
        self.topic = f"clicks-{form}-{random.getrandbits(40):x}"
        self.written = 0
        from ottla.client.admin.topics import NewTopic

        self.lake.cluster.admin().create_topics([NewTopic(self.topic, partitions)])

    def write(self, count):
        for partition in (0, 1):
            values = [{"id": self.written + number, "step": self.written} for number in range(count)]
            if self.written % 3 == 1:
                values[0][f"new{self.written}"] = True  # a column that comes later
            write(self.lake.servers, self.topic, values, partition=partition)
        self.written += count

    def run(self, point):
        """How a worker ended that is to be killed there."""
        command = [sys.executable, PROGRAM, self.lake.servers, self.topic, self.lake.form, self.lake.directory, point]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
        return done.returncode

    def check(self):
        """Also while nobody has repaired anything: what is committed is right at any time."""
        if self.lake.snapshot(self.topic) is not None:
            check(self.lake, self.topic)

    def finish(self):
        assert self.run("never") == 0
        marker = check(self.lake, self.topic)
        assert sum(marker.next_offsets.values()) == 2 * self.written
        self.lake.cluster.close()


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_whole_after_kills_at_its_steps(servers, tmp_path, form):
    killed = Killed(servers, tmp_path, form)
    ends = []
    for step in SAMPLE:
        killed.write(40)
        ends.append(killed.run(step))
        killed.check()
    assert ends == [-signal.SIGKILL] * len(SAMPLE)
    killed.finish()


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("passed", [0, 1, 2])
def test_a_table_is_whole_after_a_kill_at_any_step(servers, tmp_path, form, step, passed):
    killed = Killed(servers, tmp_path, form)
    for _ in range(2):
        killed.write(60)
        killed.run("never" if passed == 2 else "after commit:2")
    killed.write(60)
    killed.run(f"{step}:{passed}")
    killed.check()
    killed.write(10)
    killed.finish()


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_whole_after_a_hundred_kills_at_any_moment(servers, tmp_path, form):
    chance = random.Random(32)
    killed = Killed(servers, tmp_path, form)
    kills = 0
    while kills < 100:
        killed.write(chance.randrange(1, 60))
        kills += killed.run(f"random:{chance.randrange(50, 2_500)}") != 0
        killed.check()
    killed.finish()


@pytest.mark.parametrize("form", FORMS)
def test_workers_that_take_the_table_from_each_other_double_nothing(servers, tmp_path, form):
    """Twins: each claims the table while the other is at work; one of them commits, or none."""
    killed = Killed(servers, tmp_path, form)
    killed.write(60)
    command = [sys.executable, PROGRAM, servers, killed.topic, form, tmp_path, "never"]
    twins = [
        subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    output = [twin.communicate(timeout=HANG_S)[0] for twin in twins]
    assert all("current" in text or "another writer has the table" in text for text in output), output
    killed.check()
    killed.finish()
