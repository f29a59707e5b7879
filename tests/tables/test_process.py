"""The process that keeps tables: its group, settings that change, and `ottla table` as people type it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.patience import HANG_S
from tests.unit.tables.topics import Lake, check, write

import ottla
from ottla.cli.main import main
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.clock import SystemClock
from ottla.tables.process import GROUP, ProcessRules, TableProcess, read_status
from ottla.testing.broker import KafkaBroker


@pytest.fixture
def servers():
    with KafkaBroker({"group.min.session.timeout.ms": 100}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def lake(servers, tmp_path):
    made = Lake(servers, tmp_path, "delta")
    yield made
    made.cluster.close()


def make(lake, topic, **settings):
    fixed = {"mode": "json", "lag.ms": "1", "location": f"{lake.directory}/{{topic}}"}
    wanted = {f"ottla.table.{name}": value for name, value in {**fixed, **settings}.items()}
    lake.cluster.admin().create_topics([ottla.NewTopic(topic, 2, configs=wanted)])


def change(lake, topic, **settings):
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    from ottla.cli.commands.config import changes_of

    changes = changes_of([f"ottla.table.{name.replace('_', '.')}={value}" for name, value in settings.items()], [])
    lake.cluster.admin().incremental_alter_configs({resource: changes})


def until(condition, what):
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Worker:
    """A process's work, on a thread."""

    def __init__(self, lake, monkeypatch):
        monkeypatch.setattr("ottla.tables.process.REFRESH_S", 0.2)
        self.stop = threading.Event()
        how = {
            "bootstrap.servers": lake.servers,
            "group.id": GROUP,
            "partition.assignment.strategy": "roundrobin",
            "enable.auto.commit": False,
            "session.timeout.ms": 3_000,
            "heartbeat.interval.ms": 100,
        }
        self.process = TableProcess(lake.cluster, None, SystemClock(), ProcessRules(), lambda: ottla.Consumer(how))
        self.thread = threading.Thread(target=self.process.run, args=(self.stop,), daemon=True)
        self.thread.start()

    def topics(self):
        return {status.topic for status in self.process.statuses()}

    def status(self, topic):
        return next((each for each in self.process.statuses() if each.topic == topic), None)

    def is_current(self, topic, offsets):
        status = self.status(topic)
        return status is not None and sum(status.next_offsets.values()) == offsets

    def end(self):
        self.stop.set()
        self.thread.join(HANG_S)


def test_settings_that_change_are_picked_up_while_it_runs(lake, monkeypatch):
    make(lake, "clicks", mode="off")
    write(lake.servers, "clicks", [{"id": 1}, b"{"], partition=0)
    worker = Worker(lake, monkeypatch)
    until(lambda: worker.process._subscribed == frozenset(), "it looks")
    change(lake, "clicks", mode="json", invalid="stop")
    until(lambda: worker.status("clicks") is not None and worker.status("clicks").state == "halted", "it halts")
    change(lake, "clicks", invalid="skip")
    until(lambda: worker.is_current("clicks", 2), "it goes on")
    check(lake, "clicks", without={(0, 1)})
    change(lake, "clicks", mode="off")
    until(lambda: worker.topics() == set(), "it is given up")
    worker.end()


def test_two_processes_share_the_tables_and_one_takes_over(lake, monkeypatch):
    names = [f"topic-{number}" for number in range(6)]
    for name in names:
        make(lake, name)
        write(lake.servers, name, [{"id": 1}])
    first = Worker(lake, monkeypatch)
    until(lambda: all(first.is_current(name, 1) for name in names), "the first has all")
    second = Worker(lake, monkeypatch)
    until(lambda: first.topics() and second.topics() and first.topics() | second.topics() == set(names), "they share")
    until(lambda: not first.topics() & second.topics(), "each table is one process's")
    for name in names:
        write(lake.servers, name, [{"id": 2}])
    first.end()
    until(lambda: all(second.is_current(name, 2) for name in names), "the second has all")
    second.end()
    for name in names:
        check(lake, name)


