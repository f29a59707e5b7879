"""Telemetry of clients: answers what they ask, takes in what they push, keeps both within bounds.

1. INSTANCES_LIMIT clients are known at a time, those that were heard last; who has said nothing for three intervals (a
   minute at least) is forgotten with its numbers. TOTAL_SERIES series are kept of all of them together.
2. The subscriptions are read from the cluster's image when one of them has changed; a client's own is made anew when it
   comes next.
3. What cannot be unpacked or read is INVALID_RECORD, and nothing of it is kept. Unpacked it may have as many bytes as
   packed (telemetry.max.bytes), as in Kafka, so that a small request cannot become a large one.
4. Who ends says so with its last push; its numbers are gone then, and it may push nothing more.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.telemetry.instances import ClientInstance
from ottla.broker.telemetry.received import SERIES_LIMIT
from ottla.broker.telemetry.subscriptions import ClientFacts, Subscription, subscriptions_of, wanted_of
from ottla.cluster.model import ConfigResource, ResourceType
from ottla.cluster.shared_map import SharedMap
from ottla.errors import CorruptMessage, InvalidRecord, InvalidRequest, UnknownSubscriptionId
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.protocol.otlp.reading import read_points
from ottla.protocol.otlp.wire import MalformedOtlp
from ottla.records.compression import decompress
from ottla.values import ZERO_UUID, random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.requests.context import RequestContext
    from ottla.cluster.image import ClusterImage

log = logging.getLogger(__name__)

INSTANCES_LIMIT: Final = 16_384
TOTAL_SERIES: Final = 50_000
_RESERVED: Final = frozenset({ZERO_UUID, b"\0" * 15 + b"\1"})


class ClientTelemetry:
    """`limit_bytes` is telemetry.max.bytes as it holds now."""

    def __init__(
        self,
        *,
        image: Callable[[], ClusterImage],
        limit_bytes: Callable[[], int],
        monotonic_ms: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._image = image
        self.limit_bytes = limit_bytes
        self._monotonic_ms = monotonic_ms
        self._random_bytes = random_bytes
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._subscriptions: list[Subscription] = []
        self._version = 0  # how often they have changed
        self._read_from: SharedMap[ConfigResource, Mapping[str, str]] = SharedMap()
        self._series_count = 0
        self.unknown_subscription_count = 0
        self.left_out_count = 0

    # --- what clients ask and push ---

    def ask(self, instance_id: bytes, context: RequestContext) -> tuple[bytes, ClientInstance]:
        """Its id, a new one where it has none, and what it is asked for now."""
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(self._random_bytes)
        now_ms = self._monotonic_ms()
        instance = self._instance(instance_id, context, now_ms)
        instance.ask(now_ms)
        return instance_id, instance

    def push(self, request: PushTelemetryRequest, context: RequestContext) -> None:
        if request.client_instance_id in _RESERVED:
            raise InvalidRequest("a client that pushes metrics has an id of its own")
        now_ms, limit_bytes = self._monotonic_ms(), self.limit_bytes()
        instance = self._instance(request.client_instance_id, context, now_ms)
        try:
            size_bytes = len(request.metrics)
            codec, ends = request.compression_type, request.terminating
            instance.push(request.subscription_id, codec, size_bytes, limit_bytes, ends, now_ms)
        except UnknownSubscriptionId:
            self.unknown_subscription_count += 1
            raise
        finally:
            if instance.is_terminating:
                self._forget_numbers(instance)
        if size_bytes:
            self._take_in(instance, request, limit_bytes)

    def _take_in(self, instance: ClientInstance, request: PushTelemetryRequest, limit_bytes: int) -> None:
        try:
            content = decompress(request.compression_type, request.metrics, limit_bytes)
            points, left_out = read_points(memoryview(content), 2 * SERIES_LIMIT)
        except (CorruptMessage, MalformedOtlp) as problem:
            instance.failed_count += 1
            instance.last_error = InvalidRecord.code
            log.info("metrics of the client %s cannot be read: %s", instance.facts.client_instance_id, problem)
            raise InvalidRecord("these are no metrics of OpenTelemetry") from None
        instance.pushed_count += 1
        self.left_out_count += left_out
        if instance.is_terminating:
            return
        received = instance.received
        series_before, left_out_before = len(received), received.left_out_count
        received.take_in(points, TOTAL_SERIES - self._series_count)
        self._series_count += len(received) - series_before
        self.left_out_count += received.left_out_count - left_out_before

    # --- who is known ---

    def clients(self) -> Iterator[ClientInstance]:
        """Those that were heard and have not ended, the last one last."""
        self._forget_silent(self._monotonic_ms())
        return (each for each in list(self._instances.values()) if not each.is_terminating)

    def _instance(self, instance_id: bytes, context: RequestContext, now_ms: float) -> ClientInstance:
        self._read_subscriptions()
        instance = self._instances.get(instance_id)
        if instance is None:
            self._forget_silent(now_ms)
            if len(self._instances) >= INSTANCES_LIMIT:
                self._forget(next(iter(self._instances)))
            facts = _facts(instance_id, context)
            instance = ClientInstance(facts, context.principal, wanted_of(facts, self._subscriptions))
            self._instances[instance_id] = instance
        elif instance.version != self._version:
            instance.replace_wanted(wanted_of(instance.facts, self._subscriptions))
        instance.version = self._version
        self._instances.move_to_end(instance_id)
        instance.seen(now_ms)
        return instance

    def _read_subscriptions(self) -> None:
        configs = self._image().configs
        if configs is self._read_from:
            return
        changed, self._read_from = configs.differences(self._read_from), configs
        if any(each.type == ResourceType.CLIENT_METRICS for each in changed):
            self._subscriptions = subscriptions_of(self._image())
            self._version += 1

    def _forget_silent(self, now_ms: float) -> None:
        """Those at the front, which were heard longest ago."""
        while self._instances:
            first = next(iter(self._instances))
            if self._instances[first].expires_ms > now_ms:
                return
            self._forget(first)

    def _forget(self, instance_id: bytes) -> None:
        self._forget_numbers(self._instances.pop(instance_id))

    def _forget_numbers(self, instance: ClientInstance) -> None:
        self._series_count -= len(instance.received)
        instance.received.forget()


def _facts(instance_id: bytes, context: RequestContext) -> ClientFacts:
    connection = context.connection
    software = ("unknown", "unknown") if connection is None else connection.client_software
    port = "" if connection is None else str(connection.port)
    return ClientFacts(uuid_to_text(instance_id), context.client_id, *software, context.client_host, port)
