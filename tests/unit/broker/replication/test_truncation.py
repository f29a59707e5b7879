"""Where a follower cuts its log."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replication.truncation import Cut, where_to_cut
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEnd, LeaderEpochs


class Log:
    """Epochs of records, by offset."""

    def __init__(self, epochs):
        self.records = list(epochs)
        self.epochs = LeaderEpochs()
        for offset, epoch in enumerate(self.records):
            self.epochs.assign(epoch, offset)

    @property
    def log_end_offset(self):
        return len(self.records)

    def end_of_epoch(self, epoch):
        return self.epochs.end_offset_for(epoch, len(self.records))

    def cut(self, offset):
        return Log(self.records[:offset])


def test_an_unknown_end_is_cut_at_the_high_watermark():
    assert where_to_cut(UNKNOWN_END, Log([0, 0, 0]), fallback=2) == Cut(2, True)


def test_an_epoch_that_both_have_is_cut_at_its_smaller_end():
    assert where_to_cut(EpochEnd(1, 3), Log([0, 1, 1, 1, 1]), fallback=0) == Cut(3, True)
    assert where_to_cut(EpochEnd(1, 9), Log([0, 1, 1, 2]), fallback=0) == Cut(3, True)


def test_an_epoch_that_only_the_leader_has_is_asked_about_again():
    assert where_to_cut(EpochEnd(2, 9), Log([0, 1, 1, 3, 3]), fallback=0) == Cut(3, False)


def test_an_end_without_an_epoch_and_one_before_all_of_ours_are_taken_as_they_are():
    assert where_to_cut(EpochEnd(-1, 2), Log([5, 5, 5]), fallback=0) == Cut(2, True)
    assert where_to_cut(EpochEnd(9, 1), Log([]), fallback=0) == Cut(0, True)


@st.composite
def histories(draw):
    """Logs of replicas after elections: leaders append in their epoch, followers copy prefixes after cutting."""
    logs = [[], [], []]
    for epoch in range(draw(st.integers(1, 6))):
        leader = draw(st.sampled_from([0, 1, 2]))
        logs[leader] = logs[leader] + [(epoch, n) for n in range(draw(st.integers(0, 3)))]
        for follower in range(3):
            if follower != leader and draw(st.booleans()):
                ours, theirs = logs[follower], logs[leader]
                common = next((n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
                common = min(len(ours), len(theirs)) if common is None else common
                logs[follower] = theirs[: draw(st.integers(common, len(theirs)))]
    return logs


@given(logs=histories(), pair=st.permutations([0, 1, 2]))
def test_asking_and_cutting_ends_with_a_prefix_of_the_leader_and_loses_nothing_of_it(logs, pair):
    leader, follower = logs[pair[0]], logs[pair[1]]
    leading, following = Log([e for e, _ in leader]), Log([e for e, _ in follower])
    newest = 100
    leading.epochs.assign(newest, len(leader))  # as a leader does when it begins
    common = 0
    while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
        common += 1
    for _ in range(20):
        latest = following.epochs.latest
        if latest is None:
            break
        end = leading.epochs.end_offset_for(latest.epoch, len(leader))
        if end.epoch == latest.epoch and end.end_offset >= following.log_end_offset:
            break
        cut = where_to_cut(end, following, fallback=0)
        following = following.cut(cut.offset)
    else:
        raise AssertionError("asking has no end")
    kept = following.log_end_offset
    assert leader[:kept] == follower[:kept]
    assert kept == common
