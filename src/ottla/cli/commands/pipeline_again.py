"""`ottla pipeline reset` and `backfill`: to begin anew, and to run a period again. Both show first what they will do.

1. Nothing is done before it was shown and confirmed: on a terminal it is asked, elsewhere --yes says it, and --dry-run
   ends there.
2. Both lock the storage: they do not work beside a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import confirmed, output_of, sentences
from ottla.cli.moments import milliseconds
from ottla.cli.output import OK, Failure
from ottla.cli.pipelines import Verbs, add_running, add_verb, loaded_plan, pipeline_session, servers_of, wrong_files

if TYPE_CHECKING:
    from ottla.cli.output import Output
    from ottla.spark.pipelines.backfilling import Backfill
    from ottla.spark.pipelines.graph import Graph
    from ottla.spark.pipelines.operations import Flow

RESET_EXAMPLES: Final = """\
examples:
  ottla pipeline reset                       what it would do, then asks
  ottla pipeline reset --flow slow_files     one flow; the others go on where they are
  ottla pipeline reset --yes                 in a script
"""
BACKFILL_EXAMPLES: Final = """\
examples:
  ottla pipeline backfill --from 2026-11-01 --to 2026-11-02           what it would do, then asks
  ottla pipeline backfill --from -2d --to -1d --flow slow_files       one flow
  ottla pipeline backfill --from -2d --to -1d --again --yes           rows that are there already are written again
"""


def add_again(verbs: Verbs) -> None:
    reset = add_verb(verbs, "reset", "begin anew: forget the progress of flows", run_reset, RESET_EXAMPLES)
    backfill = add_verb(verbs, "backfill", "run a period again, beside the progress", run_backfill, BACKFILL_EXAMPLES)
    for parser in (reset, backfill):
        add_running(parser)
        parser.add_argument("--flow", action="append", default=[], metavar="NAME", help="only this; may be repeated")
        parser.add_argument("--yes", action="store_true", help="do it without asking")
        parser.add_argument("--dry-run", action="store_true", help="only show it")
    for name, text in (("from", "records from this time on"), ("to", "up to this time")):
        help_text = f"{text}: 2026-11-01T12:30:00Z, -2h"
        backfill.add_argument(f"--{name}", dest=f"{name}_time", metavar="TIME", required=True, help=help_text)
    backfill.add_argument("--again", action="store_true", help="also records that the flow has read already")


def run_reset(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.resetting import plan_reset, reset
    from ottla.spark.pipelines.storage import Storage

    out = output_of(options)
    with sentences(), wrong_files():
        _, plan = loaded_plan(options)
        with Storage(plan.storage).locked(for_reset=True):
            changes = plan_reset(plan, options.flow)
        rows = [(change.flow, change.batches, change.sink) for change in changes]
        out.table(["FLOW", "BATCHES", "WHAT IT HAS WRITTEN"], rows)
        if options.dry_run or not confirmed(f"Forget the progress of {plan.name}?", yes=options.yes):
            return OK
        with Storage(plan.storage).being_reset():
            reset(plan_reset(plan, options.flow))
    out.line(f"{plan.name}: the next run of {'these flows' if options.flow else 'all flows'} begins anew")
    return OK


def run_backfill(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.backfilling import overlap, plan_backfill
    from ottla.spark.pipelines.backfilling import run_backfill as fill
    from ottla.spark.pipelines.declarative import PipelineFailed
    from ottla.spark.pipelines.storage import Storage

    out = output_of(options)
    with sentences(), wrong_files():
        loaded, plan = loaded_plan(options)
        period_ms = (_moment_ms("--from", options.from_time), _moment_ms("--to", options.to_time))
        with Storage(plan.storage).locked():
            backfill = plan_backfill(
                plan, loaded.graph, loaded.file.parent, servers_of(options, loaded), period_ms, options.flow
            )
            known = overlap(plan, loaded.graph, backfill)
            _show(out, backfill, loaded.graph, known)
            if options.dry_run:
                return OK
            if any(known[name] for name in known if name not in backfill.done) and not options.again:
                raise Failure(
                    "records of that time were read already, and their rows would be there twice; --again means it, "
                    "--flow chooses others"
                )
            if not confirmed(f"Run this period of {plan.name}?", yes=options.yes):
                return OK
            try:
                with pipeline_session(options, plan) as spark:
                    fill(plan, backfill, spark, lambda flow, rows: out.line(f"{flow}: {rows} rows"))
            except PipelineFailed as error:
                raise Failure(f"{error}; start it again, it goes on with the same records") from None
    out.line(f"{plan.name}: the period is written")
    return OK


def _moment_ms(option: str, text: str) -> int:
    try:
        return milliseconds(text)
    except ValueError as error:
        raise Failure(f"{option} {text}: {error}") from None


def _show(out: Output, backfill: Backfill, graph: Graph, known: dict[str, int]) -> None:
    spans = [(span.source, span.topic, span.partition, span.start, span.end) for span in backfill.spans]
    out.table(["SOURCE", "TOPIC", "PARTITION", "FROM OFFSET", "TO OFFSET"], spans)
    out.line("")
    flows = [_row(backfill, flow, graph, known) for flow in backfill.plan.flows]
    out.table(["FLOW", "INTO", "RECORDS", "READ BEFORE", "DONE"], flows)


def _row(backfill: Backfill, flow: Flow, graph: Graph, known: dict[str, int]) -> Sequence[object]:
    options = flow.target.options
    into = options.get("topic") or options.get("path") or options.get("dbtable")
    is_done = "yes" if flow.name in backfill.done else "no"
    return flow.name, into, backfill.records(flow, graph), known.get(flow.name), is_done
