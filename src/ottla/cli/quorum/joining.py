"""`ottla broker start --join HOST:PORT --token TOKEN`: from a cluster's address to a formatted directory.

    ask          which cluster, who has which id, who votes and where
    claim        an id that nobody has, with a directory id of our own: by one fetch of the metadata log
    certify      of a secured cluster: a certificate of its authority, by the token's ticket (certificates.py)
    write        node.properties, then meta.properties (no first voters: they are in the log)

1. HOST:PORT is any broker's listener for clients: every broker knows all that is asked.
2. Two that join at once may want the same id. The leader of the metadata log remembers who has fetched, by id and
   directory id, and DescribeQuorum shows it: who has fetched as id 4 and finds another directory with id 4 takes the
   next one. The node itself goes on fetching under that name, so the claim does not end.
3. It may vote while fewer voters are alive than are wanted (three); the log says later whether it does
   (ottla.controller.quorum.voters.max). Otherwise it is a broker and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import sentences
from ottla.cli.output import Failure
from ottla.cli.quorum.beginning import VOTERS_WANTED, node_settings
from ottla.cli.quorum.node_file import with_node_file, write_node_file
from ottla.cli.quorum.tokens import HOW_TO_GET_ONE, JoinToken
from ottla.clock import SystemClock
from ottla.light_dataclasses import dataclass
from ottla.quorum_health import silent_ms

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.cli.quorum.places import Place
    from ottla.client.admin.async_admin import AsyncAdmin
    from ottla.quorum_health import QuorumEndpoint, QuorumInfo
    from ottla.values import Address

PATIENCE_MS: Final = 15_000
LIMITS: Final = {"default.api.timeout.ms": PATIENCE_MS, "request.timeout.ms": PATIENCE_MS}
ALIVE_MS: Final = 1_500
"""A voter that has not fetched for so long counts as gone; it does so at least twice a second. Who is wrongly counted
as gone has cost nothing: the log says who votes."""
LOOK_AGAIN_MS: Final = 2_000
CLAIMS: Final = 10
SPREAD: Final = 4


@dataclass(frozen=True, slots=True)
class Joined:
    """What a cluster has told a new node."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    quorum: QuorumInfo

    @property
    def listener(self) -> str:
        return self.quorum.endpoints[self.quorum.leader][0].listener

    @property
    def controllers(self) -> str:
        """Where they are, the leader first."""
        quorum = self.quorum
        others = (each.node_id for each in quorum.voters if each.node_id != quorum.leader)
        found = [quorum.endpoints[each][0] for each in (quorum.leader, *others) if quorum.endpoints.get(each)]
        return ",".join(map(_address, found))


def _address(endpoint: QuorumEndpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def join(options: argparse.Namespace, settings: BrokerSettings) -> BrokerSettings:
    """Ask, claim, write; the settings to start with."""
    from ottla.cli.quorum.places import choose_place, own_address
    from ottla.errors import NotConnected, SaslAuthenticationFailed
    from ottla.values import parse_address, uuid_to_text

    if options.token is None:
        raise Failure(f"--join needs --token; {HOW_TO_GET_ONE}")
    token = JoinToken.parse(options.token)
    secure = token.ticket is not None
    with sentences():
        where = parse_address(options.join)
    place = choose_place(settings, options.controller_listen, own_address(where.host, where.port), secure=secure)
    _say(f"asking {where}")
    wanted = options.voters or VOTERS_WANTED
    with sentences():
        try:
            joined, votes = asyncio.run(_joined(settings, place, where, token, wanted))
        except SaslAuthenticationFailed:
            raise Failure(
                "the token is not good any more: it was used, or its time is over. Take the newest line of the first "
                "node; `ottla cluster invite` makes another one there"
            ) from None
        except (NotConnected, TimeoutError) as error:
            why = (error.detail if isinstance(error, NotConnected) else None) or error
            raise Failure(
                f"nobody answers at {where}, where a broker of the cluster should be: {why}. Look whether it runs "
                "there, and whether this machine reaches it"
            ) from None
    stored = node_settings(
        settings,
        place,
        node_id=joined.node_id,
        votes=votes,
        voters=wanted,
        bootstrap=joined.controllers,
        listener=joined.listener,
    )
    node = with_node_file(settings, stored)
    _format(settings.data_directories, stored, joined)
    role = "broker and controller" if votes else f"broker; {wanted} others vote"
    _say(f"node {joined.node_id} of cluster {joined.cluster_id}: {role}, directory {uuid_to_text(joined.directory_id)}")
    return node


def may_vote(quorum: QuorumInfo, wanted: int) -> bool:
    """Whether voters are missing: there are too few, or some are gone."""
    silences = (silent_ms(quorum, each) for each in quorum.voters)
    return sum(silence is not None and silence < ALIVE_MS for silence in silences) < wanted


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"ottla: {text}", file=sys.stderr, flush=True)


# --- asking ----------------------------------------------------------------------------------------------------------


