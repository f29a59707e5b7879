"""How long a background job must wait so that it does not read and write more than it may in a second.

1. It returns how long to wait and never sleeps. The caller passes the time.
2. Work is booked after it was done, at the rate that is allowed; the next piece may begin when the last is paid for.
   So a big piece is followed by a long wait, and a rest is not saved up for later.
"""

from __future__ import annotations


class IoThrottle:
    """A rate that is kept by waiting."""

    def __init__(self, bytes_per_second: float) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"a rate must be above 0 bytes per second, not {bytes_per_second}")
        self.bytes_per_second = bytes_per_second
        self._paid_until_ms = 0.0

    def spend(self, moved_bytes: int, now_ms: int) -> int:
        """Book what was moved; returns how many milliseconds to wait before more is."""
        # A clock that went back far must not make anybody wait for what it showed before.
        begun_ms = min(max(self._paid_until_ms, now_ms), now_ms + 1000.0)
        self._paid_until_ms = begun_ms + moved_bytes * 1000.0 / self.bytes_per_second
        return max(0, round(self._paid_until_ms - now_ms))
