"""A peer decides; these tests compare its decisions. No socket, no clock, no chance: time and luck are arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionRefused,
    FrameTooLarge,
    IllegalMove,
    NotConnected,
    OttlaError,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.net.connection import ApiVersionTable, Completed, Failed
from ottla.net.decisions import BackingOff, Close, Connect, Decision, Ready, Send, WakeAt
from ottla.net.handshake import Ask, Authenticated, Authenticator
from ottla.net.peer import MOVES, STEPS_LIMIT, Peer, PeerSettings, State
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ALIVE = HeartbeatResponse(throttle_time_ms=0, error_code=0)
TABLE = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersion(api_key=key, min_version=api.versions.min, max_version=api.versions.max) for key, api in APIS.items()
    ],
)


class Luck:
    """A random source that always says the same; one half means no jitter at all."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def new_peer(*, luck: float = 0.5, authenticator: Callable[[], Authenticator] | None = None, **changed: float) -> Peer:
    settings = PeerSettings(client_id="test", software_version="1.0", **changed)  # type: ignore[arg-type]
    return Peer("broker", 9092, random=Luck(luck), settings=settings, authenticator=authenticator)


class Wire:
    """The other end: reads the requests out of decisions and writes answers, in order."""

    def __init__(self) -> None:
        self.open: list[tuple[Message, int, int]] = []

    def take(self, decisions: list[Decision]) -> list[Message]:
        found = [decode_request(b"".join(decision.buffers)[4:]) for decision in decisions if isinstance(decision, Send)]
        self.open += [(request, header.request_api_version, header.correlation_id) for header, request in found]
        return [request for _, request in found]

    def answer(self, response: Message, *, version: int | None = None) -> bytes:
        _, asked, correlation_id = self.open.pop(0)
        return b"".join(
            encode_response(response, version=asked if version is None else version, correlation_id=correlation_id)
        )


def ready_peer(now_ms: float = 0, **changed: float) -> tuple[Peer, Wire]:
    peer, wire = new_peer(**changed), Wire()
    peer.connect(now_ms)
    wire.take(peer.connected(now_ms))
    peer.received(wire.answer(TABLE), now_ms)
    assert peer.state is State.READY
    return peer, wire


def send(peer: Peer, ticket: object, now_ms: float = 0, timeout_ms: float = 30_000, **more: bool) -> list[Decision]:
    return peer.send(ticket, HEARTBEAT, now_ms=now_ms, timeout_ms=timeout_ms, **more)


def kinds(decisions: list[Decision]) -> list[str]:
    return [type(decision).__name__ for decision in decisions]


def only(decisions: list[Decision], kind: type) -> list[Decision]:
    return [decision for decision in decisions if isinstance(decision, kind)]


# --- the way to READY ---


def test_from_nothing_to_ready() -> None:
    peer, wire = new_peer(), Wire()
    assert peer.connect(100) == [Connect("broker", 9092), WakeAt(10_100)]
    opened = peer.connected(105)
    assert wire.take(opened) == [ApiVersionsRequest(client_software_name="ottla", client_software_version="1.0")]
    assert wire.open[0][1] == APIS[18].versions.max
    assert peer.state is State.NEGOTIATING
    assert peer.received(wire.answer(TABLE), 110) == [Ready(ApiVersionTable.from_response(TABLE))]
    assert peer.state is State.READY
    assert peer.versions == ApiVersionTable.from_response(TABLE)
    # The time asked for at the beginning comes first; from then on the idle limit counts.
    assert peer.tick(10_100) == [WakeAt(540_110)]


def test_a_request_sent_before_anything_is_open_connects_and_goes_out_when_ready() -> None:
    peer, wire = new_peer(), Wire()
    assert send(peer, "a", 0) == [Connect("broker", 9092), WakeAt(10_000)]
    wire.take(peer.connected(1))
    decisions = peer.received(wire.answer(TABLE), 2)
    assert kinds(decisions) == ["Ready", "Send"]
    assert wire.take(decisions) == [HEARTBEAT]
    assert wire.open[0][1] == APIS[12].versions.max
    assert peer.received(wire.answer(ALIVE), 3) == [Completed("a", ALIVE)]


