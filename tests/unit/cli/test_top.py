"""`ottla top`: figures of two moments, and frames of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.top.figures import figures
from ottla.cli.top.gathering import counters_of
from ottla.cli.top.sample import BrokerState, Counters, GroupState, PartitionState, Sample
from ottla.cli.top.screen import frame, is_troubled, painted, shares, shortened
from ottla.light_dataclasses import replace
from ottla.values import TopicPartition

ONE, TWO, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1), TopicPartition("quiet", 0)
BEFORE = Sample(
    monotonic_ms=0,
    cluster_id="c1",
    brokers={0: BrokerState("a:9092", True, 5000), 1: BrokerState("b:9092", False, 3000)},
    partitions={
        ONE: PartitionState(0, (0, 1), (0, 1)),
        TWO: PartitionState(1, (1, 0), (1,)),
        OTHER: PartitionState(None, (1,), ()),
    },
    ends={ONE: 100, TWO: 50},
    sizes={ONE: 1000, TWO: 500, OTHER: 0},
    groups={"billing": GroupState("Stable", {ONE: 40, TWO: 50})},
    counters={"a:9644": Counters(1000, 5000, 100, 2.0, 50e6)},
)
NOW = replace(
    BEFORE,
    monotonic_ms=2_000,
    ends={ONE: 300, TWO: 50},
    sizes={ONE: 3000, TWO: 500, OTHER: 0},
    groups={"billing": GroupState("Stable", {ONE: 280, TWO: 50})},
    counters={"a:9644": Counters(3000, 9000, 100, 3.0, 60e6)},
)


def test_rates_are_the_growth_between_two_moments():
    found = figures(NOW, BEFORE)
    clicks, quiet = found.topics
    assert (clicks.topic, clicks.records_per_s, clicks.bytes_per_s, clicks.size_bytes) == ("clicks", 100, 1000, 3500)
    assert (clicks.under_replicated, quiet.offline) == (1, 1)
    assert [(row.broker, row.leads, row.replicas, row.records_per_s) for row in found.brokers] == [
        (0, 1, 2, 100),
        (1, 1, 3, 0),
    ]
    (metrics,) = found.metrics
    assert metrics == ("a:9644", 1000, 2000, 0, 0.5, 60e6)
    assert (found.partitions, found.under_replicated, found.offline) == (3, 2, 1)


def test_lag_comes_with_the_time_until_it_is_gone():
    (group,) = figures(NOW, BEFORE).groups
    assert (group.lag, group.read_per_s, group.behind_s) == (20, 120, 1.0)
    slower = replace(NOW, groups={"billing": GroupState("Stable", {ONE: 41, TWO: 50})})
    assert figures(slower, BEFORE).groups[0].behind_s is None


def test_one_moment_has_no_rates_and_what_went_down_gives_none():
    assert figures(NOW).topics[0].records_per_s is None
    assert figures(NOW).over_s is None
    fewer = replace(NOW, ends={ONE: 10, TWO: 5}, counters={"a:9644": Counters(1)})
    found = figures(fewer, BEFORE)
    assert found.topics[0].records_per_s is None
    assert found.metrics[0].requests_per_s is None


def test_a_frame_shows_trouble_first_then_brokers_metrics_topics_and_groups():
    lines = frame(figures(NOW, BEFORE), 120, 40)
    assert lines[0] == (
        "cluster c1: 2 brokers, 2 topics, 3 partitions, 100 records/s: 1 WITHOUT A LEADER, 2 under-replicated"
    )
    assert [line.split()[0] for line in lines if line and line.split()[0].isupper()] == [
        "BROKER",
        "METRICS",
        "TOPIC",
        "GROUP",
    ]
    assert lines[-1].split() == ["billing", "Stable", "20", "120", "1.0", "s"]
    assert is_troubled(figures(NOW, BEFORE))


@given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 30))
def test_a_frame_fits_the_terminal(columns, lines, topics):
    many = {TopicPartition(f"topic-{number}" * 9, 0): PartitionState(0, (0,), (0,)) for number in range(topics)}
    found = frame(figures(replace(NOW, partitions=many, left_out="3 more groups"), BEFORE), columns, lines)
    assert len(found) <= lines
    assert all(len(line) <= columns for line in found)


def test_names_cannot_move_the_cursor():
    evil = replace(NOW, partitions={TopicPartition("\033[2Jx", 0): PartitionState(0, (0,), (0,))}, cluster_id="\033c")
    assert "\033" not in "".join(frame(figures(evil), 120, 40))


def test_longer_tables_give_way_first_and_say_how_much_is_missing():
    assert shares([3, 10], 20) == [3, 10]
    assert shares([3, 10], 9) == [3, 6]
    assert shares([3, 10], 0) == [0, 0]
    assert shortened(["h", "a", "b", "c"], 3) == ["h", "a", "... 2 more"]


def test_a_painted_frame_begins_at_the_top_and_clears_what_was_there():
    assert painted(["head", "x"], is_troubled=False) == "\033[H\033[1mhead\033[0m\033[K\r\nx\033[K\033[J"


def test_metrics_of_a_broker_are_read_without_the_sums_over_all_topics():
    text = """\
# HELP x y
kafka_network_requestmetrics_requests_total{request="Fetch",version="18"} 10
kafka_network_requestmetrics_requests_total{request="Produce",version="12"} 5
kafka_server_brokertopicmetrics_bytesin_total 700
kafka_server_brokertopicmetrics_bytesin_total{topic="clicks"} 700
kafka_server_brokertopicmetrics_bytesout_total{topic="clicks"} NaN
process_cpu_seconds_total 1.5
process_resident_memory_bytes 4e7
"""
    assert counters_of(text)[:2] == (15, 700)
    assert counters_of(text)[3:] == (1.5, 4e7)
    assert counters_of("") == Counters()


@pytest.mark.parametrize("words", [["top"], ["top", "--once", "--interval", "0"]])
def test_without_a_terminal_or_with_a_wrong_interval_it_says_so(words, capsys):
    from ottla.cli.main import main

    assert main(words) == 1
    assert "terminal" in capsys.readouterr().err or "--interval" in words
