"""`ottla pipeline run`: works off what is there, or runs until Ctrl-C.

1. While it runs, its storage is locked against a second run, and the status there is renewed every REPORT_EVERY_S.
2. Ctrl-C and SIGTERM end a run that would go on for ever between two batches, also while it is starting. Ctrl-C in one
   that would end by itself breaks it off; nothing is lost or doubled by that.
3. `--until-eof` ends it with its standard input too: a service that dies takes its pipelines with it.
4. While it runs there is a line on a terminal; at the end a table, or JSON for programs.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import output_of, sentences
from ottla.cli.moments import duration_ms
from ottla.cli.output import FAILED, OK, Failure
from ottla.cli.pipelines import Verbs, add_running, add_verb, loaded_plan, pipeline_session, warn_unread, wrong_files
from ottla.cli.progress import Progress
from ottla.cli.show import shown_duration
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.spark.pipelines.plan import Plan
    from ottla.spark.pipelines.running import Loaded
    from ottla.spark.pipelines.statuses import Reporter
    from ottla.spark.pipelines.storage import Storage
    from ottla.spark.pipelines.watching import Watch

EXAMPLES: Final = """\
examples:
  ottla pipeline run                               pipeline.yml here: what is new since the last run
  ottla pipeline run --every 10s                   until Ctrl-C, a batch every ten seconds
  ottla pipeline run --continuous                  until Ctrl-C, one batch after the other
  ottla pipeline run --master spark://host:7077    on a cluster
  ottla pipeline run --remote sc://host:15002      by Spark Connect
"""
DRAW_EVERY_S: Final = 0.2
REPORT_EVERY_S: Final = 1.0


def add_run(verbs: Verbs) -> None:
    run = add_verb(verbs, "run", "run a pipeline", run_pipeline, EXAMPLES)
    add_running(run)
    period = run.add_mutually_exclusive_group()
    period.add_argument("--continuous", action="store_true", help="until Ctrl-C, one batch after the other")
    period.add_argument("--every", metavar="TIME", help="until Ctrl-C, a batch each 10s, 1m ...")
    run.add_argument("--create-topics", action="store_true", help="make topics that are read and not there, too")
    run.add_argument("--until-eof", action="store_true", help="end also when standard input ends: for services")


def run_pipeline(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.declarative import PipelineFailed
    from ottla.spark.pipelines.running import run_always, run_triggered
    from ottla.spark.pipelines.statuses import Reporter
    from ottla.spark.pipelines.storage import Storage

    clock = SystemClock()
    with sentences(), wrong_files(), ExitStack() as stack:
        loaded, plan = loaded_plan(options)
        every = None if options.every is None else f"{_period_ms(options.every)} milliseconds"
        is_endless = options.continuous or every is not None
        warn_unread(loaded)
        storage = Storage(plan.storage)
        stack.enter_context(storage.locked())
        _prepare(options, loaded, plan)
        watch, stop = loaded.watch(plan), threading.Event()
        begun_ms = clock.monotonic_ms()
        reporter = Reporter(plan.name, watch, pid=os.getpid(), host=socket.gethostname(), begun_ms=clock.now_ms())
        failed: PipelineFailed | None = None
        if is_endless:
            stack.enter_context(_stopping(stop))
            if options.until_eof:
                _stop_at_eof(stop)
        with _Report(storage, reporter) as report:
            try:
                with pipeline_session(options, plan) as spark, _drawn(plan.name, watch):
                    report.say("running")
                    if is_endless:
                        run_always(plan, spark, watch, stop.wait, every)
                    else:
                        run_triggered(plan, spark, watch, stop.wait)
                report.say("stopped" if is_endless else "completed")
            except PipelineFailed as error:
                failed = error
                report.say("failed", str(error))
    _summarize(options, plan, watch, (clock.monotonic_ms() - begun_ms) / 1000)
    if failed is not None:
        print(f"ottla: {plan.name} failed: {failed}", file=sys.stderr)
        return FAILED
    return OK


class _Report:
    """The status in the storage, renewed by a thread while this is open."""

    def __init__(self, storage: Storage, reporter: Reporter) -> None:
        self._storage = storage
        self._reporter = reporter
        self._clock = SystemClock()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._renew, name="status", daemon=True)
        self._state: tuple[str, str | None] = ("starting", None)

    def say(self, state: str, error: str | None = None) -> None:
        """The run has come so far."""
        with self._lock:
            self._state = (state, error)
            self._storage.write_status(self._reporter.status(self._clock.now_ms(), state, error))

    def _renew(self) -> None:
        while not self._over.wait(REPORT_EVERY_S):
            self.say(*self._state)

    def __enter__(self) -> _Report:
        self.say(*self._state)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._over.set()
        self._thread.join()
        if error is not None:
            self.say("failed", str(error) or type(error).__name__)


def _stop_at_eof(stop: threading.Event) -> None:
    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1 << 16):  # not by its buffer, whose lock Python wants at its end
            pass
        stop.set()

    threading.Thread(target=wait, name="standard input", daemon=True).start()


def _prepare(options: argparse.Namespace, loaded: Loaded, plan: Plan) -> None:
    """Directories and topics, seen from here; a Spark that runs elsewhere may know others than this machine."""
    if options.remote is not None:
        return
    from ottla.spark.pipelines.file_logs import refuse_foreign_directories
    from ottla.spark.pipelines.topics import prepare_topics, wanted_topics

    refuse_foreign_directories(plan)
    for cluster in wanted_topics(plan, loaded.graph):
        for topic in prepare_topics(cluster, create_read=options.create_topics):
            print(f"made the topic {topic}", file=sys.stderr)


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the queries in order, and the table comes; a second Ctrl-C does not wait."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def end(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _drawn(name: str, watch: Watch) -> Iterator[None]:
    """The line of a terminal, drawn by a thread of its own while Spark works."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def draw() -> None:
        with Progress(name, unit="rows") as line:
            while not over.wait(DRAW_EVERY_S):
                behind = watch.total("behind")
                line.reach(watch.total("rows_in"), f"{watch.states()}{f', {behind:,} behind' if behind else ''}")

    thread = threading.Thread(target=draw, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _summarize(options: argparse.Namespace, plan: Plan, watch: Watch, seconds: float) -> None:
    out = output_of(options)
    flows = [
        (
            each.flow.name,
            each.state,
            each.rows_in,
            each.rows_out,
            each.late,
            each.batches,
            round(each.rows_per_s),
            each.behind,
        )
        for each in watch.flows.values()
    ]
    rules = [(each.dataset, each.rule, each.action, each.broken, each.rows) for each in watch.rules()]
    flow_names = ["FLOW", "STATE", "ROWS IN", "ROWS OUT", "LATE", "BATCHES", "ROWS/S", "BEHIND"]
    rule_names = ["DATASET", "RULE", "ELSE", "BROKEN", "ROWS"]
    if out.form == "json":
        keys = [name.lower().replace(" ", "_").replace("/", "_per_") for name in flow_names]
        out.value(
            {
                "pipeline": plan.name,
                "seconds": round(seconds, 3),
                "flows": [dict(zip(keys, row, strict=True)) for row in flows],
                "rules": [dict(zip(map(str.lower, rule_names), row, strict=True)) for row in rules],
            }
        )
        return
    out.table(flow_names, flows)
    if rules:
        out.line("")
        out.table(rule_names, rules)
    out.line(f"{plan.name} ran for {shown_duration(seconds)}")


def _period_ms(text: str) -> int:
    try:
        return duration_ms(text)
    except ValueError as error:
        raise Failure(f"--every {text}: {error}") from None