def test_an_older_node_is_asked_again_with_its_own_highest_version() -> None:
    peer, wire = new_peer(), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    again = peer.received(wire.answer(refusal, version=0), 1)
    assert kinds(again) == ["Send"]
    wire.take(again)
    assert wire.open[0][1] == 2
    assert kinds(peer.received(wire.answer(TABLE), 2)) == ["Ready"]


def test_a_node_that_refuses_every_version_is_not_tried_again() -> None:
    peer, wire = new_peer(), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    refusal = ApiVersionsResponse(error_code=35, api_keys=[])
    wire.take(peer.received(wire.answer(refusal, version=0), 1))
    assert wire.open[0][1] == 0
    decisions = peer.received(wire.answer(refusal, version=0), 2)
    assert kinds(decisions) == ["Close", "BackingOff", "WakeAt"]
    assert only(decisions, BackingOff)[0].retry_at_ms is None  # type: ignore[union-attr]
    assert isinstance(peer.failure, UnsupportedVersion)


def test_an_error_instead_of_versions_is_named() -> None:
    peer, wire = new_peer(), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    peer.received(wire.answer(ApiVersionsResponse(error_code=42, api_keys=[])), 1)
    assert peer.state is State.BACKING_OFF
    assert "refused to say which versions" in str(peer.failure)


# --- failures of set-up ---


def fail_by_refusal(peer: Peer, wire: Wire) -> list[Decision]:
    return peer.connect_failed(NotConnected("broker:9092 refused the connection"), 10)


def fail_by_silence(peer: Peer, wire: Wire) -> list[Decision]:
    return peer.tick(10_000)


def fail_by_http(peer: Peer, wire: Wire) -> list[Decision]:
    peer.connected(5)
    return peer.disconnected(FrameTooLarge("1213486160 bytes; an HTTP server answers on this port"), 10)


def fail_by_nonsense(peer: Peer, wire: Wire) -> list[Decision]:
    peer.connected(5)
    return peer.received(b"\x00\x00\x00\x00nonsense", 10)


def fail_by_hang_up(peer: Peer, wire: Wire) -> list[Decision]:
    peer.connected(5)
    return peer.disconnected(None, 10)


def fail_by_mute(peer: Peer, wire: Wire) -> list[Decision]:
    peer.connected(5)
    return peer.tick(10_000)


@pytest.mark.parametrize(
    ("fail", "words", "closes"),
    [
        (fail_by_refusal, "refused the connection", False),
        (fail_by_silence, "does not answer at all", True),
        (fail_by_http, "does not speak Kafka: .*HTTP server", False),
        (fail_by_nonsense, "does not speak Kafka", True),
        (fail_by_hang_up, "instead of answering ApiVersions; it may expect TLS", False),
        (fail_by_mute, "accepts connections but does not answer ApiVersions", True),
    ],
)
def test_every_failure_of_set_up_backs_off_and_says_why(
    fail: Callable[[Peer, Wire], list[Decision]], words: str, closes: bool
) -> None:
    peer, wire = new_peer(), Wire()
    peer.connect(0)
    decisions = fail(peer, wire)
    (backing_off,) = only(decisions, BackingOff)
    assert isinstance(backing_off, BackingOff)
    with pytest.raises(NotConnected, match=words):
        raise backing_off.error
    assert bool(only(decisions, Close)) is closes
    assert peer.failure is backing_off.error
    assert peer.state is State.BACKING_OFF
    assert backing_off.retry_at_ms is not None
    assert only(peer.tick(backing_off.retry_at_ms), Connect) == [Connect("broker", 9092)]


def test_a_wrong_password_fails_what_waits_and_everything_after_until_somebody_connects_again() -> None:
    peer = new_peer()
    send(peer, "a")
    decisions = peer.connect_failed(AuthenticationFailed("certificate unknown"), 5)
    assert kinds(decisions) == ["BackingOff", "Failed", "WakeAt"]
    assert only(decisions, BackingOff)[0].retry_at_ms is None  # type: ignore[union-attr]
    (later,) = send(peer, "b", 6)
    assert isinstance(later, Failed)
    assert isinstance(later.error, AuthenticationFailed)
    assert later.error is not peer.failure
    assert only(peer.tick(60), Connect) == []
    assert peer.state is State.DISCONNECTED
    assert kinds(peer.connect(70)) == ["Connect", "WakeAt"]
    assert only(send(peer, "c", 71), Failed) == []


