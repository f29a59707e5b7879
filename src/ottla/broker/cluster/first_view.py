"""When does a broker that has just registered know enough of its cluster to answer clients?

A view is complete when it has this broker among the brokers, a controller that is one of them, and every topic there
was when the broker registered. A client that asks for metadata before that would hear of an empty cluster, believe it,
and some would not ask again for minutes.

1. The controller may send its view in several requests, and Apache Kafka's sends brokers before topics, so one
   request is no sign.
2. Brokers and a controller are waited for without a limit, and the log says so again and again: without them every
   answer would be wrong, and the controller retries until we have it.
3. Topics are waited for at most TOPICS_LIMIT_MS after that: a topic that nobody can lead may never be announced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from ottla.clock import Clock
from ottla.cluster.image import ClusterImage

log = logging.getLogger(__name__)

NAMES_SHOWN: Final = 3
LOG_EVERY_MS: Final = 5_000.0
TOPICS_LIMIT_MS: Final = 5_000.0


async def wait_for_first_view(
    announced: Callable[[], ClusterImage | None],
    changed: asyncio.Event,
    *,
    broker_id: int,
    topics: Collection[str],
    clock: Clock,
) -> None:
    """Return when the view is complete. `announced` is the view once the controller has sent it; `changed` is set
    whenever it sent more."""
    topics_end_ms: float | None = None
    while True:
        image = announced()
        missing = missing_brokers(image, broker_id)
        if image is not None and missing is None:
            topics_end_ms = topics_end_ms or clock.monotonic_ms() + TOPICS_LIMIT_MS
            missing = missing_topics(image, topics)
            if missing is not None and clock.monotonic_ms() >= topics_end_ms:
                log.warning("serving without all topics: %s", missing)
                return
        if missing is None:
            return
        changed.clear()
        try:
            async with clock.timeout(LOG_EVERY_MS):
                await changed.wait()
        except TimeoutError:
            log.warning("clients are not served yet: %s", missing)


def missing_brokers(image: ClusterImage | None, broker_id: int) -> str | None:
    """What the view lacks of brokers and controller, in words; None when nothing."""
    if image is None or broker_id not in image.brokers:
        return "the controller has not announced this broker yet"
    if image.controller_id < 0:
        return "there is no controller"
    if image.controller_id not in image.brokers:
        return f"the controller, broker {image.controller_id}, is not among the brokers"
    return None


def missing_topics(image: ClusterImage, topics: Collection[str]) -> str | None:
    """What the view lacks of these topics, in words; None when nothing."""
    missing = sorted(name for name in topics if image.topic(name) is None)
    if not missing:
        return None
    more = f" and {len(missing) - NAMES_SHOWN} more" if len(missing) > NAMES_SHOWN else ""
    return f"the controller has not announced {', '.join(missing[:NAMES_SHOWN])}{more} yet"
