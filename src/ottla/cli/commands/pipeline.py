"""`ottla pipeline`: records from topics and files through SQL and Python to topics, files and databases, by Spark.

1. The file is checked before anything is started: what is wrong with it comes at once, with its line.
2. `run` (pipeline_run.py) works off what is there and ends; the next run goes on where it was. `--continuous` and
   `--every 10s` run until Ctrl-C, from the same place: the two can be mixed.
3. Spark runs in this process on all cores (local[*]) unless --master or --remote names another one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.pipeline_again import add_again
from ottla.cli.commands.pipeline_graph import add_graph
from ottla.cli.commands.pipeline_replay import add_replay
from ottla.cli.commands.pipeline_run import add_run
from ottla.cli.commands.pipeline_serve import add_serve
from ottla.cli.commands.pipeline_status import add_status
from ottla.cli.commands.pipeline_test import add_test
from ottla.cli.connecting import add_format, output_of, sentences
from ottla.cli.output import OK, Failure
from ottla.cli.pipelines import Verbs, add_running, add_verb, loaded_plan, pipeline_session, warn_unread, wrong_files

if TYPE_CHECKING:
    pass

EXAMPLES: Final = """\
examples:
  ottla pipeline init clicks                       an example to begin with, in the directory clicks
  ottla pipeline dry-run clicks/pipeline.yml       the graph, and whether Spark agrees with every query
  ottla pipeline run                               pipeline.yml here: what is new since the last run
  ottla pipeline run --every 10s                   until Ctrl-C, a batch every ten seconds
  ottla pipeline run --master spark://host:7077    on a cluster
  ottla pipeline run --remote sc://host:15002      by Spark Connect
  ottla pipeline test                              the tests beside it: records in, rows expected
  ottla pipeline serve                             until SIGTERM, with restarts, metrics and health
  ottla pipeline status                            lag, rate, state and errors of each flow
  ottla pipeline words sources                     what may stand in the file
"""


def add_verbs(verbs: Verbs) -> None:
    init = add_verb(verbs, "init", "write an example project", run_init, EXAMPLES)
    init.add_argument("directory", metavar="DIR", type=Path, help="where; the pipeline is named after it")
    dry = add_verb(verbs, "dry-run", "check everything and show the graph, but run nothing", run_dry, EXAMPLES)
    add_running(dry)
    dry.add_argument("--no-spark", action="store_true", help="only what is known without Spark: takes no time")
    add_run(verbs)
    add_serve(verbs)
    add_status(verbs)
    add_test(verbs)
    add_again(verbs)
    add_replay(verbs)
    add_graph(verbs)
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
        warn_unread(loaded)
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
