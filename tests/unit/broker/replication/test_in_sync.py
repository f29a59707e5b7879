"""Who counts as in sync, and what that makes of the high watermark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replication.in_sync import NO_BOUND, UNKNOWN, InSync, Member

LAG_MS = 1_000


def anybody(broker_id, broker_epoch):
    return True


def nobody(broker_id, broker_epoch):
    return False


@pytest.fixture
def make():
    """The followers of broker 0 among brokers 0 to 2, of which 0 and 1 are in sync."""

    def make(isr=(0, 1), epoch_start_offset=0, **options):
        values = {"leader_epoch": 3, "partition_epoch": 7, "now_ms": 0, **options}
        return InSync(0, (0, 1, 2), isr, epoch_start_offset=epoch_start_offset, **values)

    return make


def fetched(in_sync, broker_id, offset, *, end=10, now_ms=0, **more):
    in_sync.fetched(broker_id, offset, leader_end_offset=end, now_ms=now_ms, **more)


def test_nothing_is_committed_before_everybody_in_sync_was_heard(make):
    assert make().bound == UNKNOWN
    assert make(isr=(0,)).bound == NO_BOUND


def test_the_slowest_member_bounds_what_is_committed_and_others_do_not(make):
    in_sync = make()
    fetched(in_sync, 1, 8)
    fetched(in_sync, 2, 2)
    assert in_sync.bound == 8


def test_a_proposed_member_counts_until_the_controller_has_spoken(make):
    in_sync = make(isr=(0,))
    fetched(in_sync, 1, 10)
    proposal = in_sync.expand(1, 10, anybody)
    assert proposal.isr == {0, 1}
    assert in_sync.bound == 10
    in_sync.withdraw()
    assert (in_sync.bound, in_sync.isr) == (NO_BOUND, {0})


def test_a_member_that_is_proposed_to_go_counts_until_the_controller_has_spoken(make):
    in_sync = make(isr=(0, 1, 2))
    fetched(in_sync, 1, 10, now_ms=900)
    fetched(in_sync, 2, 4)
    assert in_sync.shrink(10, 1_001, LAG_MS).isr == {0, 1}
    assert in_sync.bound == 4
    assert in_sync.update((0, 1), 3, 8)
    assert (in_sync.bound, in_sync.partition_epoch) == (10, 8)


def test_one_that_is_caught_up_but_not_in_the_set_holds_the_high_watermark_for_itself(make):
    in_sync = make(isr=(0,))
    fetched(in_sync, 1, 10, now_ms=500)
    in_sync.update_joining(20, 600, lag_limit_ms=LAG_MS, may_join=anybody)
    assert in_sync.bound == 10
    in_sync.update_joining(20, 600, lag_limit_ms=LAG_MS, may_join=nobody)
    assert in_sync.bound == NO_BOUND
    in_sync.update_joining(20, 1_501, lag_limit_ms=LAG_MS, may_join=anybody)
    assert in_sync.bound == NO_BOUND


@pytest.mark.parametrize(
    ("end", "high_watermark", "epoch_start", "joins"),
    [(10, 10, 0, True), (9, 10, 0, False), (10, 5, 11, False), (11, 5, 11, True)],
)
def test_a_follower_joins_at_the_high_watermark_and_the_start_of_the_epoch(
    make, end, high_watermark, epoch_start, joins
):
    in_sync = make(epoch_start_offset=epoch_start)
    fetched(in_sync, 2, end, end=20)
    assert (in_sync.expand(2, high_watermark, anybody) is not None) is joins


def test_who_is_fenced_or_gone_does_not_join(make):
    in_sync = make()
    fetched(in_sync, 2, 10, broker_epoch=44)
    asked = []
    assert in_sync.expand(2, 0, lambda *who: asked.append(who)) is None
    assert asked == [(2, 44)]


def test_a_proposal_names_the_registrations_of_its_members(make):
    in_sync = make()
    fetched(in_sync, 2, 10, broker_epoch=44)
    proposal = in_sync.expand(2, 0, anybody)
    assert proposal.members == (Member(0, UNKNOWN), Member(1, UNKNOWN), Member(2, 44))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (3, 7)


def test_what_is_no_news_leaves_a_proposal_on_its_way(make):
    in_sync = make()
    before = in_sync.isr
    fetched(in_sync, 2, 10)
    proposal = in_sync.expand(2, 0, anybody)
    assert in_sync.update(before, 3, 7), "as an image is that changed something else of the topic"
    assert in_sync.proposal is proposal, "the controller may have made it true already: both sets count"
    assert in_sync.update(before, 3, 8)
    assert in_sync.proposal is None


def test_a_replica_that_comes_while_we_lead_on_is_copied_to_and_may_join(make):
    in_sync = make()
    in_sync.update_replicas((0, 1, 3))
    assert in_sync.followers.keys() == {1, 3}
    fetched(in_sync, 1, 10)
    fetched(in_sync, 3, 10)
    assert in_sync.expand(3, 10, anybody).isr == {0, 1, 3}
    with pytest.raises(KeyError):
        fetched(in_sync, 2, 10)


def test_one_proposal_at_a_time(make):
    in_sync = make(isr=(0,))
    fetched(in_sync, 1, 10)
    fetched(in_sync, 2, 10)
    assert in_sync.expand(1, 0, anybody)
    assert in_sync.expand(2, 0, anybody) is None
    assert in_sync.shrink(10, 9_999, LAG_MS) is None


def test_a_member_has_the_whole_time_to_show_itself(make):
    in_sync = make()
    assert in_sync.shrink(10, LAG_MS, LAG_MS) is None
    assert in_sync.shrink(10, LAG_MS + 1, LAG_MS).isr == {0}


def test_a_member_that_is_at_the_end_is_never_late(make):
    in_sync = make()
    fetched(in_sync, 1, 10, end=10)
    assert in_sync.shrink(10, 99_999, LAG_MS) is None


def test_a_member_that_has_what_was_there_when_it_asked_before_is_not_late(make):
    in_sync = make()
    fetched(in_sync, 1, 5, end=10, now_ms=800)
    fetched(in_sync, 1, 10, end=20, now_ms=1_600)  # it has all of the fetch at 800
    assert in_sync.shrink(30, 1_800, LAG_MS) is None
    assert in_sync.shrink(30, 1_801, LAG_MS).isr == {0}


def test_a_word_that_is_older_than_what_we_know_is_ignored(make):
    in_sync = make()
    assert not in_sync.update((0,), 3, 6)
    assert not in_sync.update((0,), 2, 9)
    assert in_sync.isr == {0, 1}


def test_one_that_is_no_replica_is_not_known(make):
    with pytest.raises(KeyError):
        fetched(make(), 9, 1)


def test_the_low_watermark_is_that_of_the_replicas_that_live(make):
    in_sync = make()
    fetched(in_sync, 1, 10, log_start_offset=3)
    fetched(in_sync, 2, 10, log_start_offset=1)
    assert in_sync.low_watermark(5, lambda broker_id: True) == 1
    assert in_sync.low_watermark(5, lambda broker_id: broker_id == 1) == 3


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("fetch"), st.sampled_from([1, 2]), st.integers(0, 20)),
            st.tuples(st.just("expand"), st.sampled_from([1, 2]), st.integers(0, 20)),
            st.tuples(st.just("shrink"), st.just(0), st.integers(0, 5_000)),
            st.tuples(st.sampled_from(["settle", "withdraw"]), st.just(0), st.just(0)),
            st.tuples(st.just("look"), st.just(0), st.integers(0, 5_000)),
        )
    )
)
def test_the_bound_is_never_beyond_anybody_who_may_be_in_sync(make_steps):
    in_sync = InSync(0, (0, 1, 2), (0, 1), leader_epoch=0, partition_epoch=0, epoch_start_offset=0, now_ms=0)
    for what, broker_id, number in make_steps:
        if what == "fetch":
            fetched(in_sync, broker_id, number, end=20)
        elif what == "expand":
            in_sync.expand(broker_id, number, anybody)
        elif what == "shrink":
            in_sync.shrink(20, number, LAG_MS)
        elif what == "look":
            in_sync.update_joining(20, number, lag_limit_ms=LAG_MS, may_join=anybody)
        elif in_sync.proposal is not None:
            if what == "settle":
                in_sync.update(in_sync.proposal.isr, 0, in_sync.partition_epoch + 1)
            else:
                in_sync.withdraw()
        proposed = in_sync.proposal.isr if in_sync.proposal else frozenset()
        assert 0 in in_sync.isr
        for member in (in_sync.isr | proposed) - {0}:
            assert in_sync.bound <= in_sync.followers[member].log_end_offset


def test_a_follower_that_falls_back_below_all_others_lowers_the_bound(make):
    """It was ahead of the bound, and so is not the one that the bound is counted by, until it truncates its log."""
    in_sync = make(isr=(0, 1, 2))
    fetched(in_sync, 1, 9)
    fetched(in_sync, 2, 6)
    assert in_sync.bound == 6
    fetched(in_sync, 1, 4)
    assert in_sync.bound == 4
