"""Envelopes as Apache Kafka 4.3 writes and reads them, and the table of directories of replicas."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.kraft.directory_assignments import ASSIGNMENTS_LIMIT, DirectoryAssignments
from ottla.broker.cluster.kraft.envelopes import unwrapped, wrapped
from ottla.broker.cluster.kraft.link import fetch_version
from ottla.broker.cluster.kraft.passing_on import PASSED_ON
from ottla.broker.requests.context import RequestContext
from ottla.errors import NotController, UnknownServerError, UnsupportedVersion
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.envelope import EnvelopeResponse

CONTEXT = RequestContext(api_version=6, client_id="tool", client_host="10.1.2.3", principal="User:alice", by_token=True)
REQUEST = DeleteTopicsRequest(topics=[], timeout_ms=5)


def test_an_envelope_has_the_request_with_its_header_who_asks_and_from_where() -> None:
    envelope = wrapped(REQUEST, CONTEXT)
    header, request = decode_request(bytes(envelope.request_data))
    assert (header.request_api_key, header.request_api_version, header.client_id) == (20, 6, "tool")
    assert request == REQUEST
    # int16 version, compact "User", compact "alice", true, no tags
    assert envelope.request_principal == b"\x00\x00\x05User\x06alice\x01\x00"
    assert envelope.client_host_address == bytes((10, 1, 2, 3))


def test_what_comes_back_is_the_answer_or_says_whom_to_ask() -> None:
    answer = DeleteTopicsResponse(responses=[])
    data = b"".join(map(bytes, encode_response(answer, version=6, correlation_id=0)))
    assert unwrapped(REQUEST, 6, EnvelopeResponse(error_code=0, response_data=data)) == answer
    with pytest.raises(NotController):
        unwrapped(REQUEST, 6, EnvelopeResponse(error_code=NotController.code))
    with pytest.raises(UnknownServerError, match="may not do that to the cluster"):
        unwrapped(REQUEST, 6, EnvelopeResponse(error_code=31))
    with pytest.raises(UnsupportedVersion, match=r"does not know DeleteTopics \(key 20\) in version 6"):
        unwrapped(REQUEST, 6, EnvelopeResponse(error_code=35))


def test_what_is_passed_on_is_what_kafka_passes_on() -> None:
    assert {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81} == PASSED_ON


@pytest.mark.parametrize(("level", "version"), [(7, 13), (9, 14), (12, 15), (19, 16), (21, 17), (26, 17), (30, 18)])
def test_followers_fetch_as_the_level_of_their_cluster_says(level: int, version: int) -> None:
    assert fetch_version(level) == version


ONE, TWO, TOPIC = b"1" * 16, b"2" * 16, b"t" * 16
UNASSIGNED = (1).to_bytes(16)


def accepted(*partitions: tuple[int, int], directory: bytes = ONE) -> AssignReplicasToDirsResponse:
    answers = [ResponsePartitionData(partition_index=index, error_code=code) for index, code in partitions]
    topic = ResponseTopicData(topic_id=TOPIC, partitions=answers)
    return AssignReplicasToDirsResponse(error_code=0, directories=[ResponseDirectoryData(id=directory, topics=[topic])])


def test_where_a_replica_lies_is_said_until_the_controller_has_accepted_it() -> None:
    assignments = DirectoryAssignments(7)
    assignments.lies(TOPIC, 0, ONE, UNASSIGNED)
    assignments.lies(TOPIC, 1, TWO, UNASSIGNED)
    assignments.lies(TOPIC, 2, TWO, TWO)
    request = assignments.request(40)
    assert (request.broker_id, request.broker_epoch) == (7, 40)
    found = {each.id: [one.partition_index for one in each.topics[0].partitions] for each in request.directories}
    assert found == {ONE: [0], TWO: [1]}
    assert not assignments.answered(AssignReplicasToDirsResponse(error_code=77, directories=[]))
    assert assignments.answered(accepted((0, 0)))
    assert len(assignments) == 1
    assignments.lies(TOPIC, 1, TWO, TWO)  # the image shows it
    assert assignments.request(40) is None


def test_a_replica_that_moved_meanwhile_is_said_again() -> None:
    assignments = DirectoryAssignments(7)
    assignments.lies(TOPIC, 0, ONE, UNASSIGNED)
    assignments.request(40)
    assignments.lies(TOPIC, 0, TWO, UNASSIGNED)
    assignments.answered(accepted((0, 0)))
    assert assignments.request(40).directories[0].id == TWO


def test_one_request_has_as_many_as_kafka_sends() -> None:
    assignments = DirectoryAssignments(7)
    for index in range(ASSIGNMENTS_LIMIT + 1):
        assignments.lies(TOPIC, index, ONE, UNASSIGNED)
    assert len(assignments.request(40).directories[0].topics[0].partitions) == ASSIGNMENTS_LIMIT
