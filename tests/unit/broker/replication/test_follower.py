"""What a follower asks its leader, and what it makes of the answers."""

import pytest

from ottla.broker.fetch.choice import scan_fetched
from ottla.broker.replication.copy_question import CopyQuestion
from ottla.broker.replication.fetch_plan import FetchSettings
from ottla.broker.replication.follower import Follower, Phase
from ottla.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from ottla.protocol.compiled import encode
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_for_leader_epoch import EpochEndOffset as EpochAnswer
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.storage.log.leader_epochs import EpochEnd
from ottla.values import TopicPartition

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = b"o" * 16
SETTINGS = FetchSettings(2, 500, 1, 10_000, 1_000, 1_000, 17)


class Replica:
    """A log that writes down what is done to it."""

    name, topic_id = ORDERS, TOPIC_ID

    def __init__(self, end=5, epoch=3, high_watermark=2, start=0):
        self.log_start_offset, self.log_end_offset = start, end
        self.latest_epoch, self.high_watermark = epoch, high_watermark
        self.done = []
        self.error = None
        self.ordered_epoch = None  # another order came, and the follower has not heard of it

    def ends(self):
        return self.log_end_offset, self.log_start_offset

    def is_following(self, leader_epoch):
        return self.ordered_epoch in (None, leader_epoch)

    def end_of_epoch(self, epoch):
        return EpochEnd(epoch, self.log_end_offset)

    def append(self, records, leader_epoch):
        if self.error is not None:
            raise self.error
        self.done.append(("append", bytes(records), leader_epoch))
        self.log_end_offset += len(records)
        return True

    def truncate_to(self, offset):
        self.done.append(("cut", offset))
        self.log_end_offset = offset

    def restart_at(self, offset):
        self.done.append(("restart", offset))
        self.log_start_offset = self.log_end_offset = offset

    def update_leader_offsets(self, high_watermark, log_start_offset):
        moved = self.high_watermark < high_watermark
        self.high_watermark = max(self.high_watermark, high_watermark)
        return moved


def never(name):
    return False


def always(name):
    return True


class ReadableFollower(Follower):
    """Its questions as messages, whichever way they are asked; answers as they would be read from a frame, or not."""

    is_flat = False

    def next_question(self, now_ms, is_throttled):
        question = super().next_question(now_ms, is_throttled)
        return question.message() if isinstance(question, CopyQuestion) else question

    def apply(self, response, now_ms):
        if self.is_flat and isinstance(response, FetchResponse):
            frame = bytes(5) + b"".join(encode(response, SETTINGS.version))
            response = scan_fetched(SETTINGS.version, memoryview(frame)) or response
        return super().apply(response, now_ms)


@pytest.fixture(params=[False, True], ids=["messages", "flat"])
def make(request):
    def make(replica=None, leader_epoch=4, settings=SETTINGS):
        follower = ReadableFollower(settings, broker_epoch=lambda: 77)
        follower.is_flat = request.param
        follower.follow(replica or Replica(), leader_epoch)
        return follower

    return make


def data(error_code=0, records=b"", high_watermark=5, **values):
    answer = PartitionData(
        partition_index=0,
        error_code=error_code,
        high_watermark=high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=records,
        **values,
    )
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[answer])
    return FetchResponse(session_id=1, responses=[topic])


def offset(value, error_code=0):
    found = ListOffsetsPartitionResponse(partition_index=0, error_code=error_code, offset=value)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])])


def epoch_end(epoch, end_offset, error_code=0):
    found = EpochAnswer(error_code=error_code, partition=0, leader_epoch=epoch, end_offset=end_offset)
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[found])])


def test_it_asks_for_what_comes_behind_its_log_and_names_its_last_epoch(make):
    request = make().next_question(0, never)
    assert isinstance(request, FetchRequest)
    (asked,) = request.topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (5, 3, 4)
    assert request.replica_state.replica_epoch == 77


