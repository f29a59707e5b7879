"""Plain requests for several partitions of one topic that came together: as simple ones go (simple.py), from frames to
answers without an object for each batch.

    scan_plain_run ─► for each partition one append of all its batches ─► write_placed
    _frames.pyx       storage/log, replication                           _frames.pyx

A producer with small batches sends these: a batch of each partition in a request, several requests at a time.

1. Plain is what simple is, but for the number of partitions (`scan_plain_run` of frames.py says it exactly).
2. What may be unusual (unknown, internal, schemas, access, quotas of who waits) is seen before anything is touched;
   then the answer is None, and runs.py handles the requests from their beginning.
3. A partition that does not take its batches as a run (`append_run` of storage/log/append.py) takes them one by one, in
   the order of the requests, as in the usual way; the others are not concerned.
4. Where partitions must still commit what they appended, the answers are written at once and held back until the last
   of them has (held.py): a place in line for each partition, whatever the number of requests.
5. The usual way gives the same answers, leaves the same logs and counts the same (test_plain_runs.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.produce.append import Appending, topic_name, waits_for_commit
from ottla.broker.produce.choice import scan_plain_run, write_placed
from ottla.broker.produce.committed import Uncommitted, count_refusal, wait_until_committed
from ottla.broker.produce.frames import PlainRun, Produce, ProduceResult, ProduceResults
from ottla.broker.produce.held import HeldPlain
from ottla.broker.produce.simple import SimpleAnswers
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.security.needs import Need
from ottla.errors import BrokerError
from ottla.records.checks import PlacedBatch

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def answer_plain(
    broker: Broker, frames: list[memoryview], position: int, context: RequestContext, may_write: Need
) -> SimpleAnswers | None:
    """Append what stands at the front of these frames, whose bodies begin at `position`, and answer it."""
    run = scan_plain_run(context.api_version, frames, position)
    if run is None or len(run.parts) == 1:  # what one partition does not take as simple it does not take as plain
        return None
    name = topic_name(broker, run.topic)
    if name is None or name in broker.internal_topics:
        return None
    if broker.access.is_on and name not in may_write.remembered(broker, context):
        return None
    may_hold = context.charges is None and not broker.progress.commits.is_closed
    partitions: dict[int, Partition] = {}
    for index in run.parts:
        partition = broker.replicas.get((name, index))
        if partition is None or partition.checks_schemas:
            return None
        if not may_hold and (partition.in_sync is not None or partition.is_durable):
            return None
        partitions[index] = partition
    return _append(broker, frames, run, name, partitions, context)


def _append(
    broker: Broker,
    frames: list[memoryview],
    run: PlainRun,
    name: str,
    partitions: dict[int, Partition],
    context: RequestContext,
) -> SimpleAnswers:
    placed: dict[int, list[PlacedBatch]] = {}
    log_starts: dict[int, int] = {}
    refused: dict[int, BrokerError] = {}
    waits: list[tuple[int, Partition, int]] = []  # until the high watermark is there
    size_bytes = record_count = batch_count = 0
    now_ms = broker.clock.now_ms()
    for index, records in run.parts.items():
        partition = partitions[index]
        try:
            batches = partition.append_run(records, acks=run.acks, now_ms=now_ms)
        except BrokerError as error:
            refused[index] = error
            for each in records:
                count_refusal(broker, name, error, len(each))
            continue
        if batches is None:
            continue
        broker.progress.appended(partition)
        placed[index] = batches
        end, next_offset = partition.end, batches[-1][1] + 1
        log_starts[index] = end.log_start_offset
        size_bytes += sum(map(len, records))
        record_count += next_offset - batches[0][0]
        batch_count += len(batches)
        if end.high_watermark < next_offset and waits_for_commit(partition, run.acks):
            waits.append((index, partition, next_offset))
    if batch_count:
        broker.topic_metrics.produced(name, size_bytes, record_count, batch_count)
    if len(placed) == len(partitions):
        content = write_placed(context.api_version, frames, run.topic, run.orders, placed, log_starts)
        if not waits:
            return SimpleAnswers(len(run.orders), content, [])
        sizes = list(map(len, frames[: len(run.orders)]))
        held = HeldPlain(content, sizes, run, placed, log_starts, context.api_version)
        held.wait_for(broker, waits, run.timeout_ms, run.acks == ACKS_ALL)
        return SimpleAnswers(len(run.orders), b"", [], held)
    return _one_by_one(broker, run, context, placed, log_starts, refused, {index: each for index, each, _ in waits})


def _one_by_one(
    broker: Broker,
    run: PlainRun,
    context: RequestContext,
    placed: dict[int, list[PlacedBatch]],
    log_starts: dict[int, int],
    refused: dict[int, BrokerError],
    waits: dict[int, Partition],
) -> SimpleAnswers:
    """Append what is left, and say of each batch what became of it."""
    places = {index: iter(batches) for index, batches in placed.items()}
    left = {index: iter(run.parts[index]) for index in run.parts if index not in placed and index not in refused}
    appending = Appending(broker, run.acks, context)
    added = []
    for order in run.orders:
        its_own = [(index, next(left[index])) for index in order if index in left]
        request = Produce(None, run.acks, run.timeout_ms, [(run.topic, [*its_own])])
        [(_, outcomes)], uncommitted = appending.add(request)
        outcome_of = iter(outcomes)
        results: list[ProduceResult] = []
        placed_waits: list[Uncommitted] = []
        for index in order:
            if index in places:
                place = next(places[index])
                results.append(ProduceResult(index, place.base_offset, log_start_offset=log_starts[index]))
                if index in waits:
                    next_offset = place.last_offset + 1
                    placed_waits.append(Uncommitted(waits[index], next_offset, results[-1], run.acks == ACKS_ALL))
            elif index in left:
                results.append(next(outcome_of))
            else:
                results.append(ProduceResult(index, error=refused[index]))
        added.append(([(run.topic, results)], placed_waits, uncommitted))
    appending.append()
    handled: list[ProduceResults | Work[ProduceResults]] = [
        wait_until_committed(broker, answers, [*before, *uncommitted], run.timeout_ms)
        for answers, before, uncommitted in added
    ]
    return SimpleAnswers(len(run.orders), b"", handled)
