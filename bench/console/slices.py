"""How long the broker's loop is held in one piece while pages are open: nobody else is served meanwhile.

1. The broker runs with a hook that times every callback of its loop and every collection of garbage, and writes down
   those that took longer than NOTED_S when it is asked to. It runs on asyncio's own loop, whose callbacks can be timed.
2. First nobody asks, then pages ask FASTER times as often as they do, so that seconds show what minutes would. Nothing
   else happens at this broker, so what holds its loop is the console and the broker's own housekeeping.
3. The first answer loads the console; how long that holds the loop is a figure of its own, once in a broker's life.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.console.brokers import ConsoleBroker, open_pages
from bench.console.polling import PAGES
from bench.console.topics import TOPICS, create
from bench.walk.figures import Figure
from bench.walk.processes import ENVIRONMENT
from bench.walk.throughput import new_directory

FASTER: Final = 20
HOOK: Final = """
import asyncio.events, gc, json, os, signal, sys, time

sys.modules["uvloop"] = None  # its callbacks cannot be seen

NOTED_S, LIMIT = 0.0002, 200_000
noted, begun = [], [0.0, 0.0]
run = asyncio.events.Handle._run

def now():
    return time.perf_counter(), time.thread_time()

def note(begun_s, begun_cpu_s, name_of):
    took_s = time.perf_counter() - begun_s
    if took_s >= NOTED_S and len(noted) < LIMIT:
        noted.append((begun_s, took_s, time.thread_time() - begun_cpu_s, name_of()))

def name_of(callback):
    task = getattr(callback, "__self__", None)
    coroutine = task.get_coro() if hasattr(task, "get_coro") else None
    return getattr(coroutine or callback, "__qualname__", None) or repr(callback)[:80]

def timed(handle):
    callback, begun = handle._callback, now()
    try:
        return run(handle)
    finally:
        note(*begun, lambda: name_of(callback))

def collected(phase, info):
    if phase == "start":
        begun[:] = now()
    else:
        note(*begun, lambda: f"garbage of generation {info['generation']}")

def write(*_):
    path = os.environ["OTTLA_SLICES"]
    with open(path + ".new", "w") as file:
        json.dump(noted, file)
    os.replace(path + ".new", path)

asyncio.events.Handle._run = timed
gc.callbacks.append(collected)
signal.signal(signal.SIGUSR2, write)
"""


class TimedBroker(ConsoleBroker):
    """A broker whose loop is timed."""

    def __init__(self, directory: Path) -> None:
        hook = directory.parent / f"{directory.name}-hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        self._written = hook / "slices.json"
        paths = [str(hook), ENVIRONMENT.get("PYTHONPATH", "")]
        self.environment = {
            **ENVIRONMENT,
            "PYTHONPATH": ":".join(each for each in paths if each),
            "OTTLA_SLICES": str(self._written),
        }
        super().__init__(directory)

    def slices(self) -> list[Slice]:
        self._process.send_signal(signal.SIGUSR2)
        while not self._written.exists():
            time.sleep(0.05)
        return [Slice(*each) for each in json.loads(self._written.read_text())]


class Slice(NamedTuple):
    """When it began, how long it took, how much of that was work of this thread, and whose it was."""

    begun_s: float
    took_s: float
    cpu_s: float
    name: str


class Spans:
    """Between which times what was done."""

    def __init__(self) -> None:
        self.by_name: dict[str, tuple[float, float]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        begun_s = time.perf_counter()
        yield
        self.by_name[name] = begun_s, time.perf_counter()


def few(root: Path, turns: int) -> list[Figure]:
    """With next to nothing in the broker."""
    return _figures(root, turns, "", 0)


def many(root: Path, turns: int) -> list[Figure]:
    """With 10,000 topics."""
    return _figures(root, turns, f", {TOPICS:,} topics", TOPICS)


def _figures(root: Path, turns: int, where: str, topics: int) -> list[Figure]:
    seconds = max(2.0, turns / 2)
    _compile(root)
    spans = Spans()
    with new_directory(root) as directory, TimedBroker(directory / "data") as broker:
        broker.create_topic(4)
        create(broker, topics)
        with spans.of("nobody asks"):
            time.sleep(seconds)
        with spans.of("the console is loaded"):
            broker.get("/")
        for page in PAGES:
            with spans.of(f"{page} is opened"):
                for _, path in PAGES[page]:
                    broker.get(path)
            with spans.of(f"{page} is open"), open_pages(broker, (page,), FASTER) as pages:
                time.sleep(seconds)
                pages.end()
        slices = broker.slices()
        broker.kill()  # ten thousand logs take their time to be closed
    return [_figure(name, where, span, slices) for name, span in spans.by_name.items()]


def _compile(root: Path) -> None:
    """Whatever is loaded has its bytecode afterwards, as what is installed has."""
    with new_directory(root) as directory, ConsoleBroker(directory / "data") as broker:
        for path in ("/", *(path for asked in PAGES.values() for _, path in asked)):
            broker.get(path)


def _figure(name: str, where: str, span: tuple[float, float], slices: list[Slice]) -> Figure:
    here = [each for each in slices if span[0] <= each.begun_s <= span[1]]
    longest = max(here, key=lambda each: each.cpu_s, default=Slice(0.0, 0.0, 0.0, "nothing"))
    share = sum(each.cpu_s for each in here) / (span[1] - span[0])
    more = sum(each.cpu_s >= 0.001 for each in here)
    detail = (
        f"{longest.took_s * 1e3:.2f} ms by the clock, {longest.name}; {more} of 1 ms; {100 * share:.1f} % of a core"
    )
    return Figure(f"longest slice (CPU): {name}{where}", longest.cpu_s * 1e3, detail, " ms")
