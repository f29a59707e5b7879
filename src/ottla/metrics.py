"""Counters, gauges, windows and histograms; a registry that names them; the text that Prometheus reads.

    metrics = Registry()
    sent = metrics.counter("producer-metrics", "record-send-total", "Records sent.", tags=["client-id"]).of("orders")
    sent.value += 1                      # the hot path: one attribute add, no lock, no call

1. A metric has Kafka's name (group, name, tags) and a name in the text: `exposed`, or made from the group and name.
   A counter's text name ends in _total; a name that is made begins with kafka_. Both come from one declaration.
2. Thread rule: an instrument is written by one thread, the one that owns what it measures. Anybody may read; a
   reader on another thread may be one sample off, and disturbs nothing.
3. Time is an argument, in monotonic milliseconds. Nothing here reads a clock.
4. Memory is bounded: a window keeps `samples` sums, a histogram at most BUCKETS_LIMIT buckets, a family at most
   `series_limit` series. Past that limit all new label sets share one series labelled __other__, and
   ottla_metrics_series_overflow_total counts how often it was handed out: sums stay right, the detail is lost.
5. A label without a value is left out, which is the same to Prometheus: so the sum of all topics is `name 5` beside
   `name{topic="orders"} 3`, as with Kafka.
6. A gauge or counter whose function fails reads NaN, is logged once and counted; the other metrics are still shown.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, Generic, Literal, Protocol, TypeVar

from ottla.light_tuples import NamedTuple

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "__other__"
SERIES_AT_ONCE: Final = 50
Stat = Literal["rate", "avg", "min", "max", "total"]


class Reading(NamedTuple):
    """One number of an instrument: Kafka's suffix, the text's suffix and type, and a quantile if it is one."""

    suffix: str
    text_suffix: str
    text_type: str
    value: float
    quantile: str = ""
    part: str = ""  # _sum and _count share the HELP and TYPE of the summary they belong to


class Instrument(Protocol):
    """Whatever can be read at a moment."""

    def readings(self, now_ms: float) -> Iterator[Reading]: ...


# --- instruments -----------------------------------------------------------------------------------------------------


class Counter:
    """A number that only grows: `counter.value += n`, or a function that knows it."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value = 0
        self.read: Callable[[], float] | None = None

    def readings(self, now_ms: float) -> Iterator[Reading]:
        yield Reading("", "", "counter", self.value if self.read is None else self.read())


