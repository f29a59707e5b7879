"""From `ottla broker start --brokers N` to a supervisor: what is refused, what is made, what is printed.

1. Everything is checked before a process is there: the settings of each broker, the data that is found, ports.
2. What the processes must know (settings, passwords) is in files of a new directory that only we can open, not in
   arguments that everybody on the machine can read. It goes when the supervisor ends.
3. A metrics port that nobody asked for and that is taken is left out, with a warning, as with a single broker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.brokers.control import answering
from ottla.cli.brokers.layout import BEFORE_THE_QUORUM, refuse_other_data
from ottla.cli.brokers.plan import settings_of_each
from ottla.cli.brokers.quorum import (
    MOST_VOTERS,
    Quorum,
    begin_cluster,
    new_quorum,
    refuse_own_roles,
    unused_ports,
)
from ottla.cli.brokers.status import Status
from ottla.cli.brokers.supervisor import BrokerPlace, Supervisor
from ottla.cli.client_files import scram_login, write_secret
from ottla.cli.commands.broker import http_places
from ottla.cli.output import counted
from ottla.cli.tables.supervised import REGISTRY, SupervisedTables, stopped_first
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.cli.secure_start import Secured

SOCKET_LIMIT_BYTES: Final = 100
"""What every system takes as the path of a socket."""

log = logging.getLogger(__name__)


def start_brokers(
    settings: BrokerSettings,
    brokers: int,
    secured: Secured | None,
    racks: Sequence[str] = (),
    tables: SupervisedTables | None = None,
) -> int:
    """Run them until they are stopped."""
    from ottla.storage.directory.unknown_logs import refuse_old_store
    from ottla.storage.files import DiskFiles

    directories = settings.data_directories
    refuse_own_roles(settings.configured_names())
    refuse_other_data(directories, brokers)
    first = directories[0].absolute()
    refuse_old_store(DiskFiles(), [first / BEFORE_THE_QUORUM])
    first.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-", dir=short_directory()) as name:
        place = Path(name)
        quorum = None if settings.zookeeper_connect else new_quorum(first, brokers, unused_ports(MOST_VOTERS))
        each = _each(settings, brokers, quorum, racks)
        names = [one.get("node.id", one.get("broker.id", str(slot))) for slot, one in enumerate(each)]
        users = _users_file(secured, place / "users.json")
        places = [
            BrokerPlace(name, place / f"broker.{slot}.properties", each[slot], users) for slot, name in enumerate(names)
        ]
        if quorum is not None:
            begin_cluster(settings, [int(name) for name in names])
        voters = 0 if quorum is None else len(quorum.ports)
        supervisor = Supervisor(places, first, SystemClock(), os.getpid(), voters=voters)
        return asyncio.run(_run(supervisor, first, secured, place / "control", tables))


def _each(settings: BrokerSettings, brokers: int, quorum: Quorum | None, racks: Sequence[str]) -> list[dict[str, str]]:
    """The settings of every broker, checked."""
    from ottla.broker.settings import BrokerSettings

    each = settings_of_each(settings, brokers, host=socket.gethostname(), quorum=quorum, racks=racks)
    if "ottla.admin.listener" not in settings.configured_names():
        for one in each:
            one["ottla.admin.listener"] = _free_or_off(one["ottla.admin.listener"])
    for one in each:
        BrokerSettings(one)
    return each


def _free_or_off(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not address or port == "0":
        return address
    try:
        socket.create_server((host.strip("[]"), int(port))).close()
    except OSError as error:
        log.warning(
            "no metrics and health: %s cannot be opened: %s; ottla.admin.listener names another", address, error
        )
        return ""
    return address


def _users_file(secured: Secured | None, file: Path) -> Path | None:
    """Who is there before anybody can log in; the controllers make them."""
    if secured is None:
        return None
    write_secret(file, json.dumps([[each.name, each.password, each.replace] for each in secured.users]))
    return file


def with_broker_login(settings: BrokerSettings, secured: Secured) -> BrokerSettings:
    """--secure: brokers log in at each other as the user that it made."""
    from ottla.cli.secure_start import ADMIN, MECHANISM

    listener = settings.inter_broker_listener.name.lower()
    name = f"listener.name.{listener}.{MECHANISM.lower()}.sasl.jaas.config"
    if name in settings.configured_names() or not secured.password:
        return settings
    return settings.replaced({name: scram_login(ADMIN, secured.password)})


def short_directory() -> str | None:
    """Where a socket's path is short enough; None is the usual place for temporary files."""
    usual = tempfile.gettempdir()
    return None if len(os.fsencode(usual)) + len("/ottla-xxxxxxxx/control") <= SOCKET_LIMIT_BYTES else "/tmp"


# --- running ---------------------------------------------------------------------------------------------------------


async def _run(
    supervisor: Supervisor, directory: Path, secured: Secured | None, control: Path, tables: SupervisedTables | None
) -> int:
    asked = stop = asyncio.Event()
    stopping = None
    if tables is not None:
        stop = asyncio.Event()
        stopping = asyncio.create_task(stopped_first(tables, asked, stop))
    _stop_on_signals(asked, supervisor.kill)

    def ready(status: Status) -> None:
        if secured is not None:
            print(*secured.served_at(status.bootstrap_servers, is_terminal=sys.stdout.isatty()), sep="\n")
        for line in ready_lines(status, directory):
            print(line, flush=True)
        if tables is not None:
            registry = next((each.http[REGISTRY] for each in status.brokers if REGISTRY in each.http), None)
            tables.start(status.bootstrap_servers, registry, None if secured is None else secured.client_file)

    try:
        async with answering(supervisor, control):
            return await supervisor.run(ready, stop)
    finally:
        if tables is not None and stopping is not None:
            stopping.cancel()
            await tables.stop()


def _stop_on_signals(stop: asyncio.Event, kill: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("%s again: ending at once", number.name)
            kill()
        else:
            log.info("%s: stopping the brokers; once more ends at once", number.name)
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)


def ready_lines(status: Status, directory: Path) -> list[str]:
    """A line for each broker, and one for all."""
    lines = [_ready_line(each) for each in status.brokers]
    count = len(status.brokers)
    ready = f"{counted(count, 'broker')} {'is' if count == 1 else 'are'} ready"
    place = f"(data: {directory}, cluster id {status.cluster_id})"
    return [*lines, f"ottla: {ready} at {status.bootstrap_servers} {place}"]


def _ready_line(each: Any) -> str:
    place = f"(process {each.pid}, {', '.join(http_places(each.http))})"
    return f"ottla: broker {each.broker_id} is ready at {each.address} {place}"
