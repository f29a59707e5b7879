"""A whole pipeline beside the same program on Spark's own connector: rows a second, and CPU a row.

    python -m bench.spark --only pipeline                  JSON in, rules with dead letters, a join with a dimension
                                                           topic, a window, two sinks; records of 100 B and 1 KB
    python -m bench.spark --only cost                      what a row costs in it: reading, parsing, each flow
    python -m bench.spark --only skew                      one partition of 16 has 90 % of the records
    python -m bench.spark --only partitions                500 partitions beside 16
    python -m bench.spark --only large --rows 10000000     10 GB

1. "The same program" is meant literally: the plan of the pipeline's file is made once, and for the other side only the
   names of formats and the options that are ours alone are exchanged (theirs). Rules, SQL and flows are the same.
2. Ours writes exactly once, theirs at least once, because it cannot do otherwise.
3. CPU is that of this process and all below it (Java, Python workers) but for the broker.
4. Only for these parts the session is one of Spark Connect's, as pipelines want it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from bench.spark.both import OURS, THEIRS, Both, ratio
from bench.walk.figures import Figure
from bench.walk.processes import TICKS_PER_S

import ottla
from ottla.light_dataclasses import replace
from ottla.spark.formats.quick_json import QUICK_JSON
from ottla.spark.pipelines.frames import flow_frame, view_frame
from ottla.spark.pipelines.operations import Flow, Read, Select, Target, View
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.running import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE: Final = """
name: realistic
storage: @STORAGE@
sources:
  events:
    topic: @TOPIC@
    format: json
    schema: id BIGINT, page INT, user STRING, at TIMESTAMP, milliseconds INT
    watermark: {column: at, delay: 10 seconds}
    options: {maxOffsetsPerTrigger: "@PER_BATCH@"}
    expect:
      has_user: user IS NOT NULL
      is_quick: {condition: milliseconds < 100000, action: drop}
  pages: {topic: pages, format: json, schema: "page INT, title STRING", static: true}
steps:
  named: SELECT events.*, title FROM events JOIN pages USING (page)
  per_minute: |
    SELECT window.start AS minute, title, count(*) AS events, max(milliseconds) AS slowest
    FROM named GROUP BY window(at, '1 minute'), title
sinks:
  out: {from: named, topic: @OUT@-named, key: user}
  counts: {from: per_minute, topic: @OUT@-counts, key: title}
dead_letters: @OUT@-dead
"""
BEGIN_MS: Final = 1_767_225_600_000  # 2026-01-01
PAGES: Final = 200
CHUNK: Final = 20_000
PARTITIONS: Final = 16
PER_BATCH: Final = 500_000
THEIR_OPTIONS: Final = {"isolationLevel": "kafka.isolation.level"}


def pipeline(both: Both) -> list[Figure]:
    """Rows a second, and CPU a row, for records of two sizes."""
    figures: list[Figure] = []
    for size in (100, 1_000):
        rows = both.rows // 2 if size == 100 else both.rows // 4
        topic = fill(both, f"events-{size}", rows, size, dict.fromkeys(range(PARTITIONS), 1))
        figures += in_turns(both, f"pipeline, {size} B", topic, rows)
    return figures


def cost(both: Both) -> list[Figure]:
    """CPU a row of its pieces, each alone: what of the whole could be the connectors'."""
    rows = both.rows // 2
    topic = fill(both, "costly", rows, 100, dict.fromkeys(range(PARTITIONS), 1))
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(both.rounds + 1):
        for side in both.sides if number % 2 else both.sides[::-1]:
            for name in ("read", "read and judged", "out", "counts", "events__dead"):
                plan = _plan(both, side, topic, PER_BATCH)
                before = spent_s(both)
                _run_piece(both, plan, name)
                spent = (spent_s(both) - before) / rows * 1e6
                if number:
                    found.setdefault(name, {each: [] for each in both.sides})[side].append(spent)
    return [beside(f"{name}: CPU a row, ours / JVM connector", each, "µs") for name, each in found.items()]


