"""`ottla pipeline status`: each flow's lag in records and seconds, rate, state and last error, running or not.

1. Lag is asked of the cluster, beside what the checkpoint says is done: it is right whoever runs the pipeline, and when
   nobody does. Seconds are the age of the first record that was not read.
2. Everything else is what the run reported last, in its storage. A run that was killed could not say so: it is told by
   its lock, which the system takes away with the process.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import add_format, output_of, sentences
from ottla.cli.output import OK, Failure
from ottla.cli.pipelines import (
    Verbs,
    add_parameters,
    add_verb,
    chosen_parameters,
    plan_of,
    wrong_files,
)
from ottla.cli.show import shown_duration, shown_size, shown_time
from ottla.clock import SystemClock
from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from ottla.spark.pipelines.graph import Graph
    from ottla.spark.pipelines.plan import Plan
    from ottla.spark.pipelines.statuses import FlowStatus, RunStatus
    from ottla.spark.pipelines.storage import Storage

EXAMPLES: Final = """\
examples:
  ottla pipeline status                     the pipeline here, whether it runs or not
  ottla pipeline status clicks/ orders/     several
  ottla pipeline status --no-lag            without asking the brokers
  ottla pipeline status --json              for programs
"""
HEADINGS: Final = ("FLOW", "STATE", "LAG", "LAG TIME", "ROWS/S", "STATE ROWS", "STATE SIZE", "LAST BATCH", "ERROR")
KILLED: Final = "killed"
NEVER: Final = "never ran"


@dataclass(slots=True)
class _Lag:
    records: int
    seconds: float | None


def add_status(verbs: Verbs) -> None:
    status = add_verb(verbs, "status", "how far each flow is: lag, rate, state, last error", run_status, EXAMPLES)
    status.add_argument("files", nargs="*", type=Path, metavar="FILE", help="YAML or Python files (pipeline.yml)")
    status.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT", help="brokers, when a file names none")
    add_parameters(status)
    status.add_argument("--no-lag", action="store_true", help="do not ask the brokers")
    add_format(status)


def run_status(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.running import find_file
    from ottla.spark.pipelines.storage import Storage

    out, values = output_of(options), []
    with sentences(), wrong_files():
        chosen = chosen_parameters(options)
        for path in options.files or [None]:
            loaded, plan = plan_of(find_file(path, Path.cwd()), options.bootstrap_server, chosen)
            storage = Storage(plan.storage)
            if storage.directory is None:
                raise Failure(f"{plan.name}: its storage {plan.storage} is not on this machine: nothing is known here")
            lags = {} if options.no_lag else _lags(plan, loaded.graph, storage)
            values.append(_value(plan, storage, lags))
    if out.form == "json":
        out.value(values)
        return OK
    for value in values:
        out.line(_sentence(value))
        out.table(HEADINGS, [_row(flow) for flow in value["flows"]])
    return OK


def _lags(plan: Plan, graph: Graph, storage: Storage) -> dict[str, _Lag]:
    """The lag of each flow that reads topics; none when the cluster does not answer, which is said."""
    from ottla.cli.ages import ages_of
    from ottla.errors import OttlaError
    from ottla.spark.pipelines.flow_positions import positions_of

    lags: dict[str, _Lag] = {}
    ages: dict[tuple[str, str], float | None] = {}
    try:
        for at in positions_of(plan, graph, storage):
            unread = at.first_unread()
            asked = (at.source, repr(sorted(unread.items())))  # flows of one source are mostly at the same place
            if unread and asked not in ages:
                ages[asked] = max(ages_of(at.settings, unread).values(), default=None)
            seconds = ages[asked] if unread else 0.0
            known = lags.setdefault(at.flow, _Lag(0, 0.0))
            known.records += at.behind
            known.seconds = None if seconds is None or known.seconds is None else max(known.seconds, seconds)
    except (OttlaError, TimeoutError) as error:
        print(f"ottla: {plan.name}: the lag is not known: {error}", file=sys.stderr)
        return {}
    return lags


def _value(plan: Plan, storage: Storage, lags: dict[str, _Lag]) -> dict[str, Any]:
    status = storage.last_status()
    state = NEVER if status is None else status.state
    if status is not None and state in ("running", "starting") and not storage.is_in_use():
        state = KILLED
    reported = {} if status is None else {flow.flow: flow for flow in status.flows}
    return {
        "pipeline": plan.name,
        "state": state,
        "process": None if status is None else status.pid,
        "begun_ms": None if status is None else status.begun_ms,
        "updated_ms": None if status is None else status.updated_ms,
        "error": None if status is None else status.error,
        "flows": [_flow(flow.name, reported.get(flow.name), lags.get(flow.name), state) for flow in plan.flows],
        "rules": _rules(status),
    }


def _rules(status: RunStatus | None) -> list[dict[str, Any]]:
    return [] if status is None else list(status.to_json()["rules"])


def _flow(name: str, reported: FlowStatus | None, lag: _Lag | None, state: str) -> dict[str, Any]:
    is_over = state in (KILLED, NEVER)
    return {
        "flow": name,
        "state": state if is_over or reported is None else reported.state,
        "lag_records": None if lag is None else lag.records,
        "lag_seconds": None if lag is None else lag.seconds,
        "rows_per_s": None if reported is None else reported.rows_per_s,
        "state_rows": None if reported is None else reported.state_rows,
        "state_bytes": None if reported is None else reported.state_bytes,
        "last_batch_ms": None if reported is None else reported.last_batch_ms,
        "error": None if reported is None else reported.error,
    }


def _sentence(value: dict[str, Any]) -> str:
    if value["state"] == NEVER:
        return f"{value['pipeline']} never ran in this storage"
    when = shown_time(value["updated_ms"])
    process = f", process {value['process']}" if value["state"] in ("running", "starting") else f" at {when}"
    error = f": {value['error']}" if value["error"] else ""
    return f"{value['pipeline']}: {value['state']}{process}, begun at {shown_time(value['begun_ms'])}{error}"


def _row(flow: dict[str, Any]) -> tuple[object, ...]:
    seconds, last_ms = flow["lag_seconds"], flow["last_batch_ms"]
    ago = None if last_ms is None else shown_duration(max(0.0, (SystemClock().now_ms() - last_ms) / 1000))
    return (
        flow["flow"],
        flow["state"],
        flow["lag_records"],
        None if seconds is None else shown_duration(seconds),
        None if flow["rows_per_s"] is None else round(flow["rows_per_s"]),
        flow["state_rows"],
        None if flow["state_bytes"] is None else shown_size(flow["state_bytes"]),
        None if ago is None else f"{ago} ago",
        (flow["error"] or "").partition("\n")[0],
    )
