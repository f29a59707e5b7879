"""A short sample of `python -m bench.scale`: a few hundred partitions, connections and groups, stopped and killed.

Every part checks what it does (each record is acknowledged, each group has joined, each byte is read again), so it is a
test of the broker as well; no time is judged here.
"""

import math

import pytest
from bench.scale.__main__ import PARTS, measure
from bench.scale.parts import Sizes
from tests.conformance.kafka_jars import JarsMissing, find_jars

from ottla.cli.open_files import raise_limit

SAMPLE = Sizes(
    partitions=100,
    connections=150,
    groups=40,
    topic_bytes=20 << 20,
    consumers=20,
    members=100,
    rebalanced=8,
    idle_members=20,
    idle_s=0.5,
)
ROWS = {
    "partitions": 13,
    "connections": 4,
    "groups": 5,
    "rebalance": 4,
    "idle-group": 4,
    "members": 4,
    "topic": 8,
    "consumers": 4,
}


# Members wait for the heartbeat interval of the broker, five seconds at a time.
SLOW = ("rebalance", "idle-group", "members")


@pytest.mark.parametrize("part", [pytest.param(each, marks=[pytest.mark.long] * (each in SLOW)) for each in PARTS])
def test_a_small_share_of_each_part_is_served(part, tmp_path):
    raise_limit()
    figures = measure(SAMPLE, [part], ["ottla"], 1, tmp_path)
    assert len(figures) == ROWS[part]
    assert all(math.isfinite(each.value) and each.value >= 0 for each in figures)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_apache_kafka_is_measured_in_the_same_rows(part, tmp_path):
    try:
        find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    figures = measure(SAMPLE, [part], ["kafka", "ottla"], 1, tmp_path)
    assert len(figures) == ROWS[part]
    assert all(each.bar != "none" for each in figures)
