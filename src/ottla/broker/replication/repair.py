"""Damaged records of this broker's copy are fetched again from another replica, while everybody else is served.

    await repair_segment(partition, segment, copies=[2, 3], ask=broker.link.ask_broker, ...)

1. The other replica is asked as a consumer asks, from the first damaged offset on: it answers with what is committed,
   whether it leads or follows, and does not take it for the progress of a follower. Only an in-sync replica is asked.
2. What comes is proved (storage/log/repair.py) and takes the place of the damaged bytes by a swap of the segment. No
   record that is sound is fetched, no replica leaves the in-sync set, and the leader stays where it is: it is a matter
   of milliseconds, in which only the damaged offsets are refused.
3. A segment that is still appended to is rolled first.
4. The next replica is asked when one does not answer, has the offsets no more, or sends what does not fit. Where all
   of them answer, and what each has there is damaged too, NoGoodCopy says so.
5. A compacted log gets nothing back that was removed from it: where a tombstone is gone here, the other copy may still
   have both it and the record before it. So what the other copy has behind the stretch, up to where this log is
   compacted, is read as the cleaner reads it, and only the last record of a key comes over.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final

from ottla.broker.replication.partition import Partition
from ottla.cluster.model import NO_LEADER
from ottla.errors import CorruptMessage, KafkaStorageError, OttlaError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.protocol.schema import Message
from ottla.records import scan
from ottla.storage.compaction.batch_copy import BatchCopier, CopyCounts, LastRecords, keep_rules
from ottla.storage.compaction.cleaned_transactions import CleanedTransactions
from ottla.storage.compaction.key_map import KeyMap
from ottla.storage.files import Buffer
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.repair import RepairRefused, SegmentRepair, fitting
from ottla.storage.log.truncate import Removed
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.records_file import framed_bytes
from ottla.storage.segment.segment import Segment

log = logging.getLogger(__name__)

ANY_LEADER_EPOCH: Final = -1
READ_COMMITTED: Final = 1
FETCH_BYTES: Final = 256 * 1024
KEYS_BYTES: Final = 32 << 20
KEYS_LOAD: Final = 0.9

AskBroker = Callable[[int, Message], Awaitable[Message]]
OffLoop = Callable[[Callable[[], None]], Awaitable[None]]


class NoGoodCopy(RepairRefused):
    """The records are damaged on every replica in sync. They are lost unless a backup has them; the rest is served."""


def other_copies(partition: Partition, broker_id: int) -> list[int]:
    """The other replicas in sync, the leader first."""
    state = partition.state
    if state is None:
        return []
    others = [replica for replica in state.isr if replica != broker_id]
    leader = [] if state.leader in (broker_id, NO_LEADER) else [state.leader]
    return leader + [replica for replica in others if replica not in leader]


async def verify_segment(
    log: PartitionLog, segment: Segment, off_loop: OffLoop, compacted_up_to: int
) -> AsyncIterator[int]:
    """Prove all batches of a segment, a chunk at a time, and note what is damaged; gives the bytes of each chunk."""
    following = log.segments.higher(segment.base_offset)
    verification = segment.verification(
        end_offset=log.log_end_offset if following is None else following.base_offset,
        has_gaps=log.settings.is_compacted or compacted_up_to > segment.base_offset,
    )
    truncations, position = log.truncations, 0
    for step in one_by_one(iter(verification)):
        await off_loop(step)
        yield verification.position - position
        position = verification.position
    # What was cut or replaced meanwhile was read while it changed.
    if log.truncations == truncations and log.segments.get(segment.base_offset) is segment:
        segment.damages = tuple(verification.damages)
        log.segments.forget_positions()


async def repair_segment(
    partition: Partition,
    segment: Segment,
    *,
    copies: Sequence[int],
    ask: AskBroker,
    off_loop: OffLoop,
    now_ms: Callable[[], int],
    compacted_up_to: int = 0,
) -> Removed:
    """Put sound records in the place of damaged ones; returns the files to be removed. RepairRefused when no replica
    could help, NoGoodCopy when none ever will."""
    refusals: list[OttlaError] = []
    for broker_id in copies:
        try:
            copy = _Copy(partition, broker_id, ask, now_ms(), compacted_up_to)
            return await _repair_from(copy, partition, segment, off_loop, now_ms)
        except KafkaStorageError:
            raise  # our own disk
        except OttlaError as error:
            refusals.append(error)
    said = "; ".join(f"broker {broker_id}: {error}" for broker_id, error in zip(copies, refusals, strict=True))
    if refusals and all(isinstance(error, CorruptMessage) for error in refusals):
        raise NoGoodCopy(said)
    raise RepairRefused(said or "no other replica is in sync")


async def _repair_from(
    copy: _Copy, partition: Partition, segment: Segment, off_loop: OffLoop, now_ms: Callable[[], int]
) -> Removed:
    damages, path = segment.damages, segment.path
    patches = {damage: await copy.batches_for(damage) for damage in damages}
    if partition.log.active is segment:
        partition.log.roll(now_ms())
    repair = SegmentRepair(partition.log, segment, patches, now_ms())
    try:
        for step in one_by_one(repair.steps()):
            await off_loop(step)
        removed = repair.swap()
    finally:
        repair.give_up()
    if removed is None:
        raise RepairRefused(f"{path} was replaced meanwhile")
    where = ", ".join(f"{damage.first_offset} to {damage.next_offset - 1}" for damage in damages)
    log.warning("%s: repaired offsets %s of %s from broker %d", partition.name, where, path, copy.broker_id)
    return removed


def one_by_one(steps: Iterator[object]) -> Iterator[Callable[[], None]]:
    """The steps as calls for a worker; ends when the last one has run."""
    is_over = False

    def step() -> None:
        nonlocal is_over
        is_over = next(steps, steps) is steps

    while not is_over:
        yield step


class _Copy:
    """The partition as another broker has it."""

    def __init__(self, partition: Partition, broker_id: int, ask: AskBroker, now_ms: int, compacted_up_to: int) -> None:
        self.broker_id = broker_id
        self._partition = partition
        self._ask = ask
        self._now_ms = now_ms
        self._compacted_up_to = compacted_up_to

    async def batches_for(self, damage: Damage) -> bytes:
        """What has to stand in the place of damaged bytes."""
        log = self._partition.log
        pieces = [piece async for piece, _ in self._read(damage.first_offset, damage.next_offset)]
        has_gaps = log.settings.is_compacted or self._compacted_up_to > damage.first_offset
        found = fitting(damage, b"".join(pieces), has_gaps=has_gaps, log_start_offset=log.log_start_offset)
        if found and self._compacted_up_to > damage.first_offset:
            return await self._compacted(damage, found)
        return found

    async def _compacted(self, damage: Damage, batches: bytes) -> bytes:
        """Without records that a later one has superseded, promise 5."""
        end_offset = max(self._compacted_up_to, damage.next_offset)
        keys = KeyMap(KEYS_BYTES, load_factor=KEYS_LOAD, offsets_expected=end_offset - damage.first_offset)
        learned, copied = CleanedTransactions(), CleanedTransactions()
        async for piece, aborted in self._read(damage.first_offset, end_offset):
            learned.add(aborted)
            copied.add(aborted)
            if keys.learn(piece, learned, damage.first_offset) < len(piece):
                raise RepairRefused(f"there are too many keys behind offset {damage.first_offset}")
        rules = keep_rules(
            *(keys, LastRecords([], {})),
            end_offset=end_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self._partition.log.settings.delete_retention_ms,
        )
        return BatchCopier(keys, copied, rules, {}, CopyCounts()).copy(batches)[1]

    async def _read(self, offset: int, end_offset: int) -> AsyncIterator[tuple[bytes, list[AbortedTransaction]]]:
        """Whole batches, with the transactions among them that were aborted."""
        while offset < end_offset:
            found = await self._fetch(offset)
            if found.log_start_offset > offset:
                offset = min(found.log_start_offset, end_offset)  # deleted there, and soon here
                continue
            records: Buffer = found.records or b""
            batches = scan(records, 0, framed_bytes(bytes(records)))  # the last one may be cut off
            if not batches or batches[-1].next_offset <= offset:
                raise RepairRefused(f"it has no records from offset {offset} on")
            end = batches[-1].position + batches[-1].size_bytes
            offset = batches[-1].next_offset
            yield bytes(memoryview(records)[:end]), _aborted(found, offset - 1)

    async def _fetch(self, offset: int) -> PartitionData:
        partition = self._partition
        wanted = FetchPartition(
            partition=partition.name.partition,
            current_leader_epoch=ANY_LEADER_EPOCH,
            fetch_offset=offset,
            partition_max_bytes=FETCH_BYTES,
        )
        topic = FetchTopic(topic=partition.name.topic, topic_id=partition.topic_id, partitions=[wanted])
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=READ_COMMITTED, topics=[topic]
        )
        response = await self._ask(self.broker_id, request)
        assert isinstance(response, FetchResponse)
        found = response.responses[0].partitions[0] if response.responses else None
        code = response.error_code if found is None else found.error_code
        if code == CorruptMessage.code:
            raise CorruptMessage("it cannot read its own copy there either")
        if found is None or code:
            raise RepairRefused(f"it answers with error {code}")
        return found


def _aborted(found: PartitionData, last_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(each.producer_id, each.first_offset, last_offset, last_offset)
        for each in found.aborted_transactions or ()
    ]
