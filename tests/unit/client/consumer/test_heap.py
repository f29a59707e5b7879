"""Lists of large values use the same memory again."""

import subprocess
import sys

import pytest

PROGRAM = """
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


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_lists_of_large_values_that_come_and_go_take_no_fresh_pages():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 50 * 100, "a list of 2 MB has 540 pages"
