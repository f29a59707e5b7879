"""Partitions that come and go at a client's request spend the tokens of its quota (KIP-599).

    quota = mutation_quota(context.charges, request, context.api_version, monotonic_ms)
    plan = await broker.link.change(lambda image: create_topics(image, request, quota.rules(broker.topic_rules), ...))
    return quota.throttled(CreateTopicsResponse(topics=plan.answers))

1. Strict, for clients that know the error: as long as there are tokens, any number of partitions may come and go at
   once; when there are none, a topic is refused with THROTTLING_QUOTA_EXCEEDED.
2. Permissive, for older clients: nothing is refused, and who has spent too much is not heard for a while.
3. The answer says how long to wait from now on. A plan may be made again when somebody else was faster; it then spends
   what it would have spent at first, not twice.
4. A request that this broker passes on to the controller is counted here as well, when its answer says what came of it
   (`is_exhausted`, `forwarded`): a controller of Apache Kafka does not know whose request it was.
5. A topic that is made because a client asked for it counts as if the client had created it, strictly
   (`quota_of_creation`): without tokens it is not made, and the client is told what it is told anyway, to ask again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from ottla.broker.quotas.charges import Charges
from ottla.broker.quotas.meters import BucketMeter
from ottla.cluster.image import ClusterImage
from ottla.cluster.topics import TopicRules
from ottla.errors import ThrottlingQuotaExceeded
from ottla.light_dataclasses import replace
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.schema import Message

STRICT_SINCE: dict[type[Message], int] = {CreateTopicsRequest: 6, DeleteTopicsRequest: 5, CreatePartitionsRequest: 3}
_RESULTS = ("topics", "responses", "results")

R = TypeVar("R", bound=Message)


class MutationQuota:
    """The quota of one request; without a meter it limits nothing."""

    def __init__(self, meter: BucketMeter | None, *, is_strict: bool, monotonic_ms: Callable[[], float]) -> None:
        self._meter = meter
        self._is_strict = is_strict
        self._monotonic_ms = monotonic_ms
        self._spent = 0
        self._wait_until_ms = -math.inf

    def rules(self, rules: TopicRules) -> TopicRules:
        """The rules with this quota, for a plan that begins now."""
        if self._meter is None:
            return rules
        self._meter.spend(-self._spent, self._monotonic_ms())
        self._spent = 0
        return replace(rules, use_quota=self.take)

    def take(self, partitions: int) -> None:
        """So many partitions come or go; ThrottlingQuotaExceeded when they may not."""
        if self._meter is None:
            return
        now_ms = self._monotonic_ms()
        if self._is_strict and self._must_wait(self._meter, now_ms):
            raise ThrottlingQuotaExceeded
        self._meter.spend(partitions, now_ms)
        self._spent += partitions
        if not self._is_strict:
            self._must_wait(self._meter, now_ms)

    @property
    def is_exhausted(self) -> bool:
        """Whether a strict quota refuses everything now."""
        if self._meter is None or not self._is_strict:
            return False
        return self._meter.wait_ms(self._monotonic_ms()) > 0

    def throttled(self, response: R) -> R:
        """The answer, with the time that its client must wait."""
        now_ms = self._monotonic_ms()
        wait_ms = max(0, math.floor(self._wait_until_ms - now_ms + 0.5)) if self._wait_until_ms > now_ms else 0
        if wait_ms and self._meter is not None:
            self._meter.throttled.record(wait_ms, now_ms)
            response.throttle_time_ms = max(wait_ms, response.throttle_time_ms)  # type: ignore[attr-defined]
        return response

    def forwarded(self, response: R, before: ClusterImage, after: ClusterImage) -> R:
        """The controller's answer: what has come or gone by it is counted."""
        if self._meter is None:
            return response
        self._meter.spend(changed_partitions(response, before, after), self._monotonic_ms())
        if not self._is_strict:
            self._must_wait(self._meter, self._monotonic_ms())
        return self.throttled(response)

    def _must_wait(self, meter: BucketMeter, now_ms: float) -> bool:
        wait_ms = meter.wait_ms(now_ms)
        if wait_ms:
            self._wait_until_ms = now_ms + wait_ms
        return wait_ms > 0


def mutation_quota(
    charges: Charges | None, request: Message, version: int, monotonic_ms: Callable[[], float]
) -> MutationQuota:
    """The quota of whoever sent this request."""
    meter = None if charges is None else charges.mutation
    return MutationQuota(meter, is_strict=version >= STRICT_SINCE[type(request)], monotonic_ms=monotonic_ms)


def quota_of_creation(meter: BucketMeter | None, monotonic_ms: Callable[[], float]) -> MutationQuota:
    """The quota of a client that has topics made by asking for them."""
    return MutationQuota(meter, is_strict=True, monotonic_ms=monotonic_ms)


def changed_partitions(response: Message, before: ClusterImage, after: ClusterImage) -> int:
    """How many partitions came or went of the topics that an answer names without an error."""
    results = [each for name in _RESULTS for each in getattr(response, name, ())]
    names = {before.topic_name(getattr(each, "topic_id", b"")) or each.name for each in results if not each.error_code}
    return sum(abs(_count(after, name) - _count(before, name)) for name in names if name)


def _count(image: ClusterImage, name: str) -> int:
    topic = image.topic(name)
    return 0 if topic is None else len(topic.partitions)
