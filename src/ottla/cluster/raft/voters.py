"""Who votes, at every offset of the log: control records that hold as soon as they are appended, and not any more when
they are cut off."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.raft.snapshots import Voters


class VoterHistory:
    """Since a snapshot, or since nothing."""

    def __init__(self) -> None:
        self._since: list[tuple[int, Voters]] = [(0, Voters())]

    @property
    def newest(self) -> Voters:
        return self._since[-1][1]

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
