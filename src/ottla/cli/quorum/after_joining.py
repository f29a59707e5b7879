"""What is left to do when a node that has just joined serves: internal topics get their copies, and its vote is told.

The topics of groups and transactions begin with as many copies as there were brokers when they were made
(ottla.internal.topics.fewer.copies). Each node that joins gives them more, until they have what the settings want; then
as many must be in sync as the settings want, too.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.placement import placed
from ottla.cli.quorum.node_file import NODES
from ottla.clock import SystemClock
from ottla.cluster.topic_names import GROUP_METADATA, SCHEMAS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.cli.commands.broker import ServerInfo
    from ottla.client.admin.async_admin import AsyncAdmin
    from ottla.values import TopicPartition

log = logging.getLogger(__name__)

VOTE_WITHIN_MS: Final = 120_000
LOOK_EVERY_MS: Final = 500
MIN_IN_SYNC: Final = "min.insync.replicas"


class Wanted(NamedTuple):
    """Of an internal topic."""

    copies: int
    in_sync: int | None
    """None leaves that as it is."""


def wanted_copies(settings: BrokerSettings) -> dict[str, Wanted]:
    return {
        GROUP_METADATA: Wanted(settings.offsets_topic_replication_factor, None),
        TRANSACTION_STATE: Wanted(
            settings.transaction_state_log_replication_factor, settings.transaction_state_log_min_isr
        ),
        SHARE_GROUP_STATE: Wanted(
            settings.share_coordinator_state_topic_replication_factor, settings.share_coordinator_state_topic_min_isr
        ),
        SCHEMAS: Wanted(settings.offsets_topic_replication_factor, None),
    }


def more_copies(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None], copies: int
) -> dict[TopicPartition, list[int]]:
    """The partitions that lack copies which the brokers can have, with all of them."""
    target = min(copies, len(racks))
    short = {
        key: replicas for key, replicas in current.items() if len(replicas) < target and set(replicas) <= set(racks)
    }
    return placed(short, racks, target)


async def complete(settings: BrokerSettings, info: ServerInfo) -> None:
    from ottla.client.admin.async_admin import AsyncAdmin

    try:
        async with AsyncAdmin(own_connection(settings, info)) as admin:
            await _give_copies(admin, settings)
            if settings.is_controller:
                await _report_vote(admin, settings, info.broker_id)
    except (OttlaError, TimeoutError) as problem:
        log.warning(
            "internal topics may have fewer copies than they should: %s. See `ottla topic describe "
            "__consumer_offsets`, and give them more with `ottla reassign start __consumer_offsets --replication 3`",
            problem,
        )


def own_connection(settings: BrokerSettings, info: ServerInfo) -> dict[str, object]:
    """How this node asks its own cluster: of a secured one as brokers do."""
    names = [each.name for each in settings.endpoints]
    if NODES not in names:
        return {"bootstrap.servers": info.bootstrap_servers}
    from ottla.cli.quorum.secured_node import as_node

    address = info.bootstrap_servers.split(",")[names.index(NODES)]
    return {"bootstrap.servers": address, **as_node(settings.data_directories[0])}


async def _give_copies(admin: AsyncAdmin, settings: BrokerSettings) -> None:
    from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
    from ottla.values import TopicPartition

    racks = {node.id: node.rack for node in (await admin.describe_cluster()).nodes}
    wanted = wanted_copies(settings)
    names = [name for name in await admin.list_topics(include_internal=True) if name in wanted]
    for name, topic in (await admin.describe_topics(names)).items() if names else ():
        current = {TopicPartition(name, each.partition): each.replicas for each in topic.partitions}
        moves = more_copies(current, racks, wanted[name].copies)
        if not moves:
            continue
        log.info("%s gets %d copies of each partition", name, min(wanted[name].copies, len(racks)))
        await admin.alter_partition_reassignments(moves)
        in_sync = wanted[name].in_sync
        if in_sync is not None and len(racks) > in_sync:
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            await admin.incremental_alter_configs({resource: [AlterConfig(MIN_IN_SYNC, str(in_sync))]})


async def _report_vote(admin: AsyncAdmin, settings: BrokerSettings, node_id: int) -> None:
    """On a terminal, as soon as the log says so."""
    if not sys.stderr.isatty():
        return
    clock = SystemClock()
    end_ms = clock.monotonic_ms() + VOTE_WITHIN_MS
    while clock.monotonic_ms() < end_ms:
        voters = [each.node_id for each in (await admin.describe_metadata_quorum()).voters]
        if node_id in voters:
            print(f"ottla: node {node_id} votes; voters: {', '.join(map(str, sorted(voters)))}", file=sys.stderr)
            return
        if len(voters) >= settings.ottla_controller_quorum_voters_max:
            return
        await clock.sleep(LOOK_EVERY_MS)
