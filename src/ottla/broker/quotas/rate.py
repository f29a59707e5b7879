"""How fast something happens, measured in sampled windows exactly as Kafka measures it for its quotas.

    rate = SampledRate(samples=11, window_ms=1000)
    rate.record(size_bytes, now_ms)
    rate.wait_ms(1_000_000, now_ms)         # until the rate is back at 1 MB/s; 0 when it is not above

1. Values are added up in samples of `window_ms`; a sample begins with the first value after the one before is full. So
   times without values belong to no sample, and still count as time. The rate is the sum of all samples by the time
   since the oldest began, but by at least `samples - 1` windows: the first megabyte is no rate of thousands.
2. A sample leaves when its last value is `samples` windows old; one that overlaps the measured time counts whole.
3. To bring a rate O over the time W down to T takes X with O * W / (W + X) = T: X = (O - T) / T * W.
4. Every request is recorded, so that costs one addition as long as the current sample is running: `added` is its value,
   `before` the sum of all others. They are worked out anew when a sample ends or leaves, once in a window.
5. The property tests hold this file against a plain model, and against the classes of Kafka's own jar.
"""

from __future__ import annotations

import math


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: float) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0

    def reset(self, now_ms: float) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """The rate of one thing. Samples are reused in a ring, one more than asked for: the one that overlaps."""

    __slots__ = (
        "_current",
        "_oldest_ms",
        "_ring",
        "_sample",
        "_samples",
        "_window_ms",
        "added",
        "before",
        "last_ms",
        "least_ms",
        "steady_until_ms",
    )

    def __init__(self, *, samples: int, window_ms: float) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self.least_ms = (samples - 1) * window_ms
        self._ring: list[_Sample] = []
        self._current = 0
        self._sample = _Sample(0.0)  # the current one; its value and its last time are in `added` and `last_ms`
        self._oldest_ms = 0.0
        self.added = 0.0
        """The value of the current sample."""
        self.last_ms = 0.0
        """When something was added to it."""
        self.before = 0.0
        """The sum of all other samples."""
        self.steady_until_ms = -math.inf
        """No sample ends or leaves before."""

    @property
    def total(self) -> float:
        return self.before + self.added

    def record(self, value: float, now_ms: float) -> None:
        """Add a value; a negative one takes back what was recorded before."""
        if now_ms < self.steady_until_ms:
            self.added += value
            self.last_ms = now_ms
            return
        self._advance(now_ms)
        self.added += value
        self.last_ms = now_ms
        self._purge(now_ms)

    def wait_ms(self, limit_per_second: float, now_ms: float) -> float:
        """How long nothing may be recorded until the rate is at the limit; 0 when it is not above it."""
        if self.total * 1000 <= limit_per_second * self.least_ms:
            return 0.0  # as it is divided by at least that time
        elapsed_ms = self.elapsed_ms(now_ms)
        observed = self.total * 1000 / elapsed_ms
        return (observed - limit_per_second) / limit_per_second * elapsed_ms if observed > limit_per_second else 0.0

    def per_second(self, now_ms: float) -> float:
        elapsed_ms = self.elapsed_ms(now_ms)
        return self.total * 1000 / elapsed_ms

    def elapsed_ms(self, now_ms: float) -> float:
        """The time that the samples stand for."""
        self.forget_old(now_ms)
        elapsed_ms = now_ms - self._oldest_ms
        missing = self._samples - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return max(elapsed_ms, 1.0)

    def forget_old(self, now_ms: float) -> None:
        """Let `total` be that of now."""
        if now_ms >= self.steady_until_ms:
            self._purge(now_ms)

    def _begin(self, now_ms: float) -> None:
        if not self._ring:
            self._ring.append(_Sample(now_ms))
            self._run(self._ring[0])

    def _run(self, sample: _Sample) -> None:
        """This is the current sample."""
        self._sample = sample
        self.added, self.last_ms = sample.value, sample.last_ms

    def _note(self) -> None:
        """Write down what was added to the current sample."""
        self._sample.value, self._sample.last_ms = self.added, self.last_ms

    def _advance(self, now_ms: float) -> None:
        """Begin the next sample when the current one is full."""
        self._begin(now_ms)
        if now_ms - self._sample.start_ms < self._window_ms:
            return
        self._note()
        self._current = (self._current + 1) % (self._samples + 1)
        if self._current == len(self._ring):
            self._ring.append(_Sample(now_ms))
        else:
            self._ring[self._current].reset(now_ms)
        self._run(self._ring[self._current])

    def _purge(self, now_ms: float) -> None:
        """Forget samples without a recent value, and find out until when nothing of that kind happens again."""
        self._begin(now_ms)
        self._note()
        age_ms = self._samples * self._window_ms
        for sample in self._ring:
            if now_ms - sample.last_ms >= age_ms:
                sample.reset(now_ms)
        self._run(self._sample)
        self.before = math.fsum(sample.value for sample in self._ring if sample is not self._sample)
        self._oldest_ms = min(sample.start_ms for sample in self._ring)
        next_leaves_ms = min(sample.last_ms for sample in self._ring) + age_ms
        self.steady_until_ms = min(next_leaves_ms, self._sample.start_ms + self._window_ms)
