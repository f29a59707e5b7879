"""One client's connection: order, limits, slices of files; and who may connect at all."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.network.acceptor import ConnectionLimits
from ottla.broker.network.processor import PORTION_BYTES, CloseConnection, Connection
from ottla.broker.network.waiting_requests import WaitingRequests
from ottla.errors import OttlaError
from ottla.storage.files import DiskFiles
from ottla.storage.segment.records_file import FileSlice


class FakeLink:
    """What a connection does to its link."""

    def __init__(self) -> None:
        self.writable = True
        self.written: list[bytes] = []
        self.is_reading = True
        self.end: str | None = None
        self.remote_address = ("10.0.0.1", 1234)
        self.local_address = None
        self.frame_limit_bytes = 1 << 20
        self.following: deque[memoryview] = deque()

    def write(self, buffers: Sequence[Any]) -> None:
        self.written.append(b"".join(bytes(buffer) for buffer in buffers))

    def send_file(self, before: Sequence[Any], number: int, position: int, size_bytes: int) -> int | None:
        return None

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.end = "closed"

    def abort(self, reason: OttlaError | None = None) -> None:
        self.end = f"aborted: {reason}"


class Unanswered:
    """An answer that comes when the test says so."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] | None = None

    async def wait(self) -> Any:
        self.future = asyncio.get_running_loop().create_future()
        return await self.future

    async def resolve(self, answer: Any) -> None:
        assert self.future is not None, "the request has begun"
        self.future.set_result(answer)
        await asyncio.sleep(0)


class Together:
    """The answers to requests that came together, which leave now or when the test says so."""

    def __init__(self, *texts: bytes, is_over: bool = True) -> None:
        self.texts = texts
        self.is_over = is_over
        self.request_bytes: list[int] = []

    def content(self) -> bytes:
        return b"".join(map(framed, self.texts))

    def leave_by(self, connection: Connection, places: list[int]) -> None:
        self.connection, self.places = connection, places

    def end(self) -> None:
        self.connection.leave(self.places, self.content())


