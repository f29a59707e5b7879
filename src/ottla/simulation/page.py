"""The time line of a run, drawn: one page of HTML with an SVG in it, which needs no network.

1. A lane for every node: brokers first, then clients. Faults are red bars from their beginning to their end; elections,
   appends and operations are marks, with their text when the mouse is over them.
2. Below it is the story (story.py), and the line that repeats the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from ottla.simulation.run import Result
from ottla.simulation.story import Line, lines_of, story

LANE_PX: Final = 26
LEFT_PX: Final = 190
WIDTH_PX: Final = 1_400
MARKS_LIMIT: Final = 5_000
COLOURS: Final = {"ok": "#2e7d32", "fail": "#c62828", "info": "#757575"}
KINDS: Final = {"leads": "#6a1b9a", "in sync": "#1565c0", "append": "#90a4ae", "commits": "#b0bec5", "cut": "#e65100"}
STYLE: Final = (
    "body{font:14px sans-serif;margin:2em;color:#222}pre{font:12px monospace;white-space:pre-wrap}"
    "svg text{font:12px sans-serif}.bad{color:#c62828}code{background:#eee;padding:2px 6px}"
)


def page(result: Result) -> str:
    """The whole page."""
    bad = "".join(f'<li class="bad">{escape(str(each))}</li>' for each in result.anomalies[:50])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>seed {result.plan.seed}</title>'
        f"<style>{STYLE}</style></head><body><h1>Seed {result.plan.seed}</h1><p>{escape(result.summary())}</p>"
        f"<ul>{bad}</ul><p>Again: <code>{escape(result.repeat_command)}</code></p>{_drawn(result)}"
        f"<h2>What happened</h2><pre>{escape(chr(10).join(story(result)))}</pre></body></html>\n"
    )


def _drawn(result: Result) -> str:
    lines = lines_of(result)
    nodes = _nodes(lines)
    lanes = {node: number for number, node in enumerate(nodes)}
    length_s = max(result.virtual_s, 1.0)
    height = LANE_PX * (len(nodes) + 1)
    body = [
        *_lanes(nodes),
        *_scale(length_s, height),
        *_faults(lines, lanes, length_s),
        *_marks(lines, lanes, length_s),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{height + 20}" role="img" '
        f'aria-label="time line of every node">{"".join(body)}</svg>'
    )


def _nodes(lines: Iterable[Line]) -> list[str]:
    """Brokers first."""
    found = dict.fromkeys(each.node for each in lines if each.node != "everybody")
    return sorted(found, key=lambda node: (not node.startswith("broker"), node))


def _x(time_s: float, length_s: float) -> float:
    return round(LEFT_PX + time_s / length_s * (WIDTH_PX - LEFT_PX - 20), 1)


def _lanes(nodes: list[str]) -> Iterator[str]:
    for number, node in enumerate(nodes):
        y = LANE_PX * number + LANE_PX
        yield f'<text x="4" y="{y + 4}">{escape(node)}</text>'
        yield f'<line x1="{LEFT_PX}" x2="{WIDTH_PX - 20}" y1="{y}" y2="{y}" stroke="#ddd"/>'


def _scale(length_s: float, height: int) -> Iterator[str]:
    step_s = max(1, round(length_s / 12))
    for second in range(0, int(length_s) + 1, step_s):
        x = _x(second, length_s)
        yield f'<line x1="{x}" x2="{x}" y1="10" y2="{height}" stroke="#eee"/>'
        yield f'<text x="{x}" y="{height + 14}" fill="#666">{second} s</text>'


def _faults(lines: Iterable[Line], lanes: dict[str, int], length_s: float) -> Iterator[str]:
    begun: dict[tuple[str, str], float] = {}
    for each in lines:
        if each.kind == "fault":
            begun[each.node, each.text] = each.time_s
        elif each.kind == "undone":
            yield _bar(
                each.node, each.text, begun.pop((each.node, each.text), each.time_s), each.time_s, lanes, length_s
            )
    for (node, text), time_s in begun.items():
        yield _bar(node, text, time_s, time_s, lanes, length_s)


def _bar(node: str, text: str, from_s: float, to_s: float, lanes: dict[str, int], length_s: float) -> str:
    x, y = _x(from_s, length_s), LANE_PX * lanes[node] + LANE_PX
    width = max(3.0, round(_x(to_s, length_s) - x, 1))
    return (
        f'<rect x="{x}" y="{y - 8}" width="{width}" height="16" fill="#ef9a9a" fill-opacity="0.7">'
        f"<title>{escape(f'{from_s:.3f} s: {text}')}</title></rect>"
    )


def _marks(lines: Iterable[Line], lanes: dict[str, int], length_s: float) -> Iterator[str]:
    marks = [each for each in lines if each.node in lanes and (each.end or each.kind in KINDS)]
    for each in marks[:MARKS_LIMIT]:
        x, y = _x(each.time_s, length_s), LANE_PX * lanes[each.node] + LANE_PX
        colour = KINDS.get(each.kind) or COLOURS.get(each.end, "#757575")
        radius = 5 if each.kind == "leads" else 2.5
        title = escape(f"{each.time_s:.3f} s {each.kind}: {each.text}"[:300])
        yield f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"><title>{title}</title></circle>'
