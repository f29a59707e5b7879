"""What the requests of one API by one connection count against; a connection whose client has no quota has none.

    wait_ms = charges.arrived(size_bytes, now_ms)        # of a produce request, when it comes
    wait_ms = charges.fetch(size_bytes, now_ms)          # of a fetch, before it is answered
    wait_ms = charges.handled(spent_ms, now_ms)          # of every request, when it was handled

1. A request is answered at once, and the answer says for how long its client is not heard (KIP-219): the longest of
   these. Kafka counts a produce request when it is answered. There a connection has one request at a time; here the
   next ones of a connection may be begun before, and must not be when the first was too much already.
2. A fetch that exceeds its quota is answered without records, and what it would have had is not counted. So that its
   client makes progress, a fetch reads at most what a client that used nothing before may have: `fetch_max_bytes`.
3. What brokers ask of each other is exempt, and so is the time of a request that is not answered (acks 0), as in Kafka.
4. A request that another broker passes on (`is_forwarded`) counts against the quota of its client for changes of
   topics, and only the answer says how long that client must wait: the broker's connection has requests of others, too.
"""

from __future__ import annotations

from ottla.broker.quotas.meters import BucketMeter, Meter, RateMeter


class Charges:
    """`is_exempt` is set for each request before it is handled."""

    __slots__ = ("_fetch", "_produce", "_request", "is_exempt", "is_forwarded", "mutation")

    def __init__(
        self,
        *,
        produce: RateMeter | None = None,
        fetch: RateMeter | None = None,
        request: RateMeter | None = None,
        mutation: BucketMeter | None = None,
        is_forwarded: bool = False,
    ) -> None:
        self._produce = produce
        self._fetch = fetch
        self._request = request
        self.mutation = mutation
        self.is_forwarded = is_forwarded
        self.is_exempt = False

    @property
    def fetch_max_bytes(self) -> float | None:
        """More than that is never read for one fetch; None without a limit."""
        if self._fetch is None or self.is_exempt:
            return None
        return self._fetch.limit * self._fetch.max_at_once

    def arrived(self, size_bytes: int, now_ms: float) -> int:
        """A request of that size came; returns for how many milliseconds its client must wait."""
        meter = self._produce
        if meter is None:
            return 0
        wait_ms = meter.charge(size_bytes, now_ms)
        return _noted(meter, wait_ms, now_ms) if wait_ms else 0

    def admit(self, size_bytes: int, now_ms: float) -> bool:
        """Count requests of that size together, if they are far from being too much; else they are not counted."""
        request, produce = self._request, self._produce
        if request is not None and request.rate.total * 2 > request.limit * request.max_at_once:
            return False
        if produce is None:
            return True
        if produce.rate.total + size_bytes > produce.limit * produce.max_at_once:
            return False
        produce.charge(size_bytes, now_ms)
        return True

    def take_back(self, size_bytes: int, now_ms: float) -> None:
        """Requests of that size were counted, but not begun."""
        if self._produce is not None:
            self._produce.take_back(size_bytes, now_ms)

    def handled(self, spent_ms: float, now_ms: float, *, is_answered: bool = True) -> int:
        """The broker was busy for so long with a request; returns for how many milliseconds its client must wait."""
        meter = self._request
        if meter is None or self.is_exempt or not is_answered:
            return 0
        wait_ms = meter.charge(spent_ms / 10, now_ms)  # percent of a second
        return _noted(meter, wait_ms, now_ms) if wait_ms else 0

    def fetch(self, size_bytes: int, now_ms: float) -> int:
        """Records of that size are about to be answered; above 0 they must not be."""
        if self._fetch is None or self.is_exempt:
            return 0
        wait_ms = self._fetch.charge(size_bytes, now_ms)
        if not wait_ms:
            return 0
        self._fetch.take_back(size_bytes, now_ms)
        return _noted(self._fetch, wait_ms, now_ms)


def _noted(meter: Meter, wait_ms: int, now_ms: float) -> int:
    meter.throttled.record(wait_ms, now_ms)
    return wait_ms
