"""A process that keeps tables: which topics it has, a thread for each, and their end.

    process = TableProcess(cluster, clock, ProcessRules())
    process.run(stop)                       # until `stop` is set; with `once` until all tables are current

1. Every REFRESH_S it asks which topics are tables and what their settings are. What changed begins again from its
   marker, with the new settings; a topic whose mode is off is given up.
2. Of all processes one has a table: the member of the group (ottla-tables) that has the topic's partition number
   crc32(name) % partitions, so that tables are spread and a rebalance moves them. Members fetch nothing. Two that both
   think so for a moment are harmless: the marker lets one commit.
3. The group's committed offsets are for people and tools, and never read by a worker: how far a table is, with its
   status as the metadata of that partition. So lag tools show tables, and `ottla table describe` knows why one halts.
4. A thread that a fault ends is told in the log, and its table begins again at the next look.
"""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.clock import Clock
from ottla.errors import InvalidConfig, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.table_settings import OFF, TableSettings
from ottla.tables.finding import table_of
from ottla.tables.loop import TableLoop, TableStatus
from ottla.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.schema_registry.registry import SchemaRegistry
    from ottla.tables.cluster import Cluster

GROUP: Final = "ottla-tables"
REFRESH_S: Final = 5.0
POLL_S: Final = 0.5
JOIN_S: Final = 30.0
AT_ONCE: Final = {"ottla.table.lag.ms": "1"}
METADATA_CHARS: Final = 2_000
"""Brokers take 4,096 bytes beside an offset."""

log = logging.getLogger(__name__)


class ProcessRules(NamedTuple):
    """What a process is told on its command line."""

    topics: tuple[str, ...] = ()
    overrides: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    group: str | None = GROUP
    once: bool = False


class TableThread:
    """One table at work."""

    def __init__(self, loop: TableLoop) -> None:
        self.loop = loop
        self.target: Mapping[int, int] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"table-{loop.status.topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                wait_ms = self.loop.step()
                if wait_ms:
                    self._stop.wait(wait_ms / 1_000)
            self.loop.close()
        except Exception:
            log.exception("table %s: a fault ended its thread", self.loop.status.topic)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def ask_to_stop(self) -> None:
        self._stop.set()

    def join(self, limit_s: float) -> None:
        self._thread.join(limit_s)

    def is_current(self) -> bool:
        """Whether the table has what was there when somebody asked for the first time."""
        status = self.loop.status
        if self.target is None and status.end_offsets:
            self.target = dict(status.end_offsets)
        begins = status.begin_offsets
        if not status.epoch or self.target is None:
            return False
        return all(
            max(status.next_offsets.get(partition, 0), begins.get(partition, 0)) >= end
            for partition, end in self.target.items()
        )


