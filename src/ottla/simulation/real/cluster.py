"""Three real brokers that fail, in real time, for any Kafka client in any language.

    with RealCluster(seed=7, faults=("kill", "cut", "slow"), seconds=10) as cluster:
        cluster.create_topic("orders", partitions=3)
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        while not cluster.faults_are_over:
            ...
        cluster.healed()
        cluster.check()

1. Brokers are processes (processes.py), clients and brokers reach them by proxies (proxy.py). `faults` are kinds of
   faults (drawing.py), drawn from the seed for `seconds` from the moment when all brokers serve; or Fault values.
2. `healed` waits until all faults are over, every broker runs and all copies of all topics are in sync.
3. `check` reads every topic that was made here and lets the simulation's checker judge `history`: what clients of the
   test wrote down there. Who writes nothing down has nothing to check.
4. What is raised inside of `with` has the line that repeats it as a note. The same seed gives the same faults at the
   same moments; what goes on between them is real, so a second run is not the same history.
5. At the end everything is killed and its files are deleted. Whatever waits here has a bound.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.cli.brokers.start import short_directory
from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.errors import InvalidReplicationFactor, OttlaError, TopicAlreadyExists
from ottla.simulation.checker import check
from ottla.simulation.fault import Fault
from ottla.simulation.real.drawing import REAL_KINDS, draw_real_faults
from ottla.simulation.real.effects import RealFaults
from ottla.simulation.real.processes import Processes
from ottla.simulation.real.proxy import HOST, Proxy
from ottla.simulation.real.recording import SharedHistory, number_in, read_everything
from ottla.simulation.real.weather import Passing, broker_name
from ottla.simulation.timeline import Timeline

T = TypeVar("T")

SECONDS: Final = 10.0
LIMIT_S: Final = 300.0
SHOWN: Final = 10


class RealCluster:
    """See the module."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        faults: Sequence[str | Fault] = (),
        seconds: float = SECONDS,
        settings: Mapping[str, object] | None = None,
        repeat: str = "",
    ) -> None:
        self.seed = seed
        self.repeat = repeat or f"RealCluster(seed={seed})"
        self.faults = _drawn(faults, seed, brokers, seconds)
        self.history = SharedHistory()
        began_s = time.monotonic()
        self._timeline = Timeline(lambda: time.monotonic() - began_s)
        self._brokers = brokers
        self._settings = settings
        self._topics: dict[str, int] = {}
        self._passed = asyncio.Event()
        self._proxies: list[tuple[Proxy, Proxy]] = []
        self._happening: Future[None] | None = None
        self._processes: Processes
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread

    # --- looking ---

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as clients reach them: through the proxies."""
        return ",".join(f"{HOST}:{for_clients.port}" for for_clients, _ in self._proxies)

    @property
    def timeline(self) -> str:
        """What happened to the brokers, a line for each moment."""
        return self._timeline.text()

    @property
    def faults_are_over(self) -> bool:
        """Whether the last fault has been undone; raises when a broker ended without a fault."""
        self._wait(self._check_processes())
        return self._happening is not None and self._happening.done()

    # --- beginning and end ---

    def __enter__(self) -> Self:
        self._files = tempfile.TemporaryDirectory(prefix="ottla-", dir=short_directory())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-real-cluster", daemon=True)
        self._thread.start()
        try:
            self._wait(self._start(Path(self._files.name)))
        except BaseException:
            self._stop()
            raise
        self._happening = asyncio.run_coroutine_threadsafe(self._let_faults_happen(), self._loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"seed {self.seed}; repeat with: {self.repeat}\n{self.timeline}")
        self._stop()

    async def _start(self, directory: Path) -> None:
        passing = Passing()
        for number in range(self._brokers):
            pair = [self._proxy(number, passing, is_for_brokers=each) for each in (False, True)]
            for proxy in pair:
                await proxy.open()
            self._proxies.append((pair[0], pair[1]))
        self._processes = Processes(directory, self._proxies, self._settings)
        self._effects = RealFaults(self._processes, self._proxies, passing, self._notify, self.history, self._timeline)
        await self._processes.start()

    def _proxy(self, number: int, passing: Passing, *, is_for_brokers: bool) -> Proxy:
        return Proxy(
            broker_name(number),
            is_for_brokers=is_for_brokers,
            passing=passing,
            random=Random(f"proxy {self.seed} {number} {is_for_brokers}"),
            changed=lambda: self._passed,
        )

    def _notify(self) -> None:
        """Wake all that wait for bytes to be allowed."""
        self._passed.set()
        self._passed = asyncio.Event()

    async def _let_faults_happen(self) -> None:
        await self._effects.run(self.faults)

    def _stop(self) -> None:
        try:
            self._wait(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LIMIT_S)
            self._loop.close()
            self._files.cleanup()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if hasattr(self, "_processes"):
            await self._processes.stop()
        for pair in self._proxies:
            for proxy in pair:
                await proxy.close()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT_S)

    # --- for tests ---

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Until it is there, with as many copies as there are brokers, three at most."""
        new = NewTopic(name, partitions, min(3, self._brokers), configs)

        def create(admin: Admin) -> bool:
            try:
                admin.create_topics([new])
            except TopicAlreadyExists:
                return True  # the answer to the first try was lost
            except InvalidReplicationFactor:
                return False  # a fault holds one of the brokers down; it comes back
            return True

        self._until(create, f"{name} could not be made")
        self._topics[name] = partitions

    def healed(self) -> None:
        """Wait until all faults are over and all copies of all topics are in sync."""
        assert self._happening is not None, "the cluster runs"
        self._happening.result(LIMIT_S)
        self._until(self._is_in_sync, "not all copies came in sync again")
        self.history.note("faults", "healed")
        self._timeline.add("cluster", "healed")

    def _is_in_sync(self, admin: Admin) -> bool:
        self._wait(self._check_processes())
        names = list(admin.list_topics(include_internal=True))
        found = admin.describe_topics(names).values() if names else []
        return all(len(each.in_sync) == len(each.replicas) for topic in found for each in topic.partitions)

    def check(self, value_of: Callable[[bytes | None], int] = number_in) -> None:
        """See the module; `value_of` makes the number of the history of a record's value."""
        read_everything(self.history, self.bootstrap_servers, self._topics, value_of=value_of)
        if anomalies := check(self.history.events):
            shown = "\n".join(str(each) for each in anomalies[:SHOWN])
            raise AssertionError(f"{len(anomalies)} anomalies:\n{shown}")

    async def _check_processes(self) -> None:
        self._processes.check()

    def kill(self, broker: int) -> None:
        """kill -9; `restart` brings it back."""
        self._wait(self._processes.kill(broker))
        self._timeline.add(broker_name(broker), "killed", "by the test")

    def restart(self, broker: int) -> None:
        self._wait(self._processes.start_broker(broker))
        self._timeline.add(broker_name(broker), "started", "by the test")

    def _until(self, attempt: Callable[[Admin], bool], failure: str) -> None:
        """Again and again, until it succeeds; errors that pass are errors of brokers that are not back yet."""
        give_up_s = time.monotonic() + LIMIT_S
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            while True:
                try:
                    if attempt(admin):
                        return
                except OttlaError as error:
                    if not error.retriable:
                        raise
                if time.monotonic() > give_up_s:
                    raise TimeoutError(f"{failure} within {LIMIT_S:g} s\n{self.timeline}")
                time.sleep(0.1)


def _drawn(faults: Sequence[str | Fault], seed: int, brokers: int, seconds: float) -> list[Fault]:
    names = [each if isinstance(each, str) else each.kind for each in faults]
    if unknown := [each for each in names if each not in REAL_KINDS]:
        raise ValueError(f"there is no fault {', '.join(unknown)} in real time; there are {', '.join(REAL_KINDS)}")
    kinds = [each for each in faults if isinstance(each, str)]
    drawn = draw_real_faults(Random(f"real faults {seed}"), kinds=kinds, brokers=brokers, seconds=seconds)
    return drawn + [each for each in faults if isinstance(each, Fault)]
