"""A simulated machine: an address, a disk, a clock, and the processes that live on it one after the other.

machine = Machine(loop, network, "10.0.0.1", Random(7))
process = machine.boot("broker 0")
world = machine.world()                   # the doors for what runs in this process
machine.kill()                            # kill -9: written bytes stay, sockets are closed by the kernel
machine.power_off()                       # unsynced bytes are lost, and nobody is told
machine.power_on()
"""

from __future__ import annotations

from random import Random

from ottla.broker.world import World
from ottla.cluster.features import FEATURES
from ottla.cluster.model import FeatureRange
from ottla.simulation.clock import SimulatedClock
from ottla.simulation.disk import SimulatedDisk
from ottla.simulation.executor import SLOW_S, SimulatedExecutor
from ottla.simulation.loop import SimulationLoop
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.process import Process
from ottla.testing.files import Keep


class Machine:
    """See the module. At most one process at a time."""

    def __init__(
        self, loop: SimulationLoop, network: SimulatedNetwork, host: str, random: Random, *, rate: float = 1.0
    ) -> None:
        self.host = host
        self.random = random
        self.clock = SimulatedClock(loop, rate=rate)
        self.disk = SimulatedDisk(random, self.clock.now_ms)
        self.process: Process | None = None
        self._loop = loop
        self._network = network
        self.slow_disk_s = SLOW_S
        self._boots = 0
        self._has_power = True
        self._lives = 0

    def boot(self, name: str) -> Process:
        """Start a process, with a new life of everything but the disk and the clock."""
        if self.process is not None and not self.process.is_dead:
            raise RuntimeError(f"{self.process} lives on {self.host} already")
        self._lives += 1
        self.process = self._loop.new_process(f"{name} life {self._lives}")
        return self.process

    def world(self, features: tuple[FeatureRange, ...] = FEATURES) -> World:
        """The doors of the process that was booted last; `features` are those of its version."""
        random = Random(self.random.getrandbits(64))
        return World(
            self.disk.mount(),
            self._network.machine(self.host),
            self.clock,
            random,
            boot_id=f"boot {self._boots}",
            make_pool=lambda workers: SimulatedExecutor(
                self._loop, random, workers=workers, slow_s=lambda: self.slow_disk_s
            ),
            features=features,
        )

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None and not self.process.is_dead:
            self.process.kill()
            self.disk.kill()
            self._network.end_process(self.host)

    def power_off(self, keep: Keep = "any") -> None:
        """The power fails; see disk.py for what is left."""
        if self.process is not None:
            self.process.kill()
        self._has_power = False
        self._network.power_off(self.host)
        self.disk.crash(keep)

    def power_on(self) -> None:
        """A new life of the machine, when it had no power; its processes can tell by the `boot_id`."""
        if not self._has_power:
            self._has_power = True
            self._boots += 1
            self._network.power_on(self.host)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None:
            self._loop.resume(self.process)
