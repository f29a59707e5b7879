"""What kafka-producer-perf-test prints: a line for each interval, and the result line at the end.

50000 records sent, 49701.8 records/sec (4.74 MB/sec), 3.1 ms avg latency, 120.0 ms max latency.
100000 records sent, 50150.451354 records/sec (4.78 MB/sec), 2.51 ms avg latency, ..., 5 ms 99.9th.
"""

from __future__ import annotations

import threading

from ottla.cli.latencies import Latencies
from ottla.cli.operations.load import MEGABYTE, result_line
from ottla.clock import Clock


class Figures:
    """Counts what was acknowledged; told from the thread of the producer."""

    def __init__(self, clock: Clock, interval_ms: int, *, steady: bool = False) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._kind = " steady state" if steady else ""
        self._lock = threading.Lock()
        self._started_ms = self._window_ms = clock.monotonic_ms()
        self._all, self._window = Latencies(), Latencies()
        self._all_bytes = self._window_bytes = 0
        self._windows = 0
        self._is_quiet = False

    def be_quiet(self) -> None:
        """No more lines for intervals: the steady figures have them now."""
        self._is_quiet = True

    def add(self, latency_ms: float, count: int, size_bytes: int) -> None:
        with self._lock:
            self._all.add(latency_ms, count)
            self._window.add(latency_ms, count)
            self._all_bytes += size_bytes
            self._window_bytes += size_bytes
            elapsed_ms = self._clock.monotonic_ms() - self._window_ms
            if elapsed_ms >= self._interval_ms:
                self._report(elapsed_ms)

    def _report(self, elapsed_ms: float) -> None:
        window, per_second = self._window, 1000 / elapsed_ms
        if self._kind and not self._windows:
            print("In steady state.")
        if not self._is_quiet:
            print(
                f"{window.count} records sent, {window.count * per_second:.1f} records/sec "
                f"({self._window_bytes * per_second / MEGABYTE:.2f} MB/sec), {window.mean_ms:.1f} ms avg latency, "
                f"{window.max_ms:.1f} ms max latency.",
                flush=True,
            )
        self._windows += 1
        self._window, self._window_bytes = Latencies(), 0
        self._window_ms = self._clock.monotonic_ms()

    def print_total(self) -> None:
        with self._lock:
            elapsed_ms = self._clock.monotonic_ms() - self._started_ms
            print(result_line(self._all, elapsed_ms, self._all_bytes, self._kind), flush=True)
