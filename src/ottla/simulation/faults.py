"""Faults happen: each at its moment, each undone again after its time.

    await Faults(cluster, history, faults, is_durable=True).run(30.0)

1. What happens is the list (fault.py); nothing is drawn here. Who leads when a fault comes that is aimed at a leader
   is asked then.
2. What only an administrator mends is mended at the end (`repair`): a broker whose clock is hours away may refuse what
   clients send, for good, and one whose disk failed under its metadata changes nothing more.
3. Every fault is written into the history and the timeline, with the moment of its beginning and of its end.
4. With `replicated` durability a cluster promises nothing when as many machines lose power together as must have a
   record, so there what takes unsynced bytes away is skipped unless all copies are in sync. Nothing else depends on
   what goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ottla.light_dataclasses import replace
from ottla.simulation import effects, network_effects
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.fault import BIT_ROT, CONTROLLER_KINDS, KINDS, LEADER, Fault
from ottla.simulation.history import History

__all__ = ["EFFECTS", "KINDS", "Faults"]

EFFECTS: Final[dict[str, effects.Effect]] = {
    "kill": effects.kill,
    "restart": effects.kill,
    "stop": effects.stop,
    "kill-at-disk": effects.kill_at_disk,
    "power": effects.cut_power,
    "power-at-disk": effects.cut_power_at_disk,
    "power-all": effects.cut_power_everywhere,
    "pause": effects.pause,
    "disk-full": effects.fill_disk,
    "disk-slow": effects.slow_disk,
    "disk-fail": effects.fail_disk,
    "wall-clock": effects.jump_wall_clock,
    "clock-rate": effects.change_clock_rate,
    "session-loss": effects.lose_session,
    "one-way": network_effects.cut_one_way,
    "isolate": network_effects.isolate,
    "reset": network_effects.reset,
    "half-open": network_effects.open_half,
    "hold": network_effects.hold,
    "slow": network_effects.slow,
    BIT_ROT: effects.rot,
    "controller-kill": effects.at_active_controller(effects.kill_alone),
    "controller-cut": network_effects.cut_from_active_controller,
    "controller-stop": effects.at_active_controller(effects.stop),
    "controller-power": effects.at_active_controller(effects.cut_power),
    "controller-pause": effects.at_active_controller(effects.pause),
    "controller-apart": effects.at_active_controller(network_effects.cut_controller_apart),
    "voter-kill": effects.at_drawn_voter(effects.kill),
    "voter-disk": effects.at_drawn_voter(effects.fail_disk),
    "voter-apart": effects.at_drawn_voter(network_effects.cut_controller_apart),
    "voters-power": effects.cut_power_of_controllers,
}
LOSES_UNSYNCED: Final = ("power", "power-at-disk", "disk-fail", "controller-power", "voter-disk")
NEEDS_DURABLE: Final = ("power-all", "voters-power")


class Faults:
    """See the module. `is_durable`: what was acknowledged is synced, on every machine that has it."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        faults: Sequence[Fault],
        *,
        is_durable: bool = True,
        is_in_sync: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._faults = sorted(faults, key=lambda fault: fault.at_s)
        self._is_durable = is_durable
        self._is_in_sync = is_in_sync
        self._losing = 0  # faults under way by which a copy loses what is not synced; one may strike later

    async def run(self, duration_s: float) -> None:
        """Let them happen, for that long at least, and let each come to its end."""
        began_s = self._cluster.loop.time()
        running: list[asyncio.Task[None]] = []
        for fault in self._faults:
            await self._sleep_until(began_s + fault.at_s)
            running.append(asyncio.ensure_future(self._one(fault)))
        await self._sleep_until(began_s + duration_s)
        for task in running:
            await task
        self._cluster.repair()

    async def _sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s - self._cluster.loop.time()))

    def _is_allowed(self, kind: str) -> bool:
        if kind in CONTROLLER_KINDS and not set(self._cluster.voters) & set(self._cluster.seats):
            return True  # their log is always synced, and they have no other
        if self._is_durable:
            return True
        return kind not in NEEDS_DURABLE and (kind not in LOSES_UNSYNCED or (not self._losing and self._is_in_sync()))

    def _aimed(self, fault: Fault) -> Fault:
        """At who leads now, if that is what it says."""
        if LEADER not in fault.named or not (leaders := self._cluster.leaders()):
            return fault
        return replace(fault, broker=leaders[int(fault.number(LEADER) * len(leaders))])

    async def _one(self, fault: Fault) -> None:
        fault = self._aimed(fault)
        timeline, node = self._cluster.timeline, f"broker {fault.broker}"
        if not self._is_allowed(fault.kind):
            timeline.add(node, "no fault", f"{fault}: more copies than one would lose what is not synced")
            return
        timeline.add(node, "fault", str(fault))
        happening = self._history.invoke("faults", fault.kind, broker=fault.broker, **fault.named)
        loses = fault.kind in LOSES_UNSYNCED
        self._losing += loses
        try:
            await EFFECTS[fault.kind](self._cluster, fault)
        finally:
            self._losing -= loses
        happening.ok()
        if fault.duration_s:
            timeline.add(node, "undone", str(fault))
