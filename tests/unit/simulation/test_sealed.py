"""Code under simulation reaches for nothing real: no clock, no thread, no socket, no file, no randomness."""

from __future__ import annotations

import os
import random
import secrets
import socket
import threading
import time
import uuid
from dataclasses import replace
from random import Random

import pytest

from ottla.simulation.fault import KINDS
from ottla.simulation.loop import new_loop
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan
from ottla.simulation.sealed import WorldLeak, sealed_world

LOADS_HERE = ("numbers", "follow", "group-consumer", "transfers")
DOORS = {
    "wall time": time.time,
    "monotonic time": lambda: time.monotonic_ns(),
    "sleep": lambda: time.sleep(0),
    "randomness of the system": lambda: os.urandom(1),
    "a random number": lambda: random.random(),
    "an unseeded generator": lambda: Random(),
    "a secret": lambda: secrets.token_bytes(1),
    "a random uuid": uuid.uuid4,
    "a thread": lambda: threading.Thread(target=print).start(),
    "a socket": lambda: socket.socket(),
    "a file": lambda: os.open(os.devnull, os.O_RDONLY),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_simulated_process_that_reaches_for_the_real_world_is_found_out(door):
    loop = new_loop(Random(1))
    process = loop.new_process("broker 0")

    async def reach():
        with pytest.raises(WorldLeak):
            (time.time if door == "wall time" else DOORS[door])()

    with sealed_world() as leaks:
        loop.run(reach(), limit_s=1.0, process=process)
    loop.close()
    assert len(leaks) == 1
    assert leaks[0].startswith("broker 0 called ")


def test_the_real_world_is_open_outside_of_simulated_processes_and_afterwards():
    real = time.time
    with sealed_world() as leaks:
        assert time.time() > 0
        Random()
    assert leaks == []
    assert time.time is real


def test_brokers_and_clients_reach_for_nothing_real():
    plan = replace(Plan.drawn(3, 3), loads=LOADS_HERE, kinds=KINDS, work_s=2.0, fault_pause_s=0.5, send_pause_s=0.3)
    plan = replace(plan, fault_scale=0.2)
    with sealed_world() as leaks:
        result = run_plan(plan)
    assert leaks == []
    assert result.acknowledged > 0
