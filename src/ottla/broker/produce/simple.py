"""The simple produce, which nearly all are: from frames to answers in three native calls for all that came together.

    scan_simple ─► place_plain_run ─► write, indexes, high watermark ─► write_appended
    _frames.pyx    _checks.pyx        storage/log, replication          _frames.pyx

1. Simple is: acks 1 or all, no transactional id, one partition, a batch that is neither compressed nor transactional;
   and the same partition for all that are taken together (`scan_simple` of frames.py says it exactly).
2. What is not simple is not touched, and the answer is None: the usual way (handlers/records/produce.py) handles the
   request from its beginning. So it is for partitions that are unknown, led elsewhere or short of replicas, for topics
   that the sender is not known to be allowed to write, and for what `append_run` (storage/log/append.py) leaves alone:
   producers that do not simply go on, batches that are not plain, segments that must roll. Every refusal has one place.
3. The usual way gives the same answers, leaves the same log and counts the same (test_simple_produce.py).
4. Where a batch must still be committed, the answers are written at once and held back until it is (held.py). Where
   time is counted against a quota, each request gets a coroutine that waits, as in the usual way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.network.held import HeldAnswers
from ottla.broker.produce.append import waits_for_commit
from ottla.broker.produce.choice import scan_simple, write_appended
from ottla.broker.produce.committed import Uncommitted, count_refusal, wait_until_committed
from ottla.broker.produce.frames import ProduceResult, ProduceResults, SimpleProduce
from ottla.broker.produce.gathered import Gathered
from ottla.broker.produce.held import HeldProduce
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.security.needs import Need
from ottla.errors import BrokerError
from ottla.light_tuples import NamedTuple
from ottla.records.checks import PlacedBatch

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NOT_SIMPLE: Final = None


class SimpleAnswers(NamedTuple):
    """What the first `request_count` frames are answered with: whole frames, now or later, or for each what a handler
    returns."""

    request_count: int
    content: bytes
    handled: list[ProduceResults | Work[ProduceResults]]
    held: HeldAnswers | None = None


def answer_simple(
    broker: Broker, frames: list[memoryview], position: int, context: RequestContext, may_write: Need
) -> SimpleAnswers | None:
    """Append what stands at the front of these frames, whose bodies begin at `position`, and answer it."""
    simple = scan_simple(context.api_version, frames, position)
    if simple is None:
        return NOT_SIMPLE
    partition = _partition(broker, simple)
    if partition is None or (broker.access.is_on and partition.name.topic not in may_write.remembered(broker, context)):
        return NOT_SIMPLE
    gathered = broker.gathered
    if gathered is None:
        gathered = broker.gathered = Gathered(broker)
    if gathered.takes(partition, simple, len(frames[0]), context):
        return SimpleAnswers(len(simple.records), b"", [], gathered.add(partition, simple, frames, context))
    gathered.append_all()
    try:
        batches = partition.append_run(simple.records, acks=simple.acks, now_ms=broker.clock.now_ms())
    except BrokerError as error:
        for records in simple.records:
            count_refusal(broker, partition.name.topic, error, len(records))
        refused = ProduceResult(simple.partition, error=error)
        return SimpleAnswers(len(simple.records), b"", [[(simple.topic, [refused])] for _ in simple.records])
    if batches is None:
        return NOT_SIMPLE
    return _appended(broker, frames, context, simple, partition, batches)


def _partition(broker: Broker, simple: SimpleProduce) -> Partition | None:
    """The partition that clients may write to; None where the usual way knows what to say."""
    topic = simple.topic
    name = topic if isinstance(topic, str) else broker.image.topic_name(topic)
    if name is None or name in broker.internal_topics:
        return None
    partition = broker.replicas.get((name, simple.partition))
    return None if partition is not None and partition.checks_schemas else partition


def _appended(
    broker: Broker,
    frames: list[memoryview],
    context: RequestContext,
    simple: SimpleProduce,
    partition: Partition,
    batches: list[PlacedBatch],
) -> SimpleAnswers:
    broker.progress.appended(partition)
    count, end = len(batches), partition.end
    size_bytes = sum(map(len, simple.records))
    next_offset = batches[-1].last_offset + 1
    broker.topic_metrics.produced(partition.name.topic, size_bytes, next_offset - batches[0].base_offset, count)
    waits = end.high_watermark < next_offset and waits_for_commit(partition, simple.acks)
    if waits and (context.charges is not None or broker.progress.commits.is_closed):
        return SimpleAnswers(count, b"", _until_committed(broker, simple, partition, batches))
    content = write_appended(context.api_version, frames, simple.topic, simple.partition, batches, end.log_start_offset)
    if waits:
        held = _held(broker, content, [len(frame) for frame in frames[:count]], context, simple, partition, next_offset)
        return SimpleAnswers(count, b"", [], held)
    return SimpleAnswers(count, content, [])


def _held(
    broker: Broker,
    content: bytes,
    request_bytes: list[int],
    context: RequestContext,
    simple: SimpleProduce,
    partition: Partition,
    next_offset: int,
) -> HeldProduce:
    """These answers, in line for the commit of what they say was appended."""
    outcome = ProduceResult(simple.partition, log_start_offset=partition.end.log_start_offset)
    uncommitted = Uncommitted(partition, next_offset, outcome, simple.acks == ACKS_ALL)
    progress, version = broker.progress, context.api_version
    held = HeldProduce(content, request_bytes, uncommitted, simple.topic, version, progress.next_turn)
    progress.commits.hold(uncommitted, broker.clock.monotonic_ms() + simple.timeout_ms, held)
    return held


def _until_committed(
    broker: Broker, simple: SimpleProduce, partition: Partition, batches: list[PlacedBatch]
) -> list[ProduceResults | Work[ProduceResults]]:
    handled: list[ProduceResults | Work[ProduceResults]] = []
    for batch in batches:
        result = ProduceResult(simple.partition, batch.base_offset, log_start_offset=partition.end.log_start_offset)
        waiting = [Uncommitted(partition, batch.last_offset + 1, result, simple.acks == ACKS_ALL)]
        handled.append(wait_until_committed(broker, [(simple.topic, [result])], waiting, simple.timeout_ms))
    return handled
