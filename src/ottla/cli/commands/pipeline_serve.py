"""`ottla pipeline serve`: pipelines as a service, with metrics and health over HTTP.

1. All files are checked first; a service that begins has pipelines that make sense. Each runs in a process of its own,
   and is started again, after a while, when that ends (ottla/spark/pipelines/serving/).
2. SIGTERM and Ctrl-C end all of them between two batches, and then the service, with code 0.
3. /metrics, /health/live and /health/ready are those of a broker's admin listener; ready is when every pipeline runs.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import SERVERS_VARIABLE, sentences
from ottla.cli.output import OK, Failure
from ottla.cli.pipelines import (
    Verbs,
    add_parameters,
    add_spark,
    add_verb,
    chosen_parameters,
    parameter_words,
    plan_of,
    wrong_files,
)
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.spark.pipelines.plan import Plan
    from ottla.spark.pipelines.running import Loaded
    from ottla.spark.pipelines.serving.children import Child, Served
    from ottla.spark.pipelines.serving.publishing import Publisher

EXAMPLES: Final = """\
examples:
  ottla pipeline serve                                 pipeline.yml here, until Ctrl-C or SIGTERM
  ottla pipeline serve clicks/ orders/pipeline.yml     several
  ottla pipeline serve --every 10s                     a batch each ten seconds (one after the other)
  ottla pipeline serve --listen 0.0.0.0:9645           metrics and health for other machines, too
  ottla pipeline serve --publish                       the console's page of pipelines shows them
  ottla pipeline systemd                               a unit that runs it
