"""When a pipeline's process is started, and when it is started again: decided here, done elsewhere.

    WAITING ──start──► RUNNING ──ended──► WAITING (after a while) ──► ...
       │                  │ stop
       └──────stop──► STOPPED ◄──ended── STOPPING

1. A process that ends although nobody asked is started again after BACK_OFF_S, twice that the next time, at most
   BACK_OFF_MAX_S. One that has done a batch, or has run for HEALTHY_S, begins with BACK_OFF_S again.
2. Asked to stop, it has STOP_LIMIT_S for its batch; then it is killed, and the batch is repeated by the next run.
3. Time is an argument, in seconds that never go back.
"""

from __future__ import annotations

import enum
from typing import Final

BACK_OFF_S: Final = 1.0
BACK_OFF_MAX_S: Final = 60.0
HEALTHY_S: Final = 60.0
STOP_LIMIT_S: Final = 60.0


class Phase(enum.Enum):
    """What a pipeline's process does."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Action(enum.Enum):
    """What is to be done with the process now."""

    START = "start"
    STOP = "stop"
    KILL = "kill"


class Supervision:
    """One pipeline."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.phase = Phase.WAITING
        self.restarts = 0
        self.start_at_s = now_s
        self._begun_s = now_s
        self._failures = 0
        self._stop_asked = False
        self._kill_at_s: float | None = None

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.STOPPED

    def due(self, now_s: float) -> Action | None:
        """What is to be done now, once."""
        if self.phase is Phase.WAITING and self._stop_asked:
            self.phase = Phase.STOPPED
        elif self.phase is Phase.WAITING and now_s >= self.start_at_s:
            self.phase, self._begun_s = Phase.RUNNING, now_s
            return Action.START
        elif self.phase is Phase.RUNNING and self._stop_asked:
            self.phase, self._kill_at_s = Phase.STOPPING, now_s + STOP_LIMIT_S
            return Action.STOP
        elif self.phase is Phase.STOPPING and self._kill_at_s is not None and now_s >= self._kill_at_s:
            self._kill_at_s = None
            return Action.KILL
        return None

    def stop(self) -> None:
        """From now on it shall not run."""
        self._stop_asked = True

    def ended(self, now_s: float, *, has_progress: bool) -> None:
        """The process is gone; `has_progress` when it had done a batch."""
        if self.phase is Phase.STOPPING or self._stop_asked:
            self.phase = Phase.STOPPED
            return
        if has_progress or now_s - self._begun_s >= HEALTHY_S:
            self._failures = 0
        self.phase = Phase.WAITING
        self.start_at_s = now_s + min(BACK_OFF_MAX_S, BACK_OFF_S * 2**self._failures)
        self._failures += 1
        self.restarts += 1
