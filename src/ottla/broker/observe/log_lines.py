"""What the broker writes about itself: lines for people on a terminal, JSON lines for programs.

    logs.configure(level="INFO", form="auto", stream=sys.stderr, monotonic_ms=clock.monotonic_ms)

    12:04:31.507 INFO    broker.network  127.0.0.1:52114-7: closing the connection: ...
    {"time":"2026-11-15T12:04:31.507Z","level":"INFO","logger":"ottla.broker.network","message":"..."}

1. One record is one line; what clients send cannot start a new one or move the cursor, for control characters are
   escaped. A line has at most LINE_LIMIT characters.
2. A message that repeats (the same words of the same logger, whatever the values in it) is written at most
   REPEATS_LIMIT times a minute; then how many more there were is said once. The table for that is bounded. Only the
   audit log is written whole: who tries a thousand doors leaves a thousand lines.
3. Values of what is named like a secret are hidden, even where somebody puts them into a sentence by mistake.
4. `extra={"topic": ...}` becomes fields of the JSON line.
5. Processes that share a stream name themselves: "[1] 12:04:31.507 INFO ...", or "process":"1". A line is one write, so
   lines of several processes do not mix.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TextIO

from ottla.settings import HIDDEN

LINE_LIMIT: Final = 8_192
REPEATS_LIMIT: Final = 20
REPEATS_WINDOW_MS: Final = 60_000
REPEATS_TABLE_LIMIT: Final = 1_000
AUDIT_LOG: Final = "kafka.authorizer.logger"

_SECRET: Final = re.compile(
    r"""(?ix) ( \b [\w.-]* (?: password | passphrase | secret | jaas[._]config | private[._]key | token ) [\w.-]*
        ["']? \s* [=:] \s* ) ( "[^"]*" | '[^']*' | [^\s,;)}\]]+ )"""
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_COLOURS: Final = {"WARNING": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31;1m", "DEBUG": "\033[2m"}
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def configure(
    *,
    level: str,
    form: str,
    stream: TextIO,
    monotonic_ms: Callable[[], float],
    process: str = "",
) -> logging.Handler:
    """Send all log lines of this process to the stream; what was set up before is replaced.

    `form` is text, json, or auto: text on a terminal, json elsewhere. `process` says which of several that share a
    stream wrote a line.
    """
    on_terminal = stream.isatty()
    as_text = form == "text" or (form == "auto" and on_terminal)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLines(colours=on_terminal, process=process) if as_text else JsonLines(process))
    handler.addFilter(Repeats(monotonic_ms))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    return handler


def scrubbed(text: str) -> str:
    """The text without the values of what is named like a secret."""
    return _SECRET.sub(lambda found: found[1] + HIDDEN, text)


def one_line(text: str) -> str:
    """The text on one line and within the limit."""
    plain = _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
    return plain if len(plain) <= LINE_LIMIT else plain[: LINE_LIMIT - 1] + "…"


class TextLines(logging.Formatter):
    """Lines for people; an exception follows its line, indented."""

    def __init__(self, *, colours: bool, process: str = "") -> None:
        super().__init__()
        self._colours = colours
        self._prefix = f"[{process}] " if process else ""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname:<7}"
        if self._colours and record.levelname in _COLOURS:
            level = f"{_COLOURS[record.levelname]}{level}\033[0m"
        name = record.name.removeprefix("ottla.")
        line = f"{self._prefix}{at}.{int(record.msecs):03d} {level} {name}  {one_line(scrubbed(record.getMessage()))}"
        trace = _trace(self, record)
        if trace is None:
            return line
        return "\n".join([line, *(f"{self._prefix}    {one_line(each)}" for each in trace.split("\n"))])


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": one_line(scrubbed(record.getMessage())),
        }
        if self._process:
            line["process"] = self._process
        for name, value in record.__dict__.items():
            if name not in _STANDARD:
                line.setdefault(name, _field(name, value))
        trace = _trace(self, record)
        if trace is not None:
            line["exception"] = trace
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)


def _field(name: str, value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return scrubbed(f"{name}={one_line(str(value))}").partition("=")[2]


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info:
        return None
    return scrubbed(formatter.formatException(record.exc_info))[: 4 * LINE_LIMIT]


class _Seen:
    __slots__ = ("count", "since_ms")

    def __init__(self, since_ms: float) -> None:
        self.since_ms = since_ms
        self.count = 0


class Repeats(logging.Filter):
    """Lets a message through REPEATS_LIMIT times a minute and says how many it held back."""

    def __init__(self, monotonic_ms: Callable[[], float], *, limit: int = REPEATS_LIMIT) -> None:
        super().__init__()
        self._monotonic_ms = monotonic_ms
        self._limit = limit
        self._seen: OrderedDict[tuple[str, int, str], _Seen] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == AUDIT_LOG:
            return True
        now_ms = self._monotonic_ms()
        key = (record.name, record.levelno, str(record.msg))
        seen = self._seen.setdefault(key, _Seen(now_ms))
        self._seen.move_to_end(key)
        if len(self._seen) > REPEATS_TABLE_LIMIT:
            self._seen.popitem(last=False)
        held_back = self._turn(seen, now_ms)
        seen.count += 1
        if held_back:
            record.msg, record.args = f"{record.getMessage()} (and {held_back} more like this were not written)", None
        elif seen.count == self._limit:
            record.msg, record.args = f"{record.getMessage()} (more like this are not written for a while)", None
        return seen.count <= self._limit

    def _turn(self, seen: _Seen, now_ms: float) -> int:
        """Begin a new minute when the old one is over; returns how many were held back in it."""
        if now_ms - seen.since_ms < REPEATS_WINDOW_MS:
            return 0
        held_back = max(0, seen.count - self._limit)
        seen.since_ms, seen.count = now_ms, 0
        return held_back