"""
LISTEN: Final = "127.0.0.1:9645"
TURN_S: Final = 0.2


def add_serve(verbs: Verbs) -> None:
    serve = add_verb(verbs, "serve", "run pipelines as a service: restarts, metrics, health", run_serve, EXAMPLES)
    serve.add_argument("files", nargs="*", type=Path, metavar="FILE", help="YAML or Python files (pipeline.yml)")
    serve.add_argument("--listen", metavar="HOST:PORT", default=LISTEN, help=f"for metrics and health ({LISTEN})")
    serve.add_argument("--every", metavar="TIME", help="a batch each 10s, 1m ... (one after the other)")
    serve.add_argument(
        "-b", "--bootstrap-server", metavar="HOST:PORT", help=f"brokers, when a file names none (${SERVERS_VARIABLE})"
    )
    serve.add_argument(
        "--publish", action="store_true", help="tell how they are in the topic ottla-pipelines: the console shows it"
    )
    serve.add_argument("--create-topics", action="store_true", help="make topics that are read and not there, too")
    add_parameters(serve)
    add_spark(serve)


def run_serve(options: argparse.Namespace) -> int:
    with sentences(), wrong_files():
        found = _served(options)
        host, port = _address(options.listen)
        asyncio.run(_serve(options, found, host, port))
    return OK


def _served(options: argparse.Namespace) -> list[tuple[Served, Loaded, Plan]]:
    """The pipelines, checked; two that would meet in one storage are refused."""
    from ottla.spark.pipelines.running import find_file
    from ottla.spark.pipelines.serving.children import Served
    from ottla.spark.pipelines.storage import Storage

    by_name: dict[str, tuple[Served, Loaded, Plan]] = {}
    by_storage: dict[str, str] = {}
    for path in options.files or [None]:
        file = find_file(path, Path.cwd())
        loaded, plan = plan_of(file, options.bootstrap_server, chosen_parameters(options))
        if plan.name in by_name:
            raise Failure(f"two pipelines are called {plan.name}: metrics tell them apart by their names")
        if plan.storage in by_storage:
            raise Failure(f"{plan.name} and {by_storage[plan.storage]} have the same storage, {plan.storage}")
        storage = Storage(plan.storage)
        if storage.directory is None:
            raise Failure(f"{plan.name}: a service wants its storage on this machine, and this one is {plan.storage}")
        by_name[plan.name] = (Served(plan.name, storage, _words(file, options)), loaded, plan)
        by_storage[plan.storage] = plan.name
    return list(by_name.values())


def _words(file: Path, options: argparse.Namespace) -> list[str]:
    """What the process of a pipeline is started with."""
    words = [str(file), "--until-eof", *(["--every", options.every] if options.every else ["--continuous"])]
    for name in ("bootstrap_server", "master", "remote", "spark_log"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", value]
    words += [word for setting in options.set for word in ("--set", setting)]
    words += parameter_words(options)
    return [*words, *(["--create-topics"] if options.create_topics else [])]


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise Failure(f"--listen {text}: an address is written as HOST:PORT")
    return host.strip("[]"), int(port)


async def _serve(
    options: argparse.Namespace, found: Sequence[tuple[Served, Loaded, Plan]], host: str, port: int
) -> None:
    from ottla.broker.observe.admin_http import AdminListenerFailed, AdminServer, Watch
    from ottla.spark.pipelines.serving.children import make_children
    from ottla.spark.pipelines.serving.figures import Figures

    clock, figures = SystemClock(), Figures()
    children = make_children([served for served, _, _ in found], clock.monotonic_ms() / 1000)
    server = AdminServer(Watch(lambda: figures.pieces(children, clock.monotonic_ms()), lambda: _not_ready(children)))
    try:
        bound = await server.start(host, port)
    except AdminListenerFailed as error:
        raise Failure(f"--listen {error.address}: {error.strerror}") from None
    _hear_signals(children)
    publishers = _publishers(options, children, found) if options.publish else []
    for publisher in publishers:
        publisher.start()
    _say(f"serving {', '.join(child.name for child in children)}; metrics and health: http://{bound[0]}:{bound[1]}")
    try:
        while not all(child.supervision.is_over for child in children):
            for child in children:
                for line in child.turn(clock.monotonic_ms() / 1000):
                    _say(line)
            await asyncio.sleep(TURN_S)
    finally:
        await server.stop()
        for publisher in publishers:
            await asyncio.to_thread(publisher.stop)
    _say("all pipelines are stopped")


def _publishers(
    options: argparse.Namespace, children: Sequence[Child], found: Sequence[tuple[Served, Loaded, Plan]]
) -> list[Publisher]:
    """One for each pipeline, at the cluster of its first topic."""
    from ottla.spark.pipelines.drawing import Picture
    from ottla.spark.pipelines.serving.publishing import Publisher
    from ottla.spark.pipelines.topics import wanted_topics

    publishers = []
    for child, (_, loaded, plan) in zip(children, found, strict=True):
        clusters = wanted_topics(plan, loaded.graph)
        if clusters:
            picture = Picture.of(loaded.graph)
            replay = partial(_replay, loaded.file, options.bootstrap_server)
            publishers.append(Publisher(child, clusters[0].settings, picture, replay))
    return publishers


def _replay(file: Path, servers: str | None, request: Mapping[str, Any]) -> str:
    """What somebody asks for by the console: the command, in a process of its own."""
    words = [sys.executable, "-m", "ottla", "pipeline", "replay", str(file), "--yes"]
    words += ["-b", servers] if servers is not None else []
    words += [f"--{name}={request[name]}" for name in ("rule", "step") if request.get(name) is not None]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    last = (done.stdout if done.returncode == OK else done.stderr).strip().splitlines()[-1:]
    line = last[0] if last else f"replay ended with {done.returncode}"
    _say(line)
    return line


def _hear_signals(children: Sequence[Child]) -> None:
    def stop() -> None:
        for child in children:
            child.supervision.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def _not_ready(children: Sequence[Child]) -> str | None:
    troubles = [f"{child.name}: {trouble}" for child in children if (trouble := child.trouble()) is not None]
    return "; ".join(troubles) or None


def _say(line: str) -> None:
    print(f"ottla: {line}", file=sys.stderr, flush=True)
