"""A broker under the controllers of a metadata log: what it says when, and what becomes of it.

The first tests are the start of a broker call by call, as Apache Kafka 4.3.1 was seen to do it. The machine at the end
is beside a controller that keeps one registration, answers some requests, loses others and forgets brokers at any time.
"""

from random import Random

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.broker.cluster.kraft.lifecycle import (
    CATCHING_UP_MS,
    MOVES,
    BrokerLifecycle,
    BrokerState,
    Event,
    LifecycleSettings,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

ONE, TWO = b"1" * 16, b"2" * 16
EPOCH = 40
SETTINGS = LifecycleSettings(
    heartbeat_interval_ms=2_000.0,
    session_timeout_ms=9_000.0,
    registration_timeout_ms=60_000.0,
    directory_failure_timeout_ms=30_000.0,
)


def made(now_ms=0.0):
    registration = BrokerRegistrationRequest(
        broker_id=7, cluster_id="c", incarnation_id=b"i" * 16, listeners=[], features=[], log_dirs=[TWO, ONE]
    )
    return BrokerLifecycle(registration, SETTINGS, Random(1), now_ms)


def registered(epoch=EPOCH, error_code=0):
    return BrokerRegistrationResponse(error_code=error_code, broker_epoch=epoch)


def beat(*, caught_up=True, fenced=True, stop=False, error_code=0):
    return BrokerHeartbeatResponse(
        error_code=error_code, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=stop
    )


def exchanged(lifecycle, response, now_ms):
    """The request that is due now, and what its answer brings."""
    request = lifecycle.request(now_ms)
    assert request is not None
    return request, lifecycle.answered(response, now_ms)


def running(now_ms=0.0):
    lifecycle = made(now_ms)
    exchanged(lifecycle, registered(), now_ms)
    lifecycle.applied(EPOCH)
    exchanged(lifecycle, beat(), now_ms)
    lifecycle.ready(now_ms)
    _, events = exchanged(lifecycle, beat(fenced=False), now_ms)
    assert (events, lifecycle.state) == ([Event.UNFENCED], BrokerState.RUNNING)
    return lifecycle


# --- the start -------------------------------------------------------------------------------------------------------


def test_a_start_is_registration_fast_heartbeats_until_caught_up_and_then_unfencing():
    lifecycle = made()
    request, events = exchanged(lifecycle, registered(), 0)
    assert (request.log_dirs, events, lifecycle.epoch) == ([ONE, TWO], [Event.REGISTERED], EPOCH)
    lifecycle.applied(EPOCH - 1)
    request, events = exchanged(lifecycle, beat(caught_up=False), 1)
    assert (request.broker_epoch, request.current_metadata_offset, request.want_fence) == (EPOCH, EPOCH - 1, True)
    assert (events, lifecycle.wake_ms()) == ([], 1 + CATCHING_UP_MS)
    lifecycle.applied(EPOCH)
    _, events = exchanged(lifecycle, beat(), 11)
    assert (events, lifecycle.state) == ([Event.CAUGHT_UP], BrokerState.RECOVERY)
    assert lifecycle.wake_ms() == 11 + SETTINGS.heartbeat_interval_ms
    lifecycle.ready(500)
    request, events = exchanged(lifecycle, beat(fenced=False), 500)
    assert (request.want_fence, request.cordoned_log_dirs, events) == (False, None, [Event.UNFENCED])
    request, _ = exchanged(lifecycle, beat(fenced=False), 2_500)
    assert request.cordoned_log_dirs == []


def test_one_request_is_on_its_way_and_what_is_new_meanwhile_follows_at_once():
    lifecycle = running()
    assert lifecycle.request(2_000) is not None
    lifecycle.directories_failed([TWO], 2_001)
    assert lifecycle.request(2_001) is None
    lifecycle.answered(beat(fenced=False), 2_002)
    request, _ = exchanged(lifecycle, beat(fenced=False), 2_002)
    assert request.offline_log_dirs == [TWO]


def test_an_answer_to_who_wanted_to_be_fenced_lets_nobody_in():
    lifecycle = made()
    exchanged(lifecycle, registered(), 0)
    exchanged(lifecycle, beat(), 0)
    assert exchanged(lifecycle, beat(fenced=False), 2_000)[1] == []
    assert (lifecycle.state, lifecycle.is_fenced) == (BrokerState.RECOVERY, True)


def test_pauses_are_short_again_after_an_answer():
    lifecycle = running()
    for now_ms in (2_000, 3_000, 4_000):
        exchanged(lifecycle, None, now_ms)
    exchanged(lifecycle, beat(fenced=False), 6_000)
    exchanged(lifecycle, None, 8_000)
    assert lifecycle.wake_ms() == pytest.approx(8_100, abs=2.1)


def test_who_is_not_answered_tries_again_after_pauses_that_double_up_to_the_session():
    lifecycle, now_ms, pauses = made(), 0.0, []
    for _ in range(9):
        exchanged(lifecycle, None, now_ms)
        pauses.append(lifecycle.wake_ms() - now_ms)
        now_ms = lifecycle.wake_ms()
    assert pauses == pytest.approx([100, 200, 400, 800, 1600, 3200, 6400, 9000, 9000], rel=0.02)


def test_a_broker_that_cannot_register_in_time_stops_and_says_why():
    lifecycle = made()
    exchanged(lifecycle, registered(error_code=101), 0)
    assert lifecycle.passed(59_999) == []
    assert lifecycle.passed(60_000) == [Event.MUST_STOP]
    assert "another process is registered with this node.id" in lifecycle.failure
    assert lifecycle.wake_ms() is None


@pytest.mark.parametrize(
    ("error_code", "said"), [(104, "another cluster"), (35, "finalized a feature"), (119, "directory.id")]
)
def test_what_no_repetition_mends_ends_a_start_at_once_and_a_life_never(error_code, said):
    lifecycle = made()
    _, events = exchanged(lifecycle, registered(error_code=error_code), 0)
    assert events == [Event.MUST_STOP]
    assert said in lifecycle.failure
    lifecycle = running()
    exchanged(lifecycle, beat(error_code=77), 2_000)
    _, events = exchanged(lifecycle, registered(error_code=error_code), 2_200)
    assert (events, lifecycle.state, lifecycle.failure) == ([], BrokerState.RUNNING, None)


# --- a life ----------------------------------------------------------------------------------------------------------


def test_another_controller_is_looked_for_and_the_epoch_stays():
    lifecycle = running()
    _, events = exchanged(lifecycle, beat(error_code=41), 2_000)
    assert (events, lifecycle.epoch) == ([Event.CONTROLLER_MOVED], EPOCH)


def test_a_stale_epoch_is_thrown_away_and_the_same_incarnation_registers_again():
    lifecycle = running()
    _, events = exchanged(lifecycle, beat(error_code=77), 2_000)
    assert events == [Event.FENCED]
    request, events = exchanged(lifecycle, registered(90), 2_200)
    assert (request.incarnation_id, events, lifecycle.epoch) == (b"i" * 16, [Event.REGISTERED], 90)
    request, events = exchanged(lifecycle, beat(caught_up=False), 2_200)
    assert (request.want_fence, events, lifecycle.wake_ms()) == (False, [], 2_200 + CATCHING_UP_MS)
    _, events = exchanged(lifecycle, beat(fenced=False), 2_300)
    assert (events, lifecycle.state) == ([Event.UNFENCED], BrokerState.RUNNING)


def test_a_broker_that_is_fenced_and_let_in_again_hears_of_both():
    lifecycle = running()
    assert exchanged(lifecycle, beat(fenced=True), 2_000)[1] == [Event.FENCED]
    assert exchanged(lifecycle, beat(fenced=False), 4_000)[1] == [Event.UNFENCED]


def test_failed_directories_are_named_in_every_heartbeat_and_not_in_a_registration():
    lifecycle = running()
    lifecycle.directories_failed([TWO], 100)
    assert exchanged(lifecycle, beat(fenced=False), 100)[0].offline_log_dirs == [TWO]
    assert exchanged(lifecycle, beat(error_code=77), 2_100)[0].offline_log_dirs == [TWO]
    assert exchanged(lifecycle, registered(90), 2_300)[0].log_dirs == [ONE]
    assert lifecycle.passed(90_000) == []


def test_a_directory_whose_failure_nobody_accepts_stops_the_broker():
    lifecycle = running()
    lifecycle.directories_failed([TWO], 100)
    exchanged(lifecycle, None, 100)
    lifecycle.directories_failed([TWO], 20_000)
    assert lifecycle.passed(30_099) == []
    assert lifecycle.passed(30_100) == [Event.MUST_STOP]
    assert "log.dir.failure.timeout.ms" in lifecycle.failure


def test_what_failed_after_a_heartbeat_left_is_not_accepted_by_its_answer():
    lifecycle = running()
    assert lifecycle.request(2_000) is not None
    lifecycle.directories_failed([TWO], 2_001)
    lifecycle.answered(beat(fenced=False), 2_002)
    exchanged(lifecycle, None, 2_002)
    assert lifecycle.passed(32_001) == [Event.MUST_STOP]


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_controlled_shutdown_ends_when_the_controller_says_so():
    lifecycle = running()
    assert lifecycle.begin_shutdown(100) == []
    request, events = exchanged(lifecycle, beat(), 100)
    assert (request.want_shut_down, events, lifecycle.wake_ms()) == (True, [], 150)
    request, events = exchanged(lifecycle, beat(stop=True), 150)
    assert (request.want_shut_down, events, lifecycle.state) == (True, [Event.MAY_STOP], BrokerState.SHUTTING_DOWN)
    assert (lifecycle.epoch, lifecycle.failure, lifecycle.wake_ms()) == (EPOCH, None, None)


def test_a_shutdown_does_not_wait_for_ever_for_a_controller_that_answers():
    lifecycle = running()
    lifecycle.begin_shutdown(100)
    for now_ms in range(100, 300_100, 5_000):
        _, events = exchanged(lifecycle, beat(), now_ms)
        assert events == []
    assert lifecycle.passed(300_099) == []
    assert lifecycle.passed(300_100) == [Event.MUST_STOP]


def test_a_shutdown_waits_shortly_where_no_controller_answers():
    lifecycle = running()
    lifecycle.begin_shutdown(100)
    exchanged(lifecycle, beat(), 150)
    exchanged(lifecycle, None, 200)
    assert lifecycle.passed(6_149) == []
    assert lifecycle.passed(6_150) == [Event.MUST_STOP]
    assert "no controller answers" in str(lifecycle.failure)


def test_who_never_ran_or_was_forgotten_has_nothing_to_hand_over():
    assert made().begin_shutdown(0) == [Event.MAY_STOP]
    lifecycle = running()
    lifecycle.begin_shutdown(100)
    assert exchanged(lifecycle, beat(error_code=77), 100)[1] == [Event.MAY_STOP]


# --- in any order ----------------------------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """A controller with a log: registrations are records in it, and brokers apply it sooner or later."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.broker = made()
        self.log_end = 10
        self.applied = -1
        self.epoch = -1  # as the controller knows it
        self.on_its_way: BrokerRegistrationRequest | BrokerHeartbeatRequest | None = None
        self.events: list[Event] = []
        self.failed: set[bytes] = set()
        self.is_ready = self.is_stopping = False
        self.state = self.broker.state

    def heard(self, events: list[Event]) -> None:
        self.events += events
        after = self.broker.state
        assert after is self.state or after in MOVES[self.state] or after is BrokerState.SHUTTING_DOWN
        self.state = after

    @rule(ms=st.sampled_from([1, 10, 150, 2_000, 9_000, 31_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.heard(self.broker.passed(self.now_ms))
        self.send()

    def send(self) -> None:
        request = self.broker.request(self.now_ms)
        if request is None:
            return
        assert self.on_its_way is None
        self.on_its_way = request
        if isinstance(request, BrokerHeartbeatRequest):
            assert request.broker_epoch >= 0
            assert request.want_fence is not self.is_ready
            assert set(request.offline_log_dirs) == self.failed
            assert request.want_shut_down <= self.is_stopping
        else:
            assert self.failed.isdisjoint(request.log_dirs)

    @precondition(lambda self: self.on_its_way is not None)
    @rule(is_lost=st.booleans())
    def controller_answers(self, is_lost: bool) -> None:
        request, self.on_its_way = self.on_its_way, None
        self.heard(self.broker.answered(self.answer(request), self.now_ms) if not is_lost else self.lose(request))
        self.send()

    def lose(self, request: BrokerRegistrationRequest | BrokerHeartbeatRequest) -> list[Event]:
        self.answer(request)  # it was done, and nobody heard of it
        return self.broker.answered(None, self.now_ms)

    def answer(self, request):
        if isinstance(request, BrokerRegistrationRequest):
            if self.epoch < 0:
                self.epoch = self.log_end
                self.log_end += 1
            return registered(self.epoch)
        if request.broker_epoch != self.epoch:
            return beat(error_code=77)
        caught_up = request.current_metadata_offset >= self.epoch
        return beat(caught_up=caught_up, fenced=request.want_fence or not caught_up, stop=request.want_shut_down)

    @precondition(lambda self: self.on_its_way is not None)
    @rule(error_code=st.sampled_from([41, 77, 101, 7, -1]))
    def controller_refuses(self, error_code: int) -> None:
        request, self.on_its_way = self.on_its_way, None
        kind = registered if isinstance(request, BrokerRegistrationRequest) else beat
        self.heard(self.broker.answered(kind(error_code=error_code), self.now_ms))
        self.send()

    @rule()
    def the_log_is_applied(self) -> None:
        self.applied = self.log_end - 1
        self.broker.applied(self.applied)

    @rule()
    def the_controllers_forget_it(self) -> None:
        self.epoch = -1

    @precondition(lambda self: Event.CAUGHT_UP in self.events)
    @rule()
    def it_becomes_ready(self) -> None:
        in_flight = self.on_its_way
        self.is_ready = True
        self.broker.ready(self.now_ms)
        if in_flight is None:
            self.send()

    @rule(directory=st.sampled_from([ONE, TWO]))
    def a_directory_fails(self, directory: bytes) -> None:
        self.failed.add(directory)
        self.broker.directories_failed([directory], self.now_ms)
        self.send()

    @precondition(lambda self: Event.UNFENCED in self.events)
    @rule()
    def it_is_to_stop(self) -> None:
        self.is_stopping = True
        self.heard(self.broker.begin_shutdown(self.now_ms))
        self.send()

    @invariant()
    def clients_are_let_in_only_after_it_was_ready_and_caught_up(self) -> None:
        if Event.UNFENCED in self.events:
            assert self.events.index(Event.CAUGHT_UP) < self.events.index(Event.UNFENCED)
            assert self.is_ready
        if not self.broker.is_fenced:
            assert self.broker.state >= BrokerState.RUNNING

    @invariant()
    def it_ends_once_and_with_a_reason_when_it_had_to(self) -> None:
        ends = [event for event in self.events if event in (Event.MAY_STOP, Event.MUST_STOP)]
        assert len(ends) == (self.broker.state is BrokerState.SHUTTING_DOWN)
        assert (self.broker.failure is not None) == (Event.MUST_STOP in self.events)

    def teardown(self) -> None:
        """From whatever it is in: with a controller that answers and a log that is applied, it runs, or it ends."""
        if self.broker.state is BrokerState.SHUTTING_DOWN:
            return
        for _ in range(40):
            request = self.on_its_way or self.broker.request(self.now_ms)
            self.on_its_way = None
            self.heard(
                self.broker.passed(self.now_ms)
                if request is None
                else self.broker.answered(self.answer(request), self.now_ms)
            )
            self.the_log_is_applied()
            if Event.CAUGHT_UP in self.events:
                self.is_ready = True
                self.broker.ready(self.now_ms)
            if (wake_ms := self.broker.wake_ms()) is None:
                break
            self.now_ms = max(self.now_ms, wake_ms)
        expected = {BrokerState.SHUTTING_DOWN} if self.is_stopping else {BrokerState.SHUTTING_DOWN, BrokerState.RUNNING}
        assert self.broker.state in expected
        assert self.broker.state is BrokerState.SHUTTING_DOWN or not self.broker.is_fenced


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = hypothesis_settings(deadline=None)
