"""Turns: one at a time, in order, and nothing is kept."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.waiting.turns import Turns


def test_the_first_begins_at_once_and_the_others_in_order():
    turns, begun = Turns(), []
    for name in "abc":
        turns.take("key", lambda done, name=name: begun.append((name, done)))
    assert [name for name, _ in begun] == ["a"]
    begun[0][1]()
    begun[1][1]()
    assert [name for name, _ in begun] == ["a", "b", "c"]
    assert turns.is_taken("key")
    begun[2][1]()
    assert not turns.is_taken("key")


def test_other_keys_do_not_wait():
    turns, begun = Turns(), []
    turns.take("a", lambda done: None)
    turns.take("b", lambda done: begun.append("b"))
    assert begun == ["b"]


def test_a_long_line_that_is_done_at_once_does_not_fill_the_stack():
    turns, held, begun = Turns(), [], []
    turns.take("key", held.append)
    for number in range(10_000):
        turns.take("key", lambda done, number=number: (begun.append(number), done()))
    held[0]()
    assert begun == list(range(10_000))
    assert not turns.is_taken("key")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans())), st.randoms(use_true_random=False))
def test_however_they_end_each_key_is_served_in_order(arrivals, random):
    turns, begun, open_turns = Turns(), {"a": [], "b": []}, []

    def begin(key, number, at_once):
        def call(done):
            begun[key].append(number)
            if at_once:
                done()
            else:
                open_turns.append(done)

        return call

    for number, (key, at_once) in enumerate(arrivals):
        turns.take(key, begin(key, number, at_once))
        if open_turns and random.random() < 0.3:
            open_turns.pop(random.randrange(len(open_turns)))()
    while open_turns:
        open_turns.pop(random.randrange(len(open_turns)))()
    for key in "ab":
        assert begun[key] == [number for number, (each, _) in enumerate(arrivals) if each == key]
        assert not turns.is_taken(key)
