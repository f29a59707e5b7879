"""`ottla zookeeper start`: a real ZooKeeper, one node or three, for developing and learning.

1. It is Apache ZooKeeper itself, out of PySpark's jars (cluster/store/zookeeper/server.py), on 127.0.0.1 only and
   without any login: for production, set one up as its own documentation says.
2. One line on stdout when it serves, with what goes behind --zookeeper; its log is in the data directory.
3. SIGTERM and Ctrl-C stop it in order. A node that ends by itself ends the command, with the last lines of its log.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path
from typing import Any, Final, TypeAlias

from ottla.cli.output import OK, Failure

DEFAULT_DATA: Final = "zookeeper-data"
DEFAULT_PORT: Final = 2181
LOOK_EVERY_S: Final = 1.0
EXAMPLES: Final = """\
examples:
  ottla zookeeper start                              one node on 127.0.0.1:2181
  ottla zookeeper start --nodes 3                    an ensemble on ports 2181, 2182 and 2183
  ottla broker start --zookeeper 127.0.0.1:2181      a broker of that cluster
"""

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"


def add_verbs(verbs: Verbs) -> None:
    start = verbs.add_parser(
        "start",
        help="start a ZooKeeper",
        description="Start a ZooKeeper for development and serve until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="how many servers form it (default 1)")
    start.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path(DEFAULT_DATA),
        help=f"where it keeps its files ({DEFAULT_DATA})",
    )
    start.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help=f"of the first node; the others follow (default {DEFAULT_PORT}); 0 takes free ones",
    )
    start.set_defaults(run=run_start)


def run_start(options: argparse.Namespace) -> int:
    from ottla.cluster.store.zookeeper.server import ZooKeeperMissing, ZooKeeperServer, tail

    if not 0 <= options.port <= 65_535 - options.nodes:
        raise Failure(f"{options.port} is no port")
    ports = [options.port + number for number in range(options.nodes)] if options.port else []
    server = ZooKeeperServer(options.data.absolute(), nodes=options.nodes, ports=ports, tick_ms=2_000, durable=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with server:
            print(f"ZooKeeper serves: zookeeper.connect={server.connect}", flush=True)
            while not stop.wait(LOOK_EVERY_S):
                ended = next((node for node in server.nodes if not node.is_running), None)
                if ended is not None:
                    raise Failure(f"node {ended.number} of ZooKeeper ended:\n{tail(ended.directory / 'server.log')}")
    except ZooKeeperMissing as reason:
        raise Failure(str(reason)) from None
    except OSError as error:
        raise Failure(f"ZooKeeper cannot start: {error}") from None
    return OK