# --- backing off ---


def backoffs(count: int, luck: float, **changed: float) -> list[float]:
    peer, now_ms, seen = new_peer(luck=luck, **changed), 0.0, []
    peer.connect(now_ms)
    for _ in range(count):
        (backing_off,) = only(peer.connect_failed(NotConnected("refused"), now_ms), BackingOff)
        assert isinstance(backing_off, BackingOff)
        assert backing_off.retry_at_ms is not None
        seen.append(backing_off.retry_at_ms - now_ms)
        now_ms = backing_off.retry_at_ms
        peer.tick(now_ms)
        assert peer.state is State.CONNECTING
    return seen


def test_the_wait_doubles_up_to_the_most() -> None:
    assert backoffs(7, luck=0.5) == pytest.approx([50, 100, 200, 400, 800, 1000, 1000])


@given(st.floats(0, 1, exclude_max=True))
def test_the_wait_stays_within_a_fifth(luck: float) -> None:
    for wait, middle in zip(backoffs(6, luck), [50, 100, 200, 400, 800, 1000], strict=True):
        assert middle * 0.8 <= wait <= middle * 1.2


def test_the_settings_decide_about_the_wait() -> None:
    assert backoffs(4, 0.9, reconnect_backoff_ms=7, reconnect_backoff_max_ms=20, jitter=0) == pytest.approx(
        [7, 14, 20, 20]
    )


def test_hundreds_of_failures_do_not_overflow() -> None:
    assert backoffs(2000, luck=0.5)[-1] == 1000


def test_set_up_gets_no_more_time_because_a_machine_refused() -> None:
    """Seed 7514: a broker that came back was asked for 20 s behind a connection that a power cut had left open."""
    peer, now_ms = new_peer(), 0.0
    peer.connect(now_ms)
    for _ in range(5):
        (backing_off,) = only(peer.connect_failed(ConnectionRefused("nothing listens there"), now_ms), BackingOff)
        assert isinstance(backing_off, BackingOff)
        now_ms = backing_off.retry_at_ms or 0
        peer.tick(now_ms)
    assert peer._next_wake_ms() - now_ms == pytest.approx(10_000)


def test_set_up_gets_more_time_whenever_its_time_ran_out() -> None:
    peer, now_ms, limits = new_peer(), 0.0, []
    peer.connect(now_ms)
    for _ in range(4):
        wake_ms = peer._next_wake_ms()
        limits.append(wake_ms - now_ms)
        (backing_off,) = only(peer.tick(wake_ms), BackingOff)
        assert isinstance(backing_off, BackingOff)
        now_ms = backing_off.retry_at_ms or 0
        peer.tick(now_ms)
    assert limits == pytest.approx([10_000, 20_000, 30_000, 30_000])


def test_a_ready_connection_makes_the_wait_short_again() -> None:
    peer, now_ms = new_peer(), 0.0
    peer.connect(now_ms)
    for _ in range(5):
        peer.connect_failed(NotConnected("refused"), now_ms)
        now_ms += 2000
        peer.tick(now_ms)
    wire = Wire()
    wire.take(peer.connected(now_ms))
    peer.received(wire.answer(TABLE), now_ms)
    assert peer.failure is None
    (backing_off,) = only(peer.disconnected(None, now_ms), BackingOff)
    assert backing_off.retry_at_ms == now_ms + 50  # type: ignore[union-attr]


def test_nonsense_on_a_ready_connection_is_a_lost_connection_for_everybody() -> None:
    peer, _ = ready_peer()
    decisions = peer.received(b"\x00\x00\x00\x00nonsense", 10)
    assert "Close" in kinds(decisions)
    assert isinstance(peer.failure, ConnectionClosed)
    assert "no request was waiting" in str(peer.failure)


