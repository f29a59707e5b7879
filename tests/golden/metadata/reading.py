"""The golden metadata logs as values: the files of an archive, and the records in them."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

from ottla.records import Record, RecordBatch, RecordStream

HERE = Path(__file__).parent
ARCHIVE = HERE / "kafka-4.3.1.tar.xz"


def golden_records() -> list[tuple[int, int, str, bytes]]:
    """Type, version, kind and bytes of every value that Apache's serializer wrote."""
    rows = (line.split() for line in (HERE / "records-4.3.1.txt").read_text().splitlines())
    return [(int(number), int(version), kind, bytes.fromhex(text)) for number, version, kind, text in rows]


def golden_files(archive: Path = ARCHIVE) -> dict[str, bytes]:
    """The files of an archive, by their names."""
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def records_of(data: bytes) -> Iterator[tuple[RecordBatch, Record]]:
    """Every record of a log or snapshot, with its batch."""
    for batch in RecordStream(data):
        assert isinstance(batch, RecordBatch)
        batch.check()
        for record in batch:
            yield batch, record


def shell_snapshot() -> tuple[str, bytes]:
    """Name and bytes of the snapshot that the kept session of the metadata shell is about: the broker's last one."""
    return max((name, data) for name, data in golden_files().items() if name.startswith("broker/") and "-000" in name)
