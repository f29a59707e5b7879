"""What a leader of a partition makes of the state that was kept, and of a share coordinator that fails."""

from __future__ import annotations

import pytest
from tests.unit.broker.sharing.share_member import ACCEPT, Member, acquired, later, set_group

from ottla.broker.sharing.leaders import still_in_log
from ottla.broker.sharing.persister import KeptState
from ottla.broker.sharing.share_partition import SharePartition, StateBatch
from ottla.errors import CoordinatorNotAvailable, KafkaStorageError

AVAILABLE, ACKNOWLEDGED = 0, 2


def test_what_an_unclean_election_took_away_is_not_done():
    """Records that are written at these offsets later are others."""
    kept = KeptState(1, 10, (StateBatch(12, 15, ACKNOWLEDGED, 1), StateBatch(18, 19, AVAILABLE, 2)))
    assert still_in_log(kept, 30) == (10, list(kept.batches))
    start, batches = still_in_log(kept, 14)
    assert (start, batches) == (10, [StateBatch(12, 13, ACKNOWLEDGED, 1), StateBatch(14, 19, AVAILABLE, 0)])
    start, batches = still_in_log(kept, 4)
    assert (start, batches) == (4, [StateBatch(4, 19, AVAILABLE, 0)])
    assert SharePartition(start, batches).next_fetch_offset(100) == 4


@pytest.fixture
def orders(make_broker, batch):
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "1"})
    broker.topic_id = broker.create_topic("orders")
    set_group(broker, share_auto_offset_reset="earliest")
    broker.produce("orders", batch("a", "b"))
    return broker


def test_an_acknowledgement_that_cannot_be_kept_is_refused_and_the_record_comes_again(orders):
    member = Member(orders).join("orders")
    assert acquired(member.fetch_one()) == [(0, 1, 1)]
    state = orders.partition("__share_group_state")
    state.offline = KafkaStorageError("the disk failed")
    asked = member.begin_acknowledge(orders.topic_id, (0, 0, [ACCEPT]))
    for _ in range(40):
        later(orders, 500)
    assert asked.answer.responses[0].partitions[0].error_code == CoordinatorNotAvailable.code
    state.offline = None
    later(orders, 30_000)
    found = acquired(member.fetch_one())
    assert found == [(0, 1, 2)], "its lock ended, and that is kept now"
    assert member.acknowledge(orders.topic_id, (0, 1, [ACCEPT])) == 0
