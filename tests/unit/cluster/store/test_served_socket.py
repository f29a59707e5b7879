"""The metadata socket itself: who may open it, what bounds there are, sessions that end and come back."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.served_ensemble import ServedEnsemble
from tests.patience import HANG_S

from ottla.cluster.changes import AlterConfig, CreateTopic
from ottla.cluster.model import ALL_BROKERS, Broker, Endpoint, Partition, Topic
from ottla.cluster.store.events import (
    BrokersChanged,
    ConfigChanged,
    Controller,
    ControllerChanged,
    SessionBack,
    SessionLost,
    StoreEvent,
)
from ottla.cluster.store.interface import NoSession
from ottla.cluster.store.served import server
from ottla.cluster.store.served.store import ServedStore, open_served_store
from ottla.cluster.store.served.wire import FRAME_LIMIT_BYTES, HELLO_LIMIT_BYTES, LENGTH, frame

TOPIC = Topic("t", b"t" * 16, (Partition((1,), (1,), 1),))
HELLO = {"id": 0, "call": "hello", "registrations": []}


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ServedEnsemble]:
    with ServedEnsemble(tmp_path, "5L6g3nShT-eMCtK--X86sw") as running:
        yield running


def broker(number: int) -> Broker:
    return Broker(number, (Endpoint("PLAINTEXT", "localhost", 9092 + number),))


def events_until(member: ServedStore, is_last: Callable[[StoreEvent], bool]) -> list[StoreEvent]:
    found: list[StoreEvent] = []
    something = threading.Event()
    member.wake_with(something.set)
    while not any(map(is_last, found)):
        assert something.wait(HANG_S), found
        something.clear()
        found += member.take_events()
    return found


def raw(ensemble: ServedEnsemble, *contents: bytes) -> bytes:
    """What a stranger is answered before he is thrown out."""
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(HANG_S)
        stranger.connect(str(ensemble.path))
        answered = b""
        try:
            for content in contents:
                stranger.sendall(content)
            while data := stranger.recv(1 << 16):
                answered += data
        except ConnectionError:
            pass
        return answered


def test_only_the_owner_can_open_the_socket(ensemble: ServedEnsemble) -> None:
    found = ensemble.path.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        LENGTH.pack(HELLO_LIMIT_BYTES + 1),
        LENGTH.pack(2**32 - 1),
        b"GET / HTTP/1.1\r\n\r\n",
        LENGTH.pack(4) + b"null",
        frame({"id": 1, "call": "registered_brokers"}),
    ],
)
def test_a_stranger_is_thrown_out_and_others_go_on(ensemble: ServedEnsemble, content: bytes) -> None:
    member = ensemble.join()
    assert raw(ensemble, content) == b""
    assert member.registered_brokers() == ()


def test_a_member_that_claims_a_huge_frame_loses_its_session(ensemble: ServedEnsemble) -> None:
    assert b'"session_timeout_ms"' in raw(ensemble, frame(HELLO), LENGTH.pack(FRAME_LIMIT_BYTES + 1))
    assert ensemble.join().registered_brokers() == ()


def test_no_more_connect_than_there_is_room_for(ensemble: ServedEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ensemble.join()
    monkeypatch.setattr(server, "CONNECTIONS_LIMIT", 1)
    assert raw(ensemble, frame(HELLO)) == b""
    assert first.registered_brokers() == ()


def test_a_member_that_does_not_read_loses_its_session(
    ensemble: ServedEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNREAD_LIMIT_BYTES", 1 << 20)
    member = ensemble.join()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.settimeout(HANG_S)
        deaf.connect(str(ensemble.path))
        deaf.sendall(frame(HELLO))
        deaf.recv(1)
        for number in range(200):
            member.commit([AlterConfig(ALL_BROKERS, (("a", "x" * 50_000 + str(number)),))])
            if len(ensemble.server.truth.seats) == 1:
                return
    raise AssertionError("it kept its session")


def test_a_member_without_a_sign_of_life_is_gone(tmp_path: Path) -> None:
    silent = ServedEnsemble(tmp_path, "5L6g3nShT-eMCtK--X86sw")
    silent.session_timeout_ms = 200.0
    with silent:
        member = silent.join()  # sends signs of life
        assert member.session_timeout_ms == 200.0
        assert b'"session_timeout_ms"' in raw(silent, frame(HELLO))  # returns when it is thrown out
        assert member.registered_brokers() == ()


def test_when_the_keeper_is_killed_members_come_back_and_nobody_was_gone(ensemble: ServedEnsemble) -> None:
    first, second = ensemble.join(), ensemble.join()
    one, two = first.register(broker(1)), second.register(broker(2))
    assert first.stand(1) == Controller(1, 1)
    first.take_over()
    first.commit([CreateTopic(TOPIC)])
    first.take_events()
    ensemble.kill()
    with pytest.raises(NoSession):
        second.commit([AlterConfig(ALL_BROKERS, (("a", "b"),))])
    assert first.load().topic("t") == TOPIC
    ensemble.start()
    for member in (first, second):
        found = events_until(member, lambda event: isinstance(event, ControllerChanged) and event.controller is None)
        assert not any(isinstance(event, SessionLost) for event in found)
    assert second.stand(2) == Controller(2, 2)
    image = second.take_over()
    assert image.topic("t") == TOPIC
    assert tuple(image.brokers.values()) == (one, two)


def test_what_was_changed_while_a_member_was_away_is_told_when_it_is_back(ensemble: ServedEnsemble) -> None:
    away, other = ensemble.join(), ensemble.join()
    away.register(broker(1))
    path = ensemble.path
    away._connection._path = path.with_name("nobody")
    ensemble.expire(away)
    other.commit([AlterConfig(ALL_BROKERS, (("a", "b"),))])
    away._connection._path = path
    found = events_until(away, lambda event: isinstance(event, SessionBack))
    change = AlterConfig(ALL_BROKERS, (("a", "b"),))
    assert [type(each) for each in found][:3] == [ConfigChanged, SessionLost, SessionBack]
    assert found[0] == ConfigChanged((change,))
    assert away.load().config(ALL_BROKERS) == {"a": "b"}


def test_a_member_that_closes_is_gone_at_once(ensemble: ServedEnsemble) -> None:
    watching, leaving = ensemble.join(), ensemble.join()
    watching.stand(1)
    watching.take_over()
    leaving.register(broker(2))
    leaving.close()
    found = events_until(watching, lambda event: isinstance(event, BrokersChanged) and not event.live)
    assert found
    assert watching.registered_brokers() == ()


def test_nobody_at_the_socket_is_said_within_the_limit(tmp_path: Path) -> None:
    with pytest.raises(NoSession, match="nobody answers at"):
        open_served_store(tmp_path / "nobody", 0.05)


def test_an_older_change_of_somebody_else_does_not_undo_ours(ensemble: ServedEnsemble) -> None:
    """Ours was written later, and its notice of the other's comes before; taken in any order it is ours that stays."""
    mine, other = ensemble.join(), ensemble.join()
    other.commit([AlterConfig(ALL_BROKERS, (("a", "theirs"),))])
    mine.commit([AlterConfig(ALL_BROKERS, (("a", "mine"),))])
    assert [type(each) for each in mine.take_events()] == [ConfigChanged]
    assert mine.load().config(ALL_BROKERS) == {"a": "mine"}