class Gauge:
    """A number that goes up and down: set `value`, or give a function that knows it."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.read: Callable[[], float] | None = None

    def readings(self, now_ms: float) -> Iterator[Reading]:
        yield Reading("", "", "gauge", self.value if self.read is None else self.read())


class _Sample:
    __slots__ = ("count", "largest", "smallest", "start_ms", "total")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = start_ms
        self.total = 0.0
        self.count = 0
        self.smallest = math.inf
        self.largest = -math.inf


class Window:
    """Rate, average, smallest and largest of the last while, in samples as Kafka's clients keep them.

    With 2 samples of 30 s the numbers cover the last 30 to 60 s. A young window is divided by at least
    (samples - 1) * window, so that the first record after the start is not a rate of thousands.
    """

    __slots__ = ("_samples", "sample_count", "stats", "total", "window_ms")

    def __init__(self, stats: Sequence[Stat] = ("rate",), *, samples: int = 2, window_ms: float = 30_000) -> None:
        if samples < 1 or window_ms <= 0:
            raise ValueError(f"a window needs at least one sample and some time, not {samples} of {window_ms} ms")
        self.stats = tuple(stats)
        self.sample_count = samples
        self.window_ms = window_ms
        self.total = 0.0
        self._samples: list[_Sample] = []

    def record(self, value: float, now_ms: float) -> None:
        if not self._samples or now_ms - self._samples[-1].start_ms >= self.window_ms:
            # A new list, never a changed one: a reader on another thread goes on with the one it holds.
            self._samples = [*self._alive(now_ms), _Sample(now_ms)][-self.sample_count :]
        sample = self._samples[-1]
        sample.total += value
        sample.count += 1
        if value < sample.smallest:
            sample.smallest = value
        if value > sample.largest:
            sample.largest = value
        self.total += value

    def record_many(self, total: float, count: int, smallest: float, largest: float, now_ms: float) -> None:
        """The same for several values at once, of which the sum and the extremes are known."""
        if count == 0:
            return
        self.record(largest, now_ms)
        sample = self._samples[-1]
        sample.total += total - largest
        sample.count += count - 1
        if smallest < sample.smallest:
            sample.smallest = smallest
        self.total += total - largest

    def rate(self, now_ms: float) -> float:
        """Sum per second."""
        samples = self._alive(now_ms)
        if not samples:
            return 0.0
        elapsed_ms = now_ms - samples[0].start_ms
        full_windows_missing = self.sample_count - 1 - elapsed_ms // self.window_ms
        elapsed_ms += max(0.0, full_windows_missing) * self.window_ms
        return sum(sample.total for sample in samples) * 1000 / max(elapsed_ms, 1.0)

    def avg(self, now_ms: float) -> float:
        """Mean of what was recorded; NaN when nothing was."""
        samples = self._alive(now_ms)
        count = sum(sample.count for sample in samples)
        return sum(sample.total for sample in samples) / count if count else math.nan

    def min(self, now_ms: float) -> float:
        return min((sample.smallest for sample in self._alive(now_ms)), default=math.nan)

    def max(self, now_ms: float) -> float:
        return max((sample.largest for sample in self._alive(now_ms)), default=math.nan)

    def readings(self, now_ms: float) -> Iterator[Reading]:
        for stat in self.stats:
            if stat == "total":
                yield Reading("-total", "_total", "counter", self.total)
            else:
                yield Reading(f"-{stat}", f"_{stat}", "gauge", getattr(self, stat)(now_ms))

    def _alive(self, now_ms: float) -> list[_Sample]:
        age_limit_ms = self.sample_count * self.window_ms
        return [sample for sample in self._samples if now_ms - sample.start_ms < age_limit_ms]


_STEPS: Final = 32  # buckets per doubling: a quantile is within 1/64 of the truth
_SMALLEST: Final = 2.0**-20
_LARGEST: Final = 2.0**62
BUCKETS_LIMIT: Final = (62 + 20) * _STEPS + 1


class Histogram:
    """Quantiles of the last one to two windows in log buckets, with lifetime count and sum.

    Buckets are sparse, so a histogram that sees latencies between 1 and 10 ms holds about a hundred.
    """

    __slots__ = ("_before", "_buckets", "_start_ms", "count", "quantiles", "total", "window_ms")

    def __init__(
        self, quantiles: Sequence[float] = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999), *, window_ms: float = 300_000
    ) -> None:
        self.quantiles = tuple(quantiles)
        self.window_ms = window_ms
        self.count = 0
        self.total = 0.0
        self._start_ms = -math.inf
        self._buckets: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def record(self, value: float, now_ms: float, count: int = 1) -> None:
        """Take note of a value that was seen `count` times."""
        if now_ms - self._start_ms >= self.window_ms:
            self._turn(now_ms)
        bucket = _bucket(value)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += count
        self.total += value * count

    def quantile(self, share: float, now_ms: float) -> float:
        """The value below which `share` of the recent ones lie; NaN when there are none."""
        return self._quantiles((share,), now_ms)[0]

    def readings(self, now_ms: float) -> Iterator[Reading]:
        for share, value in zip(self.quantiles, self._quantiles(self.quantiles, now_ms), strict=True):
            yield Reading(f"-p{_percent(share)}", "", "summary", value, quantile=quantile_label(share))
        yield Reading("-total", "", "summary", self.total, part="_sum")
        yield Reading("-count", "", "summary", self.count, part="_count")

    def _quantiles(self, shares: Sequence[float], now_ms: float) -> list[float]:
        recent: dict[int, int] = {}
        for bucket, count in chain(*(list(buckets.items()) for buckets in self._alive(now_ms))):
            recent[bucket] = recent.get(bucket, 0) + count
        ordered = sorted(recent.items())
        return [_at_rank(ordered, math.ceil(share * sum(recent.values()))) for share in shares]

    def _alive(self, now_ms: float) -> list[dict[int, int]]:
        age = (now_ms - self._start_ms) // self.window_ms
        return [self._buckets, self._before] if age < 1 else [self._buckets] if age < 2 else []

    def _turn(self, now_ms: float) -> None:
        self._before = self._buckets if now_ms - self._start_ms < 2 * self.window_ms else {}
        self._buckets = {}
        self._start_ms = now_ms


def _bucket(value: float) -> int:
    # Written so that NaN counts as the smallest: a strange sample must not break what is measured.
    value = min(value, _LARGEST) if value > _SMALLEST else _SMALLEST
    fraction, exponent = math.frexp(value)
    return exponent * _STEPS + int((fraction - 0.5) * 2 * _STEPS)


def _at_rank(ordered: list[tuple[int, int]], rank: int) -> float:
    for bucket, count in ordered:
        rank -= count
        if rank <= 0:
            exponent, step = divmod(bucket, _STEPS)
            return 0.0 if bucket == _bucket(0) else math.ldexp(0.5 + (step + 0.5) / (2 * _STEPS), exponent)
    return math.nan


def quantile_label(share: float) -> str:
    """As the JMX exporter writes it, from Kafka's 50thPercentile to its 999thPercentile: 0.50, 0.999."""
    return f"{share:.2f}" if round(share * 100, 9) % 1 == 0 else f"{share:.10g}"


