"""The picture of a pipeline: as SVG, Mermaid or DOT, each made here and by nobody else.

    picture = Picture.of(graph)
    svg(picture, notes={"counts": "9 behind"})        a file that browsers show; notes stand in the boxes

1. Sources stand on the left, sinks on the right, each thing one column behind the last that it reads; dead letters
   stand beside the sinks. Within a column things stand in the order of the file.
2. What people wrote (names, topics) is escaped: a picture is shown in a browser.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final
from xml.sax.saxutils import escape

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.definition import DeadLetters
from ottla.spark.pipelines.graph import Graph, shown_sink

BOX_WIDTH: Final = 220
BOX_HEIGHT: Final = 64
GAP_X: Final = 70
GAP_Y: Final = 22
MARGIN: Final = 16
TEXT_MAX: Final = 34
COLOURS: Final = {"source": "#dbeafe", "step": "#fef9c3", "sink": "#dcfce7", "dead": "#fee2e2"}
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#111} .name{font-weight:600} .note{fill:#444;font-size:12px}"
    " rect{stroke:#555} path{fill:none;stroke:#555;stroke-width:1.5} .dead{stroke-dasharray:5 4}"
)


@dataclass(frozen=True, slots=True)
class Node:
    """A source, step or sink, or the dead letters."""

    name: str
    kind: str
    text: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and arrows; arrows by the names of boxes."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, graph: Graph) -> Picture:
        """The boxes of a pipeline. Sinks have names of their own, which may be those of steps: they get a prefix."""
        edges = [(each, name) for name in graph.order for each in graph.inputs[name]]
        pipeline = graph.pipeline
        depth: dict[str, int] = {}
        for name in graph.order:
            depth[name] = 1 + max((depth[each] for each in graph.inputs[name]), default=-1)
        last = 1 + max(depth.values(), default=0)
        kinds = {name: "source" if name in pipeline.sources else "step" for name in graph.order}
        boxes = [(name, kinds[name], graph.shown(name), depth[name]) for name in graph.order]
        for name, sink in pipeline.sinks.items():
            boxes.append((f"sink {name}", "sink", shown_sink(sink), last))
            edges.append((sink.from_, f"sink {name}"))
        dying = [name for name in graph.order if graph.has_dead_letters(name)]
        if pipeline.dead_letters is not None and dying:
            boxes.append(("dead letters", "dead", _letters(pipeline.dead_letters), last))
            edges += [(name, "dead letters") for name in dying]
        rows: dict[int, int] = {}
        nodes = []
        for name, kind, text, column in boxes:
            nodes.append(Node(name, kind, text, column, rows.get(column, 0)))
            rows[column] = rows.get(column, 0) + 1
        return cls(pipeline.name, tuple(nodes), tuple(edges))

    def as_json(self) -> dict[str, object]:
        """For who draws it elsewhere."""
        return dataclasses.asdict(self)


def _letters(letters: DeadLetters) -> str:
    return f"topic {letters.topic}" if letters.topic is not None else f"files {letters.files}"


def svg(picture: Picture, notes: Mapping[str, str] | None = None) -> str:
    """A drawing that needs nothing else; `notes` are further lines by the names of boxes."""
    columns = 1 + max(node.column for node in picture.nodes)
    rows = 1 + max(node.row for node in picture.nodes)
    width = 2 * MARGIN + columns * BOX_WIDTH + (columns - 1) * GAP_X
    height = 2 * MARGIN + rows * BOX_HEIGHT + (rows - 1) * GAP_Y
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img"><title>{escape(picture.title)}</title><style>{STYLE}</style>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#555;stroke:none"/></marker></defs>',
        *_arrows(picture),
        *(line for node in picture.nodes for line in _box(node, (notes or {}).get(node.name, ""))),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _place(node: Node) -> tuple[int, int]:
    return MARGIN + node.column * (BOX_WIDTH + GAP_X), MARGIN + node.row * (BOX_HEIGHT + GAP_Y)


def _arrows(picture: Picture) -> Iterator[str]:
    nodes = {node.name: node for node in picture.nodes}
    for begin, end in picture.edges:
        x, y = _place(nodes[begin])
        to_x, to_y = _place(nodes[end])
        x, y, to_y = x + BOX_WIDTH, y + BOX_HEIGHT // 2, to_y + BOX_HEIGHT // 2
        middle = (x + to_x) // 2
        dashes = ' class="dead"' if nodes[end].kind == "dead" else ""
        yield f'<path d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}" marker-end="url(#tip)"{dashes}/>'


def _box(node: Node, note: str) -> Iterator[str]:
    x, y = _place(node)
    colour = COLOURS[node.kind]
    yield f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{colour}"/>'
    yield f'<text x="{x + 10}" y="{y + 20}" class="name">{_shown(node.name.removeprefix("sink "))}</text>'
    yield f'<text x="{x + 10}" y="{y + 38}" class="note">{_shown(node.text)}</text>'
    if note:
        yield f'<text x="{x + 10}" y="{y + 55}" class="note">{_shown(note)}</text>'


def _shown(text: str) -> str:
    return escape(text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…")


def mermaid(picture: Picture) -> str:
    """For Markdown: GitHub, GitLab and others draw it."""
    ids = {node.name: f"n{number}" for number, node in enumerate(picture.nodes)}
    lines = ["flowchart LR"]
    for node in picture.nodes:
        text = "<br/>".join(escape(part, {'"': "#quot;"}) for part in (node.name.removeprefix("sink "), node.text))
        lines.append(f'    {ids[node.name]}["{text}"]:::{node.kind}')
    for begin, end in picture.edges:
        lines.append(f"    {ids[begin]} {'-.->' if end == 'dead letters' else '-->'} {ids[end]}")
    lines += [f"    classDef {kind} fill:{colour},stroke:#555,color:#111" for kind, colour in COLOURS.items()]
    return "\n".join(lines) + "\n"


def dot(picture: Picture) -> str:
    """For Graphviz."""
    lines = [f"digraph {_quoted(picture.title)} {{", "    rankdir=LR; node [shape=box, style=filled];"]
    for node in picture.nodes:
        label = _quoted(f"{node.name.removeprefix('sink ')}\n{node.text}")
        lines.append(f'    {_quoted(node.name)} [label={label}, fillcolor="{COLOURS[node.kind]}"];')
    for begin, end in picture.edges:
        lines.append(f"    {_quoted(begin)} -> {_quoted(end)}{' [style=dashed]' if end == 'dead letters' else ''};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
