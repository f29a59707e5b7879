"""The pool grants or gives a place in the line; a model says that nothing is lost and nobody is overtaken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.batches.buffer_pool import BufferPool, Place
from ottla.client.producer.values import RecordTooLargeToSend


def test_a_pooled_buffer_is_used_again():
    pool = BufferPool(100, 10)
    buffer = pool.allocate(10)
    assert pool.give_back(10, buffer) == []
    assert pool.pooled_bytes == 10
    assert pool.allocate(10) is buffer


def test_pooled_buffers_are_given_up_for_a_larger_one():
    pool = BufferPool(100, 10)
    buffers = [pool.allocate(10) for _ in range(10)]
    for buffer in buffers:
        pool.give_back(10, buffer)
    assert len(pool.allocate(95)) == 95
    assert pool.available_bytes == 5


def test_what_is_larger_than_all_memory_is_refused_at_once():
    with pytest.raises(RecordTooLargeToSend, match=r"buffer\.memory is 100"):
        BufferPool(100, 10).allocate(101)


def test_without_memory_a_wish_gets_a_place_and_later_its_memory():
    pool = BufferPool(20, 10)
    first, second = pool.allocate(10), pool.allocate(10)
    place = pool.allocate(10)
    assert isinstance(place, Place)
    assert not place.is_granted
    assert pool.give_back(10, first) == [place]
    assert pool.take(place) is first
    pool.give_back(10, second)
    assert pool.available_bytes == 10


def test_a_big_wish_is_not_overtaken_by_small_ones():
    pool = BufferPool(30, 10)
    buffers = [pool.allocate(10) for _ in range(3)]
    big, small = pool.allocate(25), pool.allocate(10)
    assert pool.give_back(10, buffers[0]) == []
    assert pool.give_back(10, buffers[1]) == []
    assert pool.give_back(10, buffers[2]) == [big]
    assert not small.is_granted
    assert pool.give_back(25, pool.take(big)) == [small]


def test_who_leaves_the_line_hands_on_what_it_gathered():
    pool = BufferPool(30, 10)
    buffers = [pool.allocate(10) for _ in range(3)]
    big, small = pool.allocate(25), pool.allocate(10)
    pool.give_back(10, buffers[0])
    assert pool.leave(big) == [small]
    assert pool.waiting_count == 0


def test_who_leaves_with_a_grant_gives_it_back():
    pool = BufferPool(10, 10)
    held = pool.allocate(10)
    place = pool.allocate(10)
    pool.give_back(10, held)
    pool.leave(place)
    assert pool.available_bytes == 10
    pool.leave(place)
    assert pool.available_bytes == 10


def test_memory_without_its_buffer_is_free_but_the_buffer_is_not_used_again():
    pool = BufferPool(10, 10)
    lent = pool.allocate(10)
    pool.give_back(10, None)
    assert pool.allocate(10) is not lent


@given(st.lists(st.tuples(st.sampled_from(["allocate", "give_back", "leave"]), st.integers(0, 60)), max_size=80))
def test_every_byte_is_free_held_or_gathered_and_the_line_keeps_its_order(steps):
    pool = BufferPool(50, 10)
    held: list[tuple[int, bytearray]] = []
    line: list[Place] = []

    def granted(places):
        for place in places:
            assert place is line[0], "somebody was overtaken"
            line.pop(0)
            held.append((place.size_bytes, pool.take(place)))

    for action, number in steps:
        if action == "allocate":
            size = number % 50 + 1
            found = pool.allocate(size)
            if isinstance(found, Place):
                line.append(found)
            else:
                assert not line, "somebody was overtaken"
                assert len(found) == size
                held.append((size, found))
        elif action == "give_back" and held:
            size, buffer = held.pop(number % len(held))
            granted(pool.give_back(size, None if number % 7 == 0 else buffer))
        elif action == "leave" and line:
            place = line.pop(number % len(line))
            granted(pool.leave(place))
        gathered = sum(place.gathered_bytes for place in line)
        assert pool.available_bytes + sum(size for size, _ in held) + gathered == 50
        assert pool.waiting_count == len(line)
        assert len({id(buffer) for _, buffer in held}) == len(held), "one buffer was given twice"


def test_the_line_is_served_once_for_memory_that_comes_back_together():
    pool = BufferPool(40, 10)
    held = [pool.allocate(10) for _ in range(4)]
    big, small = pool.allocate(25), pool.allocate(10)
    assert pool.give_back_all([(10, each) for each in held]) == [big, small]
    assert (pool.available_bytes, pool.waiting_count) == (5, 0)


def test_memory_that_comes_back_together_waits_for_enough_before_anybody_is_woken():
    pool = BufferPool(40, 10, serve_from_bytes=30)
    held = [pool.allocate(10) for _ in range(4)]
    place = pool.allocate(10)
    assert pool.give_back_all([(10, each) for each in held[:2]]) == []
    assert pool.give_back_all([(10, held[2])]) == [place]
