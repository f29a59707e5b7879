"""kafka-storage format: what it writes and what it refuses, in the words of Apache's tool (asked of Kafka 4.3.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.kafka.ends import ToolEnded
from ottla.cli.kafka.storage import run
from ottla.cluster.model import ScramKey
from ottla.cluster.raft.format import first_changes, read_bootstrap
from ottla.cluster.raft.snapshots import Voters, read_snapshot
from ottla.protocol.metadata_log.access import UserScramCredentialRecord
from ottla.protocol.metadata_log.control import VotersRecord
from ottla.protocol.metadata_log.settings import FeatureLevelRecord
from ottla.storage.directory.checkpoints import read_meta_properties
from ottla.storage.files import DiskFiles
from ottla.values import uuid_from_text

FILES = DiskFiles()
COMBINED = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs={here}/a,{here}/b
"""
FIRST = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


class Tool:
    """kafka-storage format on a file of settings."""

    def __init__(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.a, self.b = here / "a", here / "b"
        self.config = here / "server.properties"
        self.config.write_text(COMBINED.format(here=here))
        self._capsys = capsys

    def change(self, before: str, after: str) -> None:
        self.config.write_text(self.config.read_text().replace(before, after))

    def format(self, *words: str) -> str:
        """What it says, as a problem too."""
        self.code = 0
        try:
            self.code = run(["format", "-t", "b3R0bGEtZ29sZGVuLTAwMw", "-c", str(self.config), *words])
        except ToolEnded as end:
            self.code = end.code
        said = self._capsys.readouterr()
        return said.out + said.err

    def levels(self) -> dict[str, int]:
        found = read_bootstrap(FILES, self.a) or []
        return {record.name: record.feature_level for record in found if isinstance(record, FeatureLevelRecord)}

    def voters(self) -> VotersRecord | None:
        voters = Voters()
        for batch in read_snapshot(FILES, self.a / FIRST):
            voters = voters.after(batch.controls)
        assert voters.kraft_version == 1
        return voters.record


@pytest.fixture
def tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(tmp_path, capsys)


def test_a_controller_of_its_own_is_the_only_voter(tool: Tool) -> None:
    assert tool.format("--standalone").splitlines() == [
        f"Formatting data directory {tool.b} with metadata.version 4.3-IV0.",
        f"Formatting dynamic metadata voter directory {tool.a} with metadata.version 4.3-IV0.",
    ]
    meta, other = read_meta_properties(FILES, tool.a), read_meta_properties(FILES, tool.b)
    assert meta is not None
    assert other is not None
    assert (meta.version, meta.cluster_id, meta.node_id) == (1, "b3R0bGEtZ29sZGVuLTAwMw", 1)
    assert meta.directory_id != other.directory_id
    record = tool.voters()
    assert record is not None
    (voter,) = record.voters
    assert (voter.voter_id, voter.voter_directory_id) == (1, meta.directory_id)
    (endpoint,) = voter.endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "localhost", 9093)
    assert (tool.a / "bootstrap.checkpoint").stat().st_size == (tool.b / "bootstrap.checkpoint").stat().st_size
    assert not (tool.b / "__cluster_metadata-0").exists()
    assert list(tool.levels().items()) == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]


def test_what_is_formatted_is_left_alone(tool: Tool) -> None:
    tool.format("--standalone")
    before = (tool.a / "meta.properties").read_bytes()
    assert "is already formatted. Use --ignore-formatted" in tool.format("--standalone")
    assert tool.code == 1
    assert tool.format("--standalone", "-g") == "All of the log directories are already formatted.\n"
    assert tool.code == 0
    assert (tool.a / "meta.properties").read_bytes() == before


def test_initial_controllers_give_this_node_its_directory_id(tool: Tool) -> None:
    mine, others = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
    said = tool.format("--initial-controllers", f"1@localhost:9093:{mine},2@[::1]:9094:{others}")
    assert "dynamic metadata voter directory" in said
    meta = read_meta_properties(FILES, tool.a)
    assert meta is not None
    assert meta.directory_id == uuid_from_text(mine)
    record = tool.voters()
    assert record is not None
    assert [(voter.voter_id, voter.endpoints[0].host) for voter in record.voters] == [(1, "localhost"), (2, "::1")]


