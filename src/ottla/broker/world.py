"""The doors of a broker to the machine: disk, network, time, chance, threads. Tests and the simulation bring others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from random import Random, SystemRandom
from typing import Final

from ottla.broker.cluster.memory_loss import read_boot_id
from ottla.clock import Clock, SystemClock
from ottla.cluster.features import FEATURES
from ottla.cluster.model import FeatureRange
from ottla.light_dataclasses import dataclass
from ottla.net.link import Transport
from ottla.net.transport import TcpTransport
from ottla.storage.files import DiskFiles, Files

WORKERS: Final = 4


def make_threads(workers: int) -> Executor:
    """The threads of a broker."""
    return ThreadPoolExecutor(workers, thread_name_prefix="ottla-disk")


@dataclass(frozen=True)
class World:
    """`workers` 0 does disk work on the loop: memory only."""

    files: Files
    transport: Transport
    clock: Clock
    random: Random
    workers: int = WORKERS
    boot_id: str | None = "one life"  # which life of the machine this is, memory_loss.py
    make_pool: Callable[[int], Executor] = make_threads
    features: tuple[FeatureRange, ...] = FEATURES
    """What this version knows; the simulation of an upgrade begins with an older one."""

    @classmethod
    def real(cls) -> World:
        return cls(DiskFiles(), TcpTransport(), SystemClock(), SystemRandom(), boot_id=read_boot_id())
