"""What rots on one broker's disk is fetched again from another replica, whoever leads, while all others are served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ottla.simulation.for_tests import FaultyCluster

SETTINGS = {"ottla.verify.interval.ms": 2_000}
RECORDS = 40


def rot_place(cluster, broker_id, topic, at_share, *, partition=0):
    """File and bit of a copy's first segment, as far into it as `at_share` says."""
    segment = cluster._cluster.replicas(topic, partition)[broker_id].log.segments.first
    return segment.path, int(8 * (segment.size_bytes - 1) * at_share) + 5


def flip(cluster, broker_id, place):
    cluster._cluster.seats[broker_id].machine.disk.files.flip_bit(*place)


def damaged(cluster):
    return {number: dict(server.broker.corruption.found) for number, server in cluster._cluster.servers().items()}


async def written(cluster, topic, **configs):
    await cluster.create_topic(topic, **configs)
    async with cluster.producer(linger_ms=0) as producer:
        for number in range(RECORDS):
            await producer.send_and_wait(topic, b"%05d" % number * 40, key=b"%d" % (number % 10))
    await cluster.healed()


async def read_all(cluster, topic, group="readers"):
    async with cluster.consumer(topic, auto_offset_reset="earliest", group_id=group) as consumer:
        records = aiter(consumer)
        values = [(await anext(records)).value for _ in range(RECORDS)]
        await consumer.commit()
        return values


async def repaired(cluster):
    """Wait until something was repaired and nothing is known to be damaged."""
    brokers = [server.broker for server in cluster._cluster.servers().values()]
    for _ in range(200):
        await asyncio.sleep(0.5)
        if any(broker.corruption.repaired_segments for broker in brokers) and not any(damaged(cluster).values()):
            return
    raise AssertionError(f"not repaired: {damaged(cluster)}")


@pytest.mark.parametrize("at_share", [0.0, 0.3, 0.5, 0.77, 0.98])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_rot_of_a_running_broker_is_found_and_repaired(who, at_share):
    async def scenario(cluster):
        await written(cluster, "orders")
        copies = cluster._cluster.replicas("orders", 0)
        leader = copies[0].leader_id
        number = leader if who == "leader" else (leader + 1) % 3
        flip(cluster, number, rot_place(cluster, number, "orders", at_share))
        await repaired(cluster)
        committed = cluster._cluster.committed_bytes("orders", 0)
        assert committed[0] == committed[1] == committed[2]
        assert set(copies[number].state.isr) == {0, 1, 2}, "nobody left the in-sync replicas"
        assert copies[0].leader_id == leader, "nobody had to be elected"
        assert await read_all(cluster, "orders") == [b"%05d" % number * 40 for number in range(RECORDS)]

    FaultyCluster(seed=1, settings=SETTINGS).run(scenario)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_rot_of_a_broker_that_is_down_is_repaired_after_its_start(is_killed):
    async def scenario(cluster):
        await written(cluster, "orders")
        copy = rot_place(cluster, 1, "orders", 0.4)
        if is_killed:
            cluster.kill(1)
        else:
            await cluster._cluster.stop(1)
        flip(cluster, 1, copy)
        cluster.restart(1)
        await cluster._cluster.in_sync("orders", 1)
        if not is_killed:  # then it was never checkpointed as synced, so it was cut and fetched like a torn end
            await repaired(cluster)
        committed = cluster._cluster.committed_bytes("orders", 0)
        assert committed[0] == committed[1] == committed[2]

    FaultyCluster(seed=2, settings=SETTINGS).run(scenario)


def test_committed_offsets_that_rotted_are_repaired_before_the_coordinator_serves():
    """Found by the load of the coordinator, not by the pass: that one is off."""

    async def scenario(cluster):
        await written(cluster, "orders")
        assert len(await read_all(cluster, "orders")) == RECORDS
        offsets = "__consumer_offsets"
        index = next(n for n in (0, 1) if cluster._cluster.replicas(offsets, n)[0].log_end_offset)
        leader = cluster._cluster.replicas(offsets, index)[0].leader_id
        place = rot_place(cluster, leader, offsets, 0.9, partition=index)
        await cluster._cluster.stop(leader)
        flip(cluster, leader, place)
        cluster.restart(leader)
        await cluster._cluster.coordinators_in_sync()
        async with cluster.admin() as admin:
            await admin.elect_leaders([(offsets, index)])
            await repaired(cluster)
            found = await admin.list_consumer_group_offsets("readers")
        assert [committed.offset for committed in found.values()] == [RECORDS]

    FaultyCluster(seed=3, settings={"ottla.verify.interval.ms": 0}).run(scenario)


