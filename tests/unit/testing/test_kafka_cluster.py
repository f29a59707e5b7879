"""The fixture kafka_cluster: a user's test against brokers that fail, in virtual time, from a seed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

from ottla.errors import InvalidTopicException
from ottla.simulation.fault import Fault


async def send_and_read(cluster, count=10):
    """What a user's code might do."""
    await cluster.create_topic("orders", partitions=2)
    async with cluster.producer(delivery_timeout_ms=60_000) as producer:
        for number in range(count):
            await producer.send_and_wait("orders", b"%d" % number)
            await asyncio.sleep(1.0)
    await cluster.healed()
    found = []
    async with cluster.consumer("orders", group_id="g", auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            found += [int(record.value) for record in await consumer.poll(5.0)]
    return sorted(found)


def test_code_runs_against_three_brokers_that_are_killed(kafka_cluster):
    cluster = kafka_cluster(faults=("kill",), seconds=8)
    began_s = time.monotonic()
    assert cluster.run(send_and_read) == list(range(10))
    assert cluster.faults
    assert "killed" in cluster.timeline
    assert cluster.loop.time() > 10 or time.monotonic() - began_s < cluster.loop.time()


def test_the_same_seed_gives_the_same_run(kafka_cluster):
    clusters = [kafka_cluster(brokers=1, faults=[Fault(2.0, "kill", 0, 1.0)]) for _ in range(2)]
    for cluster in clusters:
        cluster.run(lambda each: send_and_read(each, count=3))
    one, two = clusters
    assert (one.timeline, one.loop.steps, one.loop.digest) == (two.timeline, two.loop.steps, two.loop.digest)


def test_a_scenario_decides_itself_when_a_broker_dies(kafka_cluster):
    async def scenario(cluster):
        await cluster.create_topic("t")
        cluster.kill(0)
        async with cluster.producer() as producer:
            sent = await producer.send_and_wait("t", b"x")
        cluster.restart(0)
        await cluster.healed()
        return sent.offset

    assert kafka_cluster().run(scenario) == 0


def test_what_a_scenario_raises_has_the_line_that_repeats_it(kafka_cluster):
    async def scenario(cluster):
        raise LookupError("the order is gone")

    cluster = kafka_cluster(brokers=1)
    with pytest.raises(LookupError, match="the order is gone") as caught:
        cluster.run(scenario)
    (note,) = caught.value.__notes__
    assert "test_what_a_scenario_raises_has_the_line_that_repeats_it" in note
    assert f"--kafka-seed={cluster.seed}" in note


def test_an_unknown_fault_is_a_sentence(kafka_cluster):
    with pytest.raises(ValueError, match="there is no fault earthquake; there are kill"):
        kafka_cluster(faults=["earthquake"])


def test_clients_are_made_inside_of_a_scenario(kafka_cluster):
    cluster = kafka_cluster(brokers=1)
    with pytest.raises(RuntimeError, match="inside of its scenario"):
        cluster.producer()
    cluster.loop.close()


def test_the_option_sets_the_seed_and_the_failure_says_it(tmp_path):
    (tmp_path / "test_users.py").write_text(
        "async def scenario(cluster):\n    assert 1 == 2\n\n\n"
        "def test_mine(kafka_cluster):\n    kafka_cluster(brokers=1).run(scenario)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_users.py", "--kafka-seed=41"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1
    assert "repeat with: pytest 'test_users.py::test_mine' --kafka-seed=41" in done.stdout


def test_a_topic_that_cannot_be_made_is_refused_at_once(kafka_cluster):
    with pytest.raises(InvalidTopicException):
        kafka_cluster().run(lambda cluster: cluster.create_topic("no/such name"))
