"""Starts the processes of one machine's brokers, starts again what ends, stops all of them in order.

1. All brokers start together: the controllers among them find each other. Who cannot start at the first time ends
   everything: his own words on stderr say why.
2. Later a process that ends, for whatever reason, is started again (restarts.py): others lead its partitions
   meanwhile.
3. A broker that is given up stays away, and the others go on. When no broker is left the exit code is 1.
4. The stop is one of all at once: controllers stay until every broker has handed over what it leads, and the last ones
   have nobody to hand anything to. Who does not stop within STOP_LIMIT_S is killed; what he acknowledged is on the disk
   or with others, as after a crash.
5. A broker that `ottla broker stop` names stops in order and stays away until `ottla broker start` names it; the others
   go on, and the restarts that it had are forgotten. Without a majority of the controllers nobody could go on for long,
   so that is refused.
6. A free port that a broker got (port 0) stays its own when it is started again: clients know nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli.brokers.child import Child
from ottla.cli.brokers.restarts import Restarts
from ottla.cli.brokers.status import ENDED, FILE, GIVEN_UP, SERVING, STARTING, STOPPED, ProcessStatus, Status
from ottla.cli.client_files import properties_text, write_secret
from ottla.cli.commands.broker import METRICS
from ottla.cli.output import FAILED, OK, Failure
from ottla.clock import Clock

STOP_LIMIT_S: Final = 60.0
MEMBER: Final = "ottla.cli.brokers.member"
HTTP_LISTENERS: Final = {"ottla.admin.listener": METRICS, "ottla.schema.registry.listener": "schema registry"}
"""Settings with an address for HTTP, and what is served there (broker/http/parts.py)."""

log = logging.getLogger(__name__)


class Place:
    """One process's place: what stays when the process goes."""

    def __init__(self, name: str, child: Child) -> None:
        self.child = child
        self.restarts = Restarts()
        self.status = ProcessStatus(name)
        self.is_kept_stopped = False
        self.resumed = asyncio.Event()

    @property
    def what(self) -> str:
        return f"broker {self.status.name}"

    def took(self, answer: dict[str, Any]) -> None:
        """It serves."""


class BrokerPlace(Place):
    """One broker; its settings are in a file that only we can read."""

    def __init__(self, name: str, file: Path, settings: dict[str, str], users: Path | None = None) -> None:
        """`users` is a file with those whom a controller makes before anybody can log in."""
        super().__init__(name, Child(MEMBER, [str(file), name, *([] if users is None else [str(users)])]))
        self._file = file
        self._settings = settings
        self._write()

    def took(self, answer: dict[str, Any]) -> None:
        self.status.broker_id = answer["broker_id"]
        self.status.address = answer["bootstrap_servers"]
        self.status.http = answer["http"]
        self.status.metrics = self.status.http.get(METRICS, "")
        kept = with_ports(self._settings, answer["ports"], answer["http"])
        if kept != self._settings:
            self._settings = kept
            self._write()

    def _write(self) -> None:
        text = properties_text(self._settings, "made by ottla broker start --brokers")
        write_secret(self._file, text, replace=True)


def with_ports(settings: dict[str, str], ports: dict[str, int], http: dict[str, str]) -> dict[str, str]:
    """Settings in which port 0 is the port that it became."""
    listeners = []
    for each in settings["listeners"].split(","):
        name, port = each.partition("://")[0], each.rpartition(":")[2]
        listeners.append(each[: -len(port)] + str(ports[name]) if port == "0" and ports.get(name) else each)
    kept = {**settings, "listeners": ",".join(listeners)}
    for setting, name in HTTP_LISTENERS.items():
        if name in http and settings.get(setting, "").endswith(":0"):
            kept[setting] = http[name].removeprefix("http://")
    return kept


