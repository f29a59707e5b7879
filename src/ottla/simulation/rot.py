"""Bits that rot after they were synced: which bytes of which copy, and whether what is promised then covers it.

    rots = Rots(cluster)
    rots.strike(fault)                            # a Rot, or the sentence that says why nothing rotted
    rots.left("records")                          # what is still rotten on some disk

1. What a broker has on its disk may rot: records of any topic, indexes, snapshots of producers, leader epochs, offset
   checkpoints, partition.metadata, the position of the verification. While the broker runs, when it was stopped in
   order, or when it was killed.
2. One copy of a partition at a time: records of another one rot when the first is repaired. The rotten range is
   committed and another replica is in sync, so somebody has it. It is below the recovery point on the disk: beyond it
   nobody can tell rot from the torn end that a power cut leaves (decision 0160).
3. Bytes that no reader can prove do not rot: base offset and leader epoch of a batch stand outside of its CRC, and
   texts of Kafka's format have no checksum, so of them a byte loses its meaning and not its value (decision 0165).
4. The only copy of records cannot be repaired: what was hit is written down here (`hits`) for the checker. Topics that
   are `shielded` there keep their records.
5. A cluster's own truth is left alone: a broker refuses to start on it, with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.light_dataclasses import dataclass
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES, LEADER_EPOCH_AT, LENGTH_AT, MAGIC_AT
from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.fault import RECORDS, Fault
from ottla.storage.directory.checkpoints import PARTITION_METADATA, RECOVERY_POINTS
from ottla.storage.directory.directories import TABLES, parse_log_name
from ottla.storage.log.leader_epochs import LEADER_EPOCHS
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.simulation.cluster import SimulatedCluster

DATA: Final = Path("/data")
TOPIC_ID: Final = "topic-id"
NAMES: Final[Mapping[str, str]] = {  # of the files in a log's directory
    RECORDS: r"\d{20}\.log",
    "offset-index": r"\d{20}\.index",
    "time-index": r"\d{20}\.timeindex",
    "aborted-index": r"\d{20}\.txnindex",
    "producers": r"\d{20}\.snapshot",
    "epochs": re.escape(LEADER_EPOCHS),
    TOPIC_ID: re.escape(PARTITION_METADATA),
}
BESIDE: Final[Mapping[str, tuple[str, ...]]] = {"tables": TABLES, "position": ("ottla-verification.json",)}
TEXTS: Final = ("epochs", "tables", TOPIC_ID)
SECTOR_BYTES: Final = 512
NEIGHBOURS_BYTES: Final = 16
ABORTED_ENTRY_BYTES: Final = 34
NO_MEANING: Final = 0x80  # no text of these files has a byte with this bit
END_OF_OFFSETS: Final = 2**63 - 1
UNPROVED_BYTES: Final = MAGIC_AT + 1  # a batch of which only so much is gone has lost offsets, and nobody notices


@dataclass(frozen=True)
class Rot:
    """Bytes that are others than those that were synced; of records also the offsets that may be lost with them."""

    broker: int
    part: str
    path: Path
    partition: TopicPartition | None
    position: int
    before: bytes
    after: bytes
    first_offset: int = 0
    next_offset: int = 0
    neighbours: tuple[bytes, bytes] = (b"", b"")
    """Of records, what stands in front and behind: a file that was compacted meanwhile may have the same byte there."""

    def __str__(self) -> str:
        what = f"{self.path} bytes {self.position} to {self.position + len(self.after) - 1}"
        return f"{what}, offsets {self.first_offset} to {self.next_offset - 1}" if self.part == RECORDS else what


class Rots:
    """See the module: all that rotted in a run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.all: list[Rot] = []
        self.shielded: frozenset[str] = frozenset()

    # --- what is rotten -----------------------------------------------------------------------------------------------

    def left(self, *parts: str) -> list[Rot]:
        """What is still on a disk as it rotted."""
        return [rot for rot in self.all if rot.part in parts and self._is_there(rot)]

    def _is_there(self, rot: Rot) -> bool:
        files = self._files(rot.broker)
        if not files.exists(rot.path):
            return False
        content, (front, behind) = files.content(rot.path), rot.neighbours
        rotten = front + rot.after + behind
        begin = rot.position - len(front)
        return content[begin : begin + len(rotten)] == rotten

    def hits(self) -> dict[str, list[tuple[int, int]]]:
        """The offsets that rot may have taken from each partition, where there is no other copy."""
        found: dict[str, list[tuple[int, int]]] = {}
        if len(self._cluster.seats) == 1:
            for rot in self.all:
                if rot.part == RECORDS:
                    found.setdefault(str(rot.partition), []).append((rot.first_offset, rot.next_offset))
        return found

    def forgets(self) -> bool:
        """Whether groups may have forgotten commits: the only copy of their coordinators' records rotted."""
        return any(name.startswith("__") for name in self.hits())

    # --- what must become of it ---------------------------------------------------------------------------------------

    def is_nothing_left(self) -> bool:
        return not self.unrepaired()

    def unrepaired(self) -> list[Rot]:
        """Rotten records that are not repaired, or, on the only copy, that the broker has not found."""
        left = self.left(RECORDS)
        return left if len(self._cluster.seats) > 1 else [rot for rot in left if not self._is_found(rot)]

    def _is_found(self, rot: Rot) -> bool:
        server = self._cluster.servers().get(rot.broker)
        partition = None if server is None or rot.partition is None else server.broker.replicas.get(rot.partition)
        if server is None or partition is None:
            return partition is None and server is not None  # deleted
        is_read = partition.log.log_start_offset < rot.next_offset
        return not is_read or any(
            found.file == rot.path for found in server.broker.corruption.found.get(partition.name, {}).values()
        )

    def unsaid(self, lines: Sequence[str]) -> list[Anomaly]:
        """Records of the only copy that rotted, without an ERROR that names partition and file."""
        left = [] if len(self._cluster.seats) > 1 else [rot for rot in self.left(RECORDS) if self._is_kept(rot)]
        return [
            Anomaly("rot-unsaid", f"nobody said that {rot} cannot be read")
            for rot in left
            if not any(str(rot.path) in line and str(rot.partition) in line for line in lines)
        ]

    def _is_kept(self, rot: Rot) -> bool:
        server = self._cluster.servers().get(rot.broker)
        partition = None if server is None or rot.partition is None else server.broker.replicas.get(rot.partition)
        return partition is not None and partition.log.log_start_offset < rot.next_offset

    # --- rotting ------------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> Rot | str:
        """Let bytes rot, as the fault says; or why nothing did."""
        part = str(fault.named["part"])
        if part == RECORDS:
            found = self._records(fault)
        elif part in BESIDE:
            found = self._small_file(fault, part, self._beside(fault, part))
        else:
            found = self._small_file(fault, part, self._in_logs(fault, part))
        if isinstance(found, Rot):
            self._files(found.broker).rot(found.path, found.position, found.after)
            self.all.append(found)
        return found

    def _files(self, broker: int) -> MemoryFiles:
        return self._cluster.seats[broker].machine.disk.files

    def _logs(self, broker: int) -> dict[str, list[TopicPartition]]:
        """The partitions that a broker has, by topic."""
        files, found = self._files(broker), dict[str, list[TopicPartition]]()
        for name in files.names(DATA):
            parsed = parse_log_name(name)
            if parsed is not None and not parsed.role and files.is_directory(DATA / name):
                found.setdefault(parsed.topic_partition.topic, []).append(parsed.topic_partition)
        return dict(sorted(found.items()))

    def _beside(self, fault: Fault, part: str) -> list[Path]:
        return [path for name in BESIDE[part] if self._files(fault.broker).exists(path := DATA / name)]

    def _in_logs(self, fault: Fault, part: str) -> list[Path]:
        files, found = self._files(fault.broker), list[list[Path]]()
        for partitions in self._logs(fault.broker).values():
            paths = [path for name in partitions for path in _files_of(files, DATA / str(name), NAMES[part])]
            if any(files.synced_content(path) for path in paths):
                found.append(paths)
        return found[int(fault.number("topic") * len(found))] if found else []

    def _small_file(self, fault: Fault, part: str, paths: list[Path]) -> Rot | str:
        """A file that is no records': anything in it, as far as its reader can notice (promise 3)."""
        files = self._files(fault.broker)
        paths = [path for path in paths if files.synced_content(path)]
        if not paths:
            return f"there is no synced file for {part}"
        path = paths[int(fault.number("file") * len(paths))]
        if path.name == RECOVERY_POINTS and any(rot.broker == fault.broker for rot in self.left(RECORDS)):
            return f"without {path.name} nobody can tell rotten records from a torn end"
        content = files.synced_content(path)
        position, after = _rotten(fault, part, content)
        before = content[position : position + len(after)]
        if before == after:
            return f"{path} has nothing that could rot"
        parsed = parse_log_name(path.parent.name)
        partition = None if parsed is None else parsed.topic_partition
        return Rot(fault.broker, part, path, partition, position, before, after)

    # --- records ------------------------------------------------------------------------------------------------------

    def _records(self, fault: Fault) -> Rot | str:
        eligible = {
            topic: choices
            for topic, partitions in self._logs(fault.broker).items()
            if topic not in self.shielded
            and (choices := [choice for name in partitions for choice in self._segments(fault.broker, name)])
        }
        if not eligible:
            return "no other copy is known to have what could rot"
        choices = list(eligible.values())[int(fault.number("topic") * len(eligible))]
        partition, path, batches = choices[int(fault.number("file") * len(choices))]
        content = self._files(fault.broker).synced_content(path)
        number = int(fault.number("place") * len(batches))
        position, after = _rotten_records(fault, content, batches, number)
        before = content[position : position + len(after)]
        if before == after:
            return f"{path} has zeros there already"
        behind = position + len(after)
        first, end = _hit(batches, position, behind)
        neighbours = (
            content[max(position - NEIGHBOURS_BYTES, 0) : position],
            content[behind : behind + NEIGHBOURS_BYTES],
        )
        return Rot(fault.broker, RECORDS, path, partition, position, before, after, first, end, neighbours)

    def _segments(self, broker: int, name: TopicPartition) -> Iterator[tuple[TopicPartition, Path, list[_Placed]]]:
        """The segments of a partition with batches that may rot, promise 2."""
        limit = min(self._recovery_point(broker, name), self._committed(broker, name))
        rotten = [rot for rot in self.left(RECORDS) if rot.partition == name]
        if any(rot.broker != broker for rot in rotten):
            return
        files = self._files(broker)
        for path in _files_of(files, DATA / str(name), NAMES[RECORDS]):
            batches = [batch for batch in _batches(files.synced_content(path)) if batch.next_offset <= limit]
            if batches and all(rot.path != path for rot in rotten):
                yield name, path, batches

    def _recovery_point(self, broker: int, name: TopicPartition) -> int:
        """As it is on the disk; 0 when nobody can read it."""
        files, path = self._files(broker), DATA / RECOVERY_POINTS
        if any(rot.broker == broker and rot.path == path for rot in self.left("tables")):
            return 0
        text = files.synced_content(path).decode(errors="replace") if files.exists(path) else ""
        for line in text.splitlines()[2:]:
            *words, offset = line.split(" ")
            if words == [name.topic, str(name.partition)] and offset.isdecimal():
                return int(offset)
        return 0

    def _committed(self, broker: int, name: TopicPartition) -> int:
        """Up to where another replica in sync has the records."""
        if len(self._cluster.seats) == 1:
            return END_OF_OFFSETS
        copies = self._cluster.replicas(*name)
        states = [copy.state for copy in copies.values() if copy.state is not None]
        newest = max(states, key=lambda state: state.partition_epoch, default=None)
        if newest is None or not any(replica != broker for replica in newest.isr):
            return 0
        return max(copy.log.high_watermark for copy in copies.values())