def _run_piece(both: Both, plan: Plan, name: str) -> None:
    flows = tuple(flow for flow in plan.flows if flow.name == name)
    if not flows:  # a view that goes nowhere
        judged = next(view for view in plan.views if view.name == "events__checked")
        view = judged if name != "read" else replace(judged, operations=())
        flows = (Flow(name, view.name, (), Target("noop", {})),)
        plan = replace(plan, views=(view,))
    _run(both, replace(plan, flows=flows))


def skew(both: Both) -> list[Figure]:
    """One partition of 16 has nine tenths of what there is."""
    weights = {number: 135 if number == 0 else 1 for number in range(PARTITIONS)}
    return in_turns(both, "pipeline, one partition with 90 %", fill(both, "skewed", both.rows // 2, 100, weights))


def partitions(both: Both) -> list[Figure]:
    """As many rows in 500 partitions."""
    return in_turns(
        both, "pipeline, 500 partitions", fill(both, "many", both.rows // 2, 100, dict.fromkeys(range(500), 1))
    )


def large(both: Both) -> list[Figure]:
    """10 GB in records of 1 KB, or as much as --rows says: 10,000,000 of them are that."""
    topic = fill(both, "large", both.rows, 1_000, dict.fromkeys(range(PARTITIONS), 1))
    return in_turns(both, f"pipeline, {both.rows / 1e6:.3g} GB in records of 1 KB", topic, rounds=1)


def fill(both: Both, topic: str, rows: int, size: int, weights: Mapping[int, int]) -> str:
    """Events, one in a hundred no JSON and one without a user, shared among partitions by weight; their times go up."""
    with ottla.Admin(bootstrap_servers=both.servers) as admin:
        known = admin.list_topics()
        wanted = [ottla.NewTopic(topic, len(weights), 1)]
        wanted += [ottla.NewTopic("pages", 1, 1)] if "pages" not in known else []
        admin.create_topics(wanted)
    places = [number for number, weight in weights.items() for _ in range(weight)]
    padding = "x" * max(0, size - 100)
    with ottla.Producer(bootstrap_servers=both.servers, batch_size=262_144, linger_ms=5) as producer:
        if "pages" not in known:
            producer.send_many("pages", [json.dumps({"page": page, "title": f"t{page}"}) for page in range(PAGES)])
        for begin in range(0, rows, CHUNK):
            numbers = range(begin, min(begin + CHUNK, rows))
            values = pa.array([_event(number, padding) for number in numbers], pa.binary())
            where = pa.array([places[number % len(places)] for number in numbers], pa.int32())
            producer.send_arrow(topic, pa.RecordBatch.from_arrays([values, where], ["value", "partition"]))
    return topic


def _event(number: int, padding: str) -> bytes:
    if number % 100 == 50:
        return b"this is no event"
    user = "null" if number % 100 == 51 else f'"u{number % 997}"'
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((BEGIN_MS + number * 3) / 1000))
    text = f'{{"id":{number},"page":{number % PAGES},"user":{user},"at":"{at}","milliseconds":{number % 9000}'
    return f'{text},"rest":"{padding}"}}'.encode()


def in_turns(both: Both, name: str, topic: str, rows: int | None = None, rounds: int | None = None) -> list[Figure]:
    """The pipeline over a topic, each side in its turn; the first turn only warms up, unless it is the only one."""
    count = both.rows // 2 if rows is None else rows
    rate: dict[str, list[float]] = {side: [] for side in both.sides}
    cpu: dict[str, list[float]] = {side: [] for side in both.sides}
    for number in range(1 if rounds == 1 else (rounds or both.rounds) + 1):
        for side in both.sides if number % 2 else both.sides[::-1]:
            plan = _plan(both, side, topic, PER_BATCH)
            before, begun = spent_s(both), time.perf_counter()
            _run(both, plan)
            taken, spent = time.perf_counter() - begun, spent_s(both) - before
            if number or rounds == 1:
                rate[side].append(count / taken)
                cpu[side].append(spent / count * 1e6)
            shutil.rmtree(plan.storage)
    return [
        beside(f"{name}: rows/s, ours / JVM connector", rate, "rows/s", at_least=1.5),
        beside(f"{name}: CPU a row, ours / JVM connector", cpu, "µs", at_most=0.7),
    ]


def beside(
    name: str,
    found: Mapping[str, list[float]],
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """Ours over theirs, or ours alone when their connector is not here."""
    ours = statistics.median(found[OURS])
    if THEIRS not in found:
        return Figure(name, ours, f"{unit}; Spark's own connector is not here")
    rounds = sorted(one / other for one, other in zip(found[OURS], found[THEIRS], strict=True))
    spread = f"; rounds {rounds[0]:.2f} to {rounds[-1]:.2f}" if len(rounds) > 1 else ""
    detail = f"{ours:,.1f} / {statistics.median(found[THEIRS]):,.1f} {unit}{spread}"
    return Figure(name, ratio(found[OURS], found[THEIRS]), detail, at_least=at_least, at_most=at_most)


# --- one run ----------------------------------------------------------------------------------------------------------


def _plan(both: Both, side: str, topic: str, per_batch: int) -> Plan:
    directory = both.new_directory()
    directory.mkdir()
    out = both.new_name()
    with ottla.Admin(bootstrap_servers=both.servers) as admin:
        admin.create_topics([ottla.NewTopic(f"{out}-{what}", 2, 1) for what in ("named", "counts", "dead")])
    said = {"@STORAGE@": str(directory), "@TOPIC@": topic, "@OUT@": out, "@PER_BATCH@": str(per_batch)}
    text = PIPELINE
    for word, value in said.items():
        text = text.replace(word, value)
    file = directory / "pipeline.yml"
    file.write_text(text)
    plan = load(file, {}).plan(both.servers)
    return plan if side == OURS else theirs(plan)


def theirs(plan: Plan) -> Plan:
    """The same plan for Spark's own connector."""
    views = tuple(map(_their_view, plan.views))
    flows = tuple(replace(flow, target=_their_target(flow)) for flow in plan.flows)
    return replace(plan, views=views, flows=flows)


def _their_view(view: View) -> View:
    begin = view.beginning
    if not isinstance(begin, Read) or begin.format != OURS:
        return view
    options = {THEIR_OPTIONS.get(name, name): value for name, value in begin.options.items()}
    quick = options.pop(QUICK_JSON, None)
    before = (Select(("*", f"CAST(NULL AS STRUCT<{quick}>) AS {QUICK_JSON}")),) if quick is not None else ()
    begin = replace(begin, format=THEIRS, options=options)
    return replace(view, beginning=begin, operations=(*before, *view.operations))


def _their_target(flow: Flow) -> Target:
    return replace(flow.target, format=THEIRS) if flow.target.format == OURS else flow.target


def _run(both: Both, plan: Plan) -> None:
    """All flows at once, until what is there is worked off."""
    queries = _start(both.spark, plan, {"availableNow": True})
    for query in queries:
        query.awaitTermination()


def _start(spark: SparkSession, plan: Plan, trigger: Mapping[str, Any]) -> list[Any]:
    for view in plan.views:
        view_frame(spark, view).createOrReplaceTempView(view.name)
    queries = []
    for flow in plan.flows:
        writer = flow_frame(spark, flow).writeStream.queryName(flow.name).trigger(**trigger)
        writer = writer.option("checkpointLocation", f"{plan.storage}/{flow.name}")
        queries.append(writer.format(flow.target.format).options(**flow.target.options).start())
    return queries


# --- CPU --------------------------------------------------------------------------------------------------------------


def spent_s(both: Both) -> float:
    """CPU of this process and everything below it, also of what has ended, but for the broker."""
    tree: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        own = sum(int(fields[index]) for index in (11, 12, 13, 14))
        tree[int(path.parent.name)] = (int(fields[1]), own / TICKS_PER_S)
    below: Callable[[int], bool] = lambda pid: pid == os.getpid() or (pid in tree and below(tree[pid][0]))  # noqa: E731
    return sum(spent for pid, (_, spent) in tree.items() if pid != both.broker_pid and below(pid))
