"""`ottla storage migrate` on one machine: what it decides from the settings, what it refuses, and the way back."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import storage_migration
from ottla.cli.main import main
from ottla.cluster.from_zookeeper.content import Secrets, take
from ottla.cluster.from_zookeeper.found import Found
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.snapshots import Voters, parse_name, read_snapshot
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.storage.directory.checkpoints import (
    META_PROPERTIES_BEFORE,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.storage.files import DiskFiles
from ottla.values import uuid_to_text

GOLDEN = Path(__file__).parents[2] / "golden" / "znodes" / "kafka-3.9.2.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
NODES = {
    line["path"]: Znode(None if line["data"] is None else line["data"].encode(), line["version"], line["czxid"])
    for line in LINES
}
CLUSTER = "FnZ3MDgSTgmwuXkiKZ5q_w"
FILES = DiskFiles()
COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://one:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "one:9093",
}


class Machine:
    """One node's directories, and the command there."""

    def __init__(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.a, self.b = here / "a", here / "b"
        self.config = here / "server.properties"
        self._capsys = capsys
        self.settings: dict[str, str] = {**COMBINED, "log.dirs": f"{self.a},{self.b}"}
        for path in (self.a, self.b):
            path.mkdir()
            (path / "clicks-0").mkdir()
            write_meta_properties(FILES, path, MetaProperties(0, CLUSTER, 1))

    def migrate(self, *words: str, **settings: str) -> str:
        """What it says, as a problem too."""
        merged = {**self.settings, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.config.write_text("".join(f"{name}={value}\n" for name, value in merged.items() if value))
        self.code = main(["storage", "migrate", "-c", str(self.config), *words])
        said = self._capsys.readouterr()
        return said.out + said.err

    def take(self, *words: str, **settings: str) -> dict[str, Any]:
        said = self.migrate(*words, "--zookeeper", "zoo:2181", "--yes", "--json", **settings)
        assert self.code == 0, said
        found: dict[str, Any] = json.loads(said)
        return found

    def meta(self, path: Path) -> MetaProperties:
        found = read_meta_properties(FILES, path)
        assert found is not None
        return found

    def snapshot(self) -> Path:
        (found,) = (self.a / "__cluster_metadata-0").iterdir()
        return found

    def voters(self) -> Voters:
        voters = Voters()
        for batch in read_snapshot(FILES, self.snapshot()):
            voters = voters.after(batch.controls)
        return voters


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Machine:
    def content(options: Namespace, level: int) -> tuple[str, Any]:
        return options.zookeeper, take(Found(NODES), level, Secrets(lambda name: False, str))

    monkeypatch.setattr(storage_migration, "_read_content", content)
    return Machine(tmp_path, capsys)


def test_the_first_voter_gets_the_log_and_every_directory_is_its_nodes(machine: Machine) -> None:
    said = machine.take("--standalone")
    assert (said["state"], said["cluster_id"], said["node_id"], said["voters"]) == ("migrated", CLUSTER, 1, [1])
    assert said["snapshot"] == machine.snapshot().name
    for path in (machine.a, machine.b):
        meta = machine.meta(path)
        assert (meta.version, meta.cluster_id, meta.node_id) == (1, CLUSTER, 1)
        assert meta.directory_id is not None
        assert (path / META_PROPERTIES_BEFORE).exists()
    voters = machine.voters()
    assert voters.kraft_version == 1
    assert voters.record is not None
    (voter,) = voters.record.voters
    assert voter.voter_directory_id == machine.meta(machine.a).directory_id
    assert (voter.endpoints[0].host, voter.endpoints[0].port) == ("one", 9093)


def test_everybody_else_gets_no_log(machine: Machine) -> None:
    machine.migrate("--no-initial-controllers", "--yes")
    assert machine.code == 0
    assert not (machine.a / "__cluster_metadata-0").exists()
    assert machine.meta(machine.b).version == 1


def test_a_broker_needs_no_word_about_voters(machine: Machine) -> None:
    machine.migrate("--yes", process_roles="broker", listeners="PLAINTEXT://:9092")
    assert machine.code == 0
    assert machine.meta(machine.a).version == 1
    assert "first voter" in machine.migrate("--standalone", "--yes", process_roles="broker", listeners="P://:9092")


def test_a_controller_must_say_who_votes_first(machine: Machine) -> None:
    assert "--standalone" in machine.migrate("--zookeeper", "zoo:2181", "--yes")
    assert machine.code == 1
    assert machine.meta(machine.a).version == 0


def test_several_first_voters_write_the_same_log_for_their_own_directories(machine: Machine) -> None:
    ids = [uuid_to_text(b"voter number %03d" % number) for number in range(3)]
    listed = ",".join(f"{number}@host{number}:9093:{ids[number]}" for number in range(3))
    first = machine.take("--initial-controllers", listed)
    assert first["voters"] == [0, 1, 2]
    assert machine.meta(machine.a).directory_id == b"voter number 001"
    written = machine.snapshot().read_bytes()
    machine.migrate("--back", "--yes")
    second = machine.take("--initial-controllers", listed)
    assert second["fingerprint"] == first["fingerprint"]
    assert machine.snapshot().read_bytes() == written
    machine.migrate("--back", "--yes")
    assert "does not name this node" in machine.migrate("--initial-controllers", f"7@h:1:{ids[0]}", "--yes")


def test_voters_of_the_settings_stand_in_no_record(machine: Machine) -> None:
    voters = "1@one:9093,2@two:9093,3@three:9093"
    machine.take(**{"controller.quorum.voters": voters, "controller.quorum.bootstrap.servers": ""})
    assert machine.voters() == Voters()
    log = MetadataLog.open(FILES, machine.a, now_ms=0, limits=LogLimits())
    assert log.newest_snapshot is not None
    loader = MetadataLoader(CLUSTER)
    for _ in loader.load_snapshot(
        read_snapshot(FILES, log.snapshot_path(log.newest_snapshot)), end_offset=log.newest_snapshot.end_offset, epoch=2
    ):
        pass
    assert "two" in loader.image.topics_by_name
    log.close(is_clean=True)


def test_a_node_that_nobody_can_join_takes_no_cluster_of_several(machine: Machine) -> None:
    said = machine.migrate("--zookeeper", "zoo:2181", "--yes", process_roles="", listeners="PLAINTEXT://:9092")
    assert machine.code == 1
    assert "a node without a controller listener is a cluster of its own" in said


def test_the_old_settings_are_refused(machine: Machine) -> None:
    assert "--zookeeper-config" in machine.migrate("--standalone", "--yes", zookeeper_connect="zoo:2181")
    assert "log.dirs" in machine.migrate("--standalone", "--yes", log_dirs="")


def test_directories_of_others_are_refused_and_nothing_is_written(machine: Machine) -> None:
    write_meta_properties(FILES, machine.b, MetaProperties(0, CLUSTER, 2))
    assert "broker.id=2" in machine.migrate("--standalone", "--zookeeper", "zoo:2181", "--yes")
    (machine.b / "meta.properties").unlink()
    assert "no meta.properties that says whose" in machine.migrate("--standalone", "--zookeeper", "z:1", "--yes")
    write_meta_properties(FILES, machine.b, MetaProperties(0, "another_cluster_AAAAAA", 1))
    assert "another_cluster_AAAAAA" in machine.migrate("--standalone", "--zookeeper", "zoo:2181", "--yes")
    assert machine.meta(machine.a).version == 0
    assert not (machine.a / "__cluster_metadata-0").exists()


def test_a_directory_that_a_broker_has_is_refused(machine: Machine) -> None:
    held = FILES.lock(machine.b / ".lock")
    said = machine.migrate("--standalone", "--zookeeper", "zoo:2181", "--yes")
    held.release()
    assert machine.code == 1
    assert str(machine.b) in said
    assert machine.meta(machine.a).version == 0


def test_a_plan_writes_nothing_and_without_a_yes_nothing_happens(machine: Machine) -> None:
    said = machine.migrate("--standalone", "--zookeeper", "zoo:2181", "--dry-run")
    assert machine.code == 0
    assert "access rules" in said
    assert "metadata.version 4.3-IV0" in said
    machine.migrate("--standalone", "--zookeeper", "zoo:2181")
    assert machine.code == 1
    assert machine.meta(machine.a).version == 0
    assert not (machine.a / META_PROPERTIES_BEFORE).exists()


def test_after_a_crash_in_the_middle_the_same_command_ends_it(machine: Machine) -> None:
    machine.take("--standalone")
    (machine.a / META_PROPERTIES_BEFORE).rename(
        machine.a / "meta.properties"
    )  # written last, so a crash leaves the old one
    assert machine.take("--standalone")["state"] == "migrated"
    assert machine.meta(machine.a).version == 1
    assert machine.voters().record is not None


def test_the_way_back_is_open_until_somebody_has_started(machine: Machine) -> None:
    before = {path: (path / "meta.properties").read_bytes() for path in (machine.a, machine.b)}
    machine.take("--standalone")
    said = machine.migrate("--back", "--yes")
    assert machine.code == 0, said
    assert {path: (path / "meta.properties").read_bytes() for path in (machine.a, machine.b)} == before
    assert not (machine.a / "__cluster_metadata-0").exists()
    assert "nothing was taken over" in machine.migrate("--back", "--yes")
    machine.take("--standalone")
    log = MetadataLog.open(FILES, machine.a, now_ms=0, limits=LogLimits())
    log.close(is_clean=True)
    assert "has started" in machine.migrate("--back", "--yes")
    assert "has started" in machine.migrate("--standalone", "--zookeeper", "zoo:2181", "--yes")


def test_a_controller_on_a_machine_of_its_own_begins_in_a_new_directory_and_can_go_back(machine: Machine) -> None:
    new = machine.a.parent / "new"
    settings = {"process.roles": "controller", "node.id": "100", "log.dirs": str(new)}
    machine.take("--standalone", **settings, listeners="CONTROLLER://one:9093")
    assert (machine.meta(new).node_id, machine.meta(new).cluster_id) == (100, CLUSTER)
    assert len(list((new / "__cluster_metadata-0").iterdir())) == 1
    machine.migrate("--back", "--yes", **settings, listeners="CONTROLLER://one:9093")
    assert machine.code == 0
    assert [path.name for path in new.iterdir()] == [".lock"]


@pytest.mark.parametrize(("release", "metadata_version"), [("3.9", "3.9-IV0"), ("4.1", "4.1-IV1"), ("4.3", "4.3-IV0")])
def test_the_oldest_release_decides_the_level(machine: Machine, release: str, metadata_version: str) -> None:
    said = machine.take("--standalone", "--release-version", release)
    assert said["metadata_version"] == metadata_version


@pytest.mark.parametrize("release", ["3.8", "4.4", "nonsense"])
def test_a_release_that_cannot_be_is_refused(machine: Machine, release: str) -> None:
    machine.migrate("--standalone", "--zookeeper", "zoo:2181", "--yes", "--release-version", release)
    assert machine.code == 1


def test_the_snapshots_name_is_its_offset_and_the_controllers_epoch(machine: Machine) -> None:
    machine.take("--standalone")
    named = parse_name(machine.snapshot().name)
    assert named is not None
    assert named.id.epoch == 2
    assert named.id.end_offset > 10
