"""A quorum whose commits come when the test says so, and a reader of its log that knows nothing but the records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.errors import BrokerError, NotController
from ottla.light_dataclasses import replace
from ottla.protocol.metadata_log import decode_record
from ottla.protocol.metadata_log.control import ControlMessage, KRaftVersionRecord, VotersRecord

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


class FakeQuorum:
    """A MetadataQuorum. While `commits` is False nothing is committed."""

    def __init__(self, *, epoch: int = 1) -> None:
        self.epoch = epoch
        self.batches: list[tuple[int, tuple[bytes, ...]]] = []
        self.next_offset = 0
        self.high_watermark = 0
        self.commits = True
        self.is_over = False
        self.refusal: BrokerError | None = None
        """Of another kraft.version."""
        self._waiting: list[asyncio.Event] = []
        self._controls: dict[int, tuple[ControlMessage, ...]] = {}  # by the offsets of their batches

    def append(self, batches: Sequence[Sequence[bytes]]) -> int:
        if self.is_over:
            raise NotController
        for values in batches:
            self.batches.append((self.next_offset, tuple(values)))
            self.next_offset += len(values)
        if self.commits:
            self.commit()
        return self.next_offset

    def append_control(self) -> None:
        """Raft writes something of its own between two decisions."""
        self.batches.append((self.next_offset, ()))
        self.next_offset += 1

    def raise_kraft_version(self, level: int) -> int:
        if self.refusal is not None:
            raise self.refusal
        self._controls[self.next_offset] = KRaftVersionRecord(k_raft_version=level), VotersRecord(voters=[])
        self.batches.append((self.next_offset, ()))
        self.next_offset += 2
        if self.commits:
            self.commit()
        return self.next_offset

    def commit(self) -> None:
        self.high_watermark = self.next_offset
        self._wake()

    def end(self) -> None:
        """Another node leads now."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def committed(self, end_offset: int) -> None:
        while self.high_watermark < end_offset:
            if self.is_over:
                raise NotController
            event = asyncio.Event()
            self._waiting.append(event)
            await event.wait()

    def read(self) -> ClusterImage:
        """The image of everything committed, as a reader of the log has it."""
        loader = MetadataLoader(CLUSTER)
        for offset, values in self.batches:
            if offset >= self.high_watermark:
                break
            records = tuple(decode_record(value)[0] for value in values)
            controls = self._controls.get(offset, ())
            last = offset + max(len(values), len(controls), 1) - 1
            loader.add(MetadataBatch(offset, last, self.epoch, 0, records, controls))
        return replace(loader.image, controller_id=1, controller_epoch=self.epoch)

    @property
    def names(self) -> list[list[str]]:
        """The records of each batch, by their kinds."""
        return [[type(decode_record(value)[0]).__name__ for value in values] for _, values in self.batches]
