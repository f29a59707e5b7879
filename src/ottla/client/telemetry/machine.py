"""When a client asks what it should push, and when it pushes: decided without a socket or a clock.

    ASK ──answered──► PUSH ──accepted──► PUSH ...         after its interval
     ▲                 │
     └──── refused ────┘                                  at once for a new subscription or compression, else later

1. The first push comes after half to one and a half intervals, by chance, so that a thousand clients that heard of a
   subscription in the same instant do not push in the same instant.
2. Who is asked for nothing asks again after the interval. Who hears nothing asks again after five minutes.
3. What cannot get better (a broker that knows no telemetry, a request that it finds wrong) ends it.
"""

from __future__ import annotations

import enum
from typing import Final

from ottla.errors import (
    NONE,
    InvalidRecord,
    InvalidRequest,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
    UnsupportedVersion,
)
from ottla.net.retries import RandomSource
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ottla.values import ZERO_UUID

SILENCE_MS: Final = 300_000.0
_ASK_AT_ONCE: Final = frozenset({UnknownSubscriptionId.code, UnsupportedCompressionType.code})
_HOPELESS: Final = frozenset({InvalidRequest.code, InvalidRecord.code, UnsupportedVersion.code})


class Next(enum.Enum):
    """What is due."""

    ASK = "ask"
    PUSH = "push"
    STOP = "stop"


class PushMachine:
    def __init__(self, now_ms: float, random: RandomSource) -> None:
        self.next = Next.ASK
        self.due_ms = now_ms
        self.instance_id = ZERO_UUID
        self.subscription: GetTelemetrySubscriptionsResponse | None = None
        self._random = random

    @property
    def interval_ms(self) -> float:
        return SILENCE_MS if self.subscription is None else float(self.subscription.push_interval_ms)

    def asked(self, answer: GetTelemetrySubscriptionsResponse, now_ms: float) -> None:
        if answer.error_code != NONE:
            self._refused(answer.error_code, now_ms)
            return
        self.subscription, self.instance_id = answer, answer.client_instance_id
        if answer.requested_metrics:
            self._plan(Next.PUSH, now_ms + self.interval_ms * (0.5 + self._random.random()))
        else:
            self._plan(Next.ASK, now_ms + self.interval_ms)

    def pushed(self, error_code: int, now_ms: float) -> None:
        if error_code == NONE:
            self._plan(Next.PUSH, now_ms + self.interval_ms)
        else:
            self._refused(error_code, now_ms)

    def failed(self, now_ms: float) -> None:
        """Nobody answered."""
        self._plan(Next.ASK, now_ms + self.interval_ms)

    def stop(self) -> None:
        self.next = Next.STOP

    def _refused(self, error_code: int, now_ms: float) -> None:
        if error_code in _HOPELESS:
            self.next = Next.STOP
        else:
            self._plan(Next.ASK, now_ms + (0.0 if error_code in _ASK_AT_ONCE else self.interval_ms))

    def _plan(self, what: Next, due_ms: float) -> None:
        self.next, self.due_ms = what, due_ms
