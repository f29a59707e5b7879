"""Names of the package that are loaded when somebody first uses them."""

import subprocess
import sys

PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-5)
import ottla
names, failures, barrier = ["Producer", "Consumer", "Admin", "aio"], [], threading.Barrier(4)

def load(name):
    barrier.wait()
    try:
        found = getattr(ottla, name)
        if name == "aio":
            found.Producer, found.Consumer
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=load, args=[name]) for name in names]
[each.start() for each in threads]
[each.join() for each in threads]
print(failures)
"""


def test_threads_may_use_different_names_first_at_the_same_time() -> None:
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "[]", run.stderr