def _percent(share: float) -> str:
    return f"{share * 100:.10g}".replace(".", "")


# --- families and their registry -------------------------------------------------------------------------------------

I_co = TypeVar("I_co", bound=Instrument, covariant=True)
I = TypeVar("I", bound=Instrument)  # noqa: E741


class Family(Generic[I_co]):
    """One metric with all its label sets."""

    def __init__(
        self, group: str, name: str, help_text: str, tags: Sequence[str], make: Callable[[], I_co], *, limit: int
    ) -> None:
        self.group = group
        self.name = name
        self.help_text = help_text
        self.tags = tuple(tags)
        self.exposed = _sanitized(f"kafka_{group}_{name}")
        self.overflows: Family[Counter] | None = None
        self._make = make
        self._limit = limit
        self._series: dict[tuple[str, ...], I_co] = {}

    def of(self, *values: str) -> I_co:
        """The instrument with these tag values, made on first use. Keep it: this look-up is not the hot path."""
        found = self._series.get(values)
        return self._new(values) if found is None else found

    def forget(self, *values: str) -> None:
        """Stop showing a series whose subject is gone (a deleted topic); unknown ones are fine."""
        self._series.pop(values, None)

    def series(self) -> list[tuple[tuple[str, ...], I_co]]:
        """A copy, because the owner may add while somebody reads."""
        return list(self._series.items())

    def _new(self, values: tuple[str, ...]) -> I_co:
        if len(values) != len(self.tags):
            raise ValueError(f"{self.name} has the tags {self.tags}, but was given {len(values)} values")
        if len(self._series) >= self._limit:
            values = (OTHER,) * len(self.tags)
            if self.overflows is not None:
                self.overflows.of(self.exposed).value += 1
        return self._series.setdefault(values, self._make())


class MetricKey(NamedTuple):
    """What Kafka calls a metric name: group, name, tags."""

    group: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()