async def _joined(
    settings: BrokerSettings, place: Place, where: Address, token: JoinToken, voters: int
) -> tuple[Joined, bool]:
    """What the cluster says, and whether this node may vote."""
    from ottla.client.admin.async_admin import AsyncAdmin
    from ottla.values import random_uuid

    directory_id = random_uuid(os.urandom)
    random, wanted_id = Random(), settings.wanted_id
    client: dict[str, object] = {"bootstrap.servers": str(where), **LIMITS}
    to_controllers: dict[str, object] = {}
    if token.ticket is not None:
        from ottla.cli.quorum.certificates import make_private, with_ticket

        make_private(settings.data_directories[0])
        client |= with_ticket(settings.data_directories[0], token)
    async with AsyncAdmin(client) as admin:
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
        token.check(cluster.cluster_id, str(where))
        if token.ticket is not None:
            from ottla.cli.quorum.certificates import certified

            _say("asking for a certificate")
            to_controllers = await certified(settings.data_directories[0], place, token.ticket, client)
        for attempt in range(CLAIMS):
            quorum = await joinable_quorum(admin, where)
            node_id = wanted_id
            if node_id is None:
                node_id = free_id([node.id for node in cluster.nodes], quorum) + random.randrange(attempt * SPREAD + 1)
            await _claim(quorum, cluster.cluster_id, node_id, directory_id, where, to_controllers)
            quorum = await joinable_quorum(admin, where)
            cluster = await admin.describe_cluster(include_fenced_brokers=True)
            if is_ours(quorum, node_id, directory_id) and node_id not in [node.id for node in cluster.nodes]:
                votes = may_vote(quorum, voters) or await _is_one_gone(admin, where, voters)
                return Joined(cluster.cluster_id, node_id, directory_id, quorum), votes
            if wanted_id is not None:
                raise Failure(
                    f"there is a node {wanted_id} in the cluster already. Leave node.id out, or choose another"
                )
    raise Failure(f"no free id was found in {CLAIMS} tries, because others join at the same time. Try again")


async def _is_one_gone(admin: AsyncAdmin, where: Address, voters: int) -> bool:
    """All have fetched lately; one that died since shows itself a moment later."""
    await SystemClock().sleep(LOOK_AGAIN_MS)
    return may_vote(await joinable_quorum(admin, where), voters)


async def joinable_quorum(admin: AsyncAdmin, where: object) -> QuorumInfo:
    """The quorum of a cluster that others can join; a Failure where they cannot."""
    from ottla.errors import UnsupportedVersion

    try:
        quorum = await admin.describe_metadata_quorum()
    except UnsupportedVersion:
        raise Failure(f"the cluster at {where} is kept in ZooKeeper; {_CANNOT_JOIN}") from None
    if not quorum.endpoints.get(quorum.leader):
        raise Failure(f"the cluster at {where} does not say where its controllers are; {_CANNOT_JOIN}")
    return quorum


_CANNOT_JOIN: Final = (
    "only clusters that begin with `ottla broker start --new-cluster`, or as Kafka's do, can be joined"
)


def free_id(brokers: Iterable[int], quorum: QuorumInfo) -> int:
    """Above all that are known, so that the id of a node that is gone is not another one's soon."""
    replicas = (each.node_id for each in (*quorum.voters, *quorum.observers))
    return max((*brokers, *replicas), default=0) + 1


def is_ours(quorum: QuorumInfo, node_id: int, directory_id: bytes) -> bool:
    """Whether nobody but this directory has that id, as far as the leader of the log knows."""
    found = {each.directory_id for each in (*quorum.voters, *quorum.observers) if each.node_id == node_id}
    return found == {directory_id}


async def _claim(
    quorum: QuorumInfo,
    cluster_id: str,
    node_id: int,
    directory_id: bytes,
    where: Address,
    connection: Mapping[str, object],
) -> None:
    """Fetch from the leader of the metadata log as that node; what comes is not looked at."""
    from ottla.client.admin.settings import AdminSettings
    from ottla.client.network import NetworkClient
    from ottla.errors import OttlaError, broker_error
    from ottla.protocol.messages import fetch
    from ottla.values import METADATA_TOPIC_UUID, Node

    leader = quorum.endpoints[quorum.leader][0]
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=quorum.leader_epoch,
        fetch_offset=0,
        last_fetched_epoch=0,
        partition_max_bytes=0,
        replica_directory_id=directory_id,
    )
    request = fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=node_id),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_UUID, partitions=[partition])],
    )
    network = NetworkClient.from_settings(AdminSettings({"bootstrap.servers": _address(leader), **connection}))
    try:
        answer = await network.send(Node(quorum.leader, leader.host, leader.port), request, timeout_ms=PATIENCE_MS)
        if answer.error_code:
            raise broker_error(answer.error_code, None)
    except OttlaError as error:
        raise Failure(
            f"the controller of the cluster at {where} is said to be at {_address(leader)}, and does not answer there: "
            f"{error} Nodes must reach each other's controller listeners; {_CANNOT_JOIN}"
        ) from None
    finally:
        await network.close()


# --- writing ---------------------------------------------------------------------------------------------------------


def _format(directories: tuple[Path, ...], stored: dict[str, str], joined: Joined) -> None:
    from ottla.storage.directory.checkpoints import MetaProperties, write_meta_properties
    from ottla.storage.files import DiskFiles
    from ottla.values import random_uuid

    write_node_file(directories[0], stored)
    files = DiskFiles()
    for directory in reversed(directories):  # the first one makes the node a formatted one
        directory_id = joined.directory_id if directory == directories[0] else random_uuid(os.urandom)
        directory.mkdir(parents=True, exist_ok=True)
        write_meta_properties(files, directory, MetaProperties(1, joined.cluster_id, joined.node_id, directory_id))
