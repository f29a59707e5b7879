"""Asks brokers what they want to know of this client, and pushes it: machine.py decides, this file acts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.client.telemetry.machine import Next, PushMachine
from ottla.client.telemetry.numbers import Numbers
from ottla.errors import OttlaError, UnsupportedVersion
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.protocol.otlp.writing import write_points
from ottla.records.compression import Compression, compress
from ottla.values import uuid_to_text

if TYPE_CHECKING:
    from ottla.client.network import NetworkClient
    from ottla.client.settings import ClientSettings
    from ottla.metrics import Registry

log = logging.getLogger(__name__)

_ABOUT: Final = ("client.rack", "group.id", "group.instance.id", "transactional.id")
"""Settings that say who this client is; they go with its numbers, as Java's do."""


class Pushing:
    def __init__(self, network: NetworkClient, registry: Registry, settings: ClientSettings) -> None:
        self._network = network
        self._clock = network.clock
        self._registry = registry
        values = settings.as_dict()
        self._about = [(name.replace(".", "_"), str(values[name])) for name in _ABOUT if values.get(name)]
        self._machine = PushMachine(self._clock.monotonic_ms(), network.random)
        self._numbers = Numbers(self._now_ns())
        self.has_pushed = False  # a broker may know numbers of this client

    async def run(self) -> None:
        """Until nobody wants it, or cancelled."""
        machine = self._machine
        while machine.next is not Next.STOP:
            await self._clock.sleep(max(0.0, machine.due_ms - self._clock.monotonic_ms()))
            try:
                await (self._ask() if machine.next is Next.ASK else self.push())
            except UnsupportedVersion:
                log.debug("the brokers collect no metrics of clients")
                machine.stop()
            except OttlaError as error:
                log.debug("no broker could be asked about metrics: %s", error)
                machine.failed(self._clock.monotonic_ms())

    async def _ask(self) -> None:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self._machine.instance_id)
        answer: GetTelemetrySubscriptionsResponse = await self._network.ask_any(request)
        self._machine.asked(answer, self._clock.monotonic_ms())
        log.debug(
            "client instance %s is asked for %s", uuid_to_text(self._machine.instance_id), answer.requested_metrics
        )

    async def push(self, *, is_last: bool = False) -> None:
        subscription = self._machine.subscription
        assert subscription is not None, "pushing comes after asking"
        codec = _codec(subscription.accepted_compression_types)
        content = compress(codec, self._content(subscription))
        if len(content) > subscription.telemetry_max_bytes:
            log.warning("%d bytes of metrics are more than the brokers take; they are not pushed", len(content))
            self._machine.failed(self._clock.monotonic_ms())
            return
        request = PushTelemetryRequest(
            client_instance_id=self._machine.instance_id,
            subscription_id=subscription.subscription_id,
            terminating=is_last,
            compression_type=codec,
            metrics=content,
        )
        self.has_pushed = True  # before the answer: who is closed while it waits has to say that it ends, too
        answer: PushTelemetryResponse = await self._network.ask_any(request)
        if answer.error_code == 0:
            self._numbers.accepted()
        self._machine.pushed(answer.error_code, self._clock.monotonic_ms())

    def _content(self, subscription: GetTelemetrySubscriptionsResponse) -> bytes:
        snapshot = self._registry.snapshot(self._clock.monotonic_ms())
        points = self._numbers.points(
            snapshot, subscription.requested_metrics, as_deltas=subscription.delta_temporality, now_ns=self._now_ns()
        )
        return write_points(points, self._about)

    def _now_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000


def _codec(accepted: list[int]) -> Compression:
    """The first that the broker names; none where it knows only what we do not."""
    return next((Compression(each) for each in accepted if each in tuple(Compression)), Compression.NONE)
