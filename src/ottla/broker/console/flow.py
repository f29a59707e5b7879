"""A record's way through the broker, as it is now: who is connected, what is being served, who waits for what, how the
disk and the followers keep up. Plain numbers; the page draws them.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Final

from ottla.broker.console.survey import in_slices
from ottla.broker.http.parts import Json
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition

SHOWN: Final = 12


class FollowerLag(NamedTuple):
    """How far a follower is behind what this broker leads."""

    lag: int
    name: str
    broker_id: int


async def flow(broker: Broker) -> dict[str, Json]:
    progress, flushes = broker.progress, broker.counts.flushes
    by_api = broker.request_metrics.by_api()
    requests = sum(count for count, _ in by_api.values())
    produces, produce_ms = by_api.get("Produce", (0, 0.0))
    apis = nlargest(SHOWN, by_api.items(), key=lambda each: each[1][0])
    rounds = progress.flush_rounds()
    return {
        "at_ms": broker.clock.now_ms(),
        **_on_connections(broker),
        "requests": requests,
        "produces": produces,
        "produce_ms": round(produce_ms, 3),
        "apis": [{"name": name, "count": count, "total_ms": round(took_ms, 3)} for name, (count, took_ms) in apis],
        "produce_waiting": len(progress.commits) + len(progress.produce_purgatory),
        "fetch_waiting": len(progress.fetch_purgatory),
        "watched_keys": progress.fetch_purgatory.watched_count,
        "syncs": flushes.count,
        "sync_ms": round(flushes.total_ms, 3),
        "sync_rounds_running": rounds.running,
        "sync_marked": rounds.marked,
        "sync_window_ms": round(rounds.window_ms, 3),
        "followers": [
            {"partition": each.name, "broker_id": each.broker_id, "lag": each.lag}
            for each in await follower_lags(broker)
        ],
        "following": _following(broker),
        **broker.topic_metrics.totals(),
    }


def _on_connections(broker: Broker) -> dict[str, Json]:
    """Requests that were read and are not begun, those that are being served or wait, and answers on their way."""
    connections = broker.connections()
    return {
        "connections": len(connections),
        "requests_unbegun": sum(each.unbegun_count for each in connections),
        "requests_in_flight": sum(each.waiting_count for each in connections),
        "answers_unsent": sum(each.is_sending for each in connections),
    }


async def follower_lags(broker: Broker) -> list[FollowerLag]:
    """The largest of them; those that never fetched since this broker leads are as far behind as can be."""
    found: list[FollowerLag] = []
    async for partition in in_slices(list(broker.replicas), 500):
        if partition.in_sync is not None and partition.in_sync.followers:
            found = nlargest(SHOWN, [*found, *_lags_of(partition)])
    return found


def _lags_of(partition: Partition) -> list[FollowerLag]:
    if partition.in_sync is None:
        return []
    end = partition.log_end_offset
    return [
        FollowerLag(end - max(0, each.log_end_offset), str(partition.name), broker_id)
        for broker_id, each in partition.in_sync.followers.items()
    ]


def _following(broker: Broker) -> list[Json]:
    """How far this broker is behind those that it follows."""
    known = ((lag, leader, name) for leader, name, lag in broker.link.replication.lags() if lag is not None)
    largest = nlargest(SHOWN, known, key=lambda each: each[0])
    return [{"partition": str(name), "leader": leader, "lag": max(0, lag)} for lag, leader, name in largest]
