"""What a follower makes of the offsets that its leader tells: never more than it has itself."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def partition(make_broker: Any, batch: Any) -> Any:
    """One with the records 0 to 3, of which 0 to 2 are committed."""
    broker = make_broker(**{"ottla.durability": "replicated"})
    broker.create_topic("orders")
    for value in "abcd":
        broker.produce("orders", batch(value))
    found = broker.partition("orders")
    found.end.high_watermark = 3
    return found


def test_a_high_watermark_beyond_the_own_log_moves_it_to_the_end_and_no_further(partition: Any) -> None:
    assert partition.update_leader_offsets(100, 0)
    assert partition.high_watermark == 4
    assert not partition.update_leader_offsets(100, 0), "nothing moved, so nobody is told"


def test_a_high_watermark_never_goes_back(partition: Any) -> None:
    assert not partition.update_leader_offsets(1, 0)
    assert partition.high_watermark == 3


def test_a_log_start_beyond_the_own_high_watermark_moves_it_that_far(partition: Any) -> None:
    partition.update_leader_offsets(3, 4)
    assert partition.end.log_start_offset == 3
