"""Numbers are right, memory is bounded, and the text is what Prometheus reads."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import metrics
from ottla.metrics import BUCKETS_LIMIT, OTHER, Counter, Histogram, MetricKey, Registry, Window


def test_a_counter_is_one_attribute():
    counter = Counter()
    counter.value += 3
    assert [reading.value for reading in counter.readings(0)] == [3]
    assert not hasattr(counter, "__dict__")


# --- windows ---------------------------------------------------------------------------------------------------------


def test_a_young_window_is_not_divided_by_almost_nothing():
    window = Window(samples=2, window_ms=30_000)
    window.record(60, now_ms=1000)
    assert window.rate(1000) == pytest.approx(60 / 30)
    assert window.rate(16_000) == pytest.approx(60 / 45)


def test_a_steady_rate_is_shown_as_it_is():
    window = Window(samples=2, window_ms=1000)
    for now_ms in range(0, 10_000, 10):
        window.record(1, now_ms)
    assert window.rate(10_000) == pytest.approx(100, rel=0.02)


def test_a_window_forgets_what_is_old():
    window = Window(samples=2, window_ms=1000)
    window.record(5, 0)
    window.record(1, 1500)
    assert (window.max(1999), window.avg(1999)) == (5, 3)
    assert (window.min(2000), window.max(2000), window.avg(2000)) == (1, 1, 1)
    assert window.rate(5000) == 0
    assert window.total == 6
    assert all(math.isnan(number) for number in (window.avg(5000), window.min(5000), window.max(5000)))


def test_reading_a_window_changes_nothing():
    window = Window(samples=2, window_ms=1000)
    window.record(5, 0)
    assert window.rate(10_000) == 0
    assert window.max(500) == 5


def test_a_window_holds_only_its_samples():
    window = Window(samples=3, window_ms=1)
    for now_ms in range(1000):
        window.record(1, now_ms)
    assert len(window._samples) == 3


@pytest.mark.parametrize(("samples", "window_ms"), [(0, 1), (1, 0)])
def test_a_window_without_time_or_samples_is_refused(samples, window_ms):
    with pytest.raises(ValueError, match="at least one sample"):
        Window(samples=samples, window_ms=window_ms)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 500), st.integers(-5, 5)), min_size=1, max_size=30),
    st.integers(0, 400),
)
def test_a_window_covers_between_all_but_one_and_all_of_its_samples(samples, steps, wait_ms):
    window, now_ms, recorded = Window(samples=samples, window_ms=100), 0, []
    for step_ms, value in steps:
        now_ms += step_ms
        window.record(value, now_ms)
        recorded.append((now_ms, value))
    now_ms += wait_ms
    surely = [value for at_ms, value in recorded if now_ms - at_ms < (samples - 1) * 100]
    at_most = [value for at_ms, value in recorded if now_ms - at_ms < samples * 100]
    assert sum(sample.count for sample in window._alive(now_ms)) <= len(at_most)
    if surely:
        assert window.max(now_ms) >= max(surely)
        assert window.min(now_ms) <= min(surely)


# --- histograms ------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-5, 1e15), min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.95, 0.999, 1.0]))
def test_a_quantile_is_within_two_percent_of_the_truth(values, share):
    histogram = Histogram()
    for value in values:
        histogram.record(value, 0)
    truth = sorted(values)[math.ceil(share * len(values)) - 1]
    assert histogram.quantile(share, 0) == pytest.approx(truth, rel=1 / 64 + 1e-9)


@pytest.mark.parametrize("value", [0, -5, math.nan, math.inf, 1e300, 1e-300])
def test_strange_values_are_counted_and_break_nothing(value):
    histogram = Histogram()
    histogram.record(value, 0)
    assert histogram.count == 1
    assert histogram.quantile(0.5, 0) >= 0


def test_an_empty_histogram_has_no_quantiles():
    assert math.isnan(Histogram().quantile(0.5, 0))


def test_a_histogram_shows_one_to_two_windows_and_counts_for_life():
    histogram = Histogram(window_ms=1000)
    histogram.record(100, 0)
    histogram.record(1, 1200)
    assert histogram.quantile(1, 1200) == pytest.approx(100, rel=0.02)
    histogram.record(1, 2300)
    assert histogram.quantile(1, 2300) == pytest.approx(1, rel=0.02)
    assert math.isnan(histogram.quantile(1, 9000))
    histogram.record(7, 9000)
    assert histogram.quantile(0, 9000) == pytest.approx(7, rel=0.02)
    assert (histogram.count, histogram.total) == (4, 109)


def test_a_histogram_forgets_while_nothing_is_recorded():
    histogram = Histogram(window_ms=1000)
    histogram.record(100, 0)
    histogram.record(1, 1000)
    assert histogram.quantile(1, 1999) == pytest.approx(100, rel=0.02)
    assert histogram.quantile(1, 2000) == pytest.approx(1, rel=0.02)
    assert math.isnan(histogram.quantile(1, 3000))


def test_a_histogram_has_a_bounded_number_of_buckets():
    source, histogram = random.Random(1), Histogram()
    for _ in range(20_000):
        histogram.record(10 ** source.uniform(-300, 300), 0)
    for exponent in range(-400, 400):
        histogram.record(math.ldexp(1, exponent), 0)
    assert len(histogram._buckets) <= BUCKETS_LIMIT


# --- registry --------------------------------------------------------------------------------------------------------


def test_a_series_is_made_once():
    family = Registry().counter("g", "n", "h", ["topic"])
    family.of("a").value += 1
    assert family.of("a").value == 1
    assert family.of("b").value == 0


def test_the_number_of_values_must_be_the_number_of_tags():
    with pytest.raises(ValueError, match="topic"):
        Registry().counter("g", "n", "h", ["topic"]).of()


def test_asking_again_gives_the_same_family_but_not_another_kind():
    registry = Registry()
    assert registry.counter("g", "n", "h", ["a"]) is registry.counter("g", "n", "h", ["a"])
    with pytest.raises(ValueError, match="declared twice"):
        registry.gauge("g", "n", "h", ["a"])
    with pytest.raises(ValueError, match="declared twice"):
        registry.counter("g", "n", "h", ["b"])


def test_two_families_cannot_have_one_name_in_the_text():
    registry = Registry()
    registry.counter("g", "n", "h", exposed="x")
    with pytest.raises(ValueError, match="x_total"):
        registry.counter("g", "other", "h", exposed="x_total")


def test_a_long_text_comes_in_pieces_and_is_the_same(monkeypatch):
    monkeypatch.setattr(metrics, "SERIES_AT_ONCE", 10)
    registry = Registry()
    family = registry.counter("g", "many", "of each topic", ["topic"])
    for number in range(35):
        family.of(f"t{number}").value = number
    pieces = list(registry.pieces(0))
    assert len([piece for piece in pieces if not piece]) == 3
    assert "".join(pieces) == registry.text(0)
    assert registry.text(0).count("# TYPE kafka_g_many_total counter") == 1


def test_past_the_limit_label_sets_share_one_series_and_it_is_counted():
    registry = Registry(series_limit=2)
    family = registry.counter("g", "n", "h", ["topic"])
    for topic in ("a", "b", "c", "d", "c"):
        family.of(topic).value += 1
    assert {values[0]: counter.value for values, counter in family.series()} == {"a": 1, "b": 1, OTHER: 3}
    assert 'ottla_metrics_series_overflow_total{metric="kafka_g_n_total"} 3' in registry.text(0)


def test_a_forgotten_series_is_not_shown_and_makes_room():
    registry = Registry(series_limit=1)
    family = registry.counter("g", "n", "h", ["topic"])
    family.of("a").value += 1
    family.forget("a")
    family.forget("never there")
    family.of("b").value += 1
    assert [values for values, _ in family.series()] == [("b",)]


def test_kafkas_names_have_group_name_and_tags():
    registry = Registry()
    window = registry.window("producer-metrics", "record-send", "h", ["client-id"], stats=["rate", "total", "max"])
    window.of("p").record(30, 0)
    registry.gauge("producer-metrics", "buffer-available-bytes", "h").of().value = 7
    assert registry.snapshot(0) == {
        MetricKey("producer-metrics", "record-send-rate", (("client-id", "p"),)): 1,
        MetricKey("producer-metrics", "record-send-total", (("client-id", "p"),)): 30,
        MetricKey("producer-metrics", "record-send-max", (("client-id", "p"),)): 30,
        MetricKey("producer-metrics", "buffer-available-bytes"): 7,
    }


def test_a_histogram_has_percentile_names_in_kafkas_form():
    registry = Registry()
    registry.histogram("g", "latency", "h").of().record(0, 0)
    assert {key.name for key in registry.snapshot(0)} == {
        *("latency-p50", "latency-p75", "latency-p95", "latency-p98", "latency-p99", "latency-p999"),
        *("latency-total", "latency-count"),
    }


# --- text ------------------------------------------------------------------------------------------------------------


def test_the_text_is_in_prometheus_format():
    registry = Registry()
    registry.counter(
        "kafka.server",
        "MessagesInPerSec",
        "Records in.",
        ["topic"],
        exposed="kafka_server_brokertopicmetrics_messagesin",
    ).of("t").value += 5
    registry.gauge("producer-metrics", "requests-in-flight", "Sent,\nunanswered \\o/.").of().read = lambda: 2.5
    histogram = registry.histogram(
        "kafka.network", "TotalTimeMs", "Time.", ["request"], exposed="kafka_network_requestmetrics_totaltimems"
    ).of("Fetch")
    histogram.record(0, 0)
    assert registry.text(0).split("\n") == [
        "# HELP kafka_network_requestmetrics_totaltimems Time.",
        "# TYPE kafka_network_requestmetrics_totaltimems summary",
        *(
            f'kafka_network_requestmetrics_totaltimems{{request="Fetch",quantile="{quantile}"}} 0'
            for quantile in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
        ),
        'kafka_network_requestmetrics_totaltimems_sum{request="Fetch"} 0',
        'kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 1',
        "# HELP kafka_producer_metrics_requests_in_flight Sent,\\nunanswered \\\\o/.",
        "# TYPE kafka_producer_metrics_requests_in_flight gauge",
        "kafka_producer_metrics_requests_in_flight 2.5",
        "# HELP kafka_server_brokertopicmetrics_messagesin_total Records in.",
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter",
        'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 5',
        "",
    ]


def test_the_lines_of_one_name_stay_together():
    registry = Registry()
    family = registry.window("g", "size", "h", ["topic"], stats=["avg", "total"])
    for topic in ("a", "b"):
        family.of(topic).record(2, 0)
    assert registry.text(0).splitlines() == [
        "# HELP kafka_g_size_avg h",
        "# TYPE kafka_g_size_avg gauge",
        'kafka_g_size_avg{topic="a"} 2',
        'kafka_g_size_avg{topic="b"} 2',
        "# HELP kafka_g_size_total h",
        "# TYPE kafka_g_size_total counter",
        'kafka_g_size_total{topic="a"} 2',
        'kafka_g_size_total{topic="b"} 2',
    ]


def test_label_values_are_escaped_and_names_made_harmless():
    registry = Registry()
    registry.gauge("1-g", "n", "h", ["client-id"], exposed="9lives.of:cat").of('a"b\\c\nd').value = 1
    assert registry.text(0).splitlines()[-1] == '_9lives_of:cat{client_id="a\\"b\\\\c\\nd"} 1'


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (3.0, "3"), (0.1, "0.1"), (1e300, "1e+300")],
)
def test_numbers_are_written_as_prometheus_reads_them(value, text):
    registry = Registry()
    registry.gauge("g", "n", "h").of().value = value
    assert registry.text(0).splitlines()[-1] == f"kafka_g_n {text}"


def test_a_failing_gauge_shows_nan_is_counted_and_does_not_hide_the_others(caplog):
    registry = Registry()
    registry.gauge("g", "bad", "h").of().read = lambda: 1 / 0
    registry.gauge("g", "good", "h").of().value = 1
    registry.text(0)
    text = registry.text(0)
    assert "kafka_g_bad NaN" in text
    assert "kafka_g_good 1" in text
    assert 'ottla_metrics_read_failure_total{metric="kafka_g_bad"} 2' in text
    assert len(caplog.records) == 1


def test_no_metrics_give_no_text():
    assert Registry().text(0) == ""
