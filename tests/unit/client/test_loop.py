"""The loop on a thread: waiting from outside, ending, interrupting, forking."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from tests.patience import HANG_S

from ottla.client.loop import BackgroundLoop, ClientClosed, ForkedClient


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    made = BackgroundLoop("test-client")
    made.start()
    yield made
    made.close(5)


async def give(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def wait_for_ever(cancelled: threading.Event) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        cancelled.set()


def test_run_gives_what_the_coroutine_gives(loop: BackgroundLoop) -> None:
    assert loop.run(give(7), 5) == 7


def test_run_raises_what_the_coroutine_raises(loop: BackgroundLoop) -> None:
    async def fail() -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        loop.run(fail(), 5)


def test_a_time_out_cancels_the_coroutine(loop: BackgroundLoop) -> None:
    cancelled = threading.Event()
    with pytest.raises(TimeoutError, match="test-client"):
        loop.run(wait_for_ever(cancelled), 0.01)
    assert cancelled.wait(HANG_S)


def test_a_time_out_of_the_coroutine_itself_is_its_own(loop: BackgroundLoop) -> None:
    async def late() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop.run(late(), 5)


def test_ctrl_c_ends_the_wait_and_the_coroutine(loop: BackgroundLoop) -> None:
    cancelled = threading.Event()

    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await wait_for_ever(cancelled)

    # A process that a shell started in the background ignores Ctrl-C, and so would this test.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(interrupted(), 10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(HANG_S)
    assert loop.run(give(1), 5) == 1


def test_the_loop_refuses_to_wait_for_itself(loop: BackgroundLoop) -> None:
    async def again() -> None:
        loop.run(give(1), 5)

    with pytest.raises(RuntimeError, match="wait for itself"):
        loop.run(again(), 5)


def test_call_soon_runs_on_the_loop(loop: BackgroundLoop) -> None:
    called = threading.Event()
    loop.call_soon(called.set)
    assert called.wait(HANG_S)


def test_close_cancels_what_runs_and_later_calls_are_refused(loop: BackgroundLoop) -> None:
    cancelled = threading.Event()
    future = loop.submit(wait_for_ever(cancelled))
    loop.run(give(1), 5)
    loop.close(5)
    loop.close(5)
    assert cancelled.is_set()
    assert future.cancelled()
    with pytest.raises(ClientClosed):
        loop.run(give(1), 5)


def test_a_loop_starts_with_its_first_call() -> None:
    loop = BackgroundLoop("lazy")
    assert loop.run(give(3), 5) == 3
    loop.close(5)


def test_a_loop_that_never_started_can_be_closed() -> None:
    BackgroundLoop("never").close(5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_to_make_its_own_client(loop: BackgroundLoop) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # the child must not come back into pytest
        answer = b"no error"
        try:
            loop.run(give(1), 1)
        except ForkedClient:
            loop.close(1)
            answer = b"forked"
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"forked"
    os.close(reading)
    assert loop.run(give(2), 5) == 2
