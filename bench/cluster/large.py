"""`python -m bench.cluster.large`: what a controller of 100 brokers and 200,000 partitions does, and what it costs.

    python -m bench.cluster.large                                      three copies of each partition
    python -m bench.cluster.large --brokers 30 --partitions 50000

Everything is the code of the controller and of who follows it, on one core, without network and disk: the image, its
snapshot, the decisions when a broker goes and comes back, heartbeats. docs/clusters.md has the figures.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from ottla.cli.collecting import collect_for_service
from ottla.cluster.changes import Change, CreateTopic, RegisterBroker
from ottla.cluster.features import FEATURES, first_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import BatchPlan, planned
from ottla.cluster.metadata_log.batches import data_batch, read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.cluster.model import Broker, Endpoint, Topic
from ottla.cluster.placement import new_partition, place
from ottla.cluster.quorum_controller.fencing import fenced, unfenced
from ottla.cluster.quorum_controller.heartbeats import answer_unchanged
from ottla.cluster.quorum_controller.rules import ControllerRules
from ottla.cluster.quorum_controller.sessions import BrokerSessions
from ottla.cluster.raft.snapshots import Voters, read_snapshot, write_snapshot
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.testing.files import MemoryFiles
from ottla.values import random_uuid

T = TypeVar("T")

COPIES: Final = 3
PARTITIONS_PER_TOPIC: Final = 100
HEARTBEATS: Final = 10_000
INTERVAL_S: Final = 2.0
SNAPSHOT: Final = Path("/large.checkpoint")


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and how many seconds of CPU it took."""
    began_s = time.process_time()
    found = call()
    return found, time.process_time() - began_s


def steps_of(steps: Iterator[None]) -> tuple[float, float]:
    """The seconds of all steps, and of the longest one: so long does the loop do nothing else."""
    total_s = longest_s = 0.0
    while True:
        began_s = time.process_time()
        is_over = next(steps, "over") == "over"
        took_s = time.process_time() - began_s
        total_s, longest_s = total_s + took_s, max(longest_s, took_s)
        if is_over:
            return total_s, longest_s


def memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def size_mb(plan: BatchPlan) -> float:
    return sum(len(record) for batch in plan.batches for record in batch) / 1e6


def first_image(brokers: int, random: Random) -> ClusterImage:
    changes: list[Change] = list(first_features())
    for number in range(brokers):
        endpoint = Endpoint("PLAINTEXT", f"broker-{number}.example.org", 9092, "PLAINTEXT")
        broker = Broker(
            number,
            (endpoint,),
            epoch=number,
            rack=f"rack-{number % 3}",
            features=FEATURES,
            directories=(random_uuid(random.randbytes),),
            fenced=False,
            incarnation_id=random_uuid(random.randbytes),
        )
        changes.append(RegisterBroker(broker))
    return planned(ClusterImage("large"), changes, next_offset=0, random_bytes=random.randbytes).image


def topic(image: ClusterImage, number: int, random: Random) -> CreateTopic:
    replicas = place(image, PARTITIONS_PER_TOPIC, COPIES, random)
    partitions = [new_partition(image, each) for each in replicas]
    assert all(partitions), "everybody lives"
    return CreateTopic(Topic(f"topic-{number:05}", random_uuid(random.randbytes), tuple(filter(None, partitions))))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.large", description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=200_000)
    options = parser.parse_args()
    collect_for_service()  # as every node does
    random, rules = Random(1), ControllerRules(min_insync_replicas=lambda image, topic: 2)
    image, offset = first_image(options.brokers, random), 1_000
    before_mb = memory_mb()

    def created(image: ClusterImage, offset: int, number: int) -> BatchPlan:
        return planned(image, [topic(image, number, random)], next_offset=offset, random_bytes=random.randbytes)

    made_s = log_mb = 0.0
    for number in range(options.partitions // PARTITIONS_PER_TOPIC):
        plan, took_s = timed(lambda: created(image, offset, number))  # noqa: B023, called at once
        image, offset, made_s = plan.image, offset + plan.record_count, made_s + took_s
        log_mb += size_mb(plan)
    print(f"{options.brokers} brokers, {options.partitions:,} partitions of {COPIES} copies")
    print(f"created              {made_s:8.2f} s of CPU, {log_mb:.0f} MB of log")
    print(f"image                {memory_mb() - before_mb:8.0f} MB of memory")

    files = MemoryFiles(seed=1)
    values = (record.encode() for record in snapshot_records(image))
    steps = write_snapshot(files, SNAPSHOT, values, epoch=1, last_timestamp_ms=0, now_ms=lambda: 0, voters=Voters())
    total_s, longest_s = steps_of(steps)
    snapshot_mb = files.size(SNAPSHOT) / 1e6
    longest = f"at most {longest_s * 1e3:.1f} ms at once"
    print(f"snapshot             {snapshot_mb:8.1f} MB, written in {total_s:.2f} s, {longest}")
    loader = MetadataLoader("large")
    total_s, longest_s = steps_of(loader.load_snapshot(read_snapshot(files, SNAPSHOT), end_offset=offset, epoch=1))
    print(f"snapshot read        {total_s:8.2f} s, at most {longest_s * 1e3:.1f} ms at once")

    sessions = BrokerSessions(9_000)
    _, took_s = timed(lambda: sessions.begin(image, 0.0))
    print(f"controller activated {took_s * 1e3:8.1f} ms: it has the image, and begins sessions")

    gone = image.brokers[0]
    changes, decide_s = timed(lambda: list(fenced(image, gone, rules)))
    plan, plan_s = timed(lambda: planned(image, changes, next_offset=offset, random_bytes=random.randbytes))
    size = f"{plan.record_count:,} records, {size_mb(plan):.2f} MB"
    print(f"broker fenced        {(decide_s + plan_s) * 1e3:8.0f} ms to decide, {size}")
    records = [record for batch in plan.batches for record in batch]
    batch = data_batch(records, base_offset=offset, epoch=1, timestamp_ms=0)
    total_s, longest_s = steps_of(step for each in read_batches(batch) for step in loader.steps(each))
    print(f"  read by each node  {total_s * 1e3:8.0f} ms, at most {longest_s * 1e3:.1f} ms at once")
    after = plan.image
    changes, decide_s = timed(lambda: list(unfenced(after, after.brokers[0], rules)))
    print(f"broker is back       {decide_s * 1e3:8.0f} ms to decide, {len(changes):,} changes")

    beats = [
        BrokerHeartbeatRequest(
            broker_id=number % options.brokers,
            broker_epoch=number % options.brokers,
            current_metadata_offset=offset,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=[],
            cordoned_log_dirs=None,
        )
        for number in range(HEARTBEATS)
    ]
    _, took_s = timed(lambda: [answer_unchanged(image, sessions, each) for each in beats])
    share = took_s / HEARTBEATS * options.brokers / INTERVAL_S
    print(f"heartbeats           {took_s / HEARTBEATS * 1e6:8.1f} us each, {share:.4%} of a core for all brokers")
    _, took_s = timed(lambda: sessions.stalest(image, 1.0))
    print(f"who is silent        {took_s * 1e3:8.2f} ms to find")
    return os.EX_OK


if __name__ == "__main__":
    raise SystemExit(main())
