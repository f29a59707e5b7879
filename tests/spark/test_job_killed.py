"""Jobs that are killed with -9 at any moment and started again: every record once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.spark.reading import read_to_end

import ottla
from ottla.testing import KafkaBroker
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
RECORDS = 400
BATCH_RECORDS = 40
START_LIMIT_S = 240.0


def make(broker: KafkaBroker, topic: str) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(topic, PARTITIONS)])
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def start(broker: KafkaBroker, topic: str, path: Path) -> subprocess.Popen[bytes]:
    """An archive in processes of its own: Python and the Java that it starts are one group."""
    words = ["archive", topic, "--to", str(path), "--batch-records", str(BATCH_RECORDS), "--master", "local[2]"]
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", "job", *words, "-b", broker.bootstrap_servers],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def kill_after(process: subprocess.Popen[bytes], path: Path, batch: int, wait_s: float) -> bool:
    """Kill when something of this batch can be seen, finished or not; tells whether the job was still running."""
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        if list(path.glob(f"_ottla/checkpoint/offsets/{batch}")):
            break
        time.sleep(0.01)
    time.sleep(wait_s)
    was_running = process.poll() is None
    if was_running:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return was_running


def archived(path: Path) -> Counter[Any]:
    import pyarrow.dataset

    rows = pyarrow.dataset.dataset(path, partitioning="hive").to_table(columns=["partition", "offset", "value"])
    return Counter((row["partition"], row["offset"], row["value"]) for row in rows.to_pylist())


EVERYTHING = Counter((number % PARTITIONS, number // PARTITIONS, b"%d" % number) for number in range(RECORDS))


def finish(spark: SparkSession, broker: KafkaBroker, topic: str, path: Path) -> int:
    from ottla.spark.jobs.archive import archive
    from ottla.spark.jobs.archive_layout import ArchiveLayout
    from ottla.spark.jobs.reading import ReadPlan

    reading = ReadPlan({"bootstrap.servers": broker.bootstrap_servers}, (topic,))
    return archive(spark, reading, ArchiveLayout(str(path))).rows


def replayed(spark: SparkSession, broker: KafkaBroker, path: Path) -> Counter[Any]:
    """Replay what is whole; everything that the target has after it."""
    from ottla.spark.jobs.archive_source import ArchiveSlice
    from ottla.spark.jobs.replay import ReplayPlan, replay

    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with ottla.Admin(settings) as admin:
        replay(spark, ReplayPlan(ArchiveSlice(str(path)), settings, to="replayed"), admin)
    values = read(broker, "replayed", dict.fromkeys(range(PARTITIONS), 0))
    return Counter((partition, value) for partition in values for value in values[partition])


def test_an_archive_that_was_killed_has_every_record_once_when_it_is_finished_and_a_replay_too(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    make(broker, "killed")
    process = start(broker, "killed", tmp_path)
    assert kill_after(process, tmp_path, batch=2, wait_s=0.0)
    early = replayed(spark, broker, tmp_path)
    assert 0 < len(early) < RECORDS
    left = finish(spark, broker, "killed", tmp_path)
    assert 0 < left < RECORDS
    assert archived(tmp_path) == EVERYTHING
    assert list(tmp_path.glob(".spark-staging-*")) == []
    assert replayed(spark, broker, tmp_path) == Counter((partition, value) for partition, _, value in EVERYTHING)


def start_mirror(broker: KafkaBroker, other: KafkaBroker, topic: str, path: Path) -> subprocess.Popen[bytes]:
    words = ["mirror", topic, "--target", other.bootstrap_servers, "--checkpoint", str(path / "_ottla" / "checkpoint")]
    words += ["--batch-records", str(BATCH_RECORDS), "--master", "local[2]"]
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", "job", *words, "-b", broker.bootstrap_servers],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def read(broker: KafkaBroker, topic: str, begins: dict[int, int]) -> dict[int, list[Any]]:
    """What a reader of committed records sees from these offsets on."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    found: dict[int, list[Any]] = {partition: [] for partition in begins}
    with ottla.Consumer({**settings, "enable.auto.commit": "false"}) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in begins])
        for partition, offset in begins.items():
            consumer.seek(TopicPartition(topic, partition), offset)
        for record in read_to_end(consumer):
            found[record.partition].append(record.value)
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_mirror_that_is_killed_again_and_again_has_every_record_once_and_its_map_is_right(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, seed: int
) -> None:
    from ottla.spark.jobs.mirror import MirrorPlan, mirror
    from ottla.spark.jobs.reading import ReadPlan

    chance, topic = random.Random(seed), f"mirrored-{seed}"
    make(broker, topic)
    with KafkaBroker() as other:
        near, far = {"bootstrap.servers": broker.bootstrap_servers}, {"bootstrap.servers": other.bootstrap_servers}
        for batch in (1, 3, 6):
            kill_after(start_mirror(broker, other, topic, tmp_path), tmp_path, batch, chance.uniform(0.0, 0.6))
        with ottla.Admin(near) as source, ottla.Admin(far) as target:
            groups = [f"group-{seed}-{number}" for number in range(12)]
            places = [{each: chance.randrange(RECORDS // PARTITIONS + 1) for each in range(PARTITIONS)} for _ in groups]
            for group, begins in zip(groups, places, strict=True):
                offsets = {TopicPartition(topic, partition): offset for partition, offset in begins.items()}
                source.alter_consumer_group_offsets(group, offsets)
            checkpoint = str(tmp_path / "_ottla" / "checkpoint")
            plan = MirrorPlan(ReadPlan(near, (topic,)), far, checkpoint, groups=tuple(groups))
            result = mirror(spark, plan, source, target)
        start_of_all = dict.fromkeys(range(PARTITIONS), 0)
        assert read(other, topic, start_of_all) == read(broker, topic, start_of_all)
        for group, begins in zip(groups, places, strict=True):
            moved = {each.partition.partition: each.target for each in result.moves if each.group == group}
            assert read(other, topic, cast("dict[int, int]", moved)) == read(broker, topic, begins)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_an_archive_that_is_killed_again_and_again(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    make(broker, f"killed-{seed}")
    for batch in range(1, 9, 2):
        process = start(broker, f"killed-{seed}", tmp_path)
        if not kill_after(process, tmp_path, batch, chance.uniform(0.0, 0.5)):
            break
    finish(spark, broker, f"killed-{seed}", tmp_path)
    assert archived(tmp_path) == EVERYTHING
