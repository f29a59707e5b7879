"""Metrics that clients push: those of real clients are read, ours are read back, and hostile bytes end in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.header import decode_request
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.protocol.otlp.points import Counts, Point
from ottla.protocol.otlp.reading import ATTRIBUTES_LIMIT, TEXT_LIMIT, read_points
from ottla.protocol.otlp.wire import MalformedOtlp, bytes_field, fixed_field, varint_field
from ottla.protocol.otlp.writing import write_points
from ottla.records.compression import decompress

FRAMES = Path(__file__).parents[2] / "golden" / "frames"
LIMIT = 10_000
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


def pushed_by(client: str) -> list[tuple[list[Point], int]]:
    lines = (FRAMES / f"{client}.jsonl").read_text().splitlines()
    frames = [each for each in map(json.loads, lines) if each["api"] == "PushTelemetry" and each["kind"] == "request"]
    found = []
    for frame in frames:
        _, request = decode_request(memoryview(bytes.fromhex(frame["hex"])))
        assert isinstance(request, PushTelemetryRequest)
        content = decompress(request.compression_type, request.metrics, 1 << 20)
        found.append(read_points(memoryview(content), LIMIT))
    return found


@pytest.mark.parametrize(
    ("client", "prefix"), [("java-4.3.1", "org.apache.kafka."), ("librdkafka-2.16.0", "org.apache.kafka.")]
)
def test_what_real_clients_push_is_read(client: str, prefix: str) -> None:
    pushes = pushed_by(client)
    assert pushes
    points = [point for found, left_out in pushes for point in found if not left_out]
    assert points
    assert all(point.name.startswith(prefix) for point in points)
    assert {point.counts for point in points} <= set(Counts)
    assert all(point.time_ns > 1_600_000_000 * 10**9 for point in points)


@given(
    st.lists(
        st.builds(
            Point,
            NAMES,
            st.dictionaries(NAMES, NAMES, max_size=3).map(lambda each: tuple(sorted(each.items()))),
            st.floats(allow_nan=False),
            st.sampled_from(Counts),
            st.integers(0, 2**63 - 1),
            st.integers(0, 2**63 - 1),
        ),
        unique_by=lambda point: point.name,
        max_size=10,
    )
)
def test_what_is_written_is_read(points: list[Point]) -> None:
    assert read_points(memoryview(write_points(points, [("service.name", "orders")])), LIMIT) == (points, 0)


def test_points_beyond_the_limit_are_counted() -> None:
    content = write_points([Point(f"m{number}", (), number) for number in range(5)])
    points, left_out = read_points(memoryview(content), 2)
    assert ([point.name for point in points], left_out) == (["m0", "m1"], 3)


def test_long_names_and_many_attributes_are_left_out() -> None:
    many = tuple((f"a{number}", "x") for number in range(ATTRIBUTES_LIMIT + 1))
    content = write_points([Point("n" * (TEXT_LIMIT + 1), (), 1), Point("m", many, 1), Point("k", (), 1)])
    points, left_out = read_points(memoryview(content), LIMIT)
    assert ([point.name for point in points], left_out) == (["k"], 2)


def test_a_histogram_is_its_count_and_its_sum() -> None:
    import struct

    total = int.from_bytes(struct.pack("<d", 7.5), "little")
    data = fixed_field(4, 3) + fixed_field(5, total) + bytes_field(6, b"ignored") + fixed_field(3, 11)
    metric = bytes_field(1, b"latency") + bytes_field(9, bytes_field(1, data) + varint_field(2, 1))
    content = bytes_field(1, bytes_field(2, bytes_field(2, metric)))
    points, _ = read_points(memoryview(content), LIMIT)
    assert points == [
        Point("latency.count", (), 3, Counts.SINCE_LAST_PUSH, 11),
        Point("latency.sum", (), 7.5, Counts.SINCE_LAST_PUSH, 11),
    ]


@given(st.binary(max_size=300))
def test_any_bytes_are_points_or_malformed(content: bytes) -> None:
    try:
        points, _ = read_points(memoryview(content), 5)
    except MalformedOtlp:
        return
    assert len(points) <= 5


@given(st.data())
def test_a_message_that_was_cut_is_malformed_or_shorter(data: st.DataObject) -> None:
    whole = write_points([Point("a", (("topic", "orders"),), 1.5), Point("b", (), 2.0, Counts.SINCE_START)])
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(MalformedOtlp):
        read_points(memoryview(whole[:cut]), LIMIT)
