"""What the worker wants of a format of tables; delta.py and iceberg.py have it.

1. A commit is a comparison (worker.py): it is made of the version that was loaded just before, whose marker is the one
   that the commit expects, and it is refused when there is a newer version. No library tries again by itself.
2. Files are written before the commit that names them, and stay when it is refused: the same ones are committed on the
   new version.
3. A failure that leaves open whether the commit was made is raised as it is; the worker finds out by the marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.schemas.arrow.evolution import Widened
    from ottla.table_settings import PartitionField
    from ottla.tables.finding import TableSnapshot
    from ottla.tables.marker import Marker
    from ottla.tables.worker import Commit

DATA: Final = "data"
SUMMARY: Final = "ottla"
"""Where the history of a table tells people what a commit was."""
COMPRESSION: Final = "zstd"
DAY_MS: Final = 24 * 3_600_000
ORPHANS_EVERY_MS: Final = 6 * 3_600_000
"""So seldom all files are listed, to find those that nobody names."""
VERSIONS_MAX: Final = 200
VERSION_AGE_MS: Final = 600_000
"""Versions beyond so many are given up before their time, but not while a reader may just have begun with one."""


class TableRefused(Exception):
    """The table cannot be kept; the text says why and what to do."""


class Loaded(NamedTuple):
    """A table as it is: None for its schema where there is no table."""

    schema: pa.Schema | None
    marker: Marker | None


class Upkept(NamedTuple):
    """What a round of upkeep has done."""

    compacted_files: int = 0
    compacted_bytes: int = 0
    written_files: int = 0
    expired_versions: int = 0
    removed_files: int = 0

    def __str__(self) -> str:
        return (
            f"{self.compacted_files} files of {self.compacted_bytes:,} bytes made {self.written_files}, "
            f"{self.expired_versions} old versions given up, {self.removed_files} files deleted that nobody names"
        )


class UpkeepRules(NamedTuple):
    """How much is done at once, and what is old."""

    file_bytes: int
    retention_ms: int
    orphan_ms: int = DAY_MS
    round_bytes: int = 1 << 30


class TableFormat(Protocol):
    """One table, as its only writer sees it."""

    def load(self) -> Loaded:
        """The newest version; TableRefused when it is none that could be kept."""

    def can_widen(self, change: Widened) -> bool:
        """Whether a column may get this wider type."""

    def check_partitioning(self, fields: Sequence[PartitionField]) -> None:
        """TableRefused when the table that is there is partitioned otherwise."""

    def stage(self, rows: pa.Table, name: str, fields: Sequence[PartitionField]) -> tuple[str, ...]:
        """Write rows into files that no commit names yet; their names."""

    def commit(self, commit: Commit, schema: pa.Schema, fields: Sequence[PartitionField]) -> bool:
        """Make the commit, with the table's schema as it is to be then; False when it is refused."""

    def discard(self, files: Sequence[str]) -> None:
        """Delete files that no commit names."""

    def upkeep(self, rules: UpkeepRules, now_ms: int) -> Upkept:
        """One bounded round; whatever it commits leaves the marker as it is."""

    def snapshot(self) -> TableSnapshot | None:
        """The newest version for readers."""

    def open_file(self, uri: str) -> Any:
        """One of the files that a snapshot names, for reading."""

    def drop(self) -> None:
        """Delete the table with all its files."""


def summary_of(commit: Commit) -> Mapping[str, str]:
    """What a commit tells people, in the table's history."""
    from ottla.tables.marker import written_text
    from ottla.tables.reach import gap_sentence

    found = {SUMMARY: written_text(commit.after)}
    if commit.gaps:
        found[f"{SUMMARY}.gaps"] = gap_sentence(commit.gaps)
    return found
