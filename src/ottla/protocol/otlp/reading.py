"""What a client pushed, as points: MetricsData of OpenTelemetry, read within bounds.

    points, left_out = read_points(memoryview(content), limit=1_000)

1. At most `limit` points are made; how many more there were is said. Names and attributes longer than TEXT_LIMIT, and
   more than ATTRIBUTES_LIMIT attributes, leave their point out.
2. A histogram or a summary becomes two points, its count and its sum: the rest of it is not kept.
3. Messages are nested as deep as their format says and no deeper, so a hostile one costs time in proportion to its
   size.
4. Bytes that are no such message are MalformedOtlp. Fields that are unknown are passed over, as protobuf wants it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ottla.protocol.otlp.points import Attributes, Counts, Point
from ottla.protocol.otlp.wire import MalformedOtlp, Value, as_double, as_signed, fields

TEXT_LIMIT: Final = 255
ATTRIBUTES_LIMIT: Final = 16

# Numbers of fields in OpenTelemetry's metrics.proto.
_RESOURCE_METRICS: Final = 1
_SCOPE_METRICS: Final = 2
_METRICS: Final = 2
_NAME, _GAUGE, _SUM, _HISTOGRAM, _EXPONENTIAL, _SUMMARY = 1, 5, 7, 9, 10, 11
_POINTS, _TEMPORALITY = 1, 2
_START, _TIME, _DOUBLE, _INT = 2, 3, 4, 6
_COUNT, _TOTAL = 4, 5
_ATTRIBUTES: Final = {_GAUGE: 7, _SUM: 7, _HISTOGRAM: 9, _EXPONENTIAL: 1, _SUMMARY: 7}
_KINDS: Final = frozenset(_ATTRIBUTES)
_DELTA: Final = 1


class _LeftOut(Exception):
    """This point is not kept."""


def read_points(content: memoryview, limit: int) -> tuple[list[Point], int]:
    """The points, and how many were left out."""
    points: list[Point] = []
    left_out = 0
    for name, kind, body in _bodies(content):
        counts, data_points = _series(kind, body)
        for each in data_points:
            try:
                found = _points(name, kind, counts, each)
            except _LeftOut:
                left_out += 1
                continue
            room = limit - len(points)
            points += found[:room]
            left_out += max(0, len(found) - room)
    return points, left_out


def _bodies(content: memoryview) -> Iterator[tuple[Value, int, memoryview]]:
    """Of every metric its name, its kind, and what the kind has."""
    for resource in _messages(content, _RESOURCE_METRICS):
        for scope in _messages(resource, _SCOPE_METRICS):
            for metric in _messages(scope, _METRICS):
                name: Value = 0
                kinds: list[tuple[int, memoryview]] = []
                for number, value in fields(metric):
                    if number == _NAME:
                        name = value
                    elif number in _KINDS:
                        kinds.append((number, _message(value)))
                yield from ((name, kind, body) for kind, body in kinds)


def _series(kind: int, body: memoryview) -> tuple[Counts, list[memoryview]]:
    """What its numbers mean, and its data points."""
    temporality: Value = 0
    data_points = []
    for number, value in fields(body):
        if number == _POINTS:
            data_points.append(_message(value))
        elif number == _TEMPORALITY and kind not in (_GAUGE, _SUMMARY):
            temporality = value
    if kind == _GAUGE:
        return Counts.NOW, data_points
    return (Counts.SINCE_LAST_PUSH if temporality == _DELTA else Counts.SINCE_START), data_points


def _points(name: Value, kind: int, counts: Counts, data_point: memoryview) -> list[Point]:
    named = _text(name)
    found: dict[int, Value] = {}
    attributes: list[tuple[str, str]] = []
    for number, value in fields(data_point):
        if number == _ATTRIBUTES[kind]:
            if len(attributes) == ATTRIBUTES_LIMIT:
                raise _LeftOut
            attributes.append(_attribute(_message(value)))
        elif isinstance(value, int):
            found[number] = value
    about: Attributes = tuple(sorted(attributes))
    times = int(found.get(_TIME, 0)), int(found.get(_START, 0))
    return [Point(named + ending, about, number, counts, *times) for ending, number in _numbers(kind, found)]


def _numbers(kind: int, found: dict[int, Value]) -> Iterator[tuple[str, float]]:
    """What is no number is no point."""
    if kind in (_GAUGE, _SUM):
        value = as_signed(int(found[_INT])) if _INT in found else as_double(int(found.get(_DOUBLE, 0)))
        if not math.isnan(value):
            yield "", value
        return
    yield ".count", int(found.get(_COUNT, 0))
    total = as_double(int(found.get(_TOTAL, 0)))
    if not math.isnan(total):
        yield ".sum", total


def _attribute(body: memoryview) -> tuple[str, str]:
    name: Value = 0
    text = ""
    for number, value in fields(body):
        if number == 1:
            name = value
        elif number == 2:
            text = _any_text(_message(value))
    return _text(name), text


def _any_text(body: memoryview) -> str:
    """The value of an attribute in words; lists and maps are not read."""
    for number, value in fields(body):
        if number == 1:
            return _text(value)
        if number == 2:
            return "true" if value else "false"
        if number == 3 and isinstance(value, int):
            return str(as_signed(value))
        if number == 4 and isinstance(value, int):
            return str(as_double(value))
    return ""


def _messages(content: memoryview, wanted: int) -> Iterator[memoryview]:
    return (_message(value) for number, value in fields(content) if number == wanted)


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedOtlp("a number stands where a message should")
    return value


def _text(value: Value) -> str:
    if isinstance(value, int) or len(value) > TEXT_LIMIT:
        raise _LeftOut
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise MalformedOtlp("a name is no UTF-8") from None
