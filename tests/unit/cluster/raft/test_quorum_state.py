"""What a node remembers of elections: Kafka's bytes, and never guessed at."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.metadata.reading import golden_files

from ottla.cluster.raft.quorum_state import (
    QUORUM_STATE,
    DamagedQuorumState,
    QuorumState,
    quorum_state_bytes,
    read_quorum_state,
    write_quorum_state,
)
from ottla.testing.files import MemoryFiles

HERE = Path("/data/__cluster_metadata-0")
STATE = QuorumState(leader_epoch=3, leader_id=1, voted_id=2, voted_directory_id=b"d" * 16)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(HERE)
    return files


def put(files: MemoryFiles, content: bytes) -> None:
    files.replace_bytes(HERE / QUORUM_STATE, content)


@pytest.mark.parametrize(("node", "kraft_version"), [("controller", 1), ("broker", 0)])
def test_apaches_file_is_read_and_written_back_byte_for_byte(files: MemoryFiles, node: str, kraft_version: int) -> None:
    golden = golden_files()[f"{node}/__cluster_metadata-0/quorum-state"]
    put(files, golden)
    state = read_quorum_state(files, HERE)
    assert state == QuorumState(leader_epoch=1, leader_id=1)
    write_quorum_state(files, HERE, state, kraft_version)
    assert files.read_bytes(HERE / QUORUM_STATE) == golden


def test_a_node_without_the_file_has_never_heard_of_an_epoch(files: MemoryFiles) -> None:
    assert read_quorum_state(files, HERE) is None


@given(
    st.builds(
        QuorumState,
        st.integers(0, 2**31 - 1),
        st.integers(-1, 9),
        st.integers(-1, 9),
        st.binary(min_size=16, max_size=16),
    )
)
def test_what_was_written_is_read(state: QuorumState) -> None:
    files = MemoryFiles()
    files.make_directory(HERE)
    write_quorum_state(files, HERE, state, 1)
    assert read_quorum_state(files, HERE) == state


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_torn_file_is_never_taken_for_none(files: MemoryFiles, kraft_version: int) -> None:
    whole = quorum_state_bytes(STATE, kraft_version)
    for length in range(len(whole)):
        put(files, whole[:length])
        with pytest.raises(DamagedQuorumState, match="quorum-state makes no sense"):
            read_quorum_state(files, HERE)


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1}',
        b'{"leaderId":1,"leaderEpoch":-4,"votedId":-1,"data_version":0}',
        b'{"leaderId":true,"leaderEpoch":1,"votedId":-1,"data_version":0}',
        b'{"leaderId":"1","leaderEpoch":1,"votedId":-1,"data_version":0}',
        b"[" * 100_000,
    ],
)
def test_what_makes_no_sense_is_refused(files: MemoryFiles, content: bytes) -> None:
    put(files, content)
    with pytest.raises(DamagedQuorumState):
        read_quorum_state(files, HERE)


@pytest.mark.parametrize("keep", ["any", "nothing", "everything"])
def test_a_crash_leaves_the_old_vote_or_the_new_one(keep: str) -> None:
    for operation in range(1, 8):
        files = MemoryFiles()
        files.make_directory(HERE)
        files.sync_directory(Path("/"))
        files.sync_directory(HERE.parent)
        write_quorum_state(files, HERE, STATE, 1)
        files.fail(operation)
        newer = QuorumState(4, -1, 3)
        try:
            write_quorum_state(files, HERE, newer, 1)
        except Exception:
            expected = (STATE, newer)
        else:
            expected = (newer,)
        files.mend()
        files.crash(keep)  # type: ignore[arg-type]
        assert read_quorum_state(files, HERE) in expected
