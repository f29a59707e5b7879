"""One client as telemetry knows it, and when it may ask or push: Kafka's rules, without a clock of their own.

    asks    GetTelemetrySubscriptions. Not before the interval is over since it last asked or pushed, unless its last
            push was refused for a reason that asking again cures (another subscription, another compression).
    pushes  PushTelemetry. Once after every asking, then not before the interval is over since the last push; a client
            that ends may push at any time, once, and nothing after that.

A refusal is raised (ThrottlingQuotaExceeded and the others), and nothing else changes by it.
"""

from __future__ import annotations

import math
from typing import Final

from ottla.broker.telemetry.received import ReceivedMetrics
from ottla.broker.telemetry.subscriptions import ClientFacts, Wanted
from ottla.errors import (
    NONE,
    BrokerError,
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from ottla.records.compression import Compression

EXPIRY_MS: Final = 60_000.0
_CURED_BY_ASKING: Final = frozenset({UnknownSubscriptionId.code, UnsupportedCompressionType.code})


class ClientInstance:
    """`principal` is who it logged in as; times are monotonic milliseconds."""

    def __init__(self, facts: ClientFacts, principal: str, wanted: Wanted) -> None:
        self.facts = facts
        self.principal = principal
        self.wanted = wanted
        self.received = ReceivedMetrics()
        self.version = 0  # of the subscriptions that `wanted` was made of
        self.is_terminating = False
        self.last_error = NONE
        self.throttled_count = self.pushed_count = self.failed_count = 0
        self.expires_ms = 0.0
        self._asked_ms = self._pushed_ms = -math.inf

    def seen(self, now_ms: float) -> None:
        self.expires_ms = now_ms + max(EXPIRY_MS, 3 * self.wanted.interval_ms)

    def replace_wanted(self, wanted: Wanted) -> None:
        """The subscriptions have changed: what it is asked for counts from now on, and it may ask at once."""
        if wanted != self.wanted:
            self.wanted = wanted
            self._asked_ms = self._pushed_ms = -math.inf
            self.last_error = NONE

    def ask(self, now_ms: float) -> None:
        is_due = now_ms - max(self._asked_ms, self._pushed_ms) >= self.wanted.interval_ms
        if is_due:
            self._asked_ms = now_ms
        elif self.last_error not in _CURED_BY_ASKING:
            raise self._too_early()
        self.last_error = NONE

    def push(
        self, subscription_id: int, codec: int, size_bytes: int, limit_bytes: int, ends: bool, now_ms: float
    ) -> None:
        """Check what is about to be taken in; who said that it ends is believed even when it is refused."""
        try:
            self._check_time(ends, now_ms)
            self._check_content(subscription_id, codec, size_bytes, limit_bytes)
        except BrokerError as refusal:
            self.last_error = refusal.code
            raise
        finally:
            self.is_terminating = self.is_terminating or ends
        self.last_error = NONE

    def _check_time(self, ends: bool, now_ms: float) -> None:
        if self.is_terminating:
            raise InvalidRequest(f"the client {self.facts.client_instance_id} has said that it ends")
        if self._asked_ms > self._pushed_ms or now_ms - self._pushed_ms >= self.wanted.interval_ms:
            self._pushed_ms = now_ms
        elif not ends:
            raise self._too_early()

    def _check_content(self, subscription_id: int, codec: int, size_bytes: int, limit_bytes: int) -> None:
        name = self.facts.client_instance_id
        if subscription_id != self.wanted.id:
            raise UnknownSubscriptionId(f"the subscription {subscription_id} is none of the client {name}")
        if codec not in tuple(Compression):
            raise UnsupportedCompressionType(f"the client {name} sent metrics in the unknown compression {codec}")
        if size_bytes > limit_bytes:
            raise TelemetryTooLarge(f"{size_bytes} bytes of metrics of the client {name}, {limit_bytes} are allowed")

    def _too_early(self) -> ThrottlingQuotaExceeded:
        self.throttled_count += 1
        return ThrottlingQuotaExceeded(f"the client {self.facts.client_instance_id} came before its interval was over")
