"""What the requests of one API by one connection count against; a connection whose client has no quota has none.

    wait_ms = charges.produce.charge(size_bytes, now_ms) # of a produce request, when it comes
    wait_ms = charges.fetch(size_bytes, now_ms)          # of a fetch, before it is answered
    wait_ms = charges.handled(spent_ms, now_ms)          # of every request, when it was handled
    charges.admits(size_bytes); charges.count_run(size_bytes, started_ms, now_ms)       # of a run, before and after it

1. A request is answered at once, and the answer says for how long its client is not heard (KIP-219): the longest of
   these. Kafka counts a produce request when it is answered. There a connection has one request at a time; here the
   next ones of a connection may be begun before, and must not be when the first was too much already.
2. A fetch that exceeds its quota is answered without records, and what it would have had is not counted. So that its
   client makes progress, a fetch reads at most what a client that used nothing before may have: `fetch_max_bytes`.
3. What brokers ask of each other is exempt, and so is the time of a request that is not answered (acks 0), as in Kafka.
4. Requests that are handled together, in one call, are counted once and at its end, so what a quota costs far from its
   limit is two calls for all of them. They are admitted only where none of them would have to wait.
5. A request that another broker passes on (`is_forwarded`) counts against the quota of its client for changes of
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

    def admits(self, size_bytes: int) -> bool:
        """Whether requests of that size together are far from being too much. Nothing is counted."""
        request, produce = self._request, self.produce
        if request is not None and request.rate.added > request.half_room:
            return False
        return produce is None or produce.rate.added + size_bytes <= produce.room

    def count_run(self, size_bytes: int, started_ms: float, now_ms: float) -> None:
        """Requests of that size, which were admitted, have been handled in this time."""
        produce, request = self.produce, self._request
        if produce is not None:
            rate = produce.rate
            if started_ms < rate.steady_until_ms:  # as produce.charge does; there is room
                rate.added += size_bytes
                rate.last_ms = produce.last_used_ms = started_ms
            else:
                produce.charge(size_bytes, started_ms)
        if request is not None:
            rate = request.rate
            percent = rate.added + (now_ms - started_ms) / 10
            if now_ms < rate.steady_until_ms and percent <= request.room:
                rate.added = percent
                rate.last_ms = request.last_used_ms = now_ms
            else:
                self.handled(now_ms - started_ms, now_ms)

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

    def fetched(self, size_bytes: int, now_ms: float) -> int:
        """Records of that size are answered, whatever the quota says, because they are locked for who asked; returns
        for how many milliseconds it must wait."""
        return 0 if self._fetch is None or self.is_exempt else self._fetch.charge(size_bytes, now_ms)
