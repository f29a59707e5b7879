"""Points as the bytes that a client pushes: one resource, one scope, a metric for every name.

write_points(points, resource=[("service.name", "orders")])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.protocol.otlp.points import Counts, Point
from ottla.protocol.otlp.wire import bytes_field, double_field, fixed_field, varint_field

_TEMPORALITY: Final = {Counts.SINCE_LAST_PUSH: 1, Counts.SINCE_START: 2}
_GAUGE, _SUM = 5, 7


def write_points(points: Iterable[Point], resource: Sequence[tuple[str, str]] = ()) -> bytes:
    """MetricsData with all of them; points of one name must mean the same."""
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    scope = b"".join(bytes_field(2, _metric(name, group)) for name, group in by_name.items())
    about = b"".join(bytes_field(1, _attribute(*each)) for each in resource)
    return bytes_field(1, bytes_field(1, about) + bytes_field(2, scope))


def _metric(name: str, points: list[Point]) -> bytes:
    data = b"".join(bytes_field(1, _data_point(each)) for each in points)
    counts = points[0].counts
    if counts is Counts.NOW:
        return bytes_field(1, name.encode()) + bytes_field(_GAUGE, data)
    monotonic = varint_field(2, _TEMPORALITY[counts]) + varint_field(3, 1)
    return bytes_field(1, name.encode()) + bytes_field(_SUM, data + monotonic)


def _data_point(point: Point) -> bytes:
    start = fixed_field(2, point.start_ns) if point.start_ns else b""
    attributes = b"".join(bytes_field(7, _attribute(*each)) for each in point.attributes)
    return start + fixed_field(3, point.time_ns) + double_field(4, point.value) + attributes


def _attribute(name: str, text: str) -> bytes:
    return bytes_field(1, name.encode()) + bytes_field(2, bytes_field(1, text.encode()))