def test_a_lost_connection_is_made_again_only_when_somebody_wants_it() -> None:
    peer, _ = ready_peer()
    peer.disconnected(None, 10)
    assert peer.tick(60) == []
    assert peer.state is State.DISCONNECTED
    assert Connect("broker", 9092) in send(peer, "a", 70)


def test_a_request_during_the_wait_connects_when_the_wait_is_over_and_not_before() -> None:
    peer, _ = ready_peer()
    peer.disconnected(None, 10)
    assert send(peer, "a", 20) == []  # the time to wake up was announced when the wait began
    assert Connect("broker", 9092) in peer.tick(60)


def test_who_tries_again_by_itself_hears_at_once_that_nothing_listens() -> None:
    peer, _ = ready_peer(waits_for_refusing=False)
    peer.disconnected(None, 10)
    assert send(peer, "a", 20) == []
    assert Connect("broker", 9092) in peer.tick(60)
    (failed,) = only(peer.connect_failed(ConnectionRefused("nothing listens there"), 61), Failed)
    assert isinstance(failed, Failed)
    assert failed.ticket == "a"
    assert isinstance(failed.error, ConnectionRefused)


def test_nobody_connects_after_the_time_the_caller_gave() -> None:
    peer = new_peer()
    peer.connect(0, until_ms=40)
    peer.connect_failed(NotConnected("refused"), 10)
    assert peer.tick(60) == []
    assert peer.state is State.DISCONNECTED


# --- requests ---


def test_a_full_connection_lets_requests_wait_in_order() -> None:
    peer, wire = ready_peer(in_flight_limit=2)
    decisions = [decision for ticket in "abcd" for decision in send(peer, ticket, 1)]
    assert len(wire.take(decisions)) == 2
    assert (peer.load, peer.can_send_now) == (4, False)
    first = peer.received(wire.answer(ALIVE), 2)
    assert kinds(first) == ["Completed", "Send"]
    wire.take(first)
    done = [decision.ticket for _ in "bcd" for decision in step(peer, wire) if isinstance(decision, Completed)]
    assert done == ["b", "c", "d"]
    assert (peer.load, peer.can_send_now) == (0, True)


def step(peer: Peer, wire: Wire, now_ms: float = 3) -> list[Decision]:
    decisions = peer.received(wire.answer(ALIVE), now_ms)
    wire.take(decisions)
    return decisions


def test_a_request_without_answer_is_complete_when_it_is_sent() -> None:
    peer, _ = ready_peer()
    decisions = send(peer, "quiet", 1, expects_response=False)
    assert kinds(decisions)[:2] == ["Send", "Completed"]
    assert Completed("quiet", None) in decisions
    assert peer.load == 0


def test_the_line_has_an_end() -> None:
    peer = new_peer(waiting_limit=2)
    send(peer, "a")
    send(peer, "b")
    (refused,) = send(peer, "c")
    assert isinstance(refused, Failed)
    assert "2 requests wait for broker:9092 already" in str(refused.error)


def test_a_request_that_waited_too_long_was_never_sent_and_says_what_is_wrong() -> None:
    peer = new_peer()
    send(peer, "a", 0, timeout_ms=100)
    peer.connect_failed(NotConnected("broker:9092 refused the connection"), 0)
    (failed,) = only(peer.tick(100), Failed)
    assert isinstance(failed, Failed)
    with pytest.raises(NotConnected, match=r"Heartbeat waited too long .* refused the connection"):
        raise failed.error


def test_a_request_that_found_no_room_in_time_says_so() -> None:
    peer, _ = ready_peer(in_flight_limit=1)
    send(peer, "a", 0, timeout_ms=500)
    assert send(peer, "b", 1, timeout_ms=100) == [WakeAt(101)]
    (failed,) = only(peer.tick(101), Failed)
    assert isinstance(failed, Failed)
    with pytest.raises(RequestTimedOut, match="never sent"):
        raise failed.error
    assert peer.state is State.READY


