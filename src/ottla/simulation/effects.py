"""What faults do to a broker or a controller: its process, its machine's power, its disk, its clocks, its session.

Each effect begins at once, waits for the fault's time, and undoes what it did. Effects may overlap: two of them that
want a broker gone bring it back when the first of them is over, which is one more restart at a bad moment.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ottla.light_dataclasses import replace
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.executor import SLOW_S
from ottla.simulation.fault import Fault
from ottla.testing.files import Operation

Effect: TypeAlias = Callable[[SimulatedCluster, Fault], Awaitable[None]]


async def kill(cluster: SimulatedCluster, fault: Fault) -> None:
    """kill -9."""
    cluster.kill(fault.broker)
    await _come_back(cluster, fault)


async def stop(cluster: SimulatedCluster, fault: Fault) -> None:
    """SIGTERM, as in a rolling restart."""
    await cluster.stop(fault.broker)
    await _come_back(cluster, fault)


async def cut_power(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.cut_power(fault.broker)
    await _come_back(cluster, fault)


async def cut_power_everywhere(cluster: SimulatedCluster, fault: Fault) -> None:
    """All machines at the same moment; they come back one after the other."""
    for number in cluster.seats:
        cluster.cut_power(number)
    for number in cluster.seats:
        await asyncio.sleep(fault.duration_s / len(cluster.seats))
        cluster.restart(number)


async def kill_at_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    """kill -9 in the middle of what the broker does to its disk."""
    await _strike(cluster, fault, cluster.kill)


async def cut_power_at_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    await _strike(cluster, fault, cluster.cut_power)


async def _strike(cluster: SimulatedCluster, fault: Fault, end: Callable[[int], None]) -> None:
    struck = asyncio.Event()

    def strike() -> None:
        end(fault.broker)
        struck.set()

    disk = cluster.nodes[fault.broker].machine.disk
    disk.strike_at(int(fault.number("operations", 1)), strike)
    try:
        async with asyncio.timeout(fault.duration_s):
            await struck.wait()
    except TimeoutError:
        disk.files.strike = None  # the broker did not touch its disk as often as that
        return
    await asyncio.sleep(fault.number("away_s"))
    cluster.restart(fault.broker)


async def _come_back(cluster: SimulatedCluster, fault: Fault) -> None:
    await asyncio.sleep(fault.duration_s)
    cluster.restart(fault.broker)


async def pause(cluster: SimulatedCluster, fault: Fault) -> None:
    """SIGSTOP, and SIGCONT for the same process, if it still lives."""
    process = cluster.nodes[fault.broker].machine.process
    if process is not None:
        process.pause()
        await asyncio.sleep(fault.duration_s)
        cluster.loop.resume(process)


async def fill_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    files = cluster.nodes[fault.broker].machine.disk.files
    files.fill(int(fault.number("free_bytes")))
    await asyncio.sleep(fault.duration_s)
    files.mend()


async def slow_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    """What threads do to the disk takes up to seconds."""
    machine = cluster.nodes[fault.broker].machine
    machine.slow_disk_s = fault.number("slow_s")
    await asyncio.sleep(fault.duration_s)
    machine.slow_disk_s = SLOW_S


async def fail_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    """One operation fails with EIO: the next of a kind (write, sync, read, ...), of files whose path ends so if that
    is said."""
    files = cluster.nodes[fault.broker].machine.disk.files
    kind, ending = fault.named["operation"], str(fault.named.get("ending", ""))

    def is_meant(operation: Operation) -> bool:
        return operation.kind == kind and str(operation.path).endswith(ending)

    files.fail(is_meant, errno.EIO)
    await asyncio.sleep(fault.duration_s)
    files.mend()


async def rot(cluster: SimulatedCluster, fault: Fault) -> None:
    """Bytes that were synced become others, while the broker runs, after a stop in order, or after kill -9."""
    down = fault.named["down"]
    if down == "stop":
        await cluster.stop(fault.broker)
    elif down == "kill":
        cluster.kill(fault.broker)
    struck = cluster.rots.strike(fault)
    cluster.timeline.add(f"broker {fault.broker}", "no rot" if isinstance(struck, str) else "rotted", str(struck))
    if down != "no":
        await _come_back(cluster, fault)


async def jump_wall_clock(cluster: SimulatedCluster, fault: Fault) -> None:
    """Wall time jumps, and stays there."""
    cluster.nodes[fault.broker].machine.clock.jump_wall(fault.number("jump_ms"))


async def change_clock_rate(cluster: SimulatedCluster, fault: Fault) -> None:
    """All clocks of the machine run too fast or too slowly."""
    clock = cluster.nodes[fault.broker].machine.clock
    clock.set_rate(fault.number("rate", 1.0))
    await asyncio.sleep(fault.duration_s)
    clock.set_rate(1.0)


async def lose_session(cluster: SimulatedCluster, fault: Fault) -> None:
    """ZooKeeper, or the active controller, ends the session of a broker that lives."""
    cluster.end_session(fault.broker)
    process = cluster.seats[fault.broker].machine.process
    if cluster.zookeeper is not None and process is not None:
        cluster.zookeeper.expire(process, after_commit=bool(fault.named.get("after_commit")))


# --- controllers ------------------------------------------------------------------------------------------------------


def at_active_controller(effect: Effect) -> Effect:
    """The same, at the controller that is active when it comes."""

    async def strike(cluster: SimulatedCluster, fault: Fault) -> None:
        active = cluster.active_controller
        if active is not None:
            cluster.timeline.add(cluster.nodes[active].name, "struck", "it is the active controller")
            await effect(cluster, replace(fault, broker=active))

    return strike


def at_drawn_voter(effect: Effect) -> Effect:
    """The same, at one of the controllers, which mostly is not the active one."""

    async def strike(cluster: SimulatedCluster, fault: Fault) -> None:
        voters = cluster.voters
        if voters:
            await effect(cluster, replace(fault, broker=voters[int(fault.number("pick") * len(voters))]))

    return strike


async def kill_alone(cluster: SimulatedCluster, fault: Fault) -> None:
    """kill -9 of a controller that may be cut off from the others for a while before, and appends what is never
    committed."""
    hosts = [cluster.nodes[voter].machine.host for voter in cluster.voters]
    own = cluster.nodes[fault.broker].machine.host
    pairs = [pair for other in hosts for pair in ((own, other), (other, own))]
    cluster.network.block(pairs)
    await asyncio.sleep(fault.number("alone_s"))
    cluster.kill(fault.broker)
    cluster.network.unblock(pairs)
    await _come_back(cluster, fault)


async def cut_power_of_controllers(cluster: SimulatedCluster, fault: Fault) -> None:
    """All of them at the same moment; they come back one after the other."""
    for voter in cluster.voters:
        cluster.cut_power(voter)
    for voter in cluster.voters:
        await asyncio.sleep(fault.duration_s / len(cluster.voters))
        cluster.restart(voter)
