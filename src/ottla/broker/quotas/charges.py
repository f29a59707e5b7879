"""What the requests of one API by one connection count against; a connection whose client has no quota has none.

    wait_ms = charges.produce.charge(size_bytes, now_ms) # of a produce request, when it comes
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

from ottla.broker.quotas.meters import BucketMeter, RateMeter


class Charges:
    """`is_exempt` is set for each request before it is handled."""

    __slots__ = ("_fetch", "_request", "fetch_max_bytes", "is_exempt", "is_forwarded", "mutation", "produce")

    def __init__(
        self,
        *,
        produce: RateMeter | None = None,
        fetch: RateMeter | None = None,
        request: RateMeter | None = None,
        mutation: BucketMeter | None = None,
        is_forwarded: bool = False,
    ) -> None:
        self.produce = produce
        """Counts bytes of requests; None without a quota for them."""
        self._fetch = fetch
        self._request = request
        self.mutation = mutation
        self.is_forwarded = is_forwarded
        self.fetch_max_bytes = None if fetch is None else fetch.at_once
        """More than that is never read for one fetch that is not exempt; None without a limit."""
        self.is_exempt = False

    def admit(self, size_bytes: int, now_ms: float) -> bool:
        """Count requests of that size together, if they are far from being too much; else they are not counted."""
        request, produce = self._request, self.produce
        if request is not None and (request.rate.before + request.rate.added) * 2 > request.at_once:
            return False
        if produce is None:
            return True
        if produce.rate.added + size_bytes > produce.room:
            return False
        produce.charge(size_bytes, now_ms)
        return True

    def take_back(self, size_bytes: int, now_ms: float) -> None:
        """Requests of that size were counted, but not begun."""
        if self.produce is not None:
            self.produce.take_back(size_bytes, now_ms)

    def handled(self, spent_ms: float, now_ms: float, is_answered: bool = True) -> int:
        """The broker was busy for so long with a request; returns for how many milliseconds its client must wait."""
        meter = self._request
        if meter is None or self.is_exempt or not is_answered:
            return 0
        rate, percent = meter.rate, spent_ms / 10  # of a second
        if now_ms < rate.steady_until_ms and rate.added + percent <= meter.room:  # as meter.charge does
            rate.added += percent
            rate.last_ms = meter.last_used_ms = now_ms
            return 0
        return meter.charge(percent, now_ms)

    def fetch(self, size_bytes: int, now_ms: float) -> int:
        """Records of that size are about to be answered; above 0 they must not be."""
        if self._fetch is None or self.is_exempt:
            return 0
        wait_ms = self._fetch.charge(size_bytes, now_ms)
        if wait_ms:
            self._fetch.take_back(size_bytes, now_ms)
        return wait_ms