def test_an_answer_that_does_not_come_ends_the_connection() -> None:
    peer, _ = ready_peer()
    assert WakeAt(101) in send(peer, "late", 1, timeout_ms=100)
    send(peer, "unlucky", 2, timeout_ms=5000)
    assert kinds(peer.tick(100.5)) == ["WakeAt"]
    decisions = peer.tick(101)
    assert kinds(decisions) == ["Close", "Failed", "Failed", "BackingOff", "WakeAt"]
    late, unlucky = only(decisions, Failed)
    assert isinstance(late, Failed)
    assert isinstance(unlucky, Failed)
    assert (late.ticket, type(late.error)) == ("late", RequestTimedOut)
    assert (unlucky.ticket, type(unlucky.error)) == ("unlucky", ConnectionClosed)


def test_what_was_in_flight_when_the_connection_broke_is_not_sent_again() -> None:
    peer, _ = ready_peer(in_flight_limit=1)
    send(peer, "sent", 0)
    send(peer, "waiting", 0)
    decisions = peer.disconnected(None, 5)
    assert [decision.ticket for decision in only(decisions, Failed)] == ["sent"]  # type: ignore[union-attr]
    peer.tick(1000)
    second = Wire()
    second.take(peer.connected(1001))
    done = peer.received(second.answer(TABLE), 1002)
    assert kinds(done) == ["Ready", "Send"]
    second.take(done)
    assert peer.received(second.answer(ALIVE), 1003) == [Completed("waiting", ALIVE)]


def test_an_answer_out_of_order_ends_the_connection() -> None:
    peer, wire = ready_peer()
    wire.take(send(peer, "a") + send(peer, "b"))
    wire.open.pop(0)
    decisions = peer.received(wire.answer(ALIVE), 5)
    assert kinds(decisions) == ["Close", "Failed", "Failed", "BackingOff", "WakeAt"]


def test_an_api_the_node_does_not_offer_fails_only_its_own_request() -> None:
    peer, wire = new_peer(), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    poor = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    peer.received(wire.answer(poor), 0)
    (failed, *_) = send(peer, "a", 1)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, UnsupportedVersion)
    assert "Heartbeat (key 12)" in str(failed.error)
    assert peer.state is State.READY


def test_a_version_can_be_fixed_or_limited() -> None:
    peer, wire = ready_peer()
    wire.take(peer.send("a", HEARTBEAT, now_ms=0, timeout_ms=9, version=3))
    wire.take(peer.send("b", HEARTBEAT, now_ms=0, timeout_ms=9, at_most=1))
    assert [version for _, version, _ in wire.open] == [3, 1]


def test_a_request_that_cannot_be_written_fails_alone() -> None:
    peer, _ = ready_peer()
    wrong = HeartbeatRequest(group_id=None, generation_id=1, member_id="m")  # type: ignore[arg-type]
    decisions = peer.send("wrong", wrong, now_ms=0, timeout_ms=9)
    assert kinds(decisions)[0] == "Failed"
    assert kinds(send(peer, "right"))[0] == "Send"


def test_an_abandoned_request_is_not_sent_if_it_still_waits() -> None:
    peer, wire = new_peer(), Wire()
    send(peer, "a")
    send(peer, "b")
    assert peer.abandon("a")
    assert not peer.abandon("a")
    wire.take(peer.connected(1))
    decisions = peer.received(wire.answer(TABLE), 2)
    assert len(wire.take(decisions)) == 1
    assert not peer.abandon("b")
    assert peer.received(wire.answer(ALIVE), 3) == [Completed("b", ALIVE)]


def test_nothing_is_written_while_the_transport_is_full() -> None:
    peer, _ = ready_peer()
    assert peer.writable(False, 1) == []
    assert only(send(peer, "a", 2), Send) == []
    assert not peer.can_send_now
    assert kinds(peer.writable(True, 3)) == ["Send"]


# --- ending ---


def test_an_unused_connection_is_closed_and_made_again_on_demand() -> None:
    peer, wire = ready_peer(0, idle_limit_ms=1000)
    wire.take(send(peer, "a", 400))
    peer.received(wire.answer(ALIVE), 500)
    assert peer.tick(1000) == [WakeAt(1500)]
    assert peer.tick(1500) == [Close("idle")]
    assert peer.state is State.DISCONNECTED
    assert kinds(send(peer, "b", 2000)) == ["Connect", "WakeAt"]


