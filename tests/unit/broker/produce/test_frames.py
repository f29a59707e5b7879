"""Produce requests and answers as flat values: the native twin and the Python twin say the same of every byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.produce import choice as produce_choice
from ottla.broker.produce import frames as produce_frames
from ottla.broker.produce.frames import Produce, ProduceResult
from ottla.errors import InvalidRecord, NotLeaderOrFollower
from ottla.protocol.compile_decode import FAILURES
from ottla.protocol.compiled import decode, encode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.implementation import CHOSEN
from ottla.storage.log.record_errors import RecordError

try:
    from ottla.broker.produce import _frames as native
except ImportError:
    native = None

VERSIONS = range(3, 14)
LIMIT = 20_000
TOPIC_ID = bytes(range(16))


@pytest.fixture(params=["python", "native"])
def twin(request):
    if request.param == "native" and native is None:
        pytest.skip("ottla.broker.produce._frames is not built: that needs a C compiler")
    return produce_frames if request.param == "python" else native


def request_of(topics, *, transactional_id=None, acks=-1, timeout_ms=30_000):
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    PartitionProduceData(index=index, records=None if records is None else memoryview(records))
                    for index, records in partitions
                ],
            )
            for name, topic_id, partitions in topics
        ],
    )


def frame_of(request, version, before=b"head", after=b""):
    return memoryview(bytearray(before + b"".join(encode(request, version)) + after))


def outcome_of(scan, version, frame, limit=LIMIT):
    try:
        produce, end = scan(version, limit, frame, 4)
    except produce_frames.UNREADABLE:
        return "refused"
    topics = [
        (topic, [(index, None if records is None else bytes(records)) for index, records in partitions])
        for topic, partitions in produce.topics
    ]
    return produce._replace(topics=topics), end


names = st.text(max_size=12)
partition_lists = st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | st.binary(max_size=300)), max_size=3)
requests = st.builds(
    request_of,
    st.lists(st.tuples(names, st.binary(min_size=16, max_size=16), partition_lists), max_size=3),
    transactional_id=st.none() | names,
    acks=st.sampled_from([-1, 0, 1, 7]),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_flat_values(twin, version):
    request = request_of([("orders", TOPIC_ID, [(0, b"abc"), (7, None)]), ("", bytes(16), [])], transactional_id="tx")
    frame = frame_of(request, version, after=b"behind")
    produce, end = twin.scan(version, LIMIT, frame, 4)
    by_id = version >= 13
    assert isinstance(produce, Produce)
    assert (produce.transactional_id, produce.acks, produce.timeout_ms) == ("tx", -1, 30_000)
    assert produce.topics == [
        (TOPIC_ID if by_id else "orders", [(0, b"abc"), (7, None)]),
        (bytes(16) if by_id else "", []),
    ]
    assert end == len(frame) - len(b"behind")


def test_records_are_a_slice_of_the_frame(twin):
    frame = frame_of(request_of([("orders", TOPIC_ID, [(0, b"abc")])]), 11)
    produce, _ = twin.scan(11, LIMIT, frame, 4)
    produce.topics[0][1][0][1][:] = b"xyz"
    assert b"xyz" in bytes(frame)


@given(request=requests, version=st.sampled_from(VERSIONS), limit=st.integers(0, 9))
def test_both_twins_read_the_same(request, version, limit):
    if native is None:
        pytest.skip("ottla.broker.produce._frames is not built: that needs a C compiler")
    frame = frame_of(request, version)
    assert outcome_of(native.scan, version, frame, limit) == outcome_of(produce_frames.scan, version, frame, limit)


@given(
    request=requests,
    version=st.sampled_from(VERSIONS),
    edits=st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 40),
    limit=st.sampled_from([2, LIMIT]),
)
def test_both_twins_read_the_same_of_damaged_frames(request, version, edits, cut, limit):
    if native is None:
        pytest.skip("ottla.broker.produce._frames is not built: that needs a C compiler")
    frame = frame_of(request, version)
    for position, value in edits:
        frame[4 + position % (len(frame) - 4)] = value
    frame = frame[: max(4, len(frame) - cut)]
    assert outcome_of(native.scan, version, frame, limit) == outcome_of(produce_frames.scan, version, frame, limit)


def test_more_entries_than_allowed_are_refused(twin):
    frame = frame_of(request_of([("orders", TOPIC_ID, [(0, b"abc"), (1, b"abc")])]), 11)
    assert twin.scan(11, 3, frame, 4)[0].topics
    with pytest.raises(FAILURES):
        twin.scan(11, 2, frame, 4)


def test_unknown_tags_are_passed_over(twin):
    frame = bytes(frame_of(request_of([("orders", TOPIC_ID, [(0, b"abc")])]), 11, before=b""))
    tagged = memoryview(frame[:-1] + b"\x01\x63\x02hi")
    produce, end = twin.scan(11, LIMIT, tagged, 0)
    assert (produce.topics[0][0], end) == ("orders", len(tagged))


def test_a_frame_that_is_no_memoryview_is_read_too(twin):
    frame = bytes(frame_of(request_of([("orders", TOPIC_ID, [(0, b"abc")])]), 11))
    assert twin.scan(11, LIMIT, frame, 4)[0].topics == [("orders", [(0, b"abc")])]


# --- answers ---------------------------------------------------------------------------------------------------------


def refused(index, error):
    return ProduceResult(index, error=error)


def answers_of(version, outcomes, name="orders"):
    return [(TOPIC_ID if version >= 13 else name, outcomes)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_says_where_records_are(twin, version):
    written = b"".join(twin.write(version, answers_of(version, [ProduceResult(3, 2**40, 1_700_000_000_000, 17)])))
    response = decode(ProduceResponse, version, written)
    (told,) = response.responses[0].partition_responses
    assert (told.index, told.error_code, told.base_offset) == (3, 0, 2**40)
    assert told.log_append_time_ms == 1_700_000_000_000
    assert told.log_start_offset == (17 if version >= 5 else -1)
    assert told.error_message is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_names_errors_and_refused_records(twin, version):
    error = InvalidRecord("two records are refused")
    error.record_errors = [RecordError(4, "no key")]
    outcomes = [ProduceResult(0, 5, -1, 0), refused(1, error), refused(2, NotLeaderOrFollower("led by 2"))]
    response = decode(ProduceResponse, version, b"".join(twin.write(version, answers_of(version, outcomes))))
    told = response.responses[0].partition_responses
    assert [each.error_code for each in told] == [0, InvalidRecord.code, NotLeaderOrFollower.code]
    if version >= 8:
        assert told[1].record_errors[0].batch_index == 4
        assert "led by 2" in told[2].error_message


offsets = st.integers(-(2**63), 2**63 - 1)
outcome_lists = st.lists(
    st.builds(
        ProduceResult,
        st.integers(-(2**31), 2**31 - 1),
        offsets,
        offsets,
        offsets,
        st.sampled_from([None, None, None, NotLeaderOrFollower("led by 2")]),
    ),
    max_size=4,
)


@given(
    version=st.sampled_from(VERSIONS),
    topics=st.lists(st.tuples(names, outcome_lists), max_size=3),
)
def test_both_twins_write_the_same(version, topics):
    if native is None:
        pytest.skip("ottla.broker.produce._frames is not built: that needs a C compiler")
    answers = [(TOPIC_ID if version >= 13 else name, outcomes) for name, outcomes in topics]
    assert b"".join(native.write(version, answers)) == b"".join(produce_frames.write(version, answers))


def test_many_topics_and_long_names_fit(twin):
    answers = [("n" * 8_000, [ProduceResult(index, index) for index in range(200)]) for _ in range(200)]
    response = decode(ProduceResponse, 9, b"".join(twin.write(9, answers)))
    assert len(response.responses) == 200
    assert response.responses[199].partition_responses[199].base_offset == 199


# --- runs ------------------------------------------------------------------------------------------------------------

WHO = b"\x00\x04test\x00"


def header(version, number, who=WHO, key=0):
    return struct.pack(">hhi", key, version, number) + who


@given(
    requests=st.lists(requests, min_size=1, max_size=4),
    version=st.sampled_from(VERSIONS),
    odd=st.sampled_from(["none", "kind", "who", "cut", "damaged", "tiny"]),
    where=st.integers(0, 3),
)
def test_both_twins_read_the_same_of_frames_that_came_together(requests, version, odd, where):
    if native is None:
        pytest.skip("ottla.broker.produce._frames is not built: that needs a C compiler")
    frames = [frame_of(each, version, header(version, n)) for n, each in enumerate(requests)]
    where %= len(frames)
    changed = {
        "none": frames[where],
        "kind": frame_of(requests[where], version, header(version, 1, key=3)),
        "who": frame_of(requests[where], version, header(version, 1, b"\x00\x04else\x00")),
        "cut": frames[where][: len(frames[where]) - 3],
        "damaged": memoryview(bytearray(bytes(frames[where][:-1]) + b"\xff")),
        "tiny": frames[where][:6] if where else frames[where],
    }
    frames[where] = changed[odd]
    position = 8 + len(WHO)
    found = native.scan_run(version, LIMIT, frames, position)
    assert found == produce_frames.scan_run(version, LIMIT, frames, position)
    if odd == "none":
        assert len(found) == len(frames)


@given(
    version=st.sampled_from(VERSIONS),
    runs=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.lists(st.tuples(names, outcome_lists), max_size=2))),
)
def test_both_twins_write_the_same_frames(version, runs):
    if native is None:
        pytest.skip("ottla.broker.produce._frames is not built: that needs a C compiler")
    frames = [memoryview(header(version, number)) for number, _ in runs]
    answers = [[(TOPIC_ID if version >= 13 else name, each) for name, each in topics] for _, topics in runs]
    assert native.write_run(version, frames, answers) == produce_frames.write_run(version, frames, answers)


@pytest.mark.parametrize("version", [3, 11, 13])
def test_a_run_is_answered_by_whole_frames(twin, version):
    frames = [memoryview(header(version, number)) for number in (7, 8)]
    content = twin.write_run(version, frames, [answers_of(version, [ProduceResult(0, offset)]) for offset in (5, 6)])
    for number, offset in ((7, 5), (8, 6)):
        size, correlation_id = struct.unpack_from(">ii", content)
        body = content[8 + (version >= 9) : 4 + size]
        content = content[4 + size :]
        response = decode(ProduceResponse, version, body)
        assert (correlation_id, response.responses[0].partition_responses[0].base_offset) == (number, offset)
    assert content == b""


def test_the_twin_is_chosen_like_the_codec():
    expected = produce_frames if CHOSEN == "python" or native is None else native
    assert produce_choice.scan is expected.scan
    assert produce_choice.write is expected.write
    assert produce_choice.scan_run is expected.scan_run
    assert produce_choice.write_run is expected.write_run
