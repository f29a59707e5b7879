"""Reads what nobody reads: every batch of every log, again and again, slowly, to find rot while another copy is sound.

1. A pass goes through the logs of a directory by name, segment by segment, CRC by CRC, also the part of the segment
   that grows. It reads at most ottla.verify.max.bytes.per.second, on a worker, and a look at a segment counts as
   LOOK_BYTES at least: ten thousand small ones are not read in one go. The next pass begins ottla.verify.interval.ms
   after the last one began.
2. How far a pass is lies in the directory (`ottla-verification.json`), so that a restart goes on and does not begin.
   It is written when a log is done, at most every SAVE_MS: a lost position costs reading again.
3. What is damaged is reported (replication/corruption.py), and repaired there if another replica is in sync, or as soon
   as one is. What is known to be damaged lies in the same file: a restart looks at it first, and `ottla doctor --data`
   tells it. The start of a broker may have found some more (recovery): it is reported with the first look.
4. A log that cannot be read at all, or that goes away meanwhile, is passed over; others are not kept waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.repair import verify_segment
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.storage.compaction.io_throttle import IoThrottle
from ottla.storage.directory.verified import POSITION_FILE, Position, read_position

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition
    from ottla.storage.directory.directories import LogDirectory
    from ottla.storage.directory.manager import LogManager
    from ottla.storage.segment.segment import Segment

log = logging.getLogger(__name__)

SAVE_MS: Final = 10_000
LOOK_MS: Final = 10_000
DAMAGED_LIMIT: Final = 1_000
LOOK_BYTES: Final = 64 * 1024
"""What a segment costs at least: a file that is opened, and a turn of a worker."""

OffLoop = Callable[[Callable[[], None]], Awaitable[None]]


async def keep_verifying(broker: Broker, logs: LogManager, clock: Clock, off_loop: OffLoop) -> None:
    """Verify until cancelled."""
    verification = Verification(broker, logs, clock, off_loop)
    while True:
        await clock.sleep(min(LOOK_MS, broker.settings.ottla_verify_interval_ms))
        await verification.go_on()


class Verification:
    """The passes over all directories of a broker, one after the other."""

    def __init__(self, broker: Broker, logs: LogManager, clock: Clock, off_loop: OffLoop) -> None:
        self._broker = broker
        self._logs = logs
        self._clock = clock
        self._off_loop = off_loop
        self._throttle = IoThrottle(broker.settings.ottla_verify_max_bytes_per_second)
        self._positions: dict[Path, Position] = {}
        self._saved_ms = 0
        self._has_reported = False

    async def go_on(self) -> None:
        """Report what the start found, and go on with the passes that are due."""
        if not self._has_reported:
            self._has_reported = True
            await self._report_known()
        self._broker.corruption.repair_known()
        for directory in self._logs.directories:
            if directory.is_online:
                await self._pass(directory)
                await self._save_damaged(directory)

    async def _report_known(self) -> None:
        known = {file for directory in self._logs.directories for file in self._position(directory).damaged}
        for partition in list(self._broker.replicas):
            for segment in list(partition.log.segments):
                if _name(segment) in known:
                    await self._verify_segment(partition, segment)
                else:
                    self._report(partition, segment)
            await self._clock.sleep(0)

    def _position(self, directory: LogDirectory) -> Position:
        if directory.path not in self._positions:
            self._positions[directory.path] = read_position(directory.files, _path(directory))
        return self._positions[directory.path]

    async def _save_damaged(self, directory: LogDirectory) -> None:
        """Write down what is damaged, if that has changed; the names of DAMAGED_LIMIT segments at most."""
        damaged = {
            f"{found.file.parent.name}/{found.file.name}": found.error
            for partition in self._broker.corruption.found.values()
            for found in partition.values()
            if found.file.parent.parent == directory.path
        }
        position = self._position(directory)
        damaged = dict(list(damaged.items())[:DAMAGED_LIMIT])
        if damaged != position.damaged:
            position.damaged = damaged
            await self._save(directory, position, is_over=True)

    async def _pass(self, directory: LogDirectory) -> None:
        position = self._position(directory)
        now_ms = self._clock.now_ms()
        if position.is_over:
            # A clock that was set right may have been far ahead when the last one began.
            if 0 <= now_ms - position.began_ms < self._broker.settings.ottla_verify_interval_ms:
                return
            position.began_ms, position.ended_ms, position.next_log = now_ms, now_ms - 1, None
        for partition in self._following(directory, position):
            position.next_log = partition.name
            await self._save(directory, position)
            await self._verify(partition)
        position.ended_ms = max(self._clock.now_ms(), position.began_ms)
        position.next_log = None
        self._broker.counts.verification_passes += 1
        await self._save(directory, position, is_over=True)

    def _following(self, directory: LogDirectory, position: Position) -> Iterator[Partition]:
        names = sorted(partition.name for partition in self._broker.replicas)
        for name in names:
            if position.next_log is not None and name < position.next_log:
                continue
            partition = self._broker.replicas.get(name)
            if partition is not None and partition.log.directory.parent == directory.path:
                yield partition

    async def _save(self, directory: LogDirectory, position: Position, *, is_over: bool = False) -> None:
        now_ms = self._clock.now_ms()
        if not is_over and 0 <= now_ms - self._saved_ms < SAVE_MS:
            return
        self._saved_ms = now_ms
        content = position.to_bytes()
        try:
            await self._off_loop(lambda: directory.files.replace_bytes(_path(directory), content))
        except (OttlaError, OSError) as error:  # a full disk is no reason not to look at what is on it
            log.warning("how far the verification of %s is could not be written down: %s", directory.path, error)

    async def _verify(self, partition: Partition) -> None:
        """All segments of a log, as they are when their turn comes."""
        segment = partition.log.segments.first
        while segment is not None and partition.offline is None:
            try:
                await self._verify_segment(partition, segment)
            except (OttlaError, OSError, ValueError) as error:  # files that were closed meanwhile raise ValueError
                log.warning("%s cannot be verified: %s", segment.path, error)
            segment = partition.log.segments.higher(segment.base_offset)

    async def _verify_segment(self, partition: Partition, segment: Segment) -> None:
        if not segment.size_bytes:
            await self._clock.sleep(0)  # nothing to read; many logs are empty, and others have a turn in between
            return
        compacted_up_to = self._logs.cleaner_offset(partition.name) or 0
        self._throttle.bytes_per_second = self._broker.settings.ottla_verify_max_bytes_per_second
        async for size_bytes in verify_segment(partition.log, segment, self._off_loop, compacted_up_to):
            self._broker.counts.verified_bytes += size_bytes
            await self._clock.sleep(self._throttle.spend(max(size_bytes, LOOK_BYTES), self._clock.now_ms()))
        if partition.log.segments.get(segment.base_offset) is segment:
            self._report(partition, segment)

    def _report(self, partition: Partition, segment: Segment) -> None:
        for damage in segment.damages:
            self._broker.corruption.report(partition, segment.path, damage.first_offset, str(damage))


def _name(segment: Segment) -> str:
    return f"{segment.path.parent.name}/{segment.path.name}"


def _path(directory: LogDirectory) -> Path:
    return directory.path / POSITION_FILE
