"""`ottla pipeline`: records from topics and files through SQL and Python to topics, files and databases, by Spark.

1. The file is checked before anything is started: what is wrong with it comes at once, with its line.
2. `run` works off what is there and ends; the next run goes on where it was. `--continuous` and `--every 10s` run until
   Ctrl-C, from the same place: the two can be mixed. Ctrl-C in a `run` that would end by itself breaks it off; nothing
   is lost or doubled by that.
3. Spark runs in this process on all cores (local[*]) unless --master or --remote names another one.
4. While it runs there is a line on a terminal; at the end a table, or JSON for programs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.pipeline_test import add_test
from ottla.cli.connecting import add_format, output_of, sentences
from ottla.cli.moments import duration_ms
from ottla.cli.output import FAILED, OK, Failure
from ottla.cli.pipelines import Verbs, add_running, add_verb, loaded_plan, pipeline_session, wrong_files
from ottla.cli.progress import Progress
from ottla.cli.show import shown_duration
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.spark.pipelines.plan import Plan
    from ottla.spark.pipelines.running import Loaded
    from ottla.spark.pipelines.watching import Watch

EXAMPLES: Final = """\
examples:
  ottla pipeline init clicks                       an example to begin with, in the directory clicks
  ottla pipeline dry-run clicks/pipeline.yml       the graph, and whether Spark agrees with every query
  ottla pipeline run                               pipeline.yml here: what is new since the last run
  ottla pipeline run --every 10s                   until Ctrl-C, a batch every ten seconds
  ottla pipeline run --master spark://host:7077    on a cluster
  ottla pipeline run --remote sc://host:15002      by Spark Connect
  ottla pipeline test                              the tests beside it: records in, rows expected
  ottla pipeline words sources                     what may stand in the file
"""
DRAW_EVERY_S: Final = 0.2


def add_verbs(verbs: Verbs) -> None:
    init = add_verb(verbs, "init", "write an example project", run_init, EXAMPLES)
    init.add_argument("directory", metavar="DIR", type=Path, help="where; the pipeline is named after it")
    dry = add_verb(verbs, "dry-run", "check everything and show the graph, but run nothing", run_dry, EXAMPLES)
    add_running(dry)
    dry.add_argument("--no-spark", action="store_true", help="only what is known without Spark: takes no time")
    run = add_verb(verbs, "run", "run a pipeline", run_pipeline, EXAMPLES)
    add_running(run)
    period = run.add_mutually_exclusive_group()
    period.add_argument("--continuous", action="store_true", help="until Ctrl-C, one batch after the other")
    period.add_argument("--every", metavar="TIME", help="until Ctrl-C, a batch each 10s, 1m ...")
    run.add_argument("--create-topics", action="store_true", help="make topics that are read and not there, too")
    add_test(verbs)
    words = add_verb(verbs, "words", "what may stand in a pipeline's file", run_words, EXAMPLES)
    words.add_argument("section", nargs="?", metavar="SECTION", help="sources, steps, sinks ... (all)")
    add_format(words)


# --- init and words ---------------------------------------------------------------------------------------------------


def run_init(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.example import next_commands, write_example

    name = options.directory.absolute().name
    if not name.replace("-", "").replace("_", "").isalnum() or not name[0].isalpha():
        raise Failure(f"{name!r} cannot be a pipeline's name: letters, digits, _ and - only, a letter first")
    try:
        written = write_example(options.directory, name)
    except FileExistsError as error:
        raise Failure(f"{error}; choose another directory") from None
    for path in written:
        print(path)
    print("\nnext:")
    for command in next_commands(options.directory, name):
        print(f"  {command}")
    return OK


def run_words(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.definition import SECTIONS
    from ottla.spark.pipelines.faults import nearest
    from ottla.spark.pipelines.words import words_of

    by_word = {_section(section.__name__): section for section in SECTIONS}
    if options.section is not None and options.section not in by_word:
        raise Failure(f"there is no section {options.section!r}{nearest(options.section, by_word)}")
    chosen = [options.section] if options.section is not None else list(by_word)
    rows = [(section, *row) for section in chosen for row in words_of(by_word[section])]
    output_of(options).table(["SECTION", "WORD", "DEFAULT", "MEANING"], rows)
    return OK


def _section(class_name: str) -> str:
    names = {"Pipeline": "pipeline", "Expectation": "expect", "Watermark": "watermark", "DeadLetters": "dead_letters"}
    return names.get(class_name, f"{class_name.lower()}s")


# --- dry-run and run --------------------------------------------------------------------------------------------------


def run_dry(options: argparse.Namespace) -> int:
    out = output_of(options)
    with sentences(), wrong_files():
        loaded, plan = loaded_plan(options)
        for line in loaded.graph.tree():
            out.line(line)
        _warn_unread(loaded)
        columns: dict[str, str] = {}
        if not options.no_spark:
            from ottla.spark.pipelines.running import dry_run
            from ottla.spark.running.session import prefer_quick_start

            prefer_quick_start()
            with pipeline_session(options, plan) as spark:
                columns = dry_run(plan, spark)
    if out.form == "json":
        flows = [{"flow": flow.name, "from": flow.dataset, "format": flow.target.format} for flow in plan.flows]
        out.value({"pipeline": plan.name, "datasets": loaded.graph.inputs, "columns": columns, "flows": flows})
    elif columns:
        out.line("")
        out.table(["DATASET", "COLUMNS"], list(columns.items()))
    out.line(f"{plan.name} is right{'' if options.no_spark else ', and Spark agrees'}")
    return OK


def run_pipeline(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.declarative import PipelineFailed
    from ottla.spark.pipelines.running import run_always, run_triggered

    clock = SystemClock()
    with sentences(), wrong_files():
        loaded, plan = loaded_plan(options)
        every = None if options.every is None else f"{_period_ms(options.every)} milliseconds"
        _warn_unread(loaded)
        _prepare(options, loaded, plan)
        watch = loaded.watch(plan)
        stop = threading.Event()
        begun_ms = clock.monotonic_ms()
        failed: PipelineFailed | None = None
        with pipeline_session(options, plan) as spark, _drawn(plan.name, watch):
            try:
                if options.continuous or every is not None:
                    with _stopping(stop):
                        run_always(plan, spark, watch, stop.wait, every)
                else:
                    run_triggered(plan, spark, watch, stop.wait)
            except PipelineFailed as error:
                failed = error
    _summarize(options, plan, watch, (clock.monotonic_ms() - begun_ms) / 1000)
    if failed is not None:
        print(f"ottla: {plan.name} failed: {failed}", file=sys.stderr)
        return FAILED
    return OK


def _prepare(options: argparse.Namespace, loaded: Loaded, plan: Plan) -> None:
    """Topics, asked from here; when Spark runs elsewhere it may know other clusters than this machine does."""
    if options.remote is not None:
        return
    from ottla.spark.pipelines.topics import prepare_topics, wanted_topics

    for cluster in wanted_topics(plan, loaded.graph):
        for topic in prepare_topics(cluster, create_read=options.create_topics):
            print(f"made the topic {topic}", file=sys.stderr)


def _warn_unread(loaded: Loaded) -> None:
    from ottla.spark.pipelines.checks import unread

    for name in unread(loaded.graph):
        print(f"ottla: nothing reads {name}", file=sys.stderr)


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
