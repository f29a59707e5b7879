"""The file quorum-state: what a node must not forget of elections, whatever happens to it.

    version 0   {"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[],
                 "data_version":0}
    version 1   {"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

1. Version 1 is written where voters are told by the log (kraft.version 1), version 0 where they are not, or not yet.
2. It is written before a vote is answered and with every new epoch or leader, as a whole and synced: after a crash it
   says what it said before or after, and a node never votes twice in one epoch.
3. A file that makes no sense is DamagedQuorumState, and never taken for none: a node that forgot its vote could give
   another one. No file is a node that has never heard of an epoch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ottla.errors import KafkaStorageError
from ottla.light_dataclasses import dataclass
from ottla.storage.files import Files
from ottla.values import ZERO_UUID, uuid_from_text, uuid_to_text

QUORUM_STATE: Final = "quorum-state"
NOBODY: Final = -1
LIMIT_BYTES: Final = 1 << 20


class DamagedQuorumState(KafkaStorageError):
    """What this node remembers of elections is damaged, so it does not start: it could vote a second time.
    Restore the file from a copy. Of a node that has no vote (a broker) it may be removed, the epoch is learned
    again."""


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The newest epoch that a node has heard of, who leads in it, and whom the node voted for."""

    leader_epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: bytes = ZERO_UUID


def quorum_state_bytes(state: QuorumState, kraft_version: int) -> bytes:
    """A state as it stands in the file."""
    known = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    if kraft_version:
        content = {**known, "votedDirectoryId": uuid_to_text(state.voted_directory_id), "data_version": 1}
    else:
        content = {"clusterId": "", **known, "appliedOffset": 0, "currentVoters": [], "data_version": 0}
    return json.dumps(content, separators=(",", ":")).encode()


def write_quorum_state(files: Files, directory: Path, state: QuorumState, kraft_version: int) -> None:
    """Remember; on the disk when it returns."""
    files.replace_bytes(directory / QUORUM_STATE, quorum_state_bytes(state, kraft_version))


def read_quorum_state(files: Files, directory: Path) -> QuorumState | None:
    """What was remembered; None when nothing ever was."""
    path = directory / QUORUM_STATE
    if not files.exists(path):
        return None
    if files.size(path) > LIMIT_BYTES:
        raise DamagedQuorumState(f"{path} has {files.size(path)} bytes, which cannot be right")
    try:
        return _state(json.loads(files.read_bytes(path)))
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise DamagedQuorumState(f"{path} makes no sense: {problem!r}") from problem


def _state(content: dict[str, Any]) -> QuorumState:
    version = _number(content, "data_version")
    if version not in (0, 1):
        raise ValueError(f"version {version} is unknown; 0 and 1 are the only ones")
    state = QuorumState(
        leader_epoch=_number(content, "leaderEpoch"),
        leader_id=_number(content, "leaderId"),
        voted_id=_number(content, "votedId"),
        voted_directory_id=uuid_from_text(content["votedDirectoryId"]) if version else ZERO_UUID,
    )
    if state.leader_epoch < 0 or min(state.leader_id, state.voted_id) < NOBODY:
        raise ValueError(f"{state} cannot be")
    return state


def _number(content: dict[str, Any], name: str) -> int:
    number = content[name]
    if type(number) is not int:
        raise ValueError(f"{name} is {number!r}, which is no number")
    return number
