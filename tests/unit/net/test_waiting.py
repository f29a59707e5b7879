"""First in, first out; each request leaves once."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ottla.net.waiting import WaitingRequest, WaitingRequests
from ottla.protocol.messages.heartbeat import HeartbeatRequest

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def request(ticket: object, deadline_ms: float = 100) -> WaitingRequest:
    return WaitingRequest(ticket, HEARTBEAT, None, None, deadline_ms, True)


def line(*deadlines_ms: float) -> WaitingRequests:
    made = WaitingRequests(limit=10)
    for ticket, deadline_ms in enumerate(deadlines_ms):
        made.add(request(ticket, deadline_ms))
    return made


def test_the_first_is_taken_first() -> None:
    waiting = line(30, 10, 20)
    assert [waiting.take().ticket for _ in range(3)] == [0, 1, 2]
    assert len(waiting) == 0


def test_only_those_whose_time_is_over_expire_and_the_others_keep_their_order() -> None:
    waiting = line(30, 10, 20, 10)
    assert waiting.next_deadline_ms == 10
    assert waiting.expire(9) == []
    assert [gone.ticket for gone in waiting.expire(10)] == [1, 3]
    assert waiting.next_deadline_ms == 20
    assert [waiting.take().ticket, waiting.take().ticket] == [0, 2]


def test_an_empty_line_has_no_deadline() -> None:
    waiting = line(10)
    waiting.take()
    assert waiting.next_deadline_ms == math.inf
    assert waiting.expire(1000) == []


def test_a_line_is_full_at_its_limit() -> None:
    waiting = WaitingRequests(limit=2)
    waiting.add(request("a"))
    assert not waiting.is_full
    waiting.add(request("b"))
    assert waiting.is_full


def test_abandoning_takes_one_out() -> None:
    waiting = line(1, 2, 3)
    assert waiting.abandon(1)
    assert not waiting.abandon(1)
    assert [left.ticket for left in waiting.take_all()] == [0, 2]
    assert waiting.take_all() == []


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "expire", "abandon"]), st.integers(0, 50))))
def test_nobody_is_lost_nobody_leaves_twice_and_the_next_deadline_is_never_too_late(
    steps: list[tuple[str, int]],
) -> None:
    waiting, added, left, here = WaitingRequests(limit=1000), 0, [], {}
    for step, number in steps:
        if step == "add":
            here[added] = number
            waiting.add(request(added, number))
            added += 1
        elif step == "take" and waiting:
            left.append(waiting.take().ticket)
        elif step == "expire":
            left += [gone.ticket for gone in waiting.expire(number)]
        elif step == "abandon" and waiting.abandon(number):
            left.append(number)
        for ticket in left:
            here.pop(ticket, None)
        assert waiting.next_deadline_ms <= min(here.values(), default=math.inf)
    left += [gone.ticket for gone in waiting.take_all()]
    assert sorted(left) == list(range(added))
