"""Times, places, latencies and lag: the plain parts behind the commands."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.lag import behind, lag_rows, total
from ottla.cli.latencies import Latencies
from ottla.cli.moments import duration_ms, milliseconds
from ottla.cli.operations.load import consumed, consumed_cells, result_line
from ottla.cli.where import Kind, Where, parse_where
from ottla.testing.clock import ManualClock
from ottla.values import OffsetAndMetadata, TopicPartition

CLICKS = TopicPartition("clicks", 0)
VISITS = TopicPartition("visits", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("@1970-01-01T00:00:01+00:00", 1_000),
        ("1767225600000", 1_767_225_600_000),
    ],
)
def test_moments_are_read(text, expected):
    assert milliseconds(text) == expected


@pytest.mark.parametrize(("text", "ago_ms"), [("-90s", 90_000), ("-1.5h", 5_400_000), ("-7d", 604_800_000)])
def test_so_long_ago_is_counted_from_now(text, ago_ms):
    clock = ManualClock()
    assert milliseconds(text, clock) == clock.now_ms() - ago_ms


@pytest.mark.parametrize("text", ["", "gestern", "-2x", "2026-13-01", "12"])
def test_what_is_no_moment_is_refused_with_how_to_write_one(text):
    with pytest.raises(ValueError, match="write a time as"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90_000), ("2h", 7_200_000), ("PT2H30M", 9_000_000), ("P1DT1S", 86_401_000)]
)
def test_lengths_of_time_are_read(text, expected):
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "2 weeks"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="length of time"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Where(Kind.BEGINNING)),
        ("latest", Where(Kind.END)),
        ("stored", Where(Kind.STORED)),
        ("42", Where(Kind.OFFSET, 42)),
        ("-10", Where(Kind.BEFORE_END, 10)),
        ("@1970-01-01T00:00:01Z", Where(Kind.TIME, 1_000)),
        ("s@1767225600000", Where(Kind.TIME, 1_767_225_600_000)),
    ],
)
def test_places_are_read(text, expected):
    assert parse_where(text) == expected


def test_what_is_no_place_is_refused():
    with pytest.raises(ValueError, match="write beginning"):
        parse_where("middle")


@given(st.lists(st.floats(min_value=0.001, max_value=60_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
def test_percentiles_are_right_to_a_hundredth(values, share):
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[max(-(-int(share * 1000) * len(values) // 1000), 1) - 1]
    assert latencies.percentile(share) == pytest.approx(exact, rel=0.01)
    assert latencies.mean_ms == pytest.approx(sum(values) / len(values))
    assert latencies.max_ms == max(values)


def test_without_latencies_everything_is_zero():
    assert (Latencies().mean_ms, Latencies().percentile(0.5)) == (0, 0)


def test_the_result_line_is_kafkas():
    latencies = Latencies()
    latencies.add(2.0, 50_000)
    assert result_line(latencies, 5_000, 5_000_000) == (
        "50000 records sent, 10000.000000 records/sec (0.95 MB/sec), 2.00 ms avg latency, 2.00 ms max latency, "
        "2 ms 50th, 2 ms 95th, 2 ms 99th, 2 ms 99.9th."
    )


def test_consume_figures_leave_the_time_to_join_out_of_the_fetch_rate():
    figures = consumed(1000, 1024 * 1024, elapsed_ms=2000, joined_ms=1000)
    assert (figures["MB.sec"], figures["fetch.MB.sec"], figures["fetch.nMsg.sec"]) == (0.5, 1.0, 1000)
    assert consumed_cells(figures) == "1.0000, 0.5000, 1000, 500.0000, 1000, 1000, 1.0000, 1000.0000"


def test_lag_is_the_end_less_what_was_committed_and_a_row_has_its_owner():
    member = SimpleNamespace(assignment={CLICKS}, member_id="m", host="h", client_id="c")
    committed = {CLICKS: OffsetAndMetadata(40), VISITS: OffsetAndMetadata(7)}
    ends = {CLICKS: 100, VISITS: 7}
    first, second = lag_rows(committed, ends, [member], {CLICKS: 12.5})
    assert (first.lag, first.lag_s, first.member_id) == (60, 12.5, "m")
    assert (second.lag, second.lag_s, second.member_id) == (0, 0.0, None)
    assert total([first, second]) == (60, 12.5)
    assert behind(committed, ends) == {CLICKS: 40}


def test_a_partition_nobody_committed_or_that_is_gone_has_no_lag():
    member = SimpleNamespace(assignment={VISITS}, member_id="m", host="h", client_id="c")
    rows = lag_rows({CLICKS: OffsetAndMetadata(5)}, {VISITS: 9}, [member], {})
    assert [(row.topic, row.committed, row.end, row.lag, row.lag_s) for row in rows] == [
        ("clicks", 5, None, None, None),
        ("visits", None, 9, None, None),
    ]