def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    peer, _ = ready_peer(0, idle_limit_ms=1000)
    send(peer, "slow", 0, timeout_ms=60_000)
    assert only(peer.tick(5000), Close) == []


def test_close_leaves_nothing_unanswered() -> None:
    peer, _ = ready_peer(in_flight_limit=1)
    send(peer, "sent")
    send(peer, "waiting")
    decisions = peer.close(5)
    assert kinds(decisions) == ["Close", "Failed", "Failed"]
    sent, waiting = only(decisions, Failed)
    assert isinstance(sent, Failed)
    assert isinstance(waiting, Failed)
    assert (type(sent.error), type(waiting.error)) == (ConnectionClosed, NotConnected)
    assert peer.state is State.DISCONNECTED
    assert peer.close(6) == []
    assert kinds(peer.connect(7)) == ["Connect", "WakeAt"]


def test_an_illegal_move_tells_the_recent_story() -> None:
    peer, _ = ready_peer()
    with pytest.raises(IllegalMove, match="from ready to negotiating") as caught:
        peer.connected(10)
    assert [step.split(": ")[1].split(" (")[0] for step in caught.value.story] == [
        "disconnected to connecting",
        "connecting to negotiating",
        "negotiating to ready",
    ]


def test_every_state_can_be_reached_and_left() -> None:
    assert set(MOVES) == set(State)
    assert set().union(*MOVES.values()) == set(State)


# --- authentication ---


class Scripted:
    """An authenticator that shakes hands, sends two tokens, and takes what the script says for an end."""

    def __init__(self, end: OttlaError | Authenticated, tokens: int = 2) -> None:
        self._end = end
        self._left = tokens
        self.answers: list[Message] = []

    def start(self, versions: ApiVersionTable) -> Ask | Authenticated:
        return Ask(SaslHandshakeRequest(mechanism="SCRIPT"), versions.choose(APIS[17]))

    def answered(self, response: Message) -> Ask | Authenticated:
        self.answers.append(response)
        if self._left:
            self._left -= 1
            return Ask(SaslAuthenticateRequest(auth_bytes=b"token %d" % self._left), 2)
        if isinstance(self._end, OttlaError):
            raise self._end
        return self._end


HANDSHAKE = SaslHandshakeResponse(error_code=0, mechanisms=["SCRIPT"])
TOKEN = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"go on")


def authenticating(script: Scripted) -> tuple[Peer, Wire]:
    peer, wire = new_peer(authenticator=lambda: script), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    wire.take(peer.received(wire.answer(TABLE), 1))
    assert peer.state is State.AUTHENTICATING
    return peer, wire


def exchange(peer: Peer, wire: Wire, *answers: Message, now_ms: float = 5) -> list[Decision]:
    decisions: list[Decision] = []
    for answer in answers:
        decisions = peer.received(wire.answer(answer), now_ms)
        wire.take(decisions)
    return decisions


def test_an_authenticator_asks_until_it_is_satisfied_and_requests_wait_for_it() -> None:
    script = Scripted(Authenticated())
    peer, wire = authenticating(script)
    assert send(peer, "a", 2, timeout_ms=100_000) == []
    assert [request for request, _, _ in wire.open] == [SaslHandshakeRequest(mechanism="SCRIPT")]
    exchange(peer, wire, HANDSHAKE)
    assert [request for request, _, _ in wire.open] == [SaslAuthenticateRequest(auth_bytes=b"token 1")]
    last = exchange(peer, wire, TOKEN, TOKEN)
    assert kinds(last) == ["Ready", "Send"]
    assert script.answers == [HANDSHAKE, TOKEN, TOKEN]


def test_a_refused_authentication_is_told_and_not_repeated() -> None:
    peer, wire = authenticating(Scripted(AuthenticationFailed("wrong password")))
    send(peer, "a", 2)
    decisions = exchange(peer, wire, HANDSHAKE, TOKEN, TOKEN)
    assert kinds(decisions) == ["Close", "BackingOff", "Failed", "WakeAt"]
    (failed,) = only(decisions, Failed)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, AuthenticationFailed)
    assert only(peer.tick(100_000), Connect) == []


