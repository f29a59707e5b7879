"""Metrics and health as routes of the door, for brokers that have it; observe/admin_http.py has them for all others.

Without ottla.admin.login there is nobody whose rights could be asked: metrics are for whoever reaches the listener, as
they are without the door, so that installing the console does not end anybody's scraping.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from ottla.broker.http.call import Call
from ottla.broker.http.parts import PUBLIC, TEXT, Part, Reply, Route, may
from ottla.broker.observe.admin_http import Watch
from ottla.broker.requests.running import next_turn
from ottla.broker.security.needs import Need
from ottla.metrics import CONTENT_TYPE
from ottla.protocol.access import AclOperation, AclResource

DESCRIBE_CLUSTER: Final = Need(AclOperation.DESCRIBE, AclResource.CLUSTER)


def watch_part(watch: Watch, *, has_login: bool) -> Part:
    async def metrics(call: Call) -> Reply:
        await watch.prepare()
        for _ in watch.update():
            await next_turn()
        content = bytearray()
        for piece in watch.metrics():
            content += piece.encode()
            await next_turn()
        return Reply(content=bytes(content), content_type=CONTENT_TYPE)

    async def live(call: Call) -> Reply:
        return Reply(content=b"live\n", content_type=TEXT)

    async def ready(call: Call) -> Reply:
        reason = watch.not_ready_because()
        if reason is None:
            return Reply(content=f"ready{watch.ready_but()}\n".encode(), content_type=TEXT)
        detail = f": {reason}" if call.is_known else ""
        return Reply(None, HTTPStatus.SERVICE_UNAVAILABLE, f"not ready{detail}\n".encode(), TEXT)

    right = may(DESCRIBE_CLUSTER) if has_login else PUBLIC
    return Part(
        "watch",
        (
            Route("GET", "/metrics", metrics, right, "All metrics, for Prometheus.", any_host=True),
            Route("GET", "/health/live", live, PUBLIC, "200 as long as the loop turns.", any_host=True),
            Route("GET", "/health/ready", ready, PUBLIC, "200 when clients are served, 503 when not.", any_host=True),
        ),
    )
