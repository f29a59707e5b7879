"""A cluster of Apache Kafka brokers becomes one of Ottla brokers, broker by broker, under load; and goes back.

Every broker keeps its number, its port and its data directory: the next process in its place opens the files of the
other side. Needs Java and Kafka's jars and takes minutes: run by `make test-long`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from ottla.testing.promises import GroupReading, NumberedLoad, read_numbers
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.mixed_cluster import MixedCluster
from tests.conformance.java_programs import jars_or_skip
from tests.patience import HANG_S

pytestmark = pytest.mark.long

PARTITIONS = 6
SETTINGS = {
    "zookeeper.session.timeout.ms": 4_000,
    "replica.lag.time.max.ms": 4_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
    "log.segment.bytes": 1_048_576,
}


@pytest.fixture(params=[KAFKA, OTTLA])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """One that one side alone has made."""
    directory = tmp_path_factory.mktemp("rolling")
    mixed = MixedCluster(directory, [request.param] * 3, jars=jars_or_skip("3.9"), settings=SETTINGS)
    try:
        mixed.start()
        mixed.create_topic("clicks", PARTITIONS)
        yield mixed
        faults = mixed.faults()
    finally:
        mixed.stop()
    assert faults == []


@pytest.mark.parametrize("goes_by", [signal.SIGTERM, signal.SIGKILL], ids=["in order", "killed"])
def test_from_one_side_to_the_other_and_back_loses_nothing(mixed: MixedCluster, goes_by: signal.Signals) -> None:
    first = mixed.sides[0]
    with (
        NumberedLoad(mixed.bootstrap_servers, "clicks", PARTITIONS, pause_s=0.01, request_timeout_ms=8_000) as load,
        GroupReading(mixed.bootstrap_servers, "clicks", "readers") as reading,
    ):
        load.wait_for(300, HANG_S)
        for side in (OTTLA if first == KAFKA else KAFKA, first):
            for number in range(3):
                mixed.signal(number, goes_by)
                load.wait_for(100, HANG_S)
                mixed.sides[number] = side
                mixed.start_broker(number)
                mixed.wait_for_copies("clicks")
                mixed.wait_for_copies("__consumer_offsets")
                load.wait_for(100, HANG_S)
            mixed.check_group("readers", "clicks")
        load.end()
        reading.wait_for(load.count, HANG_S)
    assert not load.failures
    found = read_numbers(mixed.bootstrap_servers, "clicks", PARTITIONS)
    load.check(found)
    for partition, numbers in found.items():
        assert sorted(set(reading.numbers[partition])) == sorted(numbers), "the group missed something"
    mixed.check_copies("clicks")
    mixed.check_copies("__consumer_offsets")
