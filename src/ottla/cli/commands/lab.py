"""`ottla lab start`: three brokers on this machine by one command, to learn and to try things.

1. Everything is a process of its own, so that one can be taken away (its number is printed) and the others watched.
2. Data stays in the directory: the next start finds the topics of the last one.
3. SIGTERM and Ctrl-C stop all of them in order. A broker that ends is told of, and does not end the lab.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.cli.output import OK, Failure

if TYPE_CHECKING:
    from ottla.cluster.store.zookeeper.server import ZooKeeperServer

DEFAULT_DATA: Final = "lab-data"
DEFAULT_PORT: Final = 9092
BROKERS_LIMIT: Final = 9
LOOK_EVERY_S: Final = 0.5
EXAMPLES: Final = """\
examples:
  ottla lab start                                three brokers on ports 9092, 9093 and 9094
  ottla lab start --brokers 5 --port 0           five on free ports
  ottla topic create clicks -p 6                 in another terminal: every partition has three copies
  ottla topic describe clicks                    who leads, who is in sync
"""

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"


def add_verbs(verbs: Verbs) -> None:
    start = verbs.add_parser(
        "start",
        help="start a cluster",
        description="Start some brokers for learning, and serve until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument("--brokers", type=int, default=3, help="how many brokers (default 3)")
    start.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path(DEFAULT_DATA),
        help=f"where everything is kept ({DEFAULT_DATA})",
    )
    start.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help=f"of the first broker; the others follow (default {DEFAULT_PORT}); 0 takes free ones",
    )
    start.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="one setting of all brokers; may be repeated"
    )
    start.set_defaults(run=run_start)


def run_start(options: argparse.Namespace) -> int:
    from ottla.cli.connecting import pairs
    from ottla.cli.lab_cluster import LabCluster, LabFailed
    from ottla.cluster.store.zookeeper.server import ZooKeeperMissing

    if not 1 <= options.brokers <= BROKERS_LIMIT:
        raise Failure(f"a lab has 1 to {BROKERS_LIMIT} brokers, not {options.brokers}")
    if not 0 <= options.port <= 65_535 - options.brokers:
        raise Failure(f"{options.port} is no port")
    ports = [options.port + number for number in range(options.brokers)] if options.port else []
    data = options.data.absolute()
    lab = LabCluster(
        data, brokers=options.brokers, settings=pairs(options.set, "--set"), ports=ports, zookeeper=_zookeeper_of(data)
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with lab:
            _print_addresses(lab)
            _watch(lab, stop)
    except (ZooKeeperMissing, LabFailed) as reason:
        raise Failure(str(reason)) from None
    except OSError as error:
        raise Failure(f"the lab cannot start: {error}") from None
    return OK


def _zookeeper_of(data: Path) -> ZooKeeperServer | None:
    """Labs of earlier versions had one, and go on with it."""
    from ottla.cluster.store.zookeeper.server import ZooKeeperServer

    directory = data / "zookeeper"
    return ZooKeeperServer(directory, durable=True) if directory.is_dir() else None


def _print_addresses(lab: Any) -> None:
    for broker in lab.brokers:
        assert broker.process is not None, "the lab has started"
        print(f"broker {broker.number}:  {broker.address}  (process {broker.process.pid}, log {broker.log})")
    print(f"ready: bootstrap.servers={lab.bootstrap_servers}", flush=True)


def _watch(lab: Any, stop: threading.Event) -> None:
    gone: set[int] = set()
    while not stop.wait(LOOK_EVERY_S):
        for broker in lab.brokers:
            if not broker.is_running and broker.number not in gone:
                gone.add(broker.number)
                print(f"broker {broker.number} has ended; its log is {broker.log}", flush=True)
    print("stopping", flush=True)
