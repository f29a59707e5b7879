"""`ottla broker`: start brokers, see how they are, look up settings. The only command that imports the broker.

1. Settings come from, strongest first: --set, the other options, the environment (KAFKA_ as the official image reads
   it, OTTLA_ for our own, CLUSTER_ID), the file.
2. A name in the file or after --set that nobody knows ends the start, with the nearest name, and for a file with its
   line. In the environment it is a warning, because KAFKA_ variables of other programs live there too.
3. One line on stdout when clients are served; the log is on stderr. A start that fails says why and what to do, and
   the exit code is 1.
4. --secure puts everything behind a lock (secure_start.py); --brokers N runs N of them as one cluster (brokers/);
   --new-cluster begins one that other machines join with --join (quorum/).
5. SIGTERM and Ctrl-C stop the broker in order; a second one ends it at once, as if the machine had lost power.
"""

from __future__ import annotations

import argparse
import errno
import gc
import logging
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ottla.cli.collecting import collect_for_service, uncollected
from ottla.cli.output import FAILED, OK, Failure, Output

if TYPE_CHECKING:
    import asyncio

    from ottla.broker.settings import BrokerSettings
    from ottla.cli.quorum.beginning import StartedNode
    from ottla.cli.secure_start import Secured
    from ottla.cli.tables.supervised import SupervisedTables
    from ottla.errors import InvalidConfig
    from ottla.settings import Setting

log = logging.getLogger(__name__)

# The threads that sync files want the interpreter lock for a moment only, and so does the loop after them. Python's own
# 5 ms would be the longest part of a request.
SWITCH_INTERVAL_S: Final = 0.000_05

START_HELP: Final = """\
Start a broker and serve until SIGTERM or Ctrl-C.

Settings have Kafka's names. Strongest first: --set, the other options, the environment (KAFKA_NUM_PARTITIONS=3),
the file given with --config.
"""
START_EXAMPLES: Final = """\
examples:
  ottla broker start
  ottla broker start --secure
  ottla broker start --brokers 4
  ottla broker start --tables                    topics whose ottla.table.mode says so are tables, too
  ottla broker start --brokers 3 --racks a,b,c
  ottla broker start 1                           again, after `ottla broker stop 1`
  ottla broker start --new-cluster               prints the line for the next machine:
  ottla broker start --join 10.0.0.1:9092 --token 1.5L6g3nShT-eMCtK--X86sw.1d2f6a0b
  ottla broker start --config server.properties
  ottla broker start --data /var/lib/ottla --listen 127.0.0.1:9092
  ottla broker start --zookeeper 127.0.0.1:2181 --listen 127.0.0.1:9093 --data broker-2
  ottla broker start --set num.partitions=3 --set log.retention.hours=24
  ottla broker start --listen 0.0.0.0:9092 --insecure --set advertised.listeners=PLAINTEXT://my-host:9092
"""
SETTINGS_EXAMPLES: Final = """\
  ottla broker settings                          all of them
  ottla broker settings retention                those that are about it
  ottla broker settings --wide | grep timeout    one line each
"""
STOP_EXAMPLES: Final = """\
  ottla broker stop 1                            one of `broker start --brokers N`; the others go on
  ottla broker start 1                           it comes back
"""
STATUS_EXAMPLES: Final = """\
  ottla broker status                            the brokers of `broker start --brokers N`
  ottla broker status --data /var/lib/ottla --format json
"""
HEALTH_EXAMPLES: Final = """\
  ottla broker health                            for containers and supervisors: exit code 0 or 1
  ottla broker health --config server.properties
"""
METRICS: Final = "metrics and health"
NODE_FILE: Final = "node.properties"
"""In the data directory of a node that began or joined a cluster (quorum/node_file.py); every start looks for it."""
EXAMPLES: Final = START_EXAMPLES + STOP_EXAMPLES + STATUS_EXAMPLES + HEALTH_EXAMPLES + SETTINGS_EXAMPLES


