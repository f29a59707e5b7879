"""How many requests of which kind, how long they took and for what, what went wrong.

    lane = RequestMetrics(registry).of(api, version)     # once per API and version
    lane.answered.record(took_ms)                        # once per request, or once for requests handled together
    lane.waited(started_ms, waits_since_ms, now_ms)      # instead, for one that had to wait

1. What is answered at once is one record, and is counted by it: its time is its local time, all other parts took none.
   So the parts are recorded for those only that had them, and the rest is filled up with zeros when somebody reads.
2. The parts of a request that waited: local until it waits for the first time, remote from then on; then its answer
   waits for those before it (response queue) and goes out (response send, network/processor.py).
3. Labels are bounded: APIs and versions by the protocol, errors by the table of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.broker.observe.metric_table import TABLE, counter
from ottla.broker.observe.time_buckets import Spread, Times, added
from ottla.errors import NONE, name_of_code
from ottla.metrics import Counter, Registry
from ottla.protocol.api import Api

_PREFIX: Final = "kafka_network_requestmetrics_"


class LaneTimes:
    """The times of requests of one API and version."""

    __slots__ = ("answered", "local", "remote", "response_queue", "response_send", "throttle", "total")

    def __init__(self) -> None:
        self.answered = Times()  # of those that did not wait
        # Made with the first that has one.
        self.total: Times | None = None
        self.local: Times | None = None
        self.remote: Times | None = None
        self.response_queue: Times | None = None
        self.response_send: Times | None = None
        self.throttle: Times | None = None

    @property
    def count(self) -> int:
        return self.answered.count + (0 if self.total is None else self.total.count)

    def waited(self, started_ms: float, waits_since_ms: float, now_ms: float, count: int = 1) -> None:
        """One that waited has its answer, or several that waited together."""
        if self.total is None or self.local is None or self.remote is None:
            self.total, self.local, self.remote = Times(), Times(), Times()
        self.total.record(now_ms - started_ms, count)
        self.local.record(waits_since_ms - started_ms, count)
        self.remote.record(now_ms - waits_since_ms, count)

    def queued(self, for_ms: float) -> None:
        """An answer waited for those before it."""
        if self.response_queue is None:
            self.response_queue = Times()
        self.response_queue.record(for_ms)

    def sent(self, for_ms: float) -> None:
        """An answer went out in more than one piece."""
        if self.response_send is None:
            self.response_send = Times()
        self.response_send.record(for_ms)

    def throttled(self, for_ms: float) -> None:
        """A client has to wait."""
        if self.throttle is None:
            self.throttle = Times()
        self.throttle.record(for_ms)

    # -- when somebody reads -----------------------------------------------------------------------------------------

    def totals(self) -> list[Times]:
        return [self.answered] if self.total is None else [self.answered, self.total]

    def locals(self) -> list[Times]:
        return [self.answered] if self.local is None else [self.answered, self.local]

    def part(self, name: str) -> list[Times]:
        """A part that most requests do not have: those took no time for it."""
        found: Times | None = getattr(self, name)
        some = [] if found is None else [found]
        return [added(some, zeros=max(0, self.count - sum(each.count for each in some)))]


_PARTS: Final[dict[str, Callable[[LaneTimes], list[Times]]]] = {
    "totaltimems": LaneTimes.totals,
    "localtimems": LaneTimes.locals,
    "remotetimems": partial(LaneTimes.part, name="remote"),
    "responsequeuetimems": partial(LaneTimes.part, name="response_queue"),
    "responsesendtimems": partial(LaneTimes.part, name="response_send"),
    "throttletimems": partial(LaneTimes.part, name="throttle"),
}


class RequestMetrics:
    def __init__(self, registry: Registry) -> None:
        self._requests = counter(registry, f"{_PREFIX}requests_total")
        self._errors = counter(registry, f"{_PREFIX}errors_total")
        self._times = {
            part: registry.instruments(
                "broker", part, TABLE[_PREFIX + part].meaning, ["request"], Spread, exposed=_PREFIX + part
            )
            for part in _PARTS
        }
        row = TABLE[f"{_PREFIX}requestqueuetimems"]
        self._queues = registry.instruments("broker", row.name, row.meaning, row.tags, Spread, exposed=row.name)
        self._queue: list[Times] = []
        self._lanes: dict[str, dict[int, LaneTimes]] = {}
        self._known_errors: dict[tuple[int, int], Counter] = {}
        self._error_counts: dict[str, list[Counter]] = {}

    def of(self, api: Api, version: int) -> LaneTimes:
        """Where requests of this API and version are recorded; kept by callers that record often."""
        lanes = self._lanes.get(api.name)
        if lanes is None:
            lanes = self._lanes[api.name] = {}
            self._show(api.name, lanes)
        found = lanes.get(version)
        if found is None:
            found = lanes[version] = LaneTimes()
            self._requests.of(api.name, str(version)).read = partial(_count_of, found)
        return found

    def _show(self, name: str, lanes: dict[int, LaneTimes]) -> None:
        for part, family in self._times.items():
            family.of(name).read = partial(_times_of, lanes, _PARTS[part])
        self._queues.of(name).read = lambda: self._queue
        self._errors.of(name, name_of_code(NONE)).read = partial(self._faultless, name, lanes)

    def by_api(self) -> dict[str, tuple[int, float]]:
        """How many requests of each API were answered, and how long they took together."""
        found = {}
        for name, versions in self._lanes.items():
            times = [each for lane in versions.values() for each in lane.totals()]
            found[name] = sum(each.count for each in times), sum(each.total_ms for each in times)
        return found

    def show_queue(self, times: Times) -> None:
        """These are the times that requests of all kinds wait until they are begun."""
        self._queue = [times]

    def _faultless(self, name: str, lanes: dict[int, LaneTimes]) -> int:
        failed = sum(each.value for each in self._error_counts.get(name, ()))
        return max(0, sum(each.count for each in lanes.values()) - failed)

    def failed(self, api: Api, code: int) -> None:
        """A request was answered with that error, for the whole of it or for one partition."""
        key = (api.key, code)
        known = self._known_errors.get(key)
        if known is None:
            known = self._known_errors[key] = self._errors.of(api.name, name_of_code(code))
            self._error_counts.setdefault(api.name, []).append(known)
        known.value += 1


def _count_of(lane: LaneTimes) -> int:
    return lane.count


def _times_of(lanes: dict[int, LaneTimes], part: Callable[[LaneTimes], Sequence[Times]]) -> list[Times]:
    return [times for lane in list(lanes.values()) for times in part(lane)]
