"""Produce requests and plain answers: both twins write the same bytes and read the same words."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.sending.sequences import Stamp
from ottla.client.producer.transactions.states import ProducerIdentity
from ottla.net.framing import frame_prefix
from ottla.protocol import compiled
from ottla.protocol.api import APIS, WrittenRequest
from ottla.protocol.header import decode_request, encode_request, encode_response
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records import Compression, RecordBatch

versions = st.integers(3, 13)
names = st.sampled_from(["a", "topic-of-some-length", "ü" * 70, "b"])
values = st.lists(st.binary(max_size=30), min_size=1, max_size=4)
stamps = st.none() | st.tuples(st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))
drawn_batches = st.lists(st.tuples(names, st.integers(0, 2**31 - 1), values, stamps), max_size=6)
ids = st.dictionaries(names, st.binary(min_size=16, max_size=16))
times = st.integers(-(2**63), 2**63 - 1)


def batches_of(twin, drawn, codec=Compression.NONE):
    made = []
    for topic, partition, contents, stamp in drawn:
        batch = twin.ProducerBatch(
            None, topic, partition, bytearray(30_000), 30_000, limit_bytes=30_000, created_ms=0, compression=codec
        )
        for content in contents:
            assert batch.append(5, None, content)
        if stamp is not None:
            batch.stamp = Stamp(ProducerIdentity(*stamp[:2]), stamp[2], len(contents))
        made.append(batch)
    return made


def answer_of(drawn, topic_ids, places, change=None):
    """The answer of a broker that took every batch; `change` does something to it."""
    topics = {}
    for (name, partition, *_), (base_offset, append_time_ms) in zip(drawn, places, strict=True):
        if name not in topics:
            topic_id = topic_ids.get(name, bytes(16))
            topics[name] = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[])
        word = PartitionProduceResponse(
            index=partition, error_code=0, base_offset=base_offset, log_append_time_ms=append_time_ms
        )
        topics[name].partition_responses.append(word)
    response = ProduceResponse(responses=list(topics.values()), throttle_time_ms=7)
    if change is not None:
        change(response)
    return response


@given(versions, drawn_batches, ids, st.none() | names, st.sampled_from(Compression), st.booleans())
def test_both_twins_write_the_same_request(both, version, drawn, topic_ids, who, codec, is_transactional):
    written = []
    for twin in both:
        batches = batches_of(twin, drawn, codec)
        arguments = topic_ids, version, who, -1, 30_000, is_transactional
        written.append(b"".join(twin.write_body(batches, *arguments)))
    assert written[0] == written[1]


long_values = st.lists(st.binary(max_size=30) | st.just(b"x" * 3000) | st.just(b"y" * 9000), min_size=1, max_size=3)
drawn_frames = st.lists(st.tuples(names, st.integers(0, 2**31 - 1), long_values, stamps), max_size=6)
correlation_ids = st.integers(0, 2**31 - 1)
client_ids = st.none() | st.text(max_size=20)


@given(versions, drawn_frames, ids, st.none() | names, st.sampled_from(Compression), correlation_ids, client_ids)
def test_both_twins_write_the_same_frame(both, version, drawn, topic_ids, who, codec, correlation_id, client_id):
    terms = who, -1, 30_000, who is not None
    written = []
    for twin in both:
        batches = batches_of(twin, drawn, codec)
        written.append(b"".join(twin.write_frame(batches, topic_ids, version, *terms, correlation_id, client_id)))
    assert written[0] == written[1]
    body = WrittenRequest(APIS[0], both[1].write_body(batches, topic_ids, version, *terms))
    frame = encode_request(body, version=version, correlation_id=correlation_id, client_id=client_id)
    assert written[1] == b"".join([frame_prefix(frame), *frame])


def test_small_batches_are_copied_into_one_buffer_and_may_be_renumbered(twin):
    batches = batches_of(
        twin, [("a", 0, [b"x"], (7, 0, 0)), ("a", 1, [b"y" * 9000], (7, 0, 0)), ("a", 2, [b"z"], None)]
    )
    pieces = twin.write_frame(batches, {}, 9, None, -1, 500, False, 3, "me")
    assert len(pieces) == 3
    first = b"".join(pieces)
    batches[0].stamp = Stamp(ProducerIdentity(7, 1), 5, 1)
    again = b"".join(twin.write_frame(batches, {}, 9, None, -1, 500, False, 3, "me"))
    assert b"".join(pieces) == first, "bytes that were handed out never change"
    assert again != first
    sent = decode_request(again[4:])[1].topic_data[0].partition_data
    assert [RecordBatch(bytes(each.records)).base_sequence for each in sent] == [5, 0, -1]


@given(versions, drawn_batches, ids)
def test_a_written_request_is_read_by_the_protocol(twin, version, drawn, topic_ids):
    body = twin.write_body(batches_of(twin, drawn), topic_ids, version, "who", 1, 500, True)
    written = WrittenRequest(APIS[0], body)
    frame = b"".join(encode_request(written, version=version, correlation_id=9, client_id="me"))
    header, request = decode_request(frame)
    assert (header.correlation_id, header.client_id, header.request_api_version) == (9, "me", version)
    assert isinstance(request, ProduceRequest)
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("who", 1, 500)
    order = list(dict.fromkeys(name for name, *_ in drawn))
    expected = [each for name in order for each in drawn if each[0] == name]
    found = [(topic, each) for topic in request.topic_data for each in topic.partition_data]
    assert [each.index for _, each in found] == [partition for _, partition, _, _ in expected]
    for (topic, each), (name, _, contents, stamp) in zip(found, expected, strict=True):
        assert topic.topic_id == topic_ids.get(name, bytes(16)) if version >= 13 else topic.name == name
        batch = RecordBatch(bytes(each.records))
        assert [record.value for record in batch] == contents
        assert (batch.producer_id, batch.base_sequence) == ((-1, -1) if stamp is None else (stamp[0], stamp[2]))
        assert batch.is_transactional == (stamp is not None)


@given(versions, drawn_batches, ids, st.data())
def test_both_twins_read_an_answer_that_accepts_everything(both, version, drawn, topic_ids, data):
    drawn = list({each[:2]: each for each in drawn}.values())
    places = [data.draw(st.tuples(times, times)) for _ in drawn]
    response = answer_of(drawn, topic_ids, places)
    frame = b"".join(encode_response(response, version=version, correlation_id=3))
    if version >= 13 and len({topic_ids.get(name, bytes(16)) for name, *_ in drawn}) < len({each[0] for each in drawn}):
        return  # two topics with one id: no cluster has them
    for twin in both:
        accepted = twin.read_accepted(batches_of(twin, drawn), topic_ids, version, memoryview(frame + b"more"))
        assert accepted == (7, places)


def _error(response):
    response.responses[-1].partition_responses[-1].error_code = 3


def _record_error(response):
    errors = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no")]
    response.responses[0].partition_responses[0].record_errors = errors


def _message(response):
    response.responses[0].partition_responses[0].error_message = "no"


def _leader(response):
    response.responses[0].partition_responses[0].current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)


def _endpoint(response):
    response.node_endpoints = [NodeEndpoint(node_id=1, host="h", port=1)]


def _other_partition(response):
    response.responses[0].partition_responses[0].index += 1


def _other_topic(response):
    response.responses[0].topic_id = bytes(range(16))
    response.responses[0].name = "another"


def _missing(response):
    response.responses.pop()


def _unknown_tag(response):
    response.responses[0].partition_responses[0].unknown_tags = {9: b"x"}


CHANGES = [_error, _record_error, _message, _leader, _endpoint, _other_partition, _other_topic, _missing, _unknown_tag]


@given(st.integers(10, 13), st.sampled_from(CHANGES))
def test_whatever_else_an_answer_says_is_left_to_the_message(twin, version, change):
    drawn = [("a", 0, [b"x"], None), ("b", 2, [b"y"], None)]
    topic_ids = {"a": b"a" * 16, "b": b"b" * 16}
    response = answer_of(drawn, topic_ids, [(1, -1), (2, -1)], change)
    frame = b"".join(encode_response(response, version=version, correlation_id=3))
    assert twin.read_accepted(batches_of(twin, drawn), topic_ids, version, frame) is None


@given(versions, st.binary(max_size=80), st.integers(0, 200))
def test_bytes_that_are_no_answer_are_left_to_the_message(both, version, noise, cut):
    drawn = [("a", 0, [b"x"], None)]
    answer = answer_of(drawn, {}, [(1, -1)])
    frame = b"".join(encode_response(answer, version=version, correlation_id=3))
    for bad in (noise, frame[: cut % len(frame)]):
        first, second = (twin.read_accepted(batches_of(twin, drawn), {}, version, bad) for twin in both)
        assert first == second


def test_the_parts_of_a_request_are_few_and_records_are_not_copied(twin):
    (batch,) = batches_of(twin, [("a", 0, [b"x"], None)])
    body = twin.write_body([batch], {}, 12, None, -1, 1, False)
    assert any(isinstance(part, memoryview) and part.obj is batch.buffer for part in body)
    empty = twin.write_body([], {}, 12, None, -1, 1, False)
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1, topic_data=[])
    assert b"".join(empty) == b"".join(compiled.encode(request, 12))