class HttpPart(Protocol):
    """What is served over HTTP beside metrics and health."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> tuple[str, int]: ...


class ServerInfo(Protocol):
    """What the server tells when it is ready."""

    @property
    def broker_id(self) -> int: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def admin_address(self) -> tuple[str, int] | None: ...
    @property
    def http_parts(self) -> Sequence[HttpPart]: ...


class Serve(Protocol):
    """The server: calls `ready` once clients are served, returns when `stop` is set and everything is closed."""

    def __call__(
        self, settings: BrokerSettings, *, ready: Callable[[Any], None], stop: asyncio.Event, **more: Any
    ) -> Awaitable[None]: ...


Verbs: TypeAlias = "argparse._SubParsersAction[Any]"


def add_verbs(verbs: Verbs) -> None:
    start = verbs.add_parser(
        "start",
        help="start a broker",
        description=START_HELP,
        epilog=START_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument(
        "broker",
        nargs="?",
        metavar="BROKER",
        help="the id of a broker that `broker stop` keeps stopped: start that one again, and nothing else",
    )
    start.add_argument("--config", metavar="FILE", type=Path, help="a server.properties file")
    start.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="one setting; may be repeated")
    start.add_argument("--data", metavar="DIR", help="where logs are kept (log.dirs)")
    start.add_argument(
        "--listen", metavar="HOST:PORT", help="where clients connect (listeners); port 0 is any free one"
    )
    start.add_argument(
        "--zookeeper",
        metavar="HOST:PORT",
        help="be a member of the cluster that is kept there (zookeeper.connect); several with commas, /chroot behind",
    )
    start.add_argument(
        "--brokers",
        metavar="N",
        type=int,
        help="run N broker processes as one cluster on this machine, on the ports that follow the first one's, with a "
        "folder for each in the data directory, one log and one stop",
    )
    start.add_argument(
        "--racks",
        metavar="A,B,...",
        help="with --brokers: the rack of each (broker.rack), one after the other; without it all are in one",
    )
    start.add_argument(
        "--new-cluster",
        action="store_true",
        help="begin a cluster that other machines can join: this node is its first broker and controller; prints the "
        "line for the next machine",
    )
    start.add_argument(
        "--join",
        metavar="HOST:PORT",
        help="join the cluster of this broker, as a broker, and as a controller while there are fewer than three",
    )
    start.add_argument("--token", metavar="TOKEN", help="with --join: from the line that --new-cluster prints")
    start.add_argument(
        "--voters", metavar="N", type=int, help="with --new-cluster and --join: how many controllers vote (3)"
    )
    start.add_argument(
        "--controller-listen",
        metavar="HOST:PORT",
        help="with --new-cluster and --join: where other controllers and brokers reach its controller (the host of "
        "--listen, and the next free port)",
    )
    start.add_argument(
        "--secure",
        action="store_true",
        help="TLS, logins and access rules: makes certificates, a user and a client.properties in the data directory",
    )
    start.add_argument(
        "--tables",
        metavar="FILE",
        nargs="?",
        const="",
        help="keep topics as tables, too: run the worker (ottla table run) beside the brokers and watch over it; FILE "
        "has its client settings where brokers ask for a login",
    )
    start.add_argument(
        "--insecure",
        action="store_true",
        help="let others reach a listener that asks for no login, knowing what it means",
    )
    start.set_defaults(run=run_start)
    stop = verbs.add_parser(
        "stop",
        help="stop one of the processes of `broker start --brokers N`",
        description="Stop one broker in order and keep it stopped until `ottla broker start BROKER`; the others go on.",
        epilog=f"examples:\n{STOP_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stop.add_argument("broker", metavar="BROKER", help="its id, as `ottla broker status` shows it")
    stop.add_argument("--data", metavar="DIR", help="the data directory they were started with (log.dirs)")
    stop.add_argument("--config", metavar="FILE", type=Path, help="the server.properties file that names it")
    stop.set_defaults(run=run_stop, set=[], listen=None, zookeeper=None, secure=False, insecure=True)
    status = verbs.add_parser(
        "status",
        help="the processes of `broker start --brokers N`",
        description="Who runs, where, and how often it was started again; the exit code is 0 when all serve.",
        epilog=f"examples:\n{STATUS_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    status.add_argument("--data", metavar="DIR", help="the data directory they were started with (log.dirs)")
    status.add_argument("--config", metavar="FILE", type=Path, help="the server.properties file that names it")
    status.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON for programs")
    status.set_defaults(run=run_status, set=[], listen=None, zookeeper=None, secure=False, insecure=True)
    health = verbs.add_parser(
        "health",
        help="does the broker on this machine serve?",
        description="Ask the broker's health endpoint; the exit code is 0 when clients are served.",
        epilog=f"examples:\n{HEALTH_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    health.add_argument(
        "--admin",
        metavar="HOST:PORT",
        help="where it answers (ottla.admin.listener; without it OTTLA_ADMIN_LISTENER, the file, 127.0.0.1:9644)",
    )
    health.add_argument("--config", metavar="FILE", type=Path, help="the server.properties file it was started with")
    health.add_argument("--live", action="store_true", help="only whether the process answers, ready or not")
    health.add_argument("--timeout", type=float, default=5.0, metavar="S", help="seconds to wait at most (5)")
    health.set_defaults(run=run_health)
    settings = verbs.add_parser(
        "settings",
        help="what can be set",
        description="Every setting, or those with a word in them.",
        epilog=f"examples:\n{SETTINGS_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    settings.add_argument("word", nargs="?", metavar="WORD", default="", help="a part of a setting's name")
    settings.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON for programs")
    settings.add_argument("--wide", action="store_true", help="one line each, however long, for grep and awk")
    settings.set_defaults(run=run_settings)


def run_health(options: argparse.Namespace) -> int:
    from ottla.cli import health

    return health.run_health(options)


# --- ottla broker start ----------------------------------------------------------------------------------------------


def run_start(
    options: argparse.Namespace,
    environment: Mapping[str, str] = os.environ,
    serve: Serve | None = None,
    *,
    process: str = "",
) -> int:
    """`process` names a broker that a supervisor started, in the log that several write into."""
    if getattr(options, "broker", None) is not None:
        return _ask_supervisor("start", options, environment)
    collect_for_service()
    with uncollected():
        from ottla.broker.observe import log_lines as logs
        from ottla.broker.settings.alone import refuse_missing_replicas, replica_warnings
        from ottla.broker.settings.without_effect import warnings
        from ottla.cli.secured_files import refuse_to_unlock
        from ottla.clock import SystemClock
        from ottla.errors import InvalidConfig

        serve = serve or _the_server()

    options.secure = options.secure or (options.join is not None and str(options.token).startswith("2."))
    try:
        settings, notes = read_settings(options, environment)
        node = _node(options, settings)
        settings = settings if node is None else node.settings
        tables, settings = _tables(options, settings)
        brokers = _brokers(options, settings)
        _racks(options, brokers)
        refuse_missing_replicas(settings, brokers or 1)
        refuse_to_unlock(settings)
    except InvalidConfig as error:
        raise Failure(f"the broker cannot start. {error}") from None
    logs.configure(
        level=settings.ottla_log_level,
        form=settings.ottla_log_format,
        stream=sys.stderr,
        monotonic_ms=SystemClock().monotonic_ms,
        process=process,
    )
    _check_directories(settings)
    if not process:  # its supervisor has said it
        for note in [*notes, *warnings(settings), *replica_warnings(settings, brokers or 1)]:
            log.warning("%s", note)
    secured = _secured(settings, node) if options.secure and (node is None or node.begins) else None
    if brokers is not None:
        return _start_several(settings, brokers, secured, _racks(options, brokers), tables)
    completed = settings if secured is None else secured.completed(settings)
    return _serve_until_stopped(completed, serve, secured, node, tables)


def _tables(options: argparse.Namespace, settings: BrokerSettings) -> tuple[SupervisedTables | None, BrokerSettings]:
    """The worker of tables that --tables asks for, and the settings that tell where tables are."""
    if getattr(options, "tables", None) is None:
        return None, settings
    from ottla.cli.tables.supervised import tables_of, with_location
    from ottla.clock import SystemClock

    return tables_of(options.tables, SystemClock), with_location(settings)


def _makes_node(options: argparse.Namespace) -> bool:
    """What --secure means for one of several nodes is written down by it (quorum/secured_node.py)."""
    return bool(getattr(options, "new_cluster", False) or getattr(options, "join", None))


def _node(options: argparse.Namespace, settings: BrokerSettings) -> StartedNode | None:
    """Which node of which cluster this is; None for a broker that no command made a node of one."""
    asked = options.new_cluster, options.join, options.token, options.controller_listen, options.voters is not None
    if not any(asked) and not (settings.data_directories[0] / NODE_FILE).exists():
        return None
    from ottla.cli.quorum.beginning import prepared_node

    return prepared_node(options, settings)


def _brokers(options: argparse.Namespace, settings: BrokerSettings) -> int | None:
    """How many are asked for; None is one that is on its own, or a member that somebody else started."""
    from ottla.cli.brokers.layout import check_brokers, refuse_data_of_several

    if options.brokers is None:
        refuse_data_of_several(settings.data_directories)
    else:
        check_brokers(options.brokers)
    brokers: int | None = options.brokers
    return brokers


def _racks(options: argparse.Namespace, brokers: int | None) -> list[str]:
    """The racks of several brokers; none when they are not said."""
    if not (text := getattr(options, "racks", None)):
        return []
    if brokers is None:
        raise Failure("--racks is for --brokers N; a single broker has --set broker.rack=NAME")
    from ottla.cli.brokers.plan import check_racks

    racks = [each.strip() for each in text.split(",")]
    check_racks(racks, brokers)
    return racks


def _start_several(
    settings: BrokerSettings, brokers: int, secured: Secured | None, racks: list[str], tables: SupervisedTables | None
) -> int:
    from ottla.cli.brokers.start import start_brokers, with_broker_login
    from ottla.errors import OttlaError

    if secured is not None:
        settings = with_broker_login(secured.completed(settings), secured)
    try:
        return start_brokers(settings, brokers, secured, racks, tables)
    except OttlaError as error:
        raise Failure(f"the brokers cannot start. {error}") from None


def _secured(settings: BrokerSettings, node: StartedNode | None) -> Secured:
    from datetime import UTC, datetime

    from ottla.cli.secure_start import secure
    from ottla.clock import SystemClock

    os.umask(0o077)  # what a process makes for it is for its owner alone, too
    now = datetime.fromtimestamp(SystemClock().now_ms() // 1000, UTC)
    return secure(settings, now) if node is None else secure(settings, now, node.certificate_name)


def _the_server() -> Serve:
    serve: Serve = import_module("ottla.broker.server").serve
    return serve


def _serve_until_stopped(
    settings: BrokerSettings,
    serve: Serve,
    secured: Secured | None,
    node: StartedNode | None = None,
    tables: SupervisedTables | None = None,
) -> int:
    import asyncio

    from ottla.cli.open_files import raise_limit
    from ottla.errors import OttlaError

    raise_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings, serve, secured, node, tables))
    except OttlaError as error:
        raise Failure(f"the broker stopped. {error}") from None
    except OSError as error:
        raise Failure(explain(error, settings)) from None
    except Exception:
        log.exception("the broker stopped because of a fault in it")
        return FAILED
    return OK


async def _serve(
    settings: BrokerSettings,
    serve: Serve,
    secured: Secured | None,
    node: StartedNode | None = None,
    tables: SupervisedTables | None = None,
) -> None:
    import asyncio

    asked = stop = asyncio.Event()
    completing: set[asyncio.Task[None]] = set()
    if tables is not None:
        from ottla.cli.tables.supervised import stopped_first

        stop = asyncio.Event()
        completing.add(asyncio.create_task(stopped_first(tables, asked, stop)))
    _stop_on_signals(asked)

    def ready(info: Any) -> None:
        if secured is not None:
            servers = info.bootstrap_servers if node is None else node.client_address(info)
            print(*secured.served_at(servers, is_terminal=sys.stdout.isatty()), sep="\n")
        print(ready_line(info, settings), flush=True)
        if node is not None:
            for line in node.lines(info):
                print(line, flush=True)
            completing.add(asyncio.create_task(node.completed(info)))
        elif secured is None and sys.stdout.isatty():
            print(first_words(info.bootstrap_servers), flush=True)
        if tables is not None:
            registry = http_urls(info).get("schema registry")
            tables.start(info.bootstrap_servers, registry, None if secured is None else secured.client_file)
        gc.freeze()  # what is there now stays; looking through it again and again would only make requests wait

    users = {} if secured is None else {"first_users": secured.users}
    try:
        await serve(settings, ready=ready, stop=stop, **users)
    finally:
        for task in completing:
            task.cancel()
        if tables is not None:
            await tables.stop()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _stop_on_signals(stop: asyncio.Event) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()

    def stop_once(number: signal.Signals) -> None:
        log.info("%s: stopping; once more ends at once", number.name)
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop_once, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))


def ready_line(info: ServerInfo, settings: BrokerSettings) -> str:
    data = ", ".join(str(each) for each in settings.data_directories)
    places = [f"data: {data}", f"cluster id {info.cluster_id}", *http_places(http_urls(info))]
    what = "controller" if settings.is_only_controller else "broker"
    return f"ottla: {what} {info.broker_id} is ready at {info.bootstrap_servers} ({', '.join(places)})"


def first_words(servers: str) -> str:
    """What a person who watches may do now."""
    where = "" if servers.partition(":")[2] == "9092" else f" -b {servers}"
    return f"ottla: in another terminal: ottla topic create clicks{where}; Ctrl-C stops the broker"


def http_urls(info: ServerInfo) -> dict[str, str]:
    """What is served over HTTP, and where."""
    urls = {part.name: f"http://{_host_and_port(*part.address)}" for part in info.http_parts}
    if info.admin_address is not None:
        urls[METRICS] = f"http://{_host_and_port(*info.admin_address)}"
    return urls


def http_places(urls: Mapping[str, str]) -> list[str]:
    """One text for each address, that of the metrics first."""
    by_url: dict[str, list[str]] = {}
    for name, url in urls.items():
        by_url.setdefault(url, []).append(name)
    off = [] if METRICS in urls else [f"{METRICS}: off"]
    ordered = sorted(by_url, key=lambda url: METRICS not in by_url[url])
    return [*off, *(f"{', '.join(by_url[url])}: {url}" for url in ordered)]


def _host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def explain(error: OSError, settings: BrokerSettings) -> str:
    """What a failed start means and what to do about it."""
    from ottla.broker.observe.admin_http import AdminListenerFailed

    if isinstance(error, AdminListenerFailed):
        return (
            f"the admin listener for metrics and health cannot be opened on {error.address}: {_reason(error)}. "
            "Choose another with --set ottla.admin.listener=HOST:PORT; port 0 is any free one, no value turns it off."
        )
    if error.filename is not None:
        return _explain_file(error)
    where = ", ".join(each.address for each in (*settings.endpoints, *settings.controller_listeners))
    if isinstance(error, socket.gaierror):
        return f"the broker cannot listen on {where}: {_UNKNOWN_HOST}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"the broker cannot listen on {where}: the port is taken, perhaps by another broker. "
            f"Stop what uses it, or choose another with --listen HOST:PORT; port 0 is any free one. ({_reason(error)})"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"the broker cannot listen on {where}: this machine has no such address. Choose another with --listen."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"the broker may not listen on {where}: ports below 1024 need rights. Choose another with --listen."
    return f"the broker stopped: {_reason(error)}"


_UNKNOWN_HOST: Final = "nobody knows a host of that name. Write an address of this machine, like 127.0.0.1."


def _check_directories(settings: BrokerSettings) -> None:
    for each in settings.data_directories:
        way = next((part for part in (each, *each.parents) if part.exists()), each)
        if way.exists() and not way.is_dir():
            raise Failure(
                f"the broker cannot keep its data in {each}: {way} is a file. Choose a directory with --data."
            )


def _explain_file(error: OSError) -> str:
    advice = {
        errno.EACCES: "Give this user the right to it, or choose another directory with --data.",
        errno.EPERM: "Give this user the right to it, or choose another directory with --data.",
        errno.EROFS: "Choose another directory with --data.",
        errno.ENOSPC: "Make room on that disk, or choose another directory with --data.",
        errno.ENOTDIR: "A file is in the way; choose another directory with --data.",
        errno.EEXIST: "A file is in the way; choose another directory with --data.",
    }.get(error.errno or 0, "Choose another directory with --data.")
    return f"the broker cannot use {error.filename}: {_reason(error)}. {advice}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


# --- where settings come from ----------------------------------------------------------------------------------------


def read_settings(options: argparse.Namespace, environment: Mapping[str, str]) -> tuple[BrokerSettings, list[str]]:
    """The settings of all sources, and what to warn of."""
    from ottla.broker.settings import BrokerSettings
    from ottla.errors import InvalidConfig, InvalidSettings, each_refusal

    if options.secure and options.insecure:
        raise Failure("--secure and --insecure contradict each other. Leave out the one or the other.")
    variables, notes = _from_environment(environment)
    file = {} if options.config is None else _from_file(options.config)
    single: dict[str, str] = {}
    if options.set:
        from ottla.cli.connecting import pairs

        single = pairs(options.set, "--set")
    stronger = variables, _from_options(options), single
    if any(setting.sensitive for setting in map(BrokerSettings.setting_of, single) if setting is not None):
        notes.append(
            "a secret after --set stands in the list of processes, where everybody on this machine can read it; "
            "write it into the file of --config"
        )
    try:
        if options.secure and not _makes_node(options):
            from ottla.cli.secure_start import layered

            return layered(file, *stronger), notes
        return BrokerSettings.layered(_locked(options), file, *stronger), notes
    except InvalidConfig as error:
        if not file:
            raise
        elsewhere = {key for layer in stronger for key in layer}
        raise InvalidSettings.of(
            [
                type(each)(f"{each.detail}{_lines_named(each, options.config, elsewhere)}")
                for each in each_refusal(error)
            ]
        ) from None


def _locked(options: argparse.Namespace) -> dict[str, str]:
    """Without these some of what is said would be refused, before --secure of a node has its say."""
    if not options.secure:
        return {}
    from ottla.cli.secure_start import AUTHORIZER

    return {"authorizer.class.name": AUTHORIZER}


def _lines_named(error: InvalidConfig, path: Path, elsewhere: Collection[str]) -> str:
    """Where the file has the settings that an error speaks of, those that did not come from elsewhere."""
    from ottla.properties import lines_of_properties

    words = {word.strip(".") for word in re.findall(r"[\w.-]+", error.detail or "")}
    lines = sorted(line for key, line in lines_of_properties(path).items() if key in words and key not in elsewhere)
    if not lines:
        return ""
    return f" ({path}, line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))})"


def _from_file(path: Path) -> dict[str, str]:
    from ottla.properties import read_properties

    try:
        return read_properties(path)
    except OSError as error:
        raise Failure(f"cannot read {path}: {_reason(error)}. Check the path after --config.") from None


def _from_options(options: argparse.Namespace) -> dict[str, str]:
    options_set = {}
    if options.data is not None:
        options_set["log.dirs"] = options.data
    if options.listen is not None:
        options_set["listeners"] = _listener(options.listen, "SASL_SSL" if options.secure else "PLAINTEXT")
    if options.zookeeper is not None:
        options_set["zookeeper.connect"] = options.zookeeper
    if options.insecure:
        options_set["ottla.allow.insecure.listeners"] = "true"
    return options_set


def _listener(text: str, protocol: str) -> str:
    """The listener that --listen asks for, which may be an address alone."""
    from ottla.broker.settings.endpoints import parse_address

    if "://" in text:
        return text
    host, _ = parse_address("--listen", text)
    try:
        socket.getaddrinfo(host or None, 0)
    except socket.gaierror:
        raise Failure(f"the broker cannot listen on {text}: {_UNKNOWN_HOST}") from None
    return f"{protocol}://{text}"


_LEVELS: Final = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "ERROR", "OFF": "ERROR"}


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Settings in the environment, and a warning for each variable that looks like one and is none."""
    from ottla.broker.settings import BrokerSettings
    from ottla.properties import read_environment

    ours = {f"KAFKA_{name}": value for name, value in environment.items() if name.startswith("OTTLA_")}
    found = {key: value for key, value in read_environment(ours).items() if BrokerSettings.knows(key)}
    if environment.get("CLUSTER_ID"):
        found["ottla.cluster.id"] = environment["CLUSTER_ID"]
    if level := environment.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper():
        found["ottla.log.level"] = _LEVELS.get(level, level)
    notes = []
    for key, value in read_environment(environment).items():
        if problem := BrokerSettings.problem_with(key):
            notes.append(f"the environment has a KAFKA_ variable that is no setting, and is not used: {problem}")
        else:
            found[key] = value
    return found, notes


