"""A client says that it ends to whoever may know its numbers."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.client.settings import ClientSettings
from ottla.client.telemetry import push
from ottla.clock import SystemClock
from ottla.metrics import Registry
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


class SlowToAnswer:
    """A network whose broker takes a first push in and answers it only when it is asked again."""

    clock, random = SystemClock(), Random(1)

    def __init__(self) -> None:
        self.pushes: list[PushTelemetryRequest] = []
        self.has_come = asyncio.Event()

    async def ask_any(self, request: Any) -> Any:
        if isinstance(request, GetTelemetrySubscriptionsRequest):
            return GetTelemetrySubscriptionsResponse(
                error_code=0,
                client_instance_id=b"i" * 16,
                subscription_id=7,
                accepted_compression_types=[],
                push_interval_ms=1,
                telemetry_max_bytes=1 << 20,
                delta_temporality=True,
                requested_metrics=["*"],
            )
        self.pushes.append(request)
        self.has_come.set()
        if not request.terminating:
            await asyncio.Event().wait()
        return PushTelemetryResponse(error_code=0)


def test_who_is_closed_while_its_first_push_waits_says_that_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "FIRST_ASK_MS", 0.0)

    async def story() -> list[bool]:
        network = SlowToAnswer()
        pushing = push.MetricsPush(network, Registry(), ClientSettings({"bootstrap.servers": "x:1"}))  # type: ignore[arg-type]
        pushing.start()
        await asyncio.wait_for(network.has_come.wait(), HANG_S)
        await pushing.close(HANG_S * 1000)
        return [each.terminating for each in network.pushes]

    assert asyncio.run(story()) == [False, True]
