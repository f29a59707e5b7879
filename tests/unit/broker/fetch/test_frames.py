"""Simple fetch requests and answers as flat values: the native twin and the Python twin say the same of every byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.fetch import choice, frames
from ottla.broker.fetch.frames import SimpleAsked, SimpleFetched, Terms
from ottla.broker.fetch.sessions import FetchPosition
from ottla.broker.replication.fetch_plan import Position
from ottla.protocol.compiled import encode
from ottla.protocol.header import decode_request, decode_request_header
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.records.implementation import CHOSEN

try:
    from ottla.broker.fetch import _frames as native
except ImportError:
    native = None

VERSIONS = range(12, 19)
SIMPLE_VERSIONS = range(13, 19)
TERMS = Terms(2, 500, 1, 10_485_760, 1_048_576)
IDS = [bytes([number]) * 16 for number in (1, 2, 3)]
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(params=["python", "native"])
def twin(request):
    if request.param == "native" and native is None:
        pytest.skip("ottla.broker.fetch._frames is not built: that needs a C compiler")
    return frames if request.param == "python" else native


needs_native = pytest.mark.skipif(native is None, reason="ottla.broker.fetch._frames is not built")


def request_body(version, topics, *, session_epoch=3, replica=(2, 7), **how):
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, session_id=9, session_epoch=session_epoch, topics=topics, **how
    )
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=replica[0], replica_epoch=replica[1])
    else:
        request.replica_id = replica[0]
    return b"".join(encode(request, version))


def asked_partition(number, offset=5):
    return FetchPartition(
        partition=number,
        current_leader_epoch=4,
        fetch_offset=offset,
        last_fetched_epoch=3,
        log_start_offset=1,
        partition_max_bytes=1_048_576,
    )


def answer_frame(version, topics, **how):
    return bytes(5) + b"".join(encode(FetchResponse(session_id=9, responses=topics, **how), version))


def data(number, records=b"abc", **how):
    values = {"error_code": 0, "high_watermark": 5, "last_stable_offset": 4, "log_start_offset": 1, **how}
    return PartitionData(partition_index=number, records=records, **{"aborted_transactions": None, **values})


@pytest.mark.parametrize("version", SIMPLE_VERSIONS)
def test_a_request_of_a_session_is_read(twin, version):
    topics = [FetchTopic(topic_id=IDS[0], partitions=[asked_partition(0), asked_partition(1, 8)])]
    body = request_body(version, topics)
    position = FetchPosition(5, 1_048_576, 4, 3, 1)
    rows = [(IDS[0], 0, position), (IDS[0], 1, position._replace(fetch_offset=8))]
    epoch = 7 if version >= 15 else -1
    assert twin.scan_asked(version, memoryview(b"head" + body), 4) == SimpleAsked(
        2, epoch, 500, 1, 2**31 - 1, 0, 9, 3, rows
    )


@pytest.mark.parametrize("version", SIMPLE_VERSIONS)
def test_what_a_follower_writes_is_what_its_leader_reads(twin, version):
    at = Position(IDS[1], 4, 5, 3, 1)
    topics = {IDS[1]: [(0, at), (2, at._replace(offset=2**40))], IDS[0]: [(1, at)]}
    frame = twin.write_asked(version, 77, "broker-2", TERMS, 7, 9, 3, topics)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, position = decode_request_header(frame[4:])
    asked = twin.scan_asked(version, memoryview(frame)[4:], position)
    assert (header.correlation_id, header.client_id, asked.session_id, asked.session_epoch) == (77, "broker-2", 9, 3)
    assert [(row[0], row[1], row[2].fetch_offset) for row in asked.rows] == [
        (IDS[1], 0, 5),
        (IDS[1], 2, 2**40),
        (IDS[0], 1, 5),
    ]
    _, message = decode_request(frame[4:])
    assert asked.message(version) == message


@pytest.mark.parametrize("version", SIMPLE_VERSIONS)
def test_what_a_leader_writes_is_what_its_follower_reads(twin, version):
    rows = [(IDS[0], 0, 5, 4, 1, b"abc"), (IDS[0], 1, 6, 6, 0, b""), (IDS[1], 0, 7, 7, 2, b"defg")]
    parts = twin.write_fetched(version, 9, rows)
    assert twin.scan_fetched(version, memoryview(bytes(5) + b"".join(parts))) == SimpleFetched(9, rows)


UNUSUAL_REQUESTS = {
    "whole": {"session_epoch": 0},
    "without a session": {"session_epoch": -1},
    "forgets": {"forgotten_topics_data": [ForgottenTopic(topic_id=IDS[2], partitions=[1])]},
    "names a rack": {"rack_id": "north"},
    "names its cluster": {"cluster_id": "abc"},
}


@pytest.mark.parametrize("name", UNUSUAL_REQUESTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_unusual_request_is_left_to_the_messages(twin, version, name):
    topics = [FetchTopic(topic="orders", topic_id=IDS[0], partitions=[asked_partition(0)])]
    body = request_body(version, topics, **UNUSUAL_REQUESTS[name])
    assert twin.scan_asked(version, memoryview(body), 0) is None


UNUSUAL_ANSWERS = {
    "an error": [data(0, error_code=6)],
    "logs went apart": [data(0, diverging_epoch=EpochEndOffset(epoch=1, end_offset=2))],
    "aborted transactions": [data(0, aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)])],
    "no aborted transactions": [data(0, aborted_transactions=[])],
    "another replica": [data(0, preferred_read_replica=3)],
    "no records at all": [data(0, records=None)],
}


@pytest.mark.parametrize("name", UNUSUAL_ANSWERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_unusual_answer_is_left_to_the_messages(twin, version, name):
    topics = [FetchableTopicResponse(topic="orders", topic_id=IDS[0], partitions=UNUSUAL_ANSWERS[name])]
    assert twin.scan_fetched(version, memoryview(answer_frame(version, topics))) is None


@pytest.mark.parametrize("how", [{"error_code": 70}, {"throttle_time_ms": 5}])
def test_an_answer_that_is_an_error_is_left_to_the_messages(twin, how):
    assert twin.scan_fetched(17, memoryview(answer_frame(17, [], **how))) is None


# -- both twins --------------------------------------------------------------------------------------------------------

PARTITIONS = st.builds(
    FetchPartition,
    partition=INT32,
    current_leader_epoch=INT32,
    fetch_offset=INT64,
    last_fetched_epoch=INT32,
    log_start_offset=INT64,
    partition_max_bytes=INT32,
)
TOPICS = st.builds(
    FetchTopic, topic_id=st.sampled_from(IDS), partitions=st.lists(PARTITIONS, max_size=3), topic=st.just("")
)
DATA = st.builds(
    PartitionData,
    partition_index=INT32,
    error_code=st.sampled_from([0, 0, 0, 6]),
    high_watermark=INT64,
    last_stable_offset=INT64,
    log_start_offset=INT64,
    aborted_transactions=st.sampled_from([None, None, None, []]),
    records=st.binary(max_size=200),
)
ANSWERED = st.builds(
    FetchableTopicResponse, topic_id=st.sampled_from(IDS), partitions=st.lists(DATA, max_size=3), topic=st.just("")
)
DAMAGE = st.one_of(st.none(), st.tuples(st.integers(0, 400), st.integers(0, 255), st.integers(0, 3)))


def damaged(content, damage):
    if damage is None or not content:
        return content
    at, byte, less = damage
    at %= len(content)
    return (content[:at] + bytes([byte]) + content[at + 1 :])[: len(content) - less]


@needs_native
@given(
    version=st.sampled_from(SIMPLE_VERSIONS),
    topics=st.lists(TOPICS, max_size=3),
    session_epoch=st.sampled_from([1, 3, 2**31 - 1, 0, -1]),
    replica=st.sampled_from([(2, 7), (2, -1), (-1, -1), (0, 0)]),
    isolation_level=st.integers(-128, 127),
    rack_id=st.sampled_from(["", "", "", "north"]),
    damage=DAMAGE,
)
def test_both_twins_read_the_same_requests(version, topics, session_epoch, replica, isolation_level, rack_id, damage):
    how = {"session_epoch": session_epoch, "replica": replica, "isolation_level": isolation_level, "rack_id": rack_id}
    frame = memoryview(b"head" + damaged(request_body(version, topics, **how), damage))
    assert native.scan_asked(version, frame, 4) == frames.scan_asked(version, frame, 4)


@needs_native
@given(version=st.sampled_from(SIMPLE_VERSIONS), topics=st.lists(ANSWERED, max_size=3), damage=DAMAGE)
def test_both_twins_read_the_same_answers(version, topics, damage):
    frame = memoryview(damaged(answer_frame(version, topics), damage))
    assert native.scan_fetched(version, frame) == frames.scan_fetched(version, frame)


POSITIONS = st.tuples(st.just(IDS[0]), INT32, INT64, INT32, INT64)


@needs_native
@given(
    version=st.sampled_from(SIMPLE_VERSIONS),
    correlation_id=INT32,
    client_id=st.one_of(st.none(), st.text(max_size=9)),
    terms=st.builds(Terms, INT32, INT32, INT32, INT32, INT32),
    session=st.tuples(INT64, INT32, INT32),
    topics=st.dictionaries(st.sampled_from(IDS), st.lists(st.tuples(INT32, POSITIONS), min_size=1, max_size=3)),
)
def test_both_twins_write_the_same_requests(version, correlation_id, client_id, terms, session, topics):
    how = version, correlation_id, client_id, terms, *session, topics
    assert native.write_asked(*how) == frames.write_asked(*how)


@needs_native
@given(
    version=st.sampled_from(SIMPLE_VERSIONS),
    session_id=INT32,
    rows=st.lists(st.tuples(st.sampled_from(IDS), INT32, INT64, INT64, INT64, st.binary(max_size=300)), max_size=6),
)
def test_both_twins_write_the_same_answers(version, session_id, rows):
    both = [b"".join(each.write_fetched(version, session_id, rows)) for each in (native, frames)]
    assert both[0] == both[1]


def test_the_twin_is_chosen_like_the_codec():
    expected = frames if CHOSEN == "python" or native is None else native
    for name in choice.__all__:
        assert getattr(choice, name) is getattr(expected, name)
