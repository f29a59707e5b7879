"""Watches the brokers of a run, and writes into its timeline what they do: elections, in-sync sets, appends.

It asks between steps, from outside of all processes, and changes nothing: a run with a story is the same run.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.simulation.cluster import SimulatedCluster

EVERY_STEPS: Final = 20


class Observer:
    """See the module."""

    def __init__(self, cluster: SimulatedCluster, topics: frozenset[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self._led: dict[tuple[int, str], tuple[int, tuple[int, ...]]] = {}
        self._ends: dict[tuple[int, str], tuple[int, int]] = {}
        self._left = EVERY_STEPS

    def attach(self) -> None:
        """Be asked at every step from now on."""
        loop: Any = self._cluster.loop
        step = loop._run_once

        def watched() -> bool:
            self._left -= 1
            if not self._left:
                self._left = EVERY_STEPS
                self.watch()
            return bool(step())

        loop._run_once = watched

    def watch(self) -> None:
        for number, server in self._cluster.servers().items():
            broker = getattr(server, "broker", None)
            for partition in [] if broker is None else list(broker.replicas):
                if partition.name.topic in self._topics:
                    self._watch_one(number, partition)

    def _watch_one(self, number: int, partition: Any) -> None:
        name, state = f"{partition.name.topic}-{partition.name.partition}", partition.state
        add, node = self._cluster.timeline.add, f"broker {number}"
        if state is not None and state.leader == number:
            led = state.leader_epoch, tuple(state.isr)
            before = self._led.get((number, name))
            if before is None or before[0] != led[0]:
                add(node, "leads", f"{name} in epoch {led[0]}, in sync {list(led[1])}")
            elif before[1] != led[1]:
                add(node, "in sync", f"{name}: {list(led[1])}")
            self._led[number, name] = led
        end = partition.log.log_end_offset, partition.log.high_watermark
        known = self._ends.get((number, name), (0, 0))
        if end != known:
            kind = "cut" if end[0] < known[0] else "append" if end[0] > known[0] else "commits"
            add(node, kind, f"{name} ends at {end[0]}, {end[1]} is committed")
            self._ends[number, name] = end
