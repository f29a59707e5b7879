"""Sums of small files whose format has none, in a file beside them: rot in them is told from what was written.

    ottla-checksums, a table (checkpoints.py): name of the file, when it was modified (ms), CRC-32C of its content

Kafka's checkpoints, its tables of offsets and its .txnindex are trusted by whoever reads them; a digit that rotted in a
table of log starts hides records, and one in an aborted transaction shows them.

1. A sum speaks of a file only while the file was modified when the sum says. Whoever else writes the file, Apache
   Kafka, a restored backup, a broker that was killed before it wrote the sum, makes it silent, and the file is trusted
   as before. Rot changes the content and not the time.
2. The sums are not synced: after a power failure they may be old, cut or gone, and then they are silent.
3. A sum that rotted itself accuses a sound file. That costs time and no record, because everything that has a sum can
   be found out without the file.
4. Apache Kafka leaves files of that name alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.records.checksum import crc32c
from ottla.storage.directory.checkpoints import MalformedCheckpoint, read_table, table_bytes, whole_number
from ottla.storage.files import Files

CHECKSUMS: Final = "ottla-checksums"


class Checksum(NamedTuple):
    """What a file was when it was written."""

    modified_ms: int
    crc: int


Checksums = Mapping[str, Checksum]


def checksum_of(files: Files, path: Path, content: bytes | bytearray) -> Checksum:
    """Of a file that has this content now."""
    return Checksum(files.modified_ms(path), crc32c(content))


def has_rotted(files: Files, path: Path, known: Checksum | None) -> bool:
    """Whether the file was modified when its sum says, and still has another content."""
    if known is None or not files.exists(path) or files.modified_ms(path) != known.modified_ms:
        return False
    return crc32c(files.read_bytes(path)) != known.crc


def read_checksums(files: Files, directory: Path) -> dict[str, Checksum]:
    """All that are known; none when the file makes no sense."""
    try:
        return dict(read_table(files, directory / CHECKSUMS, _parse, may_be_cut=True))
    except MalformedCheckpoint:
        return {}


def checksums_bytes(checksums: Checksums) -> bytes:
    """The file as it is written."""
    return table_bytes(f"{name} {modified_ms} {crc}" for name, (modified_ms, crc) in sorted(checksums.items()))


def _parse(words: list[str]) -> tuple[str, Checksum]:
    name, modified_ms, crc = words
    return name, Checksum(whole_number(modified_ms), whole_number(crc))
