"""A progress line on stderr while something long is done.

1. Only on a terminal: in a pipe or a log file nothing is written.
2. At most ten times a second, however often it is told; the time comes from a clock that is an argument.
3. The line is taken away at the end, so that what stays is the result.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Final, Self, TextIO

from ottla.cli.show import shown_duration, shown_size
from ottla.clock import SystemClock

INTERVAL_MS: Final = 100.0
BAR_CELLS: Final = 24
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


class Progress:
    """One line that grows; use as a context manager."""

    def __init__(
        self,
        name: str,
        *,
        total: float | None = None,
        unit: str = "",
        stream: TextIO | None = None,
        monotonic_ms: Callable[[], float] | None = None,
    ) -> None:
        self._name = name
        self._total = total
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._now_ms = SystemClock().monotonic_ms if monotonic_ms is None else monotonic_ms
        self._live = self._stream.isatty()
        self._done = 0.0
        self._started_ms = self._now_ms()
        self._drawn_ms = self._started_ms - INTERVAL_MS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def advance(self, amount: float = 1, note: str = "") -> None:
        """So much more is done."""
        self.reach(self._done + amount, note)

    def reach(self, done: float, note: str = "") -> None:
        """So much is done in all."""
        self._done = done
        now_ms = self._now_ms()
        if self._live and now_ms - self._drawn_ms >= INTERVAL_MS:
            self._drawn_ms = now_ms
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\033[K" + self.text(now_ms, note)[:width])
            self._stream.flush()

    def text(self, now_ms: float, note: str = "") -> str:
        """The line as it is now."""
        seconds = max(now_ms - self._started_ms, 1.0) / 1000
        rate = self._done / seconds
        parts = [self._name]
        if self._total:
            share = min(self._done / self._total, 1.0)
            parts += [bar(share), f"{share:4.0%}"]
        parts.append(f"{self._amount(self._done)}, {self._amount(rate)}/s")
        if self._total and rate and self._done < self._total:
            parts.append(f"{shown_duration((self._total - self._done) / rate)} left")
        return "  ".join([*parts, note] if note else parts)

    def _amount(self, amount: float) -> str:
        return shown_size(amount) if self._unit == "B" else f"{amount:,.0f} {self._unit}".rstrip()


def bar(share: float, cells: int = BAR_CELLS) -> str:
    """A bar that is filled up to `share`, in eighths of a cell."""
    eighths = round(share * cells * 8)
    full, part = divmod(eighths, 8)
    filled = "█" * full + (_EIGHTHS[part] if part else "")
    return f"[{filled:<{cells}}]"
