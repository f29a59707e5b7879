"""Every request ends once and in order; versions are the highest both sides have; answers leave in order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConnectionClosed, MalformedMessage, NotConnected, RequestTimedOut, UnsupportedVersion
from ottla.net.connection import AnswerOrder, ApiVersionTable, ClientConnection, Completed, Failed
from ottla.net.framing import SIZE, Buffer
from ottla.net.handshake import version_after_refusal
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_request_header, encode_response
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.schema import Versions

HEARTBEAT = APIS[12]
PRODUCE = APIS[0]
REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def connection(**changed: int) -> ClientConnection:
    return ClientConnection(client_id="test", **changed)


def send(connection: ClientConnection, ticket: object, *, deadline_ms: float = 100, **more: bool) -> int:
    """Send a heartbeat; the correlation id that went over the wire."""
    prefix, *parts = connection.send(ticket, REQUEST, version=4, deadline_ms=deadline_ms, **more)
    frame = b"".join(parts)
    assert SIZE.unpack(prefix) == (len(frame),)
    header, _ = decode_request_header(frame)
    assert (header.request_api_key, header.request_api_version, header.client_id) == (12, 4, "test")
    return header.correlation_id


def answer(correlation_id: int, throttle_time_ms: int = 0) -> bytes:
    response = HeartbeatResponse(throttle_time_ms=throttle_time_ms, error_code=0)
    return b"".join(encode_response(response, version=4, correlation_id=correlation_id))


def table(*entries: tuple[int, int, int]) -> ApiVersionTable:
    return ApiVersionTable.from_response(versions_response(*entries))


def versions_response(*entries: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in entries]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


# --- asking ---


def test_answers_complete_their_requests_in_order() -> None:
    asking = connection()
    ids = [send(asking, ticket) for ticket in "abc"]
    assert ids == [0, 1, 2]
    done = [asking.receive(answer(number, throttle_time_ms=number)) for number in ids]
    assert done == [
        Completed(ticket, HeartbeatResponse(throttle_time_ms=number, error_code=0))
        for ticket, number in zip("abc", ids, strict=True)
    ]
    assert asking.in_flight_count == 0


def test_correlation_ids_begin_again_at_zero_after_the_largest_int32() -> None:
    asking = connection(next_correlation_id=2**31 - 2)
    assert [send(asking, ticket) for ticket in "abc"] == [2**31 - 2, 2**31 - 1, 0]
    assert [asking.receive(answer(n)).ticket for n in (2**31 - 2, 2**31 - 1, 0)] == ["a", "b", "c"]


def test_no_more_than_the_limit_is_in_flight() -> None:
    asking = connection(in_flight_limit=2)
    send(asking, "a")
    assert asking.has_room
    send(asking, "b")
    assert not asking.has_room
    with pytest.raises(ValueError, match="2 requests are in flight"):
        send(asking, "c")
    asking.receive(answer(0))
    assert send(asking, "c") == 2


class Numbered:
    """An exchange whose frame is its number."""

    api, version = HEARTBEAT, 4

    def frame(self, correlation_id: int, client_id: str | None) -> list[Buffer]:
        return [b"%d" % correlation_id]

    def read(self, frame: Buffer) -> object | None:
        return bytes(frame)

    def done(self) -> bool:
        return False

    def set_result(self, response: object) -> None: ...
    def set_exception(self, error: Exception) -> None: ...


def test_exchanges_that_find_room_leave_together_and_the_others_are_not_sent() -> None:
    asking = connection(in_flight_limit=3)
    send(asking, "a")
    exchanges = [Numbered() for _ in range(4)]
    assert asking.send_exchanges(exchanges, 100) == (2, [b"1", b"2"])
    assert asking.send_exchanges(exchanges[2:], 100) == (0, [])
    assert asking.receive(answer(0)).ticket == "a"
    assert asking.receive(answer(1)) == Completed(exchanges[0], answer(1))
    assert asking.send_exchanges(exchanges[2:], 100) == (2, [b"3", b"4"])
    asking.close("over", 0)
    assert asking.send_exchanges(exchanges, 100) == (0, [])


def test_a_request_without_answer_takes_an_id_but_no_place() -> None:
    asking = connection(in_flight_limit=1)
    assert send(asking, "quiet", expects_response=False) == 0
    assert send(asking, "loud") == 1
    assert asking.receive(answer(1)).ticket == "loud"


def test_a_request_that_cannot_be_written_changes_nothing() -> None:
    asking = connection()
    wrong = HeartbeatRequest(group_id=None, generation_id=1, member_id="m")  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r".*"):
        asking.send("a", wrong, version=4, deadline_ms=1)
    assert asking.in_flight_count == 0
    assert send(asking, "b") == 0


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (answer(1), "should be for Heartbeat with correlation id 0, but it has 1"),
        (answer(-1), "but it has -1"),
        (b"", "no room for a correlation id"),
        (answer(0)[:-3], "."),
    ],
    ids=["out of order", "negative", "empty", "cut short"],
)
def test_an_answer_that_does_not_fit_is_refused(frame: bytes, words: str) -> None:
    asking = connection()
    send(asking, "a")
    send(asking, "b")
    with pytest.raises(MalformedMessage, match=words):
        asking.receive(frame)
    assert [end.ticket for end in asking.close("bad answer", now_ms=0)] == ["a", "b"]


def test_an_answer_nobody_asked_for_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="no request was waiting"):
        connection().receive(answer(0))


def test_requests_expire_at_their_own_deadlines() -> None:
    asking = connection()
    for ticket, deadline_ms in [("a", 30), ("b", 10), ("c", 20)]:
        send(asking, ticket, deadline_ms=deadline_ms)
    assert asking.next_deadline_ms == 10
    assert [request.ticket for request in asking.expired(9.9)] == []
    assert [request.ticket for request in asking.expired(20)] == ["b", "c"]


def test_close_ends_every_request_once_and_tells_late_ones_from_unlucky_ones() -> None:
    asking = connection()
    send(asking, "late", deadline_ms=10)
    send(asking, "unlucky", deadline_ms=90)
    late, unlucky = asking.close("the cable is out", now_ms=10)
    assert isinstance(late, Failed)
    assert (late.ticket, type(late.error)) == ("late", RequestTimedOut)
    assert (unlucky.ticket, type(unlucky.error)) == ("unlucky", ConnectionClosed)
    assert "Heartbeat version 4" in str(unlucky.error)
    assert "the cable is out" in str(unlucky.error)
    assert asking.close("again", now_ms=99) == []


def test_a_closed_connection_neither_sends_nor_receives() -> None:
    asking = connection()
    asking.close("over", now_ms=0)
    assert not asking.has_room
    with pytest.raises(NotConnected):
        send(asking, "a")
    with pytest.raises(ConnectionClosed):
        asking.receive(answer(0))


def test_without_a_place_in_flight_nothing_could_ever_be_sent() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        connection(in_flight_limit=0)


@given(st.lists(st.sampled_from(["send", "answer"]), max_size=60), st.integers(1, 7), st.integers(0, 2**31 - 1))
def test_whatever_the_order_of_events_each_request_ends_exactly_once(
    events: list[str], limit: int, first_id: int
) -> None:
    asking = connection(in_flight_limit=limit, next_correlation_id=first_id)
    sent: list[int] = []
    ended: list[object] = []
    for event in events:
        if event == "send" and asking.has_room:
            sent.append(send(asking, len(sent)))
        elif event == "answer" and len(ended) < len(sent):
            ended.append(asking.receive(answer(sent[len(ended)])).ticket)
    ended += [end.ticket for end in asking.close("over", now_ms=0)]
    assert ended == list(range(len(sent)))


# --- versions ---


def test_the_highest_common_version_is_chosen() -> None:
    assert table((12, 0, 2)).choose(HEARTBEAT) == 2
    assert table((12, 1, 99)).choose(HEARTBEAT) == HEARTBEAT.versions.max
    assert table((12, 0, 99)).choose(HEARTBEAT, at_most=3) == 3


def test_a_minimum_advertised_lower_than_served_does_no_harm() -> None:
    assert table((0, 0, 11)).choose(PRODUCE) == 11


@pytest.mark.parametrize(
    ("entries", "at_most", "words"),
    [
        ([], None, r"this side speaks Produce \(key 0\) in versions 3-13, the other side does not offer it"),
        ([(0, 0, 2)], None, "the other side in 0-2"),
        ([(0, 20, 22)], None, "the other side in 20-22"),
        ([(0, 5, 4)], None, "does not offer it"),
        ([(0, 0, 13)], 2, "at most 2 is wanted"),
    ],
)
def test_no_common_version_is_explained(entries: list[tuple[int, int, int]], at_most: int | None, words: str) -> None:
    assert not table(*entries).offers(PRODUCE, at_most)
    with pytest.raises(UnsupportedVersion, match=words):
        table(*entries).choose(PRODUCE, at_most=at_most)


def test_unknown_keys_are_kept_and_do_no_harm() -> None:
    assert table((999, 0, 3), (12, 0, 4)).ranges == {999: Versions(0, 3), 12: Versions(0, 4)}


def test_features_are_kept() -> None:
    response = versions_response((12, 0, 4))
    response.supported_features = [SupportedFeatureKey(name="group.version", min_version=0, max_version=1)]
    kept = ApiVersionTable.from_response(response)
    assert kept.supported_features == {"group.version": Versions(0, 1)}
    assert kept.finalized_features == {}
    assert kept.finalized_features_epoch == -1


def test_a_refused_api_versions_is_read_in_the_layout_of_version_zero() -> None:
    asking = connection()
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    asking.send("v", request, version=4, deadline_ms=9)
    refusal = versions_response((18, 0, 2), error_code=35)
    frame = b"".join(encode_response(refusal, version=0, correlation_id=0))
    assert asking.receive(frame) == Completed("v", refusal)


def test_a_refusal_in_a_layout_of_its_own_counts_as_a_refusal_with_an_empty_list() -> None:
    asking = connection()
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    asking.send("v", request, version=4, deadline_ms=9)
    frame = b"".join(encode_response(versions_response((18, 0, 2), error_code=35), version=4, correlation_id=0))
    assert asking.receive(frame) == Completed("v", versions_response(error_code=35))


def test_an_accepted_api_versions_is_read_in_the_layout_that_was_asked() -> None:
    asking = connection()
    asking.send(
        "v", ApiVersionsRequest(client_software_name="o", client_software_version="1"), version=4, deadline_ms=9
    )
    accepted = versions_response((18, 0, 4), (0, 0, 13))
    frame = b"".join(encode_response(accepted, version=4, correlation_id=0))
    assert asking.receive(frame) == Completed("v", accepted)


@pytest.mark.parametrize(
    ("refused", "listed", "expected"),
    [(4, [(18, 0, 2)], 2), (4, [(18, 0, 9)], 3), (4, [], 0), (3, [(18, 9, 9)], 0), (1, [(18, 0, 4)], 0)],
)
def test_after_a_refusal_a_lower_version_is_asked(
    refused: int, listed: list[tuple[int, int, int]], expected: int
) -> None:
    assert version_after_refusal(versions_response(*listed, error_code=35), refused) == expected


def test_when_version_zero_is_refused_there_is_nothing_left() -> None:
    with pytest.raises(UnsupportedVersion, match="none lower"):
        version_after_refusal(versions_response(error_code=35), 0)


# --- answering ---


@given(st.integers(0, 40), st.randoms(use_true_random=False))
def test_answers_leave_in_the_order_of_arrival_whatever_order_they_are_found(count: int, mixed: random.Random) -> None:
    order: AnswerOrder[int] = AnswerOrder(request_limit=100)
    places = [order.arrived() for _ in range(count)]
    mixed.shuffle(places)
    left: list[int] = []
    for place in places:
        left += order.answered(place, place)
        assert left == list(range(len(left)))
    assert left == list(range(count))
    assert order.waiting_count == 0


def test_a_later_answer_waits_for_the_earlier_one() -> None:
    order: AnswerOrder[str] = AnswerOrder()
    first, second, third = order.arrived(), order.arrived(), order.arrived()
    assert order.answered(second, "2") == []
    assert order.answered(first, "1") == ["1", "2"]
    assert order.answered(third, "3") == ["3"]


def test_a_request_without_answer_frees_its_place() -> None:
    order: AnswerOrder[str] = AnswerOrder()
    quiet, loud = order.arrived(), order.arrived()
    assert order.answered(loud, "loud") == []
    assert order.answered(quiet, None) == ["loud"]


def test_reading_stops_at_the_limit_and_resumes_at_half() -> None:
    order: AnswerOrder[str] = AnswerOrder(request_limit=4)
    places = [order.arrived() for _ in range(3)]
    assert order.wants_reading
    places.append(order.arrived())
    assert not order.wants_reading
    order.answered(places[0], "a")
    assert not order.wants_reading
    order.answered(places[1], "b")
    assert order.wants_reading


def test_many_bytes_stop_reading_as_well_as_many_requests() -> None:
    order: AnswerOrder[str] = AnswerOrder(request_limit=100, bytes_limit=1000)
    first = order.arrived(400)
    assert order.wants_reading
    second = order.arrived(600)
    assert not order.wants_reading
    order.answered(first, "a")
    assert not order.wants_reading
    order.answered(second, "b")
    assert order.wants_reading


def test_a_limit_of_one_still_lets_the_next_request_in() -> None:
    order: AnswerOrder[str] = AnswerOrder(request_limit=1)
    place = order.arrived()
    assert not order.wants_reading
    assert order.answered(place, "a") == ["a"]
    assert order.wants_reading


@pytest.mark.parametrize("place", [-1, 0, 1, 2])
def test_a_place_is_answered_once_and_only_after_it_arrived(place: int) -> None:
    order: AnswerOrder[str] = AnswerOrder()
    order.answered(order.arrived(), "0")
    order.arrived()  # 1, still open
    order.answered(order.arrived(), "2")  # 2, held back behind 1
    if place == 1:
        assert order.answered(place, "1") == ["1", "2"]
    with pytest.raises(ValueError, match="is not waiting"):
        order.answered(place, "again")


def test_limits_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        AnswerOrder(request_limit=0)


def versions_answer(response: ApiVersionsResponse, correlation_id: int) -> bytes:
    return b"".join(encode_response(response, version=4, correlation_id=correlation_id))


def test_the_same_answer_to_api_versions_is_not_read_again_and_another_one_is() -> None:
    asked = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    client = connection()
    found = []
    for number, response in enumerate(
        (versions_response((12, 0, 4)), versions_response((12, 0, 4)), versions_response((12, 0, 3)))
    ):
        client.send(number, asked, version=4, deadline_ms=9)
        found.append(client.receive(versions_answer(response, number)).response)
    assert found[0] is found[1]
    assert [each.api_keys[0].max_version for each in found] == [4, 4, 3]


def test_a_broken_answer_to_api_versions_is_refused_every_time() -> None:
    asked = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    for _ in range(2):
        client = connection()
        client.send("v", asked, version=4, deadline_ms=9)
        with pytest.raises(MalformedMessage):
            client.receive(versions_answer(versions_response((12, 0, 4)), 0)[:-3])


@given(st.lists(st.tuples(st.sampled_from(["arrive", "answer", "together"]), st.integers(0, 5)), max_size=40))
def test_answers_that_leave_together_leave_as_one_by_one(steps):
    """Whether they may is the whole difference: what is counted and who is next stays the same."""
    together, one_by_one = (AnswerOrder(request_limit=4, bytes_limit=100) for _ in range(2))
    waiting = []
    for what, number in steps:
        if what == "arrive":
            assert together.arrived(number * 10) == one_by_one.arrived(number * 10)
            waiting.append(one_by_one._next_place - 1)
        elif what == "answer" and waiting:
            place = waiting.pop(number % len(waiting))
            assert together.answered(place, place) == one_by_one.answered(place, place)
        elif waiting:
            first, count = waiting[0], 1 + number
            if together.leave_together(first, count) is not None:
                places = waiting[:count]
                assert [answer for place in places for answer in one_by_one.answered(place, place)] == places
                del waiting[:count]
        assert (together.waiting_count, together.waiting_bytes, together.wants_reading) == (
            one_by_one.waiting_count,
            one_by_one.waiting_bytes,
            one_by_one.wants_reading,
        )
