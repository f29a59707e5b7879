"""`ottla broker start --new-cluster`, and what every node is that a start finds in its data directory.

    node = prepared_node(options, settings)      None for a broker that has nothing to do with any of this
    node.settings                                what the server is started with
    node.lines(info)                             what to say when it serves: of the first node, the line for the next
    await node.completed(info)                     what is left to do then (after_joining.py)

The first node is broker and controller, knows no other controller, and so begins a cluster when its directory is new.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.output import Failure
from ottla.cli.quorum.node_file import (
    ADMIN,
    AUTO_JOIN,
    BOOTSTRAP,
    BOTH_ROLES,
    BROKER_ROLE,
    LISTENER_NAMES,
    LISTENERS,
    NODE_ID,
    NODES,
    ROLES,
    VOTERS,
    client_listeners,
    has_authority_key,
    has_node_file,
    is_formatted,
    joined_listeners,
    nodes_listeners,
    read_node_file,
    with_node_file,
    write_node_file,
)
from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.cli.commands.broker import ServerInfo
    from ottla.cli.quorum.places import Place

VOTERS_WANTED: Final = 3
FIRST_ID: Final = 1
LISTENER: Final = "CONTROLLER"
COPIES: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "ottla.internal.topics.fewer.copies": "true",
}
"""Internal topics begin with what is there, and get more copies when the next nodes join."""


@dataclass(frozen=True)
class StartedNode:
    """A node of a cluster that was begun or joined with these commands."""

    settings: BrokerSettings
    begins: bool = False
    """It was started with --new-cluster, and says how the next one joins."""
    is_secured: bool = False
    has_joined: bool = False
    """It has joined in this start; some things are left to do when it serves."""

    def lines(self, info: ServerInfo) -> list[str]:
        """For whoever starts the next machine: one line, and on stdout nothing else beside the line that it serves."""
        if not self.begins or self.is_secured:  # of a secured one the line is said when it is good (signing.py)
            return []
        from ottla.cli.quorum.tokens import open_line

        is_open = self.settings.ottla_allow_insecure_listeners
        return [open_line(info.cluster_id, self.client_address(info), is_open=is_open)]

    @property
    def certificate_name(self) -> str:
        from ottla.cli.quorum.secured_node import node_name

        return node_name(self.settings.wanted_id or 0)

    def client_address(self, info: ServerInfo) -> str:
        """The first listener: those between nodes come after it."""
        return info.bootstrap_servers.partition(",")[0]

    async def completed(self, info: ServerInfo) -> None:
        if self.has_joined:
            from ottla.cli.quorum.after_joining import complete

            await complete(self.settings, info)
        if self.is_secured and has_authority_key(self.settings.data_directories[0]):
            from ottla.cli.quorum.signing import sign

            await sign(self.settings, info, self.client_address(info), announces=self.begins)


def prepared_node(options: argparse.Namespace, settings: BrokerSettings) -> StartedNode | None:
    """What --new-cluster and --join ask for, or what the directory says; None for a broker that is neither."""
    asked = _asked(options)
    directory = settings.data_directories[0]
    if not asked and (settings.process_roles or options.brokers is not None or not has_node_file(directory)):
        _refuse_alone(options)
        return None
    if asked:
        _refuse_others(options, settings, asked)
    if has_node_file(directory) and (is_formatted(directory) or not options.join):
        return _started(_again(options, settings), begins=bool(options.new_cluster))
    if is_formatted(directory):
        raise Failure(
            f"{directory} has the data of a broker that is a cluster of its own, and {asked} begins anew. Start it "
            f"without {asked}, or choose another directory with --data."
        )
    if options.join:
        from ottla.cli.quorum.joining import join

        return _started(join(options, settings), has_joined=True)
    return _started(_begin(options, settings), begins=True)


def _started(settings: BrokerSettings, *, begins: bool = False, has_joined: bool = False) -> StartedNode:
    """A secured one has the secret of delegation tokens, too, as soon as there is one."""
    if NODES not in [each.name for each in settings.endpoints]:
        return StartedNode(settings, begins, has_joined=has_joined)
    from ottla.cli.quorum.secured_node import with_token_key

    whole = with_token_key(settings, settings.data_directories[0])
    return StartedNode(whole, begins, is_secured=True, has_joined=has_joined)


def _asked(options: argparse.Namespace) -> str:
    return "--new-cluster" if options.new_cluster else "--join" if options.join else ""


def _refuse_alone(options: argparse.Namespace) -> None:
    for name in ("token", "voters", "controller_listen"):
        if getattr(options, name) is not None:
            raise Failure(f"--{name.replace('_', '-')} is for --join and --new-cluster, and for nodes made with them")


def _refuse_others(options: argparse.Namespace, settings: BrokerSettings, asked: str) -> None:
    if options.new_cluster and options.join:
        raise Failure("--new-cluster and --join contradict each other. Leave out the one or the other.")
    if options.secure and any(name.endswith("ssl.keystore.location") for name in settings.configured_names()):
        raise Failure(
            f"{asked} --secure makes the certificates of all nodes. With certificates of yours make the cluster as "
            "Kafka's are made: a file, kafka-storage format, `ottla broker start --config FILE` (docs/clusters.md)."
        )
    if options.brokers is not None:
        raise Failure(f"{asked} starts one node of a cluster, --brokers N a whole one on this machine. Leave out one.")
    if settings.zookeeper_connect:
        raise Failure(f"{asked} makes a cluster without ZooKeeper. Leave out the one or the other.")
    if settings.process_roles or settings.controller_quorum_voters or settings.controller_quorum_bootstrap_servers:
        raise Failure(
            f"the settings say already which part this node has in which quorum, and {asked} decides that. Leave out "
            "process.roles and controller.quorum.*; or leave out the option and format the directory with kafka-storage"
        )
    if len(settings.data_directories) > 1 and settings.metadata_log_dir:
        raise Failure(f"metadata.log.dir and {asked} do not go together: the first of log.dirs has the metadata.")
    if options.voters is not None and not 1 <= options.voters <= VOTERS_LIMIT:
        raise Failure(f"--voters {options.voters}: a quorum has 1 to {VOTERS_LIMIT} voters; 3 and 5 are good numbers")


VOTERS_LIMIT: Final = 9


def _begin(options: argparse.Namespace, settings: BrokerSettings) -> BrokerSettings:
    from ottla.cli.quorum.places import choose_place

    place = choose_place(settings, options.controller_listen, "127.0.0.1", secure=options.secure)
    stored = node_settings(
        settings,
        place,
        node_id=FIRST_ID if settings.wanted_id is None else settings.wanted_id,
        votes=True,
        voters=options.voters or VOTERS_WANTED,
    )
    node = with_node_file(settings, stored)
    write_node_file(settings.data_directories[0], stored)
    return node


def node_settings(
    settings: BrokerSettings,
    place: Place,
    *,
    node_id: int,
    votes: bool,
    voters: int,
    bootstrap: str = "",
    listener: str = LISTENER,
) -> dict[str, str]:
    """What node.properties of a new node says."""
    controller = f"{listener}://{place.controller_address}" if votes else None
    stored = {
        ROLES: BOTH_ROLES if votes else BROKER_ROLE,
        NODE_ID: str(node_id),
        LISTENER_NAMES: listener,
        LISTENERS: joined_listeners(place.endpoints, controller),
    }
    if bootstrap:
        stored[BOOTSTRAP] = bootstrap
    if votes:
        stored |= {AUTO_JOIN: "true", VOTERS: str(voters)}
    if place.admin is not None:
        stored[ADMIN] = place.admin
    written = set(settings.configured_names())
    stored |= {name: value for name, value in COPIES.items() if name not in written}
    if place.nodes is None:
        return stored
    from ottla.cli.quorum.secured_node import secured

    return secured(settings, stored, place.nodes_address)


def _again(options: argparse.Namespace, settings: BrokerSettings) -> BrokerSettings:
    """A later start. What its command says now is written down, too: other listeners, and whether it may vote."""
    from ottla.cli.quorum.places import choose_place

    directory = settings.data_directories[0]
    stored = read_node_file(directory)
    before, is_said = dict(stored), LISTENERS in settings.configured_names()
    for_nodes = nodes_listeners(stored)
    if options.controller_listen is not None or (options.voters is not None and stored.get(ROLES) == BROKER_ROLE):
        known = settings.replaced({LISTENERS: ",".join(client_listeners(stored))}) if not is_said else settings
        place = choose_place(known, options.controller_listen, "127.0.0.1", secure=bool(for_nodes))
        controller = f"{stored[LISTENER_NAMES]}://{place.controller_address}"
        clients = [*map(str, place.endpoints), *for_nodes]
        stored |= {ROLES: BOTH_ROLES, LISTENERS: joined_listeners(clients, controller), AUTO_JOIN: "true"}
        stored.setdefault(VOTERS, str(VOTERS_WANTED))
    if options.voters is not None:
        stored[VOTERS] = str(options.voters)
    node = with_node_file(settings, stored)
    if is_said:
        stored[LISTENERS] = ",".join(node.listeners)
    if stored != before:
        write_node_file(directory, stored)
    return node
