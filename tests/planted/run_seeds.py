"""Runs seeds with whatever ottla is on the path, one line of JSON for each, until one has an anomaly.

    python -m tests.planted.run_seeds '{"seeds": [3, 8], "brokers": 3, "cpu_s": 60.0}'

It is started by seeking.py, with a patched copy of the source, or with the source as it is.
"""

from __future__ import annotations

import json
import resource
import sys
import time

GRACE_S = 120  # of CPU time, for the schedule that runs when the time is over


def main() -> None:
    task = json.loads(sys.argv[1])
    limit_s = int(task["cpu_s"]) + GRACE_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 10))
    from ottla.simulation.run import run_seed

    for seed in task["seeds"]:
        result = run_seed(seed, task["brokers"])
        print(json.dumps(result.plain(1_000)), flush=True)
        if result.anomalies or time.process_time() > task["cpu_s"]:
            return


if __name__ == "__main__":
    main()
