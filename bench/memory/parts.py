"""What broker and client hold while a mixed load goes on: it must not grow.

    python -m bench.memory [--minutes 60] [--warm-up 10] [--json FILE]
    make bench-memory MINUTES=60

Two processes: `ottla broker start` with its defaults, and load.py with clients of every kind. Their resident memory is
read every five seconds. After the warm-up it must be flat: the figure is the median of the last tenth of the run over
the median of the tenth after the warm-up, so that a growth that goes on is seen and a moment's peak is not; the bar is
1.05. The highest value after the warm-up stands beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.walk import figures, processes

EVERY_S = 5.0
BAR = 1.05
# A producer is remembered for a day, as Kafka does, and a new one comes every second: within an hour that is growth by
# intent. Here it is five minutes, so that what comes and goes is seen to go.
SETTINGS = (
    "log.retention.check.interval.ms=5000",
    "log.cleaner.backoff.ms=2000",
    "producer.id.expiration.ms=300000",
    "producer.id.expiration.check.interval.ms=5000",
    "ottla.admin.listener=",
)


@dataclass
class Held:
    """Resident memory of one process over time, in MB."""

    name: str
    samples: list[tuple[float, float]] = field(default_factory=list)

    def figure(self, warm_up_s: float) -> figures.Figure:
        after = [mb for second, mb in self.samples if second >= warm_up_s]
        tenth = max(1, len(after) // 10)
        first, last = statistics.median(after[:tenth]), statistics.median(after[-tenth:])
        detail = f"{first:.1f} MB, then {last:.1f} MB; highest {max(after):.1f} MB"
        return figures.Figure(f"memory of the {self.name}, end over beginning", last / first, detail, at_most=BAR)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="the whole run (60)")
    parser.add_argument("--warm-up", type=float, default=10.0, help="minutes that do not count (10)")
    parser.add_argument("--json", type=Path, help="write every sample there")
    options = parser.parse_args()
    held, work = run(options.minutes * 60)
    found = [each.figure(options.warm_up * 60) for each in held]
    if options.json is not None:
        options.json.write_text(json.dumps({each.name: each.samples for each in held} | {"work": work}))
    print("what the load did: " + ", ".join(f"{name} {count:,}" for name, count in sorted(work.items())))
    print(figures.table(found))
    sys.exit(any(not each.reached for each in found))


def run(seconds: float) -> tuple[list[Held], dict[str, int]]:
    """The samples of broker and clients, and what the load says it has done."""
    with (
        tempfile.TemporaryDirectory(prefix="ottla-memory-") as directory,
        processes.BrokerProcess(Path(directory), SETTINGS) as broker,
        processes.Child("bench.memory.load", f"127.0.0.1:{broker.port}") as load,
    ):
        held = watch({"broker": broker, "clients": load}, seconds)
        return held, load.end()


def watch(children: dict[str, processes.Child], seconds: float) -> list[Held]:
    held = [Held(name) for name in children]
    began_s = time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        for each in held:
            if not children[each.name].is_alive:
                raise RuntimeError(f"the {each.name} ended after {elapsed_s:.0f} s; WALK_VERBOSE=1 shows why")
            each.samples.append((elapsed_s, children[each.name].rss_mb))
        _show(held, elapsed_s, seconds)
        time.sleep(EVERY_S)
    return held


def _show(held: list[Held], elapsed_s: float, seconds: float) -> None:
    if sys.stderr.isatty():
        now = ", ".join(f"{each.name} {each.samples[-1][1]:.1f} MB" for each in held)
        print(f"\r{elapsed_s / 60:5.1f} of {seconds / 60:.0f} minutes: {now}   ", end="", file=sys.stderr, flush=True)
