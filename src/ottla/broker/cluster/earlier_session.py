"""A broker that was killed and started again at once waits until the cluster has noticed that it was gone.

1. The registration of a broker lives as long as its session. After a kill the session goes on until its time-out, and
   until then the id is registered by it. Nothing of the old session can be taken over, so its end is waited for.
2. We wait before a listener is open: a client that tries meanwhile finds nobody there, as if the broker were still
   down, and goes to another one at once (docs/decisions/0029).
3. Time in which nobody of the ensemble answers does not count, and what was waited before it neither: an ensemble that
   comes back gives every session its whole time-out again.
4. The wait ends after SESSIONS_LIMIT session time-outs (at least LIMIT_AT_LEAST_MS: the old session may have had
   another time-out). Then it is no earlier self but another broker with the same id: BrokerIdTaken.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.clock import Clock
from ottla.cluster.store.interface import BrokerIdTaken, NoSession

log = logging.getLogger(__name__)

ASK_EVERY_MS: Final = 250.0
LOG_EVERY_MS: Final = 5_000.0
SESSIONS_LIMIT: Final = 3
LIMIT_AT_LEAST_MS: Final = 45_000.0
ABSENCE_MS: Final = 2_000.0
"""An answer that takes so long came after a connection was lost and found again."""


async def wait_for_earlier_session(
    broker_id: int, holder_of: Callable[[int], Awaitable[str | None]], session_timeout_ms: float, clock: Clock
) -> None:
    """Return when no other session has the broker id; raise BrokerIdTaken when that takes too long."""
    limit_ms = max(SESSIONS_LIMIT * session_timeout_ms, LIMIT_AT_LEAST_MS)
    began_ms = asked_ms = clock.monotonic_ms()
    logged_ms: float | None = None
    absent_ms: float | None = None
    while True:
        try:
            holder = await holder_of(broker_id)
        except NoSession as error:
            if absent_ms is None or clock.monotonic_ms() - absent_ms >= LOG_EVERY_MS:
                absent_ms = clock.monotonic_ms()
                log.warning("nobody says whether broker id %d is free; waiting for that: %s", broker_id, error)
            await clock.sleep(ASK_EVERY_MS)
            continue
        if holder is None:
            break
        if absent_ms is not None or clock.monotonic_ms() - asked_ms > ABSENCE_MS:
            began_ms, absent_ms, logged_ms = clock.monotonic_ms(), None, None
        waited_ms = clock.monotonic_ms() - began_ms
        if waited_ms >= limit_ms:
            raise BrokerIdTaken(
                f"broker id {broker_id} has been registered by {holder} for {waited_ms / 1000:.0f} s, longer than the "
                f"session of a broker that is gone lives; another broker with this id is running"
            )
        if logged_ms is None or waited_ms - logged_ms >= LOG_EVERY_MS:
            logged_ms = waited_ms
            log.warning(
                "broker id %d is still registered by %s, probably by this broker before it was restarted; waiting for "
                "that session to end, at most %.0f s more (zookeeper.session.timeout.ms=%.0f)",
                broker_id,
                holder,
                (limit_ms - waited_ms) / 1000,
                session_timeout_ms,
            )
        await clock.sleep(ASK_EVERY_MS)
        asked_ms = clock.monotonic_ms()
    if logged_ms is not None:
        log.info("the earlier session of broker %d is over", broker_id)
