"""The share partition against a plain model: one entry per offset, the same rules, and a coordinator that may fail.

Members acquire, acknowledge and vanish, locks end, the log grows and is cut, writes fail with or without having been
kept, and the leader crashes and begins with what was kept. After every step the ranges must be what the model has, and
these promises must hold: nobody gets a record that another member has, what was acknowledged and answered is never
handed out again, and a delivery count never goes back.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ottla.broker.sharing.share_partition import (
    RETRY_MS,
    Acknowledgement,
    Limits,
    SharePartition,
    StateBatch,
    Wanted,
)
from ottla.broker.sharing.states import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, STATE_AFTER, TERMINAL
from ottla.errors import InvalidRecordState, InvalidRequest

LIMITS = Limits(lock_ms=1000, delivery_count=3, max_locks=12)
MEMBERS = ("ann", "bob", "cy")
RENEW = 4


def entry(state=AVAILABLE, deliveries=0):
    return SimpleNamespace(state=state, deliveries=deliveries, member="", until=0, coming=None, ticket=0)


def up_to(batches, offset):
    """Those that are read by whoever wants nothing behind `offset`."""
    return batches[: next((at for at, (_, last) in enumerate(batches, 1) if last >= offset), len(batches))]


class World(RuleBasedStateMachine):
    @initialize(start=st.integers(0, 5))
    def begin(self, start):
        self.now = 0
        self.batches = []  # of the log: (first, last)
        self.end = start
        self.kept_start, self.kept = start, {}  # at the share coordinator
        self.writing = None
        self.answered = set()  # offsets whose acknowledgement was kept
        self.waiting = []  # (ticket, offsets) of acknowledgements that are not kept yet
        self.delivered = {}  # the last delivery count that a member saw
        self.load()

    def load(self):
        batches = [StateBatch(at, at, *self.kept[at]) for at in sorted(self.kept) if at >= self.kept_start]
        self.real = SharePartition(self.kept_start, batches)
        self.start = self.kept_start
        self.model = {}
        for at in range(self.start, max(self.kept, default=-1) + 1):
            self.model[at] = entry(*self.kept.get(at, (AVAILABLE, 0)))
        self.tickets = self.written_ticket = 0
        self.must_write_all = False
        self.writing = None
        self.waiting = []
        self.advance()

    # -- the model ----------------------------------------------------------------------------------------------------

    def advance(self):
        while self.start in self.model and self.model[self.start].state in TERMINAL:
            del self.model[self.start]
            self.start += 1

    @property
    def known_end(self):
        return max(self.model, default=self.start - 1) + 1

    def in_flight(self):
        return sum(each.state not in TERMINAL for each in self.model.values())

    def end_of_batch(self, at):
        return next((last for first, last in self.batches if first <= at <= last), at)

    def is_free(self, at):
        each = self.model.get(at)
        return each is not None and each.state is AVAILABLE and each.coming is None

    def model_acquire(self, member, batches, wanted):
        first, last = batches[0][0], batches[-1][1]
        for at in range(self.known_end, first):
            self.model[at] = entry(ARCHIVED)
        for at in range(self.start, first):
            if self.is_free(at):
                self.model[at].state = ARCHIVED
        room = min(LIMITS.max_locks - self.in_flight(), wanted.max_records)
        if last >= self.known_end and room > 0:
            limit = min(self.known_end + room - 1, last)
            limit = limit if wanted.is_strict else self.end_of_batch(limit)
            for at in range(self.known_end, limit + 1):
                self.model[at] = entry()
        got, at = {}, first
        while at <= last and at < self.known_end:
            if len(got) >= wanted.max_records:
                break
            if self.is_free(at):
                # A run of equal offsets is locked up to the end of its batch.
                until = at
                like = self.model[at].deliveries
                while until + 1 <= last and self.is_free(until + 1) and self.model[until + 1].deliveries == like:
                    until += 1
                limit = min(at + wanted.max_records - len(got) - 1, until)
                limit = limit if wanted.is_strict else min(self.end_of_batch(limit), until)
                for each in range(at, limit + 1):
                    got[each] = self.lock(each, member)
                at = limit
            at += 1
        self.advance()
        return {at: count for at, count in got.items() if count is not None}

    def lock(self, at, member):
        each = self.model[at]
        each.state, each.member, each.until = ACQUIRED, member, self.now + LIMITS.lock_ms
        each.deliveries += 1
        return each.deliveries

    def change(self, at, state, ticket):
        each = self.model[at]
        is_too_often = state is AVAILABLE and each.deliveries >= LIMITS.delivery_count
        each.coming, each.ticket = (ARCHIVED if is_too_often else state), ticket

    def is_held(self, at, member=None):
        each = self.model.get(at)
        is_acquired = each is not None and each.state is ACQUIRED and each.coming is None
        return is_acquired and member in (None, each.member)

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(size=st.integers(1, 6), gap=st.integers(0, 2))
    def log_grows(self, size, gap):
        first = self.end + gap  # compaction leaves holes
        self.batches.append((first, first + size - 1))
        self.end = first + size

    @rule(member=st.sampled_from(MEMBERS), most=st.integers(1, 8), size=st.integers(1, 4), strict=st.booleans())
    def acquire(self, member, most, size, strict):
        offset = self.real.next_fetch_offset(LIMITS.max_locks)
        free = next((at for at in sorted(self.model) if self.is_free(at)), None)
        expected = free if free is not None else self.known_end if self.in_flight() < LIMITS.max_locks else None
        assert offset == expected
        read = [] if offset is None else [each for each in self.batches if each[1] >= offset][:3]
        wanted = Wanted(most, size, strict)
        enough = up_to(read, self.real.last_wanted(offset, most)) if read else []
        of_all = deepcopy(self.real).acquire(member, read, wanted, LIMITS, self.now)
        acquired = self.real.acquire(member, enough, wanted, LIMITS, self.now)
        if read and read[0][0] == offset:  # what is missing in front counts, so there may be less then
            assert acquired == of_all, "nobody gets more by reading further"
        got = self.model_acquire(member, enough, wanted) if read else {}
        assert {at: each.deliveries for each in acquired for at in range(each.first, each.last + 1)} == got
        assert not strict or len(got) <= most
        for at, count in got.items():
            assert at not in self.answered, "it was acknowledged, and answered"
            assert count >= self.delivered.get(at, 0), "a delivery count never goes back"
            self.delivered[at] = count

    @rule(
        member=st.sampled_from(MEMBERS),
        at=st.integers(0, 20),
        kinds=st.lists(st.sampled_from([0, 1, 1, 1, 2, 3, RENEW]), min_size=1, max_size=6),
        is_one=st.booleans(),
    )
    def acknowledge(self, member, at, kinds, is_one):
        self.say(member, self.start + at - 2, kinds, is_one)

    @precondition(lambda self: any(self.is_held(at) for at in self.model))
    @rule(pick=st.integers(0, 11), size=st.integers(1, 4), kind=st.sampled_from([1, 1, 2, 3]))
    def acknowledge_what_is_held(self, pick, size, kind):
        held = sorted(at for at in self.model if self.is_held(at))
        first = held[pick % len(held)]
        member = self.model[first].member
        last = first
        while last + 1 < first + size and self.is_held(last + 1, member):
            last += 1
        self.say(member, first, [kind] * (last - first + 1), True)

    @precondition(lambda self: self.writing is None and any(self.is_held(at) for at in self.model))
    @rule(
        pick=st.integers(0, 3),
        size=st.integers(1, 4),
        kind=st.sampled_from([1, 1, 2]),
        outcome=st.sampled_from(["kept", "lost", "kept in secret"]),
    )
    def acknowledge_and_write(self, pick, size, kind, outcome):
        self.acknowledge_what_is_held(pick, size, kind)
        self.a_write_begins()
        self.a_write_ends(outcome)

    def say(self, member, first, kinds, is_one):
        last = first + len(kinds) - 1
        types = kinds[:1] * len(kinds) if is_one else kinds
        said = Acknowledgement(first, last, types[:1] if is_one else types)
        about = [each for each in range(first, last + 1) if each >= self.start]
        if not all(self.is_held(each, member) for each in about):
            with pytest.raises((InvalidRecordState, InvalidRequest)):
                self.real.acknowledge(member, [said], LIMITS, self.now)
            return
        ticket = self.real.acknowledge(member, [said], LIMITS, self.now)
        kept = [each for each in about if types[each - first] != RENEW]
        assert (ticket is not None) == bool(kept)
        self.tickets = ticket or self.tickets
        for each in about:
            if types[each - first] == RENEW:
                self.model[each].until = self.now + LIMITS.lock_ms
            else:
                self.change(each, STATE_AFTER[types[each - first]], ticket)
        done = {each for each in kept if STATE_AFTER[types[each - first]] in TERMINAL}
        if done:
            self.waiting.append((ticket, done))

    @rule(member=st.sampled_from(MEMBERS))
    def a_member_vanishes(self, member):
        held = [at for at in self.model if self.is_held(at, member)]
        self.end_locks(held, self.real.release(member, LIMITS))

    @rule(passed_ms=st.integers(1, 1500))
    def time_passes(self, passed_ms):
        self.now += passed_ms
        over = [at for at in self.model if self.is_held(at) and self.model[at].until <= self.now]
        held = [each.until for at, each in self.model.items() if self.is_held(at)]
        assert self.real.next_expiry_ms() == min(held, default=None)
        self.end_locks(over, self.real.expire(self.now, LIMITS))

    def end_locks(self, offsets, ticket):
        assert (ticket is not None) == bool(offsets)
        self.tickets = ticket or self.tickets
        for at in offsets:
            self.change(at, AVAILABLE, ticket)

    @rule(by=st.integers(1, 4))
    def the_log_is_cut(self, by):
        start = min(self.start + by, self.end)
        self.real.log_starts_at(start)
        for at in range(self.start, start):
            self.model.pop(at, None)
        self.start = max(self.start, start)

    # -- keeping ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.writing is None)
    @rule()
    def a_write_begins(self):
        write = self.real.next_write()
        assert (write is not None) == (self.tickets > self.written_ticket)
        if write is not None:
            assert write.ticket == self.tickets
            self.writing = write

    @precondition(lambda self: self.writing is not None)
    @rule(outcome=st.sampled_from(["kept", "kept", "kept", "lost", "kept in secret"]))
    def a_write_ends(self, outcome):
        write, self.writing = self.writing, None
        if outcome != "lost":
            self.keep(write)
        self.written_ticket = write.ticket
        if outcome == "kept":
            assert self.real.written() == write.ticket
            for each in self.model.values():
                if each.coming is not None and each.ticket <= write.ticket:
                    each.state, each.coming, each.member, each.until = each.coming, None, "", 0
            for ticket, offsets in self.waiting:
                self.answered |= offsets if ticket <= write.ticket else set()
            self.advance()
        else:
            assert self.real.write_failed(self.now) == write.ticket
            for each in self.model.values():
                if each.coming is not None and each.ticket <= write.ticket:
                    each.coming, each.until = None, max(each.until, self.now + RETRY_MS)
        self.waiting = [each for each in self.waiting if each[0] > write.ticket]

    def keep(self, write):
        for batch in write.batches:
            for at in range(batch.first, batch.last + 1):
                self.kept[at] = (batch.state, batch.deliveries)
        self.kept_start = write.start_offset
        self.kept = {at: state for at, state in self.kept.items() if at >= self.kept_start}
        done = sum(state in TERMINAL for state, _ in self.kept.values())
        assert write.complete_count >= done, "what is done behind the start is counted"

    @rule(is_kept=st.booleans())
    def the_leader_crashes(self, is_kept):
        """What is on its way may be kept all the same; what was not written is forgotten."""
        if self.writing is not None and is_kept:
            self.keep(self.writing)
        self.load()

    # -- what must always hold ----------------------------------------------------------------------------------------

    @invariant()
    def the_ranges_are_what_the_model_has(self):
        if not hasattr(self, "model"):
            return
        found = {}
        for each in self.real.ranges:
            for at in range(each.first, each.last + 1):
                found[at] = (each.state, each.deliveries, each.member_id, each.lock_until_ms, each.next_state)
        assert found == {
            at: (each.state, each.deliveries, each.member, each.until, each.coming) for at, each in self.model.items()
        }
        assert (self.real.start_offset, self.real.end_offset) == (self.start, self.known_end)
        assert self.real.in_flight_count == self.in_flight() <= LIMITS.max_locks + 5

    @invariant()
    def neighbours_differ(self):
        """There is no range more than needed."""
        if hasattr(self, "model"):
            ranges = self.real.ranges
            assert not any(one.is_like(other) for one, other in pairwise(ranges))

    @invariant()
    def what_was_answered_is_kept(self):
        if hasattr(self, "model"):
            for at in self.answered:
                assert at < self.kept_start or self.kept[at][0] in (ACKNOWLEDGED, ARCHIVED)


def run(examples, steps):
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        World,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks
        ),
    )


def test_whatever_happens_a_record_has_one_reader_and_is_done_once():
    run(25, 25)


@pytest.mark.long
def test_whatever_happens_for_long_a_record_has_one_reader_and_is_done_once():
    run(500, 50)


def test_a_write_that_was_kept_in_secret_takes_no_acknowledgement_with_it():
    """The start offset moved at the coordinator, not here; the next write puts all back that lies behind ours."""
    real = SharePartition(0)
    real.acquire("ann", [(0, 5)], Wanted(10, 10), LIMITS, 0)
    real.acknowledge("ann", [Acknowledgement(1, 5, [1])], LIMITS, 0)
    assert real.next_write().batches == (StateBatch(1, 5, ACKNOWLEDGED, 1),)
    real.written()
    real.acknowledge("ann", [Acknowledgement(0, 0, [1])], LIMITS, 0)
    assert real.next_write()[1:] == (6, 0, ()), "everything is done, as far as the coordinator hears of it"
    real.write_failed(0)
    real.acknowledge("ann", [Acknowledgement(0, 0, [2])], LIMITS, 0)
    assert real.next_write()[1:] == (0, 5, (StateBatch(0, 0, AVAILABLE, 1), StateBatch(1, 5, ACKNOWLEDGED, 1)))
