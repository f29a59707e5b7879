"""Lines that strangers cause: so many a second, and the rest is counted."""

import asyncio
import logging
from typing import Any

import pytest

from ottla.broker.network import acceptor, large_frames, processor
from ottla.broker.network.processor import CloseConnection, Connection
from ottla.broker.observe.log_limit import LINES_PER_SECOND, LineLimit


def line(created_s: float, number: int = 0) -> logging.LogRecord:
    record = logging.LogRecord("ottla", logging.INFO, __file__, 1, "line %d", (number,), None)
    record.created = created_s
    return record


def test_so_many_lines_pass_in_a_second_and_the_next_one_tells_how_many_did_not() -> None:
    limit = LineLimit(3)
    passed = [limit.filter(line(100.0 + number / 20, number)) for number in range(10)]
    assert passed == [True] * 3 + [False] * 7
    later, last = line(101.0, 10), line(101.0, 11)
    assert limit.filter(later)
    assert later.getMessage() == "line 10 (7 lines before this one were left out)"
    assert limit.filter(last)
    assert last.getMessage() == "line 11"


@pytest.mark.parametrize("module", [processor, acceptor, large_frames], ids=lambda each: each.__name__)
def test_loggers_that_strangers_can_make_speak_are_bounded(module: Any) -> None:
    assert any(isinstance(each, LineLimit) for each in module.log.filters)


def test_a_storm_of_broken_requests_writes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    class Refuses:
        def dispatch(self, frame: memoryview, connection: Connection) -> Any:
            raise CloseConnection("it is broken")

    async def storm() -> None:
        for number in range(1000):
            Connection(number, "PLAINTEXT", Refuses(), lambda _: None).frame_received(memoryview(b"?"))  # type: ignore[arg-type]

    with caplog.at_level(logging.INFO, logger="ottla"):
        asyncio.run(storm())
    assert 0 < len(caplog.records) < 1000, "a storm of a few seconds, on the slowest machine"
    assert len(caplog.records) <= LINES_PER_SECOND * (2 + caplog.records[-1].created - caplog.records[0].created)
