"""`ottla pipeline graph`: the picture of a pipeline; on a terminal as lines, into a file as the file's name says.
`ottla pipeline systemd`: a unit that serves it. `ottla pipeline airflow`: a DAG that runs it."""

from __future__ import annotations

import argparse
import getpass
import shlex
import sys
from pathlib import Path
from typing import Final

from ottla.cli.connecting import SERVERS_VARIABLE, sentences
from ottla.cli.output import OK, Failure
from ottla.cli.pipelines import (
    Verbs,
    add_file,
    add_parameters,
    add_verb,
    chosen_parameters,
    parameter_words,
    plan_of,
    wrong_files,
)

GRAPH_EXAMPLES: Final = """\
examples:
  ottla pipeline graph                        as lines
  ottla pipeline graph -o pipeline.svg        as a picture, with nothing else installed
  ottla pipeline graph --as mermaid           for Markdown; dot for Graphviz
"""
SYSTEMD_EXAMPLES: Final = """\
examples:
  ottla pipeline systemd clicks/pipeline.yml > ottla-clicks.service
  sudo cp ottla-clicks.service /etc/systemd/system/ && sudo systemctl enable --now ottla-clicks
"""
AIRFLOW_EXAMPLES: Final = """\
examples:
  ottla pipeline airflow clicks/pipeline.yml > ~/airflow/dags/clicks.py
  ottla pipeline airflow --schedule '*/10 * * * *'
"""
DAG: Final = """\
# Made by `ottla pipeline airflow`. pip install 'ottla[airflow,spark]' where Airflow's workers run.
from airflow.sdk import DAG

from ottla.spark.pipelines.airflow import PipelineOperator

with DAG({name!r}, schedule={schedule!r}, catchup=False, max_active_runs=1):
    PipelineOperator(task_id={name!r}, file={file!r})
"""
KINDS: Final = ("text", "svg", "mermaid", "dot")
_OF_SUFFIX: Final = {".svg": "svg", ".mmd": "mermaid", ".dot": "dot", ".gv": "dot", ".txt": "text"}
UNIT: Final = """\
# Made by `ottla pipeline systemd`. Passwords belong into the file of EnvironmentFile, which only the user can read.
[Unit]
Description=Ottla pipelines: {names}
After=network-online.target
Wants=network-online.target

[Service]
User={user}
WorkingDirectory={directory}
EnvironmentFile=-{directory}/pipeline.env
ExecStart={command}
Restart=on-failure
RestartSec=5
# The service ends its pipelines between two batches, for which it takes at most a minute.
TimeoutStopSec=75
KillMode=mixed

[Install]
WantedBy=multi-user.target
"""


def add_graph(verbs: Verbs) -> None:
    graph = add_verb(verbs, "graph", "the picture of a pipeline", run_graph, GRAPH_EXAMPLES)
    add_file(graph)
    graph.add_argument("--as", dest="kind", choices=KINDS, help="what it is drawn as (text, or as FILE is called)")
    graph.add_argument("-o", "--output", type=Path, metavar="FILE", help="into a file: .svg, .mmd, .dot")
    unit = add_verb(verbs, "systemd", "a systemd unit that serves pipelines", run_systemd, SYSTEMD_EXAMPLES)
    unit.add_argument("files", nargs="*", type=Path, metavar="FILE", help="YAML or Python files (pipeline.yml)")
    unit.add_argument("--user", metavar="NAME", help="who runs it (who calls this)")
    unit.add_argument("--listen", metavar="HOST:PORT", help="for metrics and health")
    unit.add_argument(
        "-b", "--bootstrap-server", metavar="HOST:PORT", help=f"brokers, when a file names none (${SERVERS_VARIABLE})"
    )
    add_parameters(unit)
    dag = add_verb(verbs, "airflow", "a DAG of Airflow that runs a pipeline", run_airflow, AIRFLOW_EXAMPLES)
    add_file(dag)
    dag.add_argument("--schedule", metavar="CRON", default="@hourly", help="when it runs (@hourly)")


def run_graph(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.drawing import Picture, dot, mermaid, svg
    from ottla.spark.pipelines.running import find_file

    kind = options.kind or (_kind_of(options.output) if options.output is not None else "text")
    with sentences(), wrong_files():
        loaded, _ = plan_of(find_file(options.file, Path.cwd()), options.bootstrap_server, chosen_parameters(options))
    picture = Picture.of(loaded.graph)
    draw = {"svg": svg, "mermaid": mermaid, "dot": dot}
    text = "\n".join([*loaded.graph.tree(), ""]) if kind == "text" else draw[kind](picture)
    if options.output is not None:
        options.output.write_text(text)
        print(options.output)
    else:
        print(text, end="")
    return OK


def _kind_of(path: Path) -> str:
    if path.suffix not in _OF_SUFFIX:
        raise Failure(f"{path}: what is it to be drawn as? End it with {', '.join(_OF_SUFFIX)}, or say --as")
    return _OF_SUFFIX[path.suffix]


def run_systemd(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.running import find_file

    with sentences(), wrong_files():
        files = [find_file(path, Path.cwd()) for path in options.files or [None]]
        chosen = chosen_parameters(options)
        names = [plan_of(file, options.bootstrap_server, chosen)[1].name for file in files]
    words = [sys.executable, "-m", "ottla", "pipeline", "serve", *map(str, files)]
    for name in ("listen", "bootstrap_server"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", value]
    words += parameter_words(options)
    # systemd takes % and $ for its own.
    command = shlex.join(words).replace("%", "%%").replace("$", "$$")
    user = options.user or getpass.getuser()
    print(UNIT.format(names=", ".join(names), user=user, directory=files[0].parent, command=command), end="")
    return OK


def run_airflow(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.running import find_file

    with sentences(), wrong_files():
        file = find_file(options.file, Path.cwd())
        if words := parameter_words(options):
            raise Failure(f"{words[0]}: a task of Airflow runs a pipeline with the defaults of its parameters")
        _, plan = plan_of(file, options.bootstrap_server, chosen_parameters(options))
    print(DAG.format(name=plan.name, schedule=options.schedule, file=str(file)), end="")
    return OK