def test_records_are_appended_and_what_is_committed_is_taken_over(make):
    replica = Replica()
    follower = make(replica)
    follower.next_question(0, never)
    taken = follower.apply(data(records=b"abc", high_watermark=6), 0)
    assert replica.done == [("append", b"abc", 4)]
    assert (taken.appended, taken.committed, taken.size_bytes) == ([ORDERS], [ORDERS], {ORDERS: 3})
    assert follower.lag(ORDERS) == 0
    assert follower.next_question(0, never).topics[0].partitions[0].fetch_offset == 8


@pytest.mark.parametrize(
    "answer", [data(records=b"abc"), data(diverging_epoch=EpochEndOffset(epoch=3, end_offset=4)), data(error_code=1)]
)
def test_what_the_old_leader_sent_is_thrown_away_when_a_new_order_was_taken(make, answer):
    """The partition leads already: nothing may be appended, cut or committed by the word of the leader before."""
    replica = Replica()
    follower = make(replica)
    follower.next_question(0, never)
    replica.ordered_epoch = 5
    assert follower.apply(answer, 0) == ([], [], [], {}, [])
    assert replica.done == []


def test_records_of_a_topic_that_had_the_name_before_are_not_appended(make):
    old, replica = Replica(end=4), Replica(end=5)
    old.topic_id = b"p" * 16
    follower = make(old)
    follower.forget(ORDERS)
    follower.follow(replica, 4)
    follower.next_question(0, never)
    answer = data(records=b"abc")
    answer.responses[0].topic_id = old.topic_id
    follower.apply(answer, 0)
    assert replica.done == []
    assert follower.phase(ORDERS) is Phase.FETCHING


def test_a_diverging_epoch_cuts_and_the_next_fetch_goes_on_from_there(make):
    replica = Replica()
    follower = make(replica)
    follower.next_question(0, never)
    follower.apply(data(diverging_epoch=EpochEndOffset(epoch=3, end_offset=4)), 0)
    assert replica.done == [("cut", 4)]
    assert follower.next_question(0, never).topics[0].partitions[0].fetch_offset == 4


def test_an_answer_from_an_earlier_leader_epoch_is_thrown_away(make):
    replica = Replica()
    follower = make(replica, leader_epoch=4)
    follower.next_question(0, never)
    follower.follow(replica, 5)
    follower.apply(data(records=b"old"), 0)
    assert replica.done == []


def test_an_answer_for_an_offset_that_we_left_is_thrown_away(make):
    replica = Replica()
    follower = make(replica)
    follower.next_question(0, never)
    replica.truncate_to(1)
    follower.apply(data(records=b"old"), 0)
    assert replica.done == [("cut", 1)]


@pytest.mark.parametrize("error", [NotLeaderOrFollower, UnknownLeaderEpoch, KafkaStorageError])
def test_an_error_rests_the_partition_for_a_while(make, error):
    follower = make()
    follower.next_question(0, never)
    follower.apply(data(error.code), 100)
    assert follower.next_question(1_099, never) is None
    assert follower.next_due_ms(1_099) == 1_100
    assert follower.next_question(1_100, never) is not None


def test_no_answer_rests_all_that_was_asked_about(make):
    follower = make()
    follower.next_question(0, never)
    follower.failed(50)
    assert follower.next_question(1_049, never) is None
    assert follower.next_question(1_050, never).session_epoch == 0


def test_one_that_was_fenced_waits_for_the_controller(make):
    replica = Replica()
    follower = make(replica)
    follower.next_question(0, never)
    follower.apply(data(FencedLeaderEpoch.code), 0)
    assert follower.phase(ORDERS) is Phase.FAILED
    assert follower.next_question(99_999, never) is None
    follower.follow(replica, 5)
    assert follower.next_question(99_999, never) is not None


def test_damaged_records_are_fetched_again_and_a_failed_disk_is_told(make):
    replica = Replica()
    follower = make(replica)
    replica.error = CorruptMessage("bad")
    follower.next_question(0, never)
    assert follower.apply(data(records=b"x"), 0).failed == []
    replica.error = KafkaStorageError("gone")
    follower.next_question(1_000, never)
    ((name, error),) = follower.apply(data(records=b"x"), 1_000).failed
    assert (name, error) == (ORDERS, replica.error)
    assert follower.phase(ORDERS) is Phase.FAILED