def test_how_a_table_is_doing_stands_beside_the_offsets_of_the_group(lake, monkeypatch):
    make(lake, "clicks", mode="schema_id")
    make(lake, "orders")
    write(lake.servers, "orders", [{"id": 1}], partition=1)
    worker = Worker(lake, monkeypatch)
    until(lambda: worker.is_current("orders", 1), "it is current")
    until(lambda: "clicks" in worker.topics(), "the other one says why not")
    assert "names a schema" in worker.status("clicks").reason or "--schema-registry" in worker.status("clicks").reason
    worker.end()
    offsets = lake.cluster.admin().list_consumer_group_offsets(GROUP)
    found = {name.partition: each for name, each in offsets.items() if name.topic == "orders"}
    assert {partition: each.offset for partition, each in found.items()} == {0: 0, 1: 1}
    assert read_status(found[0].metadata)["commits"] >= 1


def test_the_command_makes_runs_shows_checks_and_drops_a_table(lake, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", lake.servers)
    lake.cluster.admin().create_topics(["clicks"])
    write(lake.servers, "clicks", [{"id": number} for number in range(7)])
    assert main(["table", "create", "clicks", "--mode", "json", "--location", f"{tmp_path}/{{topic}}"]) == 0
    assert main(["table", "run", "--once"]) == 0
    assert "clicks: current, 7 records in" in capsys.readouterr().out
    assert main(["table", "describe", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["topic"], shown["rows"], shown["behind"], shown["next_offsets"]) == ("clicks", 7, 0, {"0": 7})
    assert main(["table", "check", "clicks", "--json"]) == 0
    (checked,) = json.loads(capsys.readouterr().out)
    assert (checked["rows"], checked["doubled"], checked["missing"]) == (7, 0, 0)
    assert main(["table", "drop", "clicks", "--yes"]) == 0
    assert not (tmp_path / "clicks").exists()
    assert main(["table", "describe", "clicks"]) == 1
    assert "clicks is not kept as a table" in capsys.readouterr().err


def test_settings_of_the_command_count_instead_of_the_topics(lake, tmp_path, capsys, monkeypatch):
    """So it works at brokers that do not know them."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", lake.servers)
    lake.cluster.admin().create_topics(["clicks"])
    write(lake.servers, "clicks", [{"id": 1}])
    own = ["--set", "ottla.table.mode=raw", "--set", f"ottla.table.location={tmp_path}/{{topic}}"]
    assert main(["table", "run", "clicks", "--once", *own]) == 0
    assert main(["table", "check", "clicks", *own]) == 0
    assert main(["table", "run", "clicks", "--once", "--set", "ottla.table.mood=raw"]) == 1
    assert "did you mean 'ottla.table.mode'" in capsys.readouterr().err


def test_a_broker_runs_the_worker_and_starts_it_again(tmp_path):
    command = [sys.executable, "-m", "ottla", "broker", "start", "--data", str(tmp_path / "data"), "--tables"]
    command += ["--listen", "127.0.0.1:0", "--set", "ottla.admin.listener="]
    with (tmp_path / "log").open("w") as log:
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        servers = broker.stdout.readline().partition(" is ready at ")[2].split(" ")[0]
        lake = Lake(servers, tmp_path / "data-tables", "delta")
        wanted = {"ottla.table.mode": "json", "ottla.table.lag.ms": "1"}
        lake.cluster.admin().create_topics([ottla.NewTopic("clicks", 1, configs=wanted)])
        write(servers, "clicks", [{"id": 1}])
        until(lambda: has(lake, 1), "the worker makes the table")
        (worker,) = re.findall(r"worker of tables is process (\d+)", (tmp_path / "log").read_text())
        os.kill(int(worker), signal.SIGKILL)
        write(servers, "clicks", [{"id": 2}])
        until(lambda: has(lake, 2), "the next worker goes on")
        check(lake, "clicks")
        lake.cluster.close()
    finally:
        broker.terminate()
        assert broker.wait(HANG_S) == 0
        broker.stdout.close()
    until(lambda: len(re.findall(r"is process \d+", (tmp_path / "log").read_text())) == 2, "it was started twice")


def has(lake, offset):
    try:
        snapshot = lake.snapshot("clicks")
    except OSError:
        return False
    return snapshot is not None and snapshot.marker.next_offsets == {0: offset}
