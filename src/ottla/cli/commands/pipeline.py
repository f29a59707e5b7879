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
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.cli.connecting import DEFAULT_SERVERS, SERVERS_VARIABLE, add_format, output_of, pairs, sentences
from ottla.cli.moments import duration_ms
from ottla.cli.output import FAILED, OK, Failure, sentence
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
  ottla pipeline words sources                     what may stand in the file
"""
DRAW_EVERY_S: Final = 0.2

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"


def add_verbs(verbs: Verbs) -> None:
    init = _verb(verbs, "init", "write an example project", run_init)
    init.add_argument("directory", metavar="DIR", type=Path, help="where; the pipeline is named after it")
    dry = _verb(verbs, "dry-run", "check everything and show the graph, but run nothing", run_dry)
    _add_running(dry)
    dry.add_argument("--no-spark", action="store_true", help="only what is known without Spark: takes no time")
    run = _verb(verbs, "run", "run a pipeline", run_pipeline)
    _add_running(run)
    period = run.add_mutually_exclusive_group()
    period.add_argument("--continuous", action="store_true", help="until Ctrl-C, one batch after the other")
    period.add_argument("--every", metavar="TIME", help="until Ctrl-C, a batch each 10s, 1m ...")
    run.add_argument("--create-topics", action="store_true", help="make topics that are read and not there, too")
    words = _verb(verbs, "words", "what may stand in a pipeline's file", run_words)
    words.add_argument("section", nargs="?", metavar="SECTION", help="sources, steps, sinks ... (all)")
    add_format(words)


def _verb(verbs: Verbs, name: str, help_text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help_text,
        description=sentence(help_text),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a YAML or Python file (pipeline.yml)")
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"brokers, when the file names none (${SERVERS_VARIABLE}, else {DEFAULT_SERVERS})",
    )
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", metavar="URL", help="where it runs: local[2], spark://host:7077, yarn (local[*])")
    group.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:15002")
    group.add_argument("--set", action="append", default=[], metavar="spark.x=y", help="a setting; may be repeated")
    group.add_argument(
        "--spark-log", metavar="FILE", help="where Spark's own log goes (spark.log in storage); - is stderr"
    )
    add_format(parser)


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
    with sentences(), _wrong_files():
        loaded, plan = _loaded(options)
        for line in loaded.graph.tree():
            out.line(line)
        _warn_unread(loaded)
        columns: dict[str, str] = {}
        if not options.no_spark:
            from ottla.spark.pipelines.running import dry_run
            from ottla.spark.running.session import prefer_quick_start

            prefer_quick_start()
            with _session(options, plan) as spark:
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
    with sentences(), _wrong_files():
        loaded, plan = _loaded(options)
        every = None if options.every is None else f"{_period_ms(options.every)} milliseconds"
        _warn_unread(loaded)
        _prepare(options, loaded, plan)
        watch = loaded.watch(plan)
        stop = threading.Event()
        begun_ms = clock.monotonic_ms()
        failed: PipelineFailed | None = None
        with _session(options, plan) as spark, _drawn(plan.name, watch):
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


def _loaded(options: argparse.Namespace) -> tuple[Loaded, Plan]:
    from ottla.spark.pipelines.running import find_file, load

    if options.master is not None and options.remote is not None:
        raise Failure("--master starts Spark, --remote goes to one that runs: give one of them")
    loaded = load(find_file(options.file, Path.cwd()), os.environ)
    servers = options.bootstrap_server or os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
    return loaded, loaded.plan(servers)


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
def _session(options: argparse.Namespace, plan: Plan) -> Iterator[Any]:
    from ottla.spark.pipelines.connecting import open_session

    settings = {**plan.settings, **pairs(options.set, "--set")}
    if options.remote is None:
        settings.setdefault("spark.sql.warehouse.dir", f"{plan.storage}/warehouse")  # not a directory where we are
    log = None if options.spark_log == "-" else Path(options.spark_log or _log_of(plan))
    with open_session(plan.name, master=options.master, remote=options.remote, settings=settings, log=log) as spark:
        yield spark


def _log_of(plan: Plan) -> Path:
    """Beside the progress, when that is on this machine."""
    local = plan.storage.removeprefix("file://")
    return Path(local) / "spark.log" if "://" not in local else Path(tempfile.gettempdir()) / f"{plan.name}-spark.log"


@contextmanager
def _wrong_files() -> Iterator[None]:
    from ottla.spark.pipelines.faults import PipelineWrong

    try:
        yield
    except PipelineWrong as wrong:
        raise Failure("\n       ".join(str(wrong).splitlines())) from None


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