def test_a_node_that_is_not_among_the_first_voters_is_told_of_them(tool: Tool) -> None:
    said = tool.format("--initial-controllers", "2@localhost:9094:MvDxzVmcRsaTz33bUuRU6A")
    assert f"Formatting dynamic metadata directory {tool.a}" in said
    assert (tool.a / FIRST).exists()


def test_who_joins_later_or_has_the_quorum_in_its_settings_is_told_nothing(tool: Tool) -> None:
    assert f"Formatting metadata directory {tool.a}" in tool.format("--no-initial-controllers")
    assert not (tool.a / FIRST).exists()


def test_a_static_quorum_needs_no_voters(tool: Tool) -> None:
    tool.change("controller.quorum.bootstrap.servers=", "controller.quorum.voters=1@")
    assert "You cannot specify controller.quorum.voters and format the node with" in tool.format("--standalone")
    assert f"Formatting metadata directory {tool.a}" in tool.format()


def test_users_are_kept_without_their_passwords(tool: Tool) -> None:
    said = tool.format(
        *("--standalone", "-S", "SCRAM-SHA-256=[name=alice,password=wonderland]"),
        *("-S", 'SCRAM-SHA-512=[name=bob,iterations=8192,salt="MTIz",saltedpassword="NDU2"]'),
    )
    assert tool.code == 0, said
    users = [record for record in read_bootstrap(FILES, tool.b) or [] if isinstance(record, UserScramCredentialRecord)]
    assert [(user.name, user.mechanism, user.iterations) for user in users] == [("alice", 1, 4096), ("bob", 2, 8192)]
    assert bytes(users[1].salt) == b"123"
    assert b"wonderland" not in (tool.a / "bootstrap.checkpoint").read_bytes()
    changes = first_changes(FILES, tool.a) or []
    assert ScramKey("alice", 1) in [getattr(change, "key", None) for change in changes]


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        (("-r", "4.0"), {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
        (("-r", "3.7"), {"metadata.version": 19}),
        (("-f", "metadata.version=20"), {"metadata.version": 20}),
        (("-r", "4.0", "-f", "group.version=0"), {"metadata.version": 25, "transaction.version": 2}),
    ],
)
def test_a_release_has_its_features_and_some_may_be_others(
    tool: Tool, words: tuple[str, ...], levels: dict[str, int]
) -> None:
    tool.format("--standalone", *words)
    assert tool.levels() == levels


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (),
            "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.",
        ),
        (("-I", "1@localhost:9093"), "No colon following port could be found."),
        (("-I", "localhost:9093:x"), "No @ found"),
        (("-I", "1@localhost:9093:x"), "is not a Kafka uuid"),
        (("-s", "-r", "9.9"), "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3,"),
        (("-s", "-r", "4.4"), "4.2-IV1, 4.3-IV0\n"),
        (("-s", "-f", "nothing=1"), "Unsupported feature: nothing. Supported features are: eligible.leader"),
        (("-s", "-f", "group.version=7"), "No feature:group.version with feature level 7"),
        (("-s", "-f", "metadata.version=6"), "No feature:metadata.version with feature level 6"),
        (("-s", "-r", "3.9", "-f", "eligible.leader.replicas.version=1"), "depends on metadata.version level 23"),
        (("-s", "-r", "4.0", "-f", "metadata.version=20"), "Use --release-version instead"),
        (("-s", "-f", "kraft.version=0"), "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        (("-s", "-S", "SCRAM-SHA-1=[name=a,password=b]"), "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        (("-s", "-S", "SCRAM-SHA-256=[name=a]"), "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        (("-s", "-S", "SCRAM-SHA-256=[password=b]"), "You must supply 'name' to add-scram"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,saltedpassword=b]"), "You must supply 'salt' with 'saltedpassword'"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=5]"), "too few iterations"),
        (("-s", "-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"), "only supported in metadata.version 3.5-IV2"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tool: Tool, words: tuple[str, ...], said: str) -> None:
    assert said in tool.format(*words)
    assert tool.code == 1
    assert not tool.a.exists()


def test_only_a_controller_stands_alone(tool: Tool) -> None:
    tool.change("broker,controller", "broker")
    assert tool.format("--standalone") == "You can only use --standalone on a controller.\n"
    assert f"Formatting metadata directory {tool.a}" in tool.format()
