"""One system call for an answer: what is written in a turn of the loop is sent together, in its order."""

import asyncio

import pytest

pytest.importorskip("uvicorn")
from ottla.broker.http.gathering import GATHERED_BYTES_MAX, GatheringTransport


class Sent:
    """A transport that keeps what it is told."""

    def __init__(self):
        self.told = []

    def write(self, data):
        self.told.append(bytes(data))

    def close(self):
        self.told.append("closed")

    def is_closing(self):
        return self.told[-1:] == ["closed"]


def told(scenario):
    async def run():
        below = Sent()
        await scenario(GatheringTransport(below, asyncio.get_running_loop()))
        await asyncio.sleep(0)
        return below.told

    return asyncio.run(run())


def test_what_is_written_in_one_turn_is_sent_once():
    async def scenario(transport):
        transport.write(b"head ")
        transport.write(b"body")
        await asyncio.sleep(0)
        transport.write(b"next")

    assert told(scenario) == [b"head body", b"next"]


def test_closing_sends_what_is_left_first():
    async def scenario(transport):
        transport.write(b"last words")
        transport.close()
        assert transport.is_closing()

    assert told(scenario) == [b"last words", "closed"]


def test_a_large_answer_is_not_kept():
    async def scenario(transport):
        transport.write(b"head")
        transport.write(b"x" * GATHERED_BYTES_MAX)
        transport.write(b"end")

    assert [len(each) for each in told(scenario)] == [GATHERED_BYTES_MAX + 4, 3]