def test_an_authentication_without_end_is_ended() -> None:
    peer, wire = authenticating(Scripted(Authenticated(), tokens=10**9))
    exchange(peer, wire, HANDSHAKE)
    for _ in range(STEPS_LIMIT - 2):
        exchange(peer, wire, TOKEN)
    assert peer.state is State.AUTHENTICATING
    exchange(peer, wire, TOKEN)
    assert "no end after" in str(peer.failure)


def test_a_node_that_hangs_up_during_authentication_makes_one_think_of_credentials() -> None:
    peer, _ = authenticating(Scripted(Authenticated()))
    peer.disconnected(None, 3)
    assert "are the credentials right?" in str(peer.failure)


def test_a_session_is_renewed_before_it_ends_while_answers_are_still_being_created() -> None:
    scripts = [Scripted(Authenticated(session_ms=1000), tokens=0), Scripted(Authenticated(), tokens=0)]
    peer, wire = new_peer(authenticator=lambda: scripts.pop(0)), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    wire.take(peer.received(wire.answer(TABLE), 0))
    assert kinds(exchange(peer, wire, HANDSHAKE, now_ms=0)) == ["Ready", "WakeAt"]
    wire.take(send(peer, "before", 800))
    again = peer.tick(900)  # 0.85 + 0.1 * 0.5 of the session
    assert wire.take(again) == [SaslHandshakeRequest(mechanism="SCRIPT")]
    assert peer.state is State.AUTHENTICATING
    assert only(send(peer, "during", 901), Send) == []
    assert only(peer.received(wire.answer(ALIVE), 902), Completed) == [Completed("before", ALIVE)]
    last = exchange(peer, wire, HANDSHAKE, now_ms=903)
    assert kinds(last)[:2] == ["Ready", "Send"]


def test_another_login_is_no_request_that_somebody_will_be_answered() -> None:
    # A sender that took it for one of its own waited for an answer that it never heard of.
    scripts = [Scripted(Authenticated(session_ms=1000), tokens=0), Scripted(Authenticated(), tokens=0)]
    peer, wire = new_peer(authenticator=lambda: scripts.pop(0)), Wire()
    peer.connect(0)
    wire.take(peer.connected(0))
    assert peer.load == 0
    wire.take(peer.received(wire.answer(TABLE), 0))
    assert peer.load == 0
    exchange(peer, wire, HANDSHAKE, now_ms=0)
    wire.take(peer.tick(900))
    assert (peer.state, peer.load, peer.can_send_now) == (State.AUTHENTICATING, 0, False)


# --- anything at all ---


@given(st.lists(st.tuples(st.sampled_from(["send", "answer", "drop", "tick", "fail", "open"]), st.integers(0, 20_000))))
def test_whatever_happens_every_request_ends_exactly_once(events: list[tuple[str, int]]) -> None:
    peer, wire, now_ms, sent = new_peer(in_flight_limit=2, waiting_limit=3), Wire(), 0.0, 0
    ended: list[object] = []

    def act(decisions: list[Decision]) -> None:
        wire.take(decisions)
        ended.extend(d.ticket for d in decisions if isinstance(d, Completed | Failed))
        if only(decisions, Close) or only(decisions, BackingOff):
            wire.open.clear()

    for event, passed_ms in events:
        now_ms += passed_ms
        linked = peer.state in (State.NEGOTIATING, State.READY)
        if event == "send":
            act(send(peer, sent, now_ms, timeout_ms=15_000))
            sent += 1
        elif event == "tick":
            act(peer.tick(now_ms))
        elif event == "drop" and linked:
            act(peer.disconnected(None, now_ms))
        elif event == "fail" and peer.state is State.CONNECTING:
            act(peer.connect_failed(NotConnected("refused"), now_ms))
        elif event == "open" and peer.state is State.CONNECTING:
            act(peer.connected(now_ms))
        elif event == "answer" and wire.open:
            is_setup = isinstance(wire.open[0][0], ApiVersionsRequest)
            act(peer.received(wire.answer(TABLE if is_setup else ALIVE), now_ms))
    act(peer.close(now_ms))
    assert sorted(ended) == list(range(sent))  # type: ignore[type-var]