class Script:
    """A dispatcher that answers from a list."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.runs: list[Any] = []

    def dispatch(self, frame: memoryview, connection: Connection) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer.wait() if isinstance(answer, Unanswered) else answer

    def dispatch_run(self, frame: memoryview, following: deque[memoryview], connection: Connection) -> Any:
        if not self.runs:
            return None
        run = self.runs.pop(0)
        if isinstance(run, Exception):
            raise run
        run.request_bytes = [len(frame), *(len(following.popleft()) for _ in run.texts[1:])]
        return run


def connect(*answers: Any) -> tuple[Connection, FakeLink]:
    link = FakeLink()
    connection = Connection(1, "PLAINTEXT", Script(*answers), lambda _: None)
    connection.opened(link)
    return connection, link


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


REQUEST = memoryview(b"request")


def test_answers_leave_in_the_order_of_their_requests() -> None:
    first: Unanswered = Unanswered()

    async def test() -> None:
        connection, link = connect(first, [b"second"])
        connection.frame_received(REQUEST)
        connection.frame_received(REQUEST)
        assert link.written == []
        await first.resolve([b"fir", b"st"])
        assert b"".join(link.written) == framed(b"first") + framed(b"second")

    run(test)


def test_no_answer_is_an_answer_too() -> None:
    async def test() -> None:
        connection, link = connect(None, [b"x"])
        connection.frame_received(REQUEST)
        connection.frame_received(REQUEST)
        assert b"".join(link.written) == framed(b"x")

    run(test)


def test_a_request_that_cannot_be_understood_ends_the_connection() -> None:
    async def test() -> None:
        connection, link = connect(CloseConnection("nonsense"))
        connection.frame_received(REQUEST)
        assert link.end == "closed"

    run(test)


def test_reading_stops_while_too_many_requests_wait() -> None:
    waiting: list[Unanswered] = [Unanswered() for _ in range(64)]

    async def test() -> None:
        connection, link = connect(*waiting)
        for _ in range(63):
            connection.frame_received(REQUEST)
        assert link.is_reading
        connection.frame_received(REQUEST)
        assert not link.is_reading
        for later in waiting[:40]:
            await later.resolve([b""])
        assert link.is_reading

    run(test)


def test_a_file_slice_is_sent_in_portions_and_only_as_the_socket_takes_them(tmp_path: Path) -> None:
    content = bytes(range(256)) * 2000  # four portions
    (tmp_path / "records").write_bytes(b"before" + content)
    file = DiskFiles().open(tmp_path / "records", read_only=True)

    async def test() -> None:
        connection, link = connect([b"head", FileSlice(file, 6, len(content)), b"tail"])
        connection.frame_received(REQUEST)
        assert len(link.written) == 1
        assert len(link.written[0]) <= PORTION_BYTES
        link.writable = False
        for _ in range(5):
            await asyncio.sleep(0)
        stopped_at = len(link.written)
        link.writable = True
        connection.writable_changed(True)
        for _ in range(10):
            await asyncio.sleep(0)
        assert connection.is_idle
        assert len(link.written) > stopped_at
        assert b"".join(link.written) == framed(b"head" + content + b"tail")

    run(test)
    file.close()


def test_a_slice_that_was_truncated_meanwhile_aborts_the_connection(tmp_path: Path) -> None:
    (tmp_path / "records").write_bytes(b"short")
    file = DiskFiles().open(tmp_path / "records", read_only=True)

    async def test() -> None:
        connection, link = connect([FileSlice(file, 0, 100)])
        connection.frame_received(REQUEST)
        assert link.end is not None
        assert "truncated" in link.end

    run(test)
    file.close()


def test_a_throttled_connection_is_not_read_until_its_time_is_over() -> None:
    async def test() -> None:
        connection, link = connect([b"x"])
        connection.throttle(5)
        assert not link.is_reading
        connection.frame_received(REQUEST)
        assert not link.is_reading
        await asyncio.sleep(0.02)
        assert link.is_reading

    run(test)


def test_an_answer_for_a_connection_that_is_gone_is_forgotten() -> None:
    later: Unanswered = Unanswered()

    async def test() -> None:
        connection, link = connect(later)
        connection.frame_received(REQUEST)
        connection.closed(None)
        await later.resolve([b"too late"])
        assert link.written == []

    run(test)


@pytest.mark.parametrize(
    ("limits", "addresses", "refused"),
    [
        ({"total": 2}, ["a", "b", "c"], [None, None, "max.connections=2"]),
        ({"per_address": 1}, ["a", "b", "a"], [None, None, "a has 1 connections"]),
        ({"per_address": 1, "overrides": {"a": 2}}, ["a", "a", "a"], [None, None, "a has 2 connections"]),
    ],
)
def test_connections_over_a_limit_are_refused(
    limits: dict[str, Any], addresses: list[str], refused: list[str | None]
) -> None:
    guard = ConnectionLimits(**{"total": 100, "per_address": 100, "overrides": {}, **limits})
    for address, expected in zip(addresses, refused, strict=True):
        found = guard.refusal(address)
        assert found is None if expected is None else expected in (found or "")


def test_a_place_is_free_again_when_its_connection_left() -> None:
    guard = ConnectionLimits(total=1, per_address=1, overrides={})
    assert guard.refusal("a") is None
    assert guard.refusal("b") is not None
    guard.left("a")
    assert guard.refusal("b") is None
    assert guard.count == 1


def test_a_listener_has_a_limit_of_its_own_that_others_do_not_use_up() -> None:
    guard = ConnectionLimits(total=10, per_address=10, overrides={}, listeners={"OUT": 1, "IN": 10})
    assert guard.refusal("a", "OUT") is None
    assert guard.refusal("b", "OUT") == "max.connections=1 of the listener OUT are open"
    assert guard.refusal("b", "IN") is None
    guard.left("a", "OUT")
    assert guard.refusal("b", "OUT") is None


# --- bytes that wait, in all connections ---


class Crowd:
    """Connections that share one limit, with a request each that is not answered yet."""

    def __init__(self, limit_bytes: int) -> None:
        self.waiting = WaitingRequests(limit_bytes, self._changed)
        self.connections: list[Connection] = []
        self.links: list[FakeLink] = []
        self.answers: list[Unanswered] = []

    def _changed(self) -> None:
        for connection in self.connections:
            connection.resume()

    def join(self) -> None:
        self.answers.append(Unanswered())
        self.links.append(FakeLink())
        script = Script(self.answers[-1])
        self.connections.append(Connection(1, "PLAINTEXT", script, lambda _: None, self.waiting))
        self.connections[-1].opened(self.links[-1])

    def ask(self, number: int, size_bytes: int) -> None:
        self.connections[number].frame_received(memoryview(bytes(size_bytes)))

    @property
    def reading(self) -> list[bool]:
        return [link.is_reading for link in self.links]


def crowd(limit_bytes: int, count: int) -> Crowd:
    made = Crowd(limit_bytes)
    for _ in range(count):
        made.join()
    return made


def test_who_waits_is_not_read_while_all_together_have_too_much_waiting_and_the_others_are() -> None:
    """One of the others may be the follower for whose fetch they all wait."""

    async def test() -> None:
        one = crowd(100, 3)
        one.ask(0, 60)
        assert one.reading == [True, True, True]
        one.ask(1, 40)
        assert one.reading == [False, False, True]
        await one.answers[1].resolve([b"done"])
        assert one.reading == [False, True, True], "the first one waits until half of it is free"
        await one.answers[0].resolve([b"done"])
        assert one.reading == [True, True, True]
        assert one.waiting.size_bytes == 0

    run(test)


def test_who_leaves_takes_its_waiting_bytes_along() -> None:
    async def test() -> None:
        one = crowd(100, 2)
        one.ask(0, 100)
        assert one.reading == [False, True]
        one.connections[0].closed(None)
        assert one.reading[1]
        await one.answers[0].resolve([b"too late"])
        assert one.waiting.size_bytes == 0

    run(test)


def test_without_a_limit_everybody_is_read() -> None:
    async def test() -> None:
        one = crowd(-1, 2)
        one.ask(0, 1_000_000)
        assert one.reading == [True, True]

    run(test)


# --- requests that came together -------------------------------------------------------------------------------------


def connect_run(run: Any, following: int, *answers: Any) -> tuple[Connection, FakeLink]:
    link = FakeLink()
    link.following.extend(memoryview(b"frame") for _ in range(following))
    script = Script(*answers)
    script.runs.append(run)
    connection = Connection(1, "PLAINTEXT", script, lambda _: None)
    connection.opened(link)
    return connection, link


def test_requests_that_came_together_are_answered_in_their_order() -> None:
    connection, link = connect_run(Together(b"one", b"two", b"three"), 3)
    connection.frame_received(memoryview(b"frame"))
    assert b"".join(link.written) == framed(b"one") + framed(b"two") + framed(b"three")
    assert len(link.following) == 1
    assert connection.is_idle


def test_a_run_for_a_client_that_does_not_read_waits_until_it_does() -> None:
    connection, link = connect_run(Together(b"one", b"two"), 1)
    link.writable = False
    connection.frame_received(memoryview(b"frame"))
    assert link.written == []
    assert not connection.is_idle
    link.writable = True
    connection.writable_changed(True)
    assert b"".join(link.written) == framed(b"one") + framed(b"two")
    assert connection.is_idle


def test_answers_of_a_run_that_end_later_keep_their_places() -> None:
    together = Together(b"one", b"two", is_over=False)
    connection, link = connect_run(together, 1, [b"three"])
    connection.frame_received(memoryview(b"frame"))
    connection.frame_received(memoryview(b"frame"))
    assert link.written == []
    together.end()
    assert b"".join(link.written) == framed(b"one") + framed(b"two") + framed(b"three")
    assert connection.is_idle


def test_a_run_behind_an_answer_that_waits_leaves_behind_it() -> None:
    async def test() -> None:
        later: Unanswered = Unanswered()
        connection, link = connect(later)
        connection.frame_received(memoryview(b"frame"))
        connection._dispatcher.runs.append(Together(b"two", b"three"))  # type: ignore[attr-defined]
        link.following.append(memoryview(b"frame"))
        connection.frame_received(memoryview(b"frame"))
        assert link.written == []
        await later.resolve([b"one"])
        assert b"".join(link.written) == framed(b"one") + framed(b"two") + framed(b"three")

    run(test)


def test_a_request_that_holds_its_connection_lets_it_go_also_when_others_began_after_it() -> None:
    """A produce request asks its coordinator, and pauses when that has answered; others came and went meanwhile."""

    async def test() -> None:
        first, second = Unanswered(), Unanswered()
        connection, link = connect(first, second, [b"three"])
        connection.frame_received(memoryview(b"first"))
        connection.frame_received(memoryview(b"second"))
        await second.resolve([b"two"])
        connection.hold()
        assert not link.is_reading
        await first.resolve([b"one"])
        assert b"".join(link.written) == framed(b"one") + framed(b"two")
        assert link.is_reading

    run(test)


def test_a_connection_is_held_until_all_that_was_begun_is_answered() -> None:
    async def test() -> None:
        first, second = Unanswered(), Unanswered()
        connection, link = connect(first, second)
        connection.frame_received(memoryview(b"first"))
        connection.frame_received(memoryview(b"second"))
        connection.hold()
        await first.resolve([b"one"])
        assert not link.is_reading
        await second.resolve([b"two"])
        assert link.is_reading

    run(test)


def test_a_request_that_is_no_run_is_answered_alone() -> None:
    link = FakeLink()
    link.following.append(memoryview(b"frame"))
    connection = Connection(1, "PLAINTEXT", Script([b"alone"]), lambda _: None)
    connection.opened(link)
    connection.frame_received(memoryview(b"frame"))
    assert link.written == [framed(b"alone")]
    assert len(link.following) == 1


def test_a_run_that_cannot_be_understood_ends_the_connection() -> None:
    connection, link = connect_run(CloseConnection("no"), 1)
    connection.frame_received(memoryview(b"frame"))
    assert link.end == "closed"