@dataclass(frozen=True)
class _Placed:
    """A batch in a records file."""

    position: int
    size_bytes: int
    base_offset: int
    next_offset: int


def _batches(content: bytes) -> list[_Placed]:
    found, position = [], 0
    while position + HEADER_BYTES <= len(content):
        batch = BatchInfo(content, position)
        if batch.size_bytes < HEADER_BYTES or position + batch.size_bytes > len(content):
            break
        found.append(_Placed(position, batch.size_bytes, batch.base_offset, batch.next_offset))
        position += batch.size_bytes
    return found


def _rotten_records(fault: Fault, content: bytes, batches: list[_Placed], number: int) -> tuple[int, bytes]:
    batch = batches[number]
    proved = [*range(LENGTH_AT, LEADER_EPOCH_AT), *range(MAGIC_AT, batch.size_bytes)]
    at = batch.position + proved[int(fault.number("byte") * len(proved))]
    if fault.named["how"] != "zeros":
        return at, _flipped(fault, content[at])
    end = min(at + SECTOR_BYTES, batches[-1].position + batches[-1].size_bytes)
    for other in batches[number + 1 :]:
        if other.position < end < other.position + UNPROVED_BYTES:
            end = other.position
    return at, bytes(end - at)


def _hit(batches: list[_Placed], position: int, end: int) -> tuple[int, int]:
    """The offsets that cannot be read without these bytes: from the end of the batch before them, because nobody can
    tell any more whether there was nothing between (what compaction took away) or one of them."""
    hit = [batch for batch in batches if batch.position < end and position < batch.position + batch.size_bytes]
    before = [batch.next_offset for batch in batches if batch.position < hit[0].position]
    return before[-1] if before else hit[0].base_offset, hit[-1].next_offset


def _rotten(fault: Fault, part: str, content: bytes) -> tuple[int, bytes]:
    """Where, and what stands there then."""
    is_zeros = fault.named["how"] == "zeros"
    if part in TEXTS:
        at = int(fault.number("byte") * len(content))
        return (0, bytes(len(content))) if is_zeros else (at, bytes([content[at] | NO_MEANING]))
    if part == "aborted-index":  # all but the version of an entry may be anything
        at = int(fault.number("place") * (len(content) // ABORTED_ENTRY_BYTES)) * ABORTED_ENTRY_BYTES
        return at, _flipped(fault, content[at])
    at = int(fault.number("byte") * len(content))
    return (at, bytes(min(SECTOR_BYTES, len(content) - at))) if is_zeros else (at, _flipped(fault, content[at]))


def _flipped(fault: Fault, byte: int) -> bytes:
    if fault.named["how"] == "byte":
        return bytes([byte ^ 0xFF])
    return bytes([byte ^ 1 << int(fault.number("bit"))])


def _files_of(files: MemoryFiles, directory: Path, name: str) -> list[Path]:
    matches: Callable[[str], object] = re.compile(name).fullmatch
    return [directory / found for found in files.names(directory) if matches(found)]
