"""Who votes, at every offset of the log: control records that hold as soon as they are appended, and not any more when
they are cut off.

A voter is a node with a directory: a node that lost its disk is another voter. Where the settings name the voters
(controller.quorum.voters, kraft.version 0) nobody knows their directories, and any directory of the node votes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.raft.snapshots import Voters
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log.control import KRaftVersionFeature, VoterEndpoint, VoterNode, VotersRecord
from ottla.values import ZERO_UUID, Address, uuid_to_text


class VoterKey(NamedTuple):
    """A node with a directory."""

    id: int
    directory_id: bytes = ZERO_UUID

    def __str__(self) -> str:
        return f"{self.id}" if self.directory_id == ZERO_UUID else f"{self.id} ({uuid_to_text(self.directory_id)})"


class VoterSet:
    """The voters at one offset. Values that do not change."""

    def __init__(self, nodes: Sequence[VoterNode] = ()) -> None:
        self.nodes: Final = tuple(nodes)
        self._by_id = {node.voter_id: node for node in nodes}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[VoterKey]:
        return iter([key_of(node) for node in self.nodes])

    def __contains__(self, key: VoterKey) -> bool:
        known = self._by_id.get(key.id)
        return known is not None and known.voter_directory_id in (ZERO_UUID, key.directory_id)

    @property
    def ids(self) -> list[int]:
        return [node.voter_id for node in self.nodes]

    @property
    def majority(self) -> int:
        return len(self) // 2 + 1

    def find(self, voter_id: int) -> VoterNode | None:
        return self._by_id.get(voter_id)

    def address(self, voter_id: int, listener: str) -> Address | None:
        """Where a voter is reached: at the listener of that name, or its first one."""
        node = self._by_id.get(voter_id)
        if node is None or not node.endpoints:
            return None
        endpoint = next((each for each in node.endpoints if each.name == listener), node.endpoints[0])
        return Address(endpoint.host, endpoint.port)

    def with_voter(self, node: VoterNode) -> VotersRecord:
        """These, and one that is new or says something else of itself."""
        rest = [other for other in self.nodes if other.voter_id != node.voter_id]
        return VotersRecord(voters=sorted([*rest, node], key=lambda voter: voter.voter_id))

    def without_voter(self, voter_id: int) -> VotersRecord:
        return VotersRecord(voters=[node for node in self.nodes if node.voter_id != voter_id])


def key_of(node: VoterNode) -> VoterKey:
    return VoterKey(node.voter_id, node.voter_directory_id)


def voters_by_settings(addresses: Iterable[tuple[int, Address | None]], listener: str) -> VoterSet:
    """What controller.quorum.voters says; None is a place that nobody has told."""
    return VoterSet(
        [
            VoterNode(
                voter_id=voter_id,
                voter_directory_id=ZERO_UUID,
                endpoints=[VoterEndpoint(name=listener, host=address.host, port=address.port)] if address else [],
                k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=0),
            )
            for voter_id, address in addresses
        ]
    )


class VoterHistory:
    """Since a snapshot, or since nothing."""

    def __init__(self) -> None:
        self._since: list[tuple[int, Voters]] = [(0, Voters())]

    @property
    def newest(self) -> Voters:
        return self._since[-1][1]

    @property
    def newest_offset(self) -> int:
        """Where the batch ends that says what holds now: uncommitted while the high watermark is below."""
        return self._since[-1][0]

    def at(self, end_offset: int) -> Voters:
        """What holds of everything before an offset: what a snapshot that ends there says."""
        return next(voters for offset, voters in reversed(self._since) if offset <= end_offset)

    def begin(self, batches: Iterable[MetadataBatch]) -> None:
        """Begin anew with what a snapshot says."""
        voters = Voters()
        for batch in batches:
            voters = voters.after(batch.controls)
        self._since = [(0, voters)]

    def add(self, batch: MetadataBatch) -> None:
        """A batch was appended."""
        voters = self.newest.after(batch.controls)
        if voters != self.newest:
            self._since.append((batch.last_offset + 1, voters))

    def cut(self, end_offset: int) -> None:
        """The log ends there now."""
        self._since = [since for since in self._since if since[0] <= end_offset] or self._since[:1]