class Registry:
    """All metrics of one client or one broker."""

    def __init__(self, *, series_limit: int = 10_000) -> None:
        self._series_limit = series_limit
        self._families: dict[tuple[str, str], Family[Instrument]] = {}
        self._kinds: dict[tuple[str, str], object] = {}
        self._overflows: Family[Counter] | None = None
        self._overflows = self._own("series-overflow-total", "Times a metric was over its limit of label sets.")
        self._failures = self._own("read-failure-total", "Times a metric could not be read.")

    def _own(self, name: str, help_text: str) -> Family[Counter]:
        return self.counter("ottla-metrics", name, help_text, ["metric"], exposed=f"ottla_metrics_{name}")

    def counter(
        self, group: str, name: str, help_text: str, tags: Sequence[str] = (), *, exposed: str | None = None
    ) -> Family[Counter]:
        return self._family(group, name, help_text, tags, Counter, Counter, exposed, "_total")

    def gauge(
        self, group: str, name: str, help_text: str, tags: Sequence[str] = (), *, exposed: str | None = None
    ) -> Family[Gauge]:
        return self._family(group, name, help_text, tags, Gauge, Gauge, exposed)

    def window(
        self,
        group: str,
        name: str,
        help_text: str,
        tags: Sequence[str] = (),
        *,
        stats: Sequence[Stat] = ("rate",),
        samples: int = 2,
        window_ms: float = 30_000,
        exposed: str | None = None,
    ) -> Family[Window]:
        """Metrics name-rate, name-avg and so on, one for each of `stats`."""

        def make() -> Window:
            return Window(stats, samples=samples, window_ms=window_ms)

        return self._family(group, name, help_text, tags, make, (Window, tuple(stats)), exposed)

    def histogram(
        self,
        group: str,
        name: str,
        help_text: str,
        tags: Sequence[str] = (),
        *,
        window_ms: float = 300_000,
        exposed: str | None = None,
    ) -> Family[Histogram]:
        def make() -> Histogram:
            return Histogram(window_ms=window_ms)

        return self._family(group, name, help_text, tags, make, Histogram, exposed)

    def instruments(
        self, group: str, name: str, help_text: str, tags: Sequence[str], make: Callable[[], I], *, exposed: str
    ) -> Family[I]:
        """Instruments of a kind that is made elsewhere."""
        return self._family(group, name, help_text, tags, make, make, exposed)

    def _family(
        self,
        group: str,
        name: str,
        help_text: str,
        tags: Sequence[str],
        make: Callable[[], I],
        kind: object,
        exposed: str | None,
        ending: str = "",
    ) -> Family[I]:
        """The family of that name; asking again gives the same one, unless it is of another kind."""
        known = self._families.get((group, name))
        if known is not None:
            if self._kinds[group, name] != kind or known.tags != tuple(tags):
                raise ValueError(f"{group}:{name} is declared twice, with different kinds or tags")
            return known  # type: ignore[return-value]
        family = Family(group, name, help_text, tags, make, limit=self._series_limit)
        family.exposed = _sanitized(exposed or family.exposed).removesuffix(ending) + ending
        self._refuse_same_text_name(family.exposed)
        family.overflows = self._overflows
        self._families[group, name] = family
        self._kinds[group, name] = kind
        return family

    def _refuse_same_text_name(self, exposed: str) -> None:
        for other in self._families.values():
            if other.exposed == exposed:
                raise ValueError(f"{other.group}:{other.name} already shows itself as {exposed}")

    def snapshot(self, now_ms: float) -> dict[MetricKey, float]:
        """All numbers under Kafka's names, as a client's metrics() returns them."""
        found = {}
        for family in list(self._families.values()):
            for values, instrument in family.series():
                tags = tuple(zip(family.tags, values, strict=True))
                for reading in self._read(family, instrument, now_ms):
                    found[MetricKey(family.group, family.name + reading.suffix, tags)] = reading.value
        return found

    def text(self, now_ms: float) -> str:
        """All numbers in Prometheus' text format, families in the order of their names."""
        return "".join(self.pieces(now_ms))

    def pieces(self, now_ms: float) -> Iterator[str]:
        """The same a little at a time, some of it nothing: whoever reads ten thousand series lets others have their
        turn in between."""
        for family in sorted(self._families.values(), key=lambda family: family.exposed):
            yield from self._family_pieces(family, now_ms)

    def _family_pieces(self, family: Family[Instrument], now_ms: float) -> Iterator[str]:
        # One family can have several names in the text (x_avg, x_max), and the lines of a name must stay together.
        by_name: dict[str, list[str]] = {}
        for number, (values, instrument) in enumerate(family.series(), 1):
            if not number % SERIES_AT_ONCE:
                yield ""
            for reading in self._read(family, instrument, now_ms):
                name = family.exposed + reading.text_suffix
                heading = [f"# HELP {name} {_escaped_help(family.help_text)}", f"# TYPE {name} {reading.text_type}"]
                labels = _labels(family.tags, values, reading.quantile)
                line = f"{name}{reading.part}{labels} {_number(reading.value)}"
                by_name.setdefault(name, heading).append(line)
        for lines in by_name.values():
            yield "\n".join(lines) + "\n"

    def _read(self, family: Family[Instrument], instrument: Instrument, now_ms: float) -> list[Reading]:
        # Gauges are other people's functions, so anything can come out of them; promise 6 says what becomes of it.
        try:
            return list(instrument.readings(now_ms))
        except Exception:
            failures = self._failures.of(family.exposed)
            if failures.value == 0:
                log.warning("the metric %s cannot be read and shows NaN", family.exposed, exc_info=True)
            failures.value += 1
            return [Reading("", "", "gauge", math.nan)]


# --- the text format -------------------------------------------------------------------------------------------------


def _sanitized(name: str) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_:]", "_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def _labels(tags: tuple[str, ...], values: tuple[str, ...], quantile: str) -> str:
    # An empty label is no label to Prometheus, and no label is what the sum over all topics has.
    pairs = [(_sanitized(tag).replace(":", "_"), value) for tag, value in zip(tags, values, strict=True) if value]
    if quantile:
        pairs.append(("quantile", quantile))
    return "{" + ",".join(f'{tag}="{_escaped_label(value)}"' for tag, value in pairs) + "}" if pairs else ""


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped_label(text: str) -> str:
    return _escaped_help(text).replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**63 else repr(float(value))