def test_a_leader_that_ends_before_us_is_right_and_we_are_cut(make):
    replica = Replica(end=9)
    follower = make(replica)
    follower.next_question(0, never)
    follower.apply(data(OffsetOutOfRange.code), 0)
    question = follower.next_question(0, never)
    assert isinstance(question, ListOffsetsRequest)
    assert (question.replica_id, question.topics[0].partitions[0].timestamp) == (2, -1)
    follower.apply(offset(6), 0)
    assert replica.done == [("cut", 6)]
    assert follower.phase(ORDERS) is Phase.FETCHING


def test_a_leader_that_starts_behind_our_end_makes_us_start_anew(make):
    replica = Replica(end=5)
    follower = make(replica)
    follower.next_question(0, never)
    follower.apply(data(OffsetOutOfRange.code), 0)
    follower.next_question(0, never)
    follower.apply(offset(100), 0)
    assert follower.next_question(0, never).topics[0].partitions[0].timestamp == -2
    follower.apply(offset(60), 0)
    assert replica.done == [("restart", 60)]
    assert follower.next_question(0, never).topics[0].partitions[0].fetch_offset == 60


def test_a_leader_that_still_has_our_end_changes_nothing(make):
    replica = Replica(end=5)
    follower = make(replica)
    for answer in (data(OffsetOutOfRange.code), offset(100), offset(3)):
        follower.next_question(0, never)
        follower.apply(answer, 0)
    assert replica.done == []
    assert follower.phase(ORDERS) is Phase.FETCHING


def test_a_log_without_epochs_is_cut_at_its_high_watermark(make):
    replica = Replica(end=5, epoch=-1, high_watermark=2)
    follower = make(replica)
    question = follower.next_question(0, never)
    assert isinstance(question, OffsetForLeaderEpochRequest)
    follower.apply(epoch_end(-1, -1), 0)
    assert replica.done == [("cut", 2)]
    assert follower.phase(ORDERS) is Phase.FETCHING


def test_an_old_leader_is_asked_for_epochs_until_we_agree(make):
    replica = Replica(end=9, epoch=3)
    replica.end_of_epoch = lambda epoch: EpochEnd(1, 4) if epoch == 2 else EpochEnd(epoch, 3)
    follower = make(replica, settings=SETTINGS._replace(version=11))
    asked = follower.next_question(0, never).topics[0].partitions[0]
    assert (asked.leader_epoch, asked.current_leader_epoch) == (3, 4)
    follower.apply(epoch_end(2, 8), 0)
    assert (replica.done, follower.phase(ORDERS)) == ([("cut", 4)], Phase.TRUNCATING)
    follower.next_question(0, never)
    follower.apply(epoch_end(1, 9), 0)
    assert (replica.done[-1], follower.phase(ORDERS)) == (("cut", 3), Phase.FETCHING)
    assert follower.next_question(0, never).topics[0].partitions[0].last_fetched_epoch == -1


def test_a_throttled_partition_is_left_out(make):
    follower = make()
    assert follower.next_question(0, always) is None
    follower.next_question(0, never)
    follower.apply(data(high_watermark=5), 0)
    assert follower.next_question(0, always) is not None


def test_a_partition_that_is_not_followed_any_more_is_forgotten(make):
    replica = Replica()
    follower = make(replica)
    follower.next_question(0, never)
    follower.forget(ORDERS)
    follower.apply(data(records=b"late"), 0)
    assert (replica.done, len(follower), ORDERS in follower) == ([], 0, False)


def test_a_move_that_is_not_in_the_table_is_a_fault():
    follower = Follower(SETTINGS, broker_epoch=lambda: 1)
    follower.follow(Replica(), 1)
    with pytest.raises(ValueError, match="cannot go"):
        follower._followed[ORDERS].move(Phase.SEEKING_START)
