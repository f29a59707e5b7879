"""Lists of large values use the same memory again, and no thread keeps more than a little of it."""

import os
import platform
import subprocess
import sys

import pytest

from ottla.client.consumer import heap

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc")

LISTS = """
import resource
from ottla.client.consumer.heap import keep_heap

keep_heap()
for number in range(60):
    if number == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    values = [bytes([number]) * 1_100 for _ in range(2_000)]
    del values
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

# All threads are there at once, so that each has a heap of its own; a frame grows as net/framing.py lets it grow.
THREADS = """
import threading
from ottla.client.consumer.heap import keep_heap

def resident_mb():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

def work():
    all_here.wait()
    frame = bytearray()
    while len(frame) < 6_000_000:
        frame.extend(bytes(65_536))
    values = [bytes(1_100) for _ in range(10_000)]
    del frame, values
    all_done.wait()
    measured.wait()

keep_heap()
all_here, all_done, measured = (threading.Barrier(count) for count in (16, 17, 17))
threads = [threading.Thread(target=work) for _ in range(16)]
before = resident_mb()
for thread in threads:
    thread.start()
all_done.wait()
print(round(resident_mb() - before))
measured.wait()
"""


def output_of(program: str, **environment: str) -> int:
    chosen = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=chosen | environment
    )
    return int(done.stdout)


def test_lists_of_large_values_that_come_and_go_take_no_fresh_pages():
    assert output_of(LISTS) < 50 * 100, "a list of 2 MB has 540 pages"


def test_what_sixteen_threads_used_once_does_not_stay():
    kept_mb = heap.KEPT_BYTES / 1e6
    assert output_of(THREADS) < 16 * (kept_mb + 2), "each thread had 17 MB"


def test_limits_of_the_environment_are_left_alone():
    assert output_of(THREADS, MALLOC_TRIM_THRESHOLD_="33554432", MALLOC_MMAP_THRESHOLD_="33554432") > 16 * 8
