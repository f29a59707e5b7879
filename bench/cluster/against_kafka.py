"""Three of our brokers against three of Apache Kafka 3.9, each with a ZooKeeper of its own, on this machine.

1. The load is Apache's ProducerPerformance with its defaults (acks=all, idempotent), the same program for both sides,
   to a topic of three copies with min.insync.replicas=2. The sides take turns; the ratio is the median of the rounds.
2. Apache Kafka gets the JVM options of its own scripts and its default numbers of threads.
3. Both clusters are up all the time. The one whose turn it is not has nothing to do, but its JVMs or interpreters, its
   ZooKeeper and its followers' empty fetches take a little of the two processors from the other; on both sides alike.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.compare.brokers import JVM, SERVER_HEAP
from bench.compare.tools import Amount, Tools
from bench.walk.figures import Figure
from tests.cluster.judging import KAFKA
from tests.cluster.mixed_cluster import MixedCluster
from tests.conformance.kafka_jars import find_jars

import ottla
from ottla.cli.lab_cluster import LabCluster
from ottla.cluster.store.zookeeper.server import ZooKeeperServer

PARTITIONS: Final = 6
LIMIT_S: Final = 60.0
AMOUNTS: Final = (Amount(60_000, 30_000, 1_000), Amount(300_000, 150_000, 100))
SETTINGS: Final = {"offsets.topic.num.partitions": 5, "transaction.state.log.num.partitions": 5}
KAFKAS_DEFAULTS: Final = {"num.network.threads": 3, "num.io.threads": 8, "log.cleaner.dedupe.buffer.size": 134_217_728}


def produce_against_kafka(directory: Path, rounds: int) -> list[Figure]:
    """Replicated produce of both sides, and the ratio."""
    tools = Tools(find_jars("4.3"), directory)
    ours = LabCluster(directory / "ottla", settings=SETTINGS, zookeeper=ZooKeeperServer(directory / "ottla-zookeeper"))
    jvm = (*SERVER_HEAP, *JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    theirs = ApacheCluster(
        directory / "kafka", [KAFKA] * 3, jars=find_jars("3.9"), settings={**SETTINGS, **KAFKAS_DEFAULTS}, jvm=jvm
    )
    with ours, theirs:
        return [_compared((ours, theirs), tools, amount, rounds) for amount in AMOUNTS]


class ApacheCluster(MixedCluster):
    """One that says too little in its log to be waited for by it."""

    def wait_for(self, number: int) -> None:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.brokers[number].port), 1):
                return
            time.sleep(0.2)
        raise TimeoutError(f"broker {number} of Apache Kafka does not answer")


def _compared(sides: Sequence[LabCluster], tools: Tools, amount: Amount, rounds: int) -> Figure:
    pairs = []
    for number in range(rounds + 1):
        topic = f"load-{amount.record_bytes}-{number}"
        pairs.append([_round(side, tools, topic, amount) for side in sides])
    del pairs[0]  # JVMs that have just begun are slow
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(mine / their for mine, their in pairs)
    detail = f"{ours:.0f} MB/s against {theirs:.0f}; acks=all, three copies, records of {amount.record_bytes} bytes"
    return Figure(f"against Apache Kafka 3.9, {amount.record_bytes} bytes", ratio, detail, at_least=1.0)


def _round(side: LabCluster, tools: Tools, topic: str, amount: Amount) -> float:
    with ottla.Admin(bootstrap_servers=side.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(topic, PARTITIONS, 3)], timeout=LIMIT_S)
        found = tools.produce(side.brokers[0].port, topic, amount)
        admin.delete_topics([topic], timeout=LIMIT_S)
    return found