# --- ottla broker status ----------------------------------------------------------------------------------------------


def run_status(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> int:
    from ottla.cli.brokers.shown import show_status

    return show_status(_first_directory(options, environment), options.format)


def run_stop(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> int:
    return _ask_supervisor("stop", options, environment)


def _ask_supervisor(what: str, options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    from ottla.cli.brokers.control import ask

    print(ask(_first_directory(options, environment), what, options.broker))
    return OK


def _first_directory(options: argparse.Namespace, environment: Mapping[str, str]) -> Path:
    from ottla.errors import InvalidConfig

    try:
        settings, _ = read_settings(options, environment)
    except InvalidConfig as error:
        raise Failure(f"the settings do not say where the data is. {error}") from None
    return settings.data_directories[0]


# --- ottla broker settings -------------------------------------------------------------------------------------------


def run_settings(options: argparse.Namespace) -> int:
    from ottla.broker.settings import BrokerSettings

    found = [
        each
        for each in sorted(BrokerSettings.declared(), key=lambda each: each.name)
        if options.word in each.name or options.word.lower() in each.doc.lower()
    ]
    if not found:
        raise Failure(f"no setting has {options.word!r} in its name or description")
    output = Output(sys.stdout, form=options.format)
    if options.wide or options.format == "json":
        output.table(
            ["NAME", "DEFAULT", "WHILE RUNNING", "EFFECT", "WHAT IT DOES"], [_setting_row(each) for each in found]
        )
        return OK
    for each in found:
        name, default, running, _, _ = _setting_row(each)
        output.paragraph(f"{name}={default}", indent="")
        output.paragraph(
            each.documentation if running == "no" else f"{each.documentation} Can change while running.", indent="    "
        )
    return OK


def _setting_row(each: Setting[Any]) -> tuple[str, str, str, str, str]:
    """Name, default, whether it changes while running, whether it has an effect and if not why, what it does."""
    from ottla.settings import REQUIRED

    default = "required" if each.default is REQUIRED else each.text(each.default)
    effect = "yes" if each.no_effect is None else f"none: {each.no_effect.sentence}"
    return each.name, default, each.dynamic or "no", effect, each.doc
