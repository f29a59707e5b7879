"""What faults do to the network of a broker: partitions, broken connections, bytes that are late.

Each effect begins at once, waits for the fault's time, and undoes what it did; partitions that overlap are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.fault import ENSEMBLE, Fault
from ottla.simulation.link import SimulatedLink
from ottla.simulation.network import Weather

SLOW: Final = {
    "delayed": Weather(delay_s=(0.020, 0.200)),
    "narrow": Weather(bytes_per_s=20_000.0),
    "pieces": Weather(piece_bytes=61),
}


def _host(cluster: SimulatedCluster, number: int) -> str:
    return cluster.nodes[number].machine.host


async def cut_one_way(cluster: SimulatedCluster, fault: Fault) -> None:
    """One direction between a broker and one other, or the ensemble."""
    host, other = _host(cluster, fault.broker), int(fault.number("other", ENSEMBLE))
    others = cluster.truth_hosts if other == ENSEMBLE else [_host(cluster, other)]
    pairs = [(each, host) if fault.named.get("is_incoming") else (host, each) for each in others]
    await _cut(cluster, pairs, fault.duration_s)


async def isolate(cluster: SimulatedCluster, fault: Fault) -> None:
    """A broker from the other brokers with or without the ensemble, from all clients, or from everybody; in both
    directions."""
    host, others, whom = _host(cluster, fault.broker), [], fault.named.get("from")
    if whom != "clients":
        others += [seat.machine.host for seat in cluster.seats.values()]
        others += cluster.truth_hosts if whom != "peers" else []
    if whom not in ("brokers", "peers"):
        others += [machine.host for machine in cluster.clients]
    pairs = [(host, other) for other in others if other != host]
    await _cut(cluster, pairs + [(other, host) for host, other in pairs], fault.duration_s)


async def cut_from_active_controller(cluster: SimulatedCluster, fault: Fault) -> None:
    """One broker from the controller that is active now, which the others still hear; one way, or both."""
    active = cluster.active_controller
    if active is not None:
        await _cut(cluster, _ways(fault, _host(cluster, fault.broker), [_host(cluster, active)]), fault.duration_s)


async def cut_controller_apart(cluster: SimulatedCluster, fault: Fault) -> None:
    """A controller from all others, while brokers reach it; one way, or both."""
    others = [_host(cluster, voter) for voter in cluster.voters if voter != fault.broker]
    await _cut(cluster, _ways(fault, _host(cluster, fault.broker), others), fault.duration_s)


def _ways(fault: Fault, host: str, others: Sequence[str]) -> list[tuple[str, str]]:
    away, back = [(host, other) for other in others], [(other, host) for other in others]
    return {"to": away, "from": back, "both": away + back}[str(fault.named.get("way", "both"))]


async def _cut(cluster: SimulatedCluster, pairs: Sequence[tuple[str, str]], duration_s: float) -> None:
    cluster.network.block(pairs)
    await asyncio.sleep(duration_s)
    cluster.network.unblock(pairs)


async def reset(cluster: SimulatedCluster, fault: Fault) -> None:
    link = _picked(cluster, fault)
    if link is not None:
        cluster.network.reset(link)


async def open_half(cluster: SimulatedCluster, fault: Fault) -> None:
    """Only one end learns that the connection is gone."""
    link = _picked(cluster, fault)
    if link is not None:
        cluster.network.reset(link, half_open=True)


async def hold(cluster: SimulatedCluster, fault: Fault) -> None:
    """What one end of one connection writes is late, while everything else goes on."""
    link = _picked(cluster, fault)
    if link is not None:
        cluster.network.hold(link, True)
        await asyncio.sleep(fault.duration_s)
        cluster.network.hold(link, False)


def _picked(cluster: SimulatedCluster, fault: Fault) -> SimulatedLink | None:
    """One end of a connection of the broker: its own or the other one."""
    host = _host(cluster, fault.broker)
    links = [link for link in cluster.network.open_links() if host in (link.host, link.other.host)]
    return links[int(fault.number("pick") * len(links))] if links else None


async def slow(cluster: SimulatedCluster, fault: Fault) -> None:
    host = _host(cluster, fault.broker)
    cluster.network.set_weather(host, SLOW[str(fault.named["weather"])])
    await asyncio.sleep(fault.duration_s)
    cluster.network.set_weather(host, None)