class TableProcess:
    """See above."""

    def __init__(
        self,
        cluster: Cluster,
        registry: SchemaRegistry | None,
        clock: Clock,
        rules: ProcessRules,
        member: Callable[[], Consumer] | None = None,
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._clock = clock
        self._rules = rules
        self._member = None if member is None or rules.group is None else member()
        self._threads: dict[str, TableThread] = {}
        self._problems: dict[str, str] = {}
        self._subscribed: frozenset[str] = frozenset()
        self._published: dict[str, str] = {}

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event, tick: Callable[[Sequence[TableStatus]], None] | None = None) -> None:
        """Until `stop`; or until all tables are current, or halted, when it runs once."""
        refresh_at = self._clock.monotonic_ms()
        wanted: dict[str, TableSettings] = {}
        is_known = False
        try:
            while not stop.is_set():
                if self._clock.monotonic_ms() >= refresh_at:
                    refresh_at = self._clock.monotonic_ms() + REFRESH_S * 1_000
                    found = self._wanted()
                    is_known = is_known or found is not None
                    wanted = wanted if found is None else found
                    self._publish()
                self._keep(wanted, self._owned(wanted))
                if tick is not None:
                    tick(self.statuses())
                if self._rules.once and is_known and self._is_done(wanted):
                    return
                if self._member is None:
                    stop.wait(POLL_S / 5)
        finally:
            self._end()

    def statuses(self) -> list[TableStatus]:
        """How each table is doing, those that cannot begin too."""
        found = [thread.loop.status for thread in self._threads.values()]
        found += [TableStatus(topic, "halted", reason) for topic, reason in self._problems.items()]
        return sorted(found, key=lambda status: status.topic)

    def _is_done(self, wanted: Mapping[str, TableSettings]) -> bool:
        known = {status.topic: status for status in self.statuses()}
        return all(
            topic in known
            and (known[topic].state == "halted" or (topic in self._threads and self._threads[topic].is_current()))
            for topic in wanted
        )

    def _wanted(self) -> dict[str, TableSettings] | None:
        """The topics that are tables; None when the cluster does not say now."""
        try:
            found = self._cluster.tables(self._rules.topics or None)
        except OttlaError as error:
            log.warning("which topics are tables cannot be asked now: %s", error)
            return None
        changed = {}
        overrides = {**self._rules.overrides, **(AT_ONCE if self._rules.once else {})}
        for topic, settings in found.items():
            try:
                own = settings.replaced(overrides)
            except InvalidConfig as error:
                self._problem(topic, str(error))
                continue
            if own.ottla_table_mode != OFF and not topic.startswith("__"):
                changed[topic] = own
        return changed

    def _owned(self, wanted: Mapping[str, TableSettings]) -> set[str]:
        """The tables that are this process's."""
        if self._member is None:
            return set(wanted)
        if frozenset(wanted) != self._subscribed:
            self._subscribed = frozenset(wanted)
            if wanted:
                self._member.subscribe(sorted(wanted), listener=_Paused(self._member))
            else:
                self._member.unsubscribe()
        if not wanted:
            threading.Event().wait(POLL_S)
            return set()
        try:
            self._member.poll(timeout=POLL_S)
            return {topic for topic in wanted if self._is_mine(topic)}
        except OttlaError as error:
            log.warning("the group of tables cannot be asked now, tables stay where they are: %s", error)
            return set(self._threads)

    def _is_mine(self, topic: str) -> bool:
        assert self._member is not None, "without a group every table is ours"
        count = len(self._member.partitions_for(topic))
        deciding = TopicPartition(topic, zlib.crc32(topic.encode()) % max(1, count))
        return deciding in self._member.assignment()

    # -- tables --------------------------------------------------------------------------------------------------------

    def _keep(self, wanted: Mapping[str, TableSettings], owned: set[str]) -> None:
        """Begin what is ours, end what is not any more, begin again what has other settings."""
        for topic, thread in list(self._threads.items()):
            if topic in owned and wanted.get(topic) == thread.loop.settings and thread.is_alive:
                continue
            thread.ask_to_stop()
            thread.join(JOIN_S)
            del self._threads[topic]
        for topic in sorted(set(self._problems) - owned):
            del self._problems[topic]
        for topic in sorted((owned & set(wanted)) - set(self._threads)):
            self._begin(topic, wanted[topic])

    def _begin(self, topic: str, settings: TableSettings) -> None:
        try:
            where = table_of(topic, settings, self._rules.options)
            assert where is not None, "its mode is not off"
            loop = TableLoop(topic, settings, where, self._cluster, self._registry, self._clock)
        except InvalidConfig as error:
            self._problem(topic, str(error))
            return
        self._problems.pop(topic, None)
        self._threads[topic] = TableThread(loop)
        log.info("table %s: begins at %s", topic, where.location)

    def _problem(self, topic: str, sentence: str) -> None:
        if self._problems.get(topic) != sentence:
            log.error("table %s cannot begin: %s", topic, sentence)
        self._problems[topic] = sentence

    def _end(self) -> None:
        for thread in self._threads.values():
            thread.ask_to_stop()
        for thread in self._threads.values():
            thread.join(JOIN_S)
        self._publish()
        if self._member is not None:
            self._member.close(commit=False)

    # -- for people ----------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Offsets and status as the group has them."""
        if self._member is None:
            return
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic, thread in self._threads.items():
            status = thread.loop.status
            text = status_text(status)
            if self._published.get(topic) == text or not status.next_offsets:
                continue
            self._published[topic] = text
            for number, partition in enumerate(sorted(status.next_offsets)):
                beside = text if number == 0 else ""
                offsets[TopicPartition(topic, partition)] = OffsetAndMetadata(status.next_offsets[partition], beside)
        if offsets:
            try:
                self._member.commit(offsets, timeout=POLL_S * 4)
            except (OttlaError, TimeoutError) as error:
                self._published.clear()
                log.debug("the group's offsets are told later: %s", error)


class _Paused:
    """Members have partitions, and fetch nothing of them."""

    def __init__(self, member: Consumer) -> None:
        self._member = member

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._member.pause(*partitions)


def status_text(status: TableStatus) -> str:
    """A status as it stands beside an offset."""
    found: dict[str, Any] = {
        "state": status.state,
        "reason": status.reason[: METADATA_CHARS // 2],
        "epoch": status.epoch,
        "commits": status.commits,
        "bad_records": status.bad_records,
        "last_bad": status.last_bad[: METADATA_CHARS // 4],
        "upkeep": status.upkeep[: METADATA_CHARS // 8],
        "at": status.last_commit_ms,
    }
    return json.dumps({name: value for name, value in found.items() if value})


def read_status(text: str) -> dict[str, Any]:
    """The same, read; empty for what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
