"""The controllers among the brokers of one machine: who votes, at which ports, and how they trust each other.

1. The first broker votes where there are one or two, the first three where there are more. That is said once, in
   QUORUM_FILE beside the data: a voter that was added without the others' knowledge could outvote what they know.
2. The ports are any that are free at each start: the voters are named in the settings of every broker, not in the log.
3. Controllers listen on 127.0.0.1 only and ask for a password that is made anew for each start, so nobody else on the
   machine can speak to them, with or without --secure.
4. Before the first start every log directory is formatted, as `kafka-storage format` does it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.brokers.layout import directories_of
from ottla.cli.output import Failure
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.storage.files import Files

QUORUM_FILE: Final = "quorum.json"
LISTENER: Final = "CONTROLLER"
USER: Final = "controllers"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
MOST_VOTERS: Final = 3
FEWER_HAVE_ONE: Final = 3
FIRST_PORT: Final = 20_000
PORTS: Final = 10_000
"""Below those that systems give to connections."""


class Quorum(NamedTuple):
    """Where the voters listen, the first broker first, and their password."""

    ports: tuple[int, ...]
    password: str


def new_quorum(directory: Path, brokers: int, free_ports: Sequence[int]) -> Quorum:
    """For this start; remembers how many vote. `free_ports` are at least MOST_VOTERS."""
    file = directory / QUORUM_FILE
    if not file.exists():
        voters = MOST_VOTERS if brokers >= FEWER_HAVE_ONE else 1
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps({"voters": voters}) + "\n", "utf-8")
        unfinished.replace(file)
    return Quorum(tuple(free_ports[: _voters(file)]), secrets.token_urlsafe(24))


def _voters(file: Path) -> int:
    try:
        found = json.loads(file.read_text("utf-8"))["voters"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{file} does not say how many brokers vote ({error}); it has been written to") from None
    if found not in (1, MOST_VOTERS):
        raise Failure(f"{file} says that {found} brokers vote; 1 or {MOST_VOTERS} do")
    return int(found)


def common_settings(settings: BrokerSettings, quorum: Quorum, first_id: int) -> dict[str, str]:
    """What every broker must know of the controllers."""
    voters = [f"{first_id + slot}@127.0.0.1:{port}" for slot, port in enumerate(quorum.ports)]
    login = f'{MODULE} required username="{USER}" password="{quorum.password}" user_{USER}="{quorum.password}";'
    found = {
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": LISTENER,
        "listener.security.protocol.map": f"{settings.listener_security_protocol_map},{LISTENER}:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"listener.name.{LISTENER.lower()}.sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": login,
    }
    if settings.authorizer_class_name:
        found["super.users"] = ";".join(filter(None, [settings.super_users, f"User:{USER}"]))
    return found


def own_settings(quorum: Quorum, slot: int, listeners: str) -> dict[str, str]:
    """What is one broker's alone; `listeners` are those for clients."""
    if slot >= len(quorum.ports):
        return {"process.roles": "broker", "listeners": listeners}
    own = f"{LISTENER}://127.0.0.1:{quorum.ports[slot]}"
    return {"process.roles": "broker,controller", "listeners": f"{listeners},{own}"}


# --- before the first start -----------------------------------------------------------------------------------------


def begin_cluster(settings: BrokerSettings, ids: Sequence[int]) -> None:
    """Every log directory says whose it is."""
    from ottla.storage.files import DiskFiles

    places = [
        (node_id, path) for slot, node_id in enumerate(ids) for path in directories_of(settings.data_directories, slot)
    ]
    format_directories(DiskFiles(), places, settings.ottla_cluster_id)


def format_directories(files: Files, places: Sequence[tuple[int, Path]], chosen: str | None = None) -> None:
    """Say in each of these directories of nodes whose it is; `chosen` is the id of a new cluster."""
    from ottla.storage.directory.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
    from ottla.values import random_uuid, uuid_to_text

    found = {path: read_meta_properties(files, path) if files.exists(path) else None for _, path in places}
    for path, before in found.items():
        if before is not None and before.version == 0:
            raise Failure(
                f"{path} is the directory of a broker whose cluster is kept in ZooKeeper. Start it with --zookeeper, "
                "take the cluster over first (ottla storage migrate), or choose another directory"
            )
    known = {each.cluster_id for each in found.values() if each is not None and each.cluster_id is not None}
    if len(known) > 1:
        raise Failure(f"the log directories are of {len(known)} clusters: {', '.join(sorted(known))}")
    cluster_id = next(iter(known), None) or chosen or uuid_to_text(random_uuid(secrets.token_bytes))
    for node_id, path in places:
        if found[path] is None:
            path.mkdir(parents=True, exist_ok=True)
            directory_id = random_uuid(secrets.token_bytes)
            write_meta_properties(files, path, MetaProperties(1, cluster_id, node_id, directory_id))


def unused_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that no connection gets by chance while a voter is started again."""
    found: list[int] = []
    while len(found) < count:
        port = FIRST_PORT + secrets.randbelow(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in found:
                found.append(port)
    return found


def refuse_own_roles(written: Mapping[str, object] | Iterable[str]) -> None:
    """With --brokers the roles are ours to give."""
    if named := sorted(_of_a_quorum(written)):
        raise Failure(
            f"{named[0]} and --brokers cannot be used together: --brokers says itself who is a controller. Leave it "
            "out, or start each node by itself (docs/clusters.md)."
        )


def _of_a_quorum(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name == "process.roles" or name.startswith(("controller.quorum.voters", "controller.quorum.bootstrap")):
            yield name
