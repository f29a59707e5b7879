"""What the verbs of `ottla pipeline` have in common: the file, where Spark runs, its session, errors as sentences."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.cli.connecting import DEFAULT_SERVERS, SERVERS_VARIABLE, add_format, pairs
from ottla.cli.output import Failure, sentence

if TYPE_CHECKING:
    from ottla.spark.pipelines.parameters import Chosen
    from ottla.spark.pipelines.plan import Plan
    from ottla.spark.pipelines.running import Loaded

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"


def add_verb(
    verbs: Verbs, name: str, help_text: str, run: Callable[[argparse.Namespace], int], examples: str
) -> argparse.ArgumentParser:
    """A verb with its examples."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help_text,
        description=sentence(help_text),
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_running(parser: argparse.ArgumentParser) -> None:
    """The file, and everything about where it runs."""
    add_file(parser)
    add_spark(parser)
    add_format(parser)


def add_file(parser: argparse.ArgumentParser) -> None:
    """The file of a pipeline, and the brokers it does not name."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a YAML or Python file (pipeline.yml)")
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"brokers, when the file names none (${SERVERS_VARIABLE}, else {DEFAULT_SERVERS})",
    )
    add_parameters(parser)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Values of the file's parameters."""
    parser.add_argument("--environment", metavar="NAME", help="which environment's parameters count")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="the value of a parameter")


def parameter_words(options: argparse.Namespace) -> list[str]:
    """The same options for another command."""
    environment = [] if options.environment is None else ["--environment", options.environment]
    return [*environment, *(word for value in options.param for word in ("--param", value))]


def chosen_parameters(options: argparse.Namespace) -> Chosen:
    """What the options say of parameters."""
    from ottla.spark.pipelines.parameters import Chosen

    return Chosen(pairs(options.param, "--param"), options.environment)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs."""
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", metavar="URL", help="where it runs: local[2], spark://host:7077, yarn (local[*])")
    group.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:15002")
    group.add_argument("--set", action="append", default=[], metavar="spark.x=y", help="a setting; may be repeated")
    group.add_argument(
        "--spark-log", metavar="FILE", help="where Spark's own log goes (spark.log in storage); - is stderr"
    )


def loaded_plan(options: argparse.Namespace) -> tuple[Loaded, Plan]:
    """The pipeline that the options name, and its plan."""
    from ottla.spark.pipelines.running import find_file

    if options.master is not None and options.remote is not None:
        raise Failure("--master starts Spark, --remote goes to one that runs: give one of them")
    return plan_of(find_file(options.file, Path.cwd()), options.bootstrap_server, chosen_parameters(options))


def plan_of(file: Path, servers: str | None, chosen: Chosen) -> tuple[Loaded, Plan]:
    """The pipeline of a file, and its plan; `servers` are those of the command line."""
    from ottla.spark.pipelines.running import load

    loaded = load(file, os.environ, chosen)
    return loaded, loaded.plan(_or_default(servers))


def servers_of(options: argparse.Namespace, loaded: Loaded) -> str:
    """The brokers for topics that name none."""
    return loaded.graph.pipeline.bootstrap or _or_default(options.bootstrap_server)


def _or_default(servers: str | None) -> str:
    return servers or os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS


@contextmanager
def pipeline_session(options: argparse.Namespace, plan: Plan) -> Iterator[Any]:
    """A session for this plan, where the options say."""
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
def wrong_files() -> Iterator[None]:
    """What is wrong with a file, as the command's own failure."""
    from ottla.spark.pipelines.faults import PipelineWrong

    try:
        yield
    except PipelineWrong as wrong:
        raise Failure("\n       ".join(str(wrong).splitlines())) from None


def warn_unread(loaded: Loaded) -> None:
    """Sources and steps that lead nowhere are no fault, but probably a mistake."""
    from ottla.spark.pipelines.checks import unread

    for name in unread(loaded.graph):
        print(f"ottla: nothing reads {name}", file=sys.stderr)
