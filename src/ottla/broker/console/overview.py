"""The cluster and this broker at a glance, as values; and who is a broker of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.broker.http.parts import Json

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.console.survey import ClusterCounts, Copies, Survey


async def overview(broker: Broker, survey: Survey) -> dict[str, Json]:
    """Counts over the whole cluster; sizes are of this broker's copies."""
    image, counts, copies = broker.image, await survey.cluster(), await survey.copies()
    return {
        "cluster_id": image.cluster_id,
        "broker_id": broker.id,
        "controller_id": image.controller_id if image.controller_id >= 0 else broker.id,
        "brokers": len(image.brokers),
        "active_brokers": len(image.active_brokers()),
        "topics": counts.topics,
        "partitions": counts.partitions,
        "under_replicated": counts.under_replicated,
        "without_leader": counts.without_leader,
        "size_bytes": copies.size_bytes,
        "now_ms": broker.clock.now_ms(),
    }


def broker_list(broker: Broker, counts: ClusterCounts) -> list[Json]:
    """Every broker of the cluster, with what it leads and has copies of."""
    image = broker.image
    return [
        {
            "id": each.id,
            "endpoints": [f"{one.listener}://{one.host}:{one.port}" for one in each.endpoints],
            "rack": each.rack,
            "is_active": each.is_active,
            "is_controller": each.id == image.controller_id or (broker.link.is_alone and each.id == broker.id),
            "is_here": each.id == broker.id,
            "leads": counts.leads[each.id],
            "replicas": counts.replicas[each.id],
            "behind": counts.behind[each.id],
        }
        for each in image.brokers.values()
    ]


def directories(broker: Broker, copies: Copies) -> list[Json]:
    """The log directories of this broker and how full their disks are."""
    found: list[Json] = []
    for each in broker.replicas.directories:
        path = str(each.path)
        total, free = _room(path)
        found.append(
            {
                "path": path,
                "failure": None if each.failure is None else str(each.failure),
                "partitions": copies.counts[path],
                "size_bytes": copies.sizes[path],
                "total_bytes": total,
                "free_bytes": free,
            }
        )
    return found


def _room(path: str) -> tuple[int | None, int | None]:
    try:
        stat = os.statvfs(path)
    except (OSError, AttributeError):
        return None, None  # a disk in memory, or a system without this call
    return stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail
