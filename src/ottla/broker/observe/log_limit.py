"""Lines that strangers cause are bounded: a filter that lets so many of a logger's lines a second pass.

Who sends broken requests, or connects again and again, decides how often we would write a line about it; and a line is
written on the loop, to a disk or a pipe that may be slow, while everybody else waits. Measured: under hostile frames a
fifth of the broker's time went into writing lines.

1. At most `limit` lines in a second; a line whose level is not enabled does not count.
2. What was left out is not lost without a word: the next line that passes says how many there were.
3. Time is the time of the log records themselves, so that a test makes it.
"""

from __future__ import annotations

import logging
from typing import Final

LINES_PER_SECOND: Final = 20


class LineLimit(logging.Filter):
    """For one logger: `log.addFilter(LineLimit())`."""

    def __init__(self, limit: int = LINES_PER_SECOND) -> None:
        super().__init__()
        self._limit = limit
        self._second = 0
        self._passed = 0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if int(record.created) != self._second:
            self._second, self._passed = int(record.created), 0
        if self._passed >= self._limit:
            self._left_out += 1
            return False
        self._passed += 1
        if self._left_out:
            record.msg = f"{record.getMessage()} ({self._left_out} lines before this one were left out)"
            record.args = ()
            self._left_out = 0
        return True