class Supervisor:
    """See above. `directory` gets brokers.json."""

    def __init__(
        self, brokers: Sequence[BrokerPlace], directory: Path, clock: Clock, pid: int, *, voters: int = 0
    ) -> None:
        """The first `voters` of the brokers are controllers, too; none of a cluster in ZooKeeper."""
        self.brokers = list(brokers)
        self._voters = self.brokers[:voters]
        self.status = Status(supervisor=pid, brokers=[each.status for each in brokers])
        self._directory = directory
        self._clock = clock
        self._over = asyncio.Event()  # nothing is left that could serve

    async def run(self, ready: Callable[[Status], None], stop: asyncio.Event) -> int:
        """Until `stop`, or until nothing is left; the exit code."""
        try:
            if not await self._while_not(stop, self._start()):
                return OK if stop.is_set() else FAILED
            ready(self.status)
            watches = [asyncio.ensure_future(self._watch(place)) for place in self.brokers]
            await self._while_not(stop, self._over.wait())
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            return FAILED if self._over.is_set() else OK
        finally:
            await self._stop()

    def kill(self) -> None:
        """Everybody, at once."""
        for place in self.brokers:
            place.child.kill()

    # --- starting ---

    async def _start(self) -> bool:
        """Whether everybody serves."""
        starts = [asyncio.ensure_future(self._start_one(place)) for place in self.brokers]
        try:
            for each in asyncio.as_completed(starts):
                if not await each:
                    return False
            return True
        finally:
            for start in starts:
                start.cancel()

    async def _start_one(self, place: Place) -> bool:
        await place.child.start()
        place.status.state, place.status.pid = STARTING, place.child.pid
        self._write_status()
        answer = await place.child.serving()
        if answer is None:
            return False
        place.took(answer)
        self.status.cluster_id = answer["cluster_id"]
        self.status.bootstrap_servers = ",".join(each.status.address for each in self.brokers if each.status.address)
        place.status.state = SERVING
        self._write_status()
        return True

    # --- watching ---

    async def _watch(self, place: Place) -> None:
        while True:
            code = await place.child.ended()
            place.status.state, place.status.pid = ENDED, None
            if place.is_kept_stopped:
                await self._start_again(place)
                continue
            pause_ms = place.restarts.pause_ms(self._clock.monotonic_ms())
            if pause_ms is None:
                self._give_up(place, code)
                return
            log.error("%s ended (%s) and is started again", place.what, _how(code))
            place.status.restarts = place.restarts.count
            self._write_status()
            await self._clock.sleep(pause_ms)
            await self._start_again(place)

    def _give_up(self, place: Place, code: int) -> None:
        place.status.state = GIVEN_UP
        self._write_status()
        log.error("%s ended again and again (%s) and is given up", place.what, _how(code))
        if all(each.status.state == GIVEN_UP for each in self.brokers):
            self._over.set()

    # --- one broker, by name ---

    async def keep_stopped(self, name: str) -> str:
        """Stop a broker and keep it stopped; what was done, in a sentence. Failure when there is none of that name."""
        place = self._named(name)
        if place.is_kept_stopped:
            return f"{place.what} was stopped before"
        self._check_majority_without(place)
        place.is_kept_stopped = True
        place.resumed.clear()
        in_order = await place.child.stop(STOP_LIMIT_S)
        place.status.state, place.status.pid = STOPPED, None
        self._write_status()
        how = "" if in_order else f"; it did not stop within {STOP_LIMIT_S:g} s and was killed"
        log.info("%s is stopped, as was asked for%s", place.what, how)
        return f"{place.what} is stopped{how}"

    async def resume(self, name: str) -> str:
        """Start a broker that is kept stopped."""
        place = self._named(name)
        if not place.is_kept_stopped:
            return f"{place.what} was not stopped: it is {place.status.state}"
        place.is_kept_stopped = False
        place.resumed.set()
        return f"{place.what} is being started; `ottla broker status` shows when it serves"

    def _check_majority_without(self, place: BrokerPlace) -> None:
        staying = [each for each in self._voters if each is not place and not each.is_kept_stopped]
        if place in self._voters and 2 * len(staying) <= len(self._voters):
            others = ", ".join(each.status.name for each in self.brokers if each not in self._voters)
            advice = f"Stop one of {others} instead" if others else "Stop all of them, or start it with more brokers"
            raise Failure(
                f"{place.what} is a controller, and without it there is no majority of them: nobody could take over "
                f"what it leads. {advice}."
            )

    def _named(self, name: str) -> BrokerPlace:
        for place in self.brokers:
            if name in (place.status.name, str(place.status.broker_id)) and place.status.state != GIVEN_UP:
                return place
        known = ", ".join(each.status.name for each in self.brokers if each.status.state != GIVEN_UP)
        raise Failure(f"there is no broker {name} here; these are: {known}")

    async def _start_again(self, place: Place) -> None:
        """Start what has ended, when it is not to stay away any more."""
        if place.is_kept_stopped:
            place.status.state = STOPPED
            self._write_status()
            await place.resumed.wait()
            place.restarts = Restarts()
            place.status.restarts = 0
        if await self._start_one(place):
            log.info("%s serves again", place.what)

    # --- stopping ---

    async def _stop(self) -> None:
        stops = [place.child.stop(STOP_LIMIT_S) for place in self.brokers]
        for place, in_order in zip(self.brokers, await asyncio.gather(*stops), strict=True):
            if not in_order:
                log.error("%s did not stop within %g s and was killed", place.what, STOP_LIMIT_S)
        (self._directory / FILE).unlink(missing_ok=True)

    async def _while_not(self, stop: asyncio.Event, work: Any) -> Any:
        """The result of the work; None when `stop` came first."""
        working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for each in (working, stopping):
                each.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    def _write_status(self) -> None:
        try:
            self.status.write(self._directory)
        except OSError as error:
            log.warning("%s could not be written: %s", self._directory / FILE, error)


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
