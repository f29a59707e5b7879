"""Whether a process that ended is started again, and after which pause; no clock, no processes.

1. The first time at once, then with pauses that double up to LONGEST_PAUSE_MS: its partitions are led by others
   meanwhile, and a fault that comes back must not take the machine.
2. After LIMIT ends within WINDOW_MS it is given up: what it has is damaged or the machine lacks something, and somebody
   must look. One that served for the whole window begins anew.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LIMIT: Final = 6
WINDOW_MS: Final = 60_000.0
FIRST_PAUSE_MS: Final = 250.0
LONGEST_PAUSE_MS: Final = 4_000.0


class Restarts:
    """The ends of one process."""

    def __init__(self) -> None:
        self.count = 0
        self._ends_ms: deque[float] = deque(maxlen=LIMIT)

    def pause_ms(self, now_ms: float) -> float | None:
        """The process ended now: when it is started again, None for never."""
        while self._ends_ms and now_ms - self._ends_ms[0] > WINDOW_MS:
            self._ends_ms.popleft()
        self._ends_ms.append(now_ms)
        ends = len(self._ends_ms)
        if ends >= LIMIT:
            return None
        self.count += 1
        return 0.0 if ends == 1 else float(min(FIRST_PAUSE_MS * 2 ** (ends - 2), LONGEST_PAUSE_MS))