def test_a_record_that_compaction_removed_does_not_come_back_with_a_repair():
    """Here a key was deleted and its tombstone is gone; the other copy still has both."""

    async def scenario(cluster):
        await cluster.create_topic("table", **{"cleanup.policy": "compact", "delete.retention.ms": "0"})
        async with cluster.producer(linger_ms=0) as producer:
            for number in range(30):
                await producer.send_and_wait("table", b"%03d" % number * 30, key=b"%d" % number)
            await producer.send_and_wait("table", None, key=b"7")
        await cluster.healed()
        copies = cluster._cluster.replicas("table", 0)
        number = (copies[0].leader_id + 1) % 3
        broker = cluster._cluster.servers()[number].broker
        # As if the cleaner had been here, and taken the record of key 7 and its tombstone.
        log = copies[number].log
        segment = log.segments.first
        found = segment.translate(7)
        log.roll(broker.clock.now_ms())
        broker.replicas.logs.write_cleaner_offset(copies[number].name, log.log_end_offset)
        flip(cluster, number, (segment.path, 8 * (found.position + 70)))
        await repaired(cluster)
        keys = [record[2] for batch in copies[number].read_batches() for record in batch.tuples()]
        assert keys.count(b"7") == 1, "only the tombstone, which is later"
        assert len(keys) == 30

    FaultyCluster(seed=4, settings=SETTINGS).run(scenario)


def test_what_no_other_copy_has_either_stays_fenced_and_the_rest_is_served():
    async def scenario(cluster):
        await written(cluster, "orders")
        for number in range(3):
            flip(cluster, number, rot_place(cluster, number, "orders", 0.5))
        await asyncio.sleep(30)
        assert all(damaged(cluster).values())
        copies = cluster._cluster.replicas("orders", 0)
        assert [copy.offline for copy in copies.values()] == [None] * 3
        async with cluster.producer(linger_ms=0) as producer:
            assert (await producer.send_and_wait("orders", b"later")).offset == RECORDS
        found = [batch for batch in copies[copies[0].leader_id].read_batches() if hasattr(batch, "tuples")]
        assert len(found) == RECORDS, "all but one, and the new one"

    FaultyCluster(seed=5, settings=SETTINGS).run(scenario)


def test_damage_that_nobody_could_repair_is_repaired_when_a_replica_is_in_sync_again():
    """It is remembered over a restart, and does not wait for the next pass over all records."""

    async def scenario(cluster):
        await written(cluster, "orders")
        leader = cluster._cluster.replicas("orders", 0)[0].leader_id
        others = [number for number in range(3) if number != leader]
        for number in others:
            cluster.kill(number)
        await asyncio.sleep(20)
        place = rot_place(cluster, leader, "orders", 0.4)
        flip(cluster, leader, place)
        await asyncio.sleep(20)
        assert damaged(cluster)[leader]
        files = cluster._cluster.seats[leader].machine.disk.files
        said = json.loads(files.read_bytes(Path("/data/ottla-verification.json")))["damaged"]
        assert list(said) == [f"orders-0/{place[0].name}"]
        for number in others:
            cluster.restart(number)
        await cluster.healed()
        await repaired(cluster)
        committed = cluster._cluster.committed_bytes("orders", 0)
        assert committed[0] == committed[1] == committed[2]
        await asyncio.sleep(20)
        assert not json.loads(files.read_bytes(Path("/data/ottla-verification.json")))["damaged"]

    FaultyCluster(seed=6, settings=SETTINGS).run(scenario)


def test_a_restart_looks_first_at_what_was_damaged():
    async def scenario(cluster):
        await written(cluster, "orders")
        flip(cluster, 0, rot_place(cluster, 0, "orders", 0.4))
        await asyncio.sleep(20)
        assert damaged(cluster)[0]
        await cluster._cluster.stop(0)
        cluster.restart(0)
        await cluster._cluster.ready()
        await asyncio.sleep(30)  # an hour before the next pass
        assert damaged(cluster)[0]

    FaultyCluster(seed=7, brokers=1, settings={"ottla.verify.interval.ms": 3_600_000}).run(scenario)


def test_where_all_copies_of_committed_offsets_rotted_the_group_goes_on_and_all_stay_in_sync(caplog):
    """Each leader in turn gave up a partition that nobody could repair: two of three brokers took it offline."""

    async def scenario(cluster):
        await written(cluster, "orders")
        await read_all(cluster, "orders")
        await asyncio.sleep(130)  # recovery points are written down: what rots is no end that a kill tore
        for number, copy in cluster._cluster.replicas("__consumer_offsets", 0).items():
            segment = copy.log.segments.first
            flip(cluster, number, (segment.path, 8 * (segment.size_bytes - 30) + 5))
        leader = cluster._cluster.replicas("__consumer_offsets", 0)[0].leader_id
        cluster.kill(leader)
        cluster.restart(leader)
        await cluster.healed()
        await asyncio.wait_for(cluster._cluster.coordinators_in_sync(), 300)
        await asyncio.sleep(30)
        copies = cluster._cluster.replicas("__consumer_offsets", 0)
        assert [copy.offline for copy in copies.values()] == [None] * 3
        assert set(copies[copies[0].leader_id].state.isr) == {0, 1, 2}
        assert await read_all(cluster, "orders", "others") == [b"%05d" % number * 40 for number in range(RECORDS)]
        told = [record.message for record in caplog.records if "are passed over" in record.message]
        assert len(told) == 1, "what it means is said, once"

    settings = SETTINGS | {"offsets.topic.num.partitions": 1}
    FaultyCluster(seed=8, settings=settings).run(scenario)
