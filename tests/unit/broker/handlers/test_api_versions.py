"""ApiVersions: everybody gets the same answer until the metadata changes, and who has to wait gets one that says so."""

from __future__ import annotations

from types import SimpleNamespace

from ottla.broker.handlers.cluster.api_versions import codec, handle, throttled
from ottla.protocol.compiled import decode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

VERSION = 4
ASKED = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")


def handled(broker, version=VERSION):
    """What the handler returns, before it is written."""
    return broker.do(lambda: handle(broker.broker, ASKED, SimpleNamespace(api_version=version, connection=None)))


def test_the_answer_is_made_once_until_the_metadata_changes(broker):
    first, second = (handled(broker) for _ in range(2))
    assert first is second
    broker.create_topic("orders")
    third = handled(broker)
    assert third.finalized_features_epoch > first.finalized_features_epoch
    assert third.api_keys == first.api_keys


def test_versions_have_answers_of_their_own(broker):
    names = {version: {each.name for each in broker.ask(ASKED, version).supported_features} for version in (3, 4)}
    assert names[3] < names[4]


def test_what_was_written_is_kept_and_not_shared(broker):
    _, encode = codec(VERSION)
    response = handled(broker)
    first = encode(response)
    whole = b"".join(first)
    first[0] = b"header" + first[0]  # as the dispatcher does
    assert b"".join(encode(response)) == whole
    other = ApiVersionsResponse(error_code=42, api_keys=[])
    assert decode(ApiVersionsResponse, VERSION, b"".join(encode(other))) == other
    assert b"".join(encode(response)) == whole


def test_who_has_to_wait_is_told_so_and_nobody_else(broker):
    response = handled(broker)
    slowed = decode(ApiVersionsResponse, VERSION, b"".join(throttled(VERSION)(response, 700)))
    assert slowed.throttle_time_ms == 700
    assert broker.ask(ASKED, VERSION).throttle_time_ms == 0
