"""What others do in ZooKeeper becomes facts, on one thread of ours.

1. A watch that fires (on kazoo's thread) only puts its path into a queue. This thread looks at the path again, sets
   the next watch with the same question, and puts what it found into the facts: so nothing that happens between two
   looks is lost, and a burst of changes costs one look.
2. After a lost connection everything is looked at again. After a lost session all that concerns everybody is read
   again, too: notes of what changed meanwhile may be deleted by now.
3. Everybody watches the controller, features, and the notes about settings, access rules and tokens. Who `leads`
   watches brokers, topics and requests to the controller as well.
4. Notes are read once. Those to the controller are deleted by it; those about settings stay for the other brokers, and
   whoever sees one that is older than NOTE_LIFE_MS deletes it.
5. A fact that came too late (a topic that the member itself made) is dropped by the store, which knows the image. Where
   it cannot know (a node was gone while this member made it), it has the node read again.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.clock import Clock
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import StoredKey, Topic
from ottla.cluster.store.events import (
    ELECTION_ASKED,
    REASSIGNMENT_ASKED,
    BrokersChanged,
    Controller,
    ControllerChanged,
    EventQueue,
    LogDirFailed,
    PartitionStatesChanged,
    deletion_asked,
)
from ottla.cluster.store.interface import ControllerMoved, NoSession, StoreClosed
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.acls import noted_path
from ottla.cluster.store.zookeeper.election import Office
from ottla.cluster.store.zookeeper.everything import read_known_to_all
from ottla.cluster.store.zookeeper.facts import Fact, NodesRead, RequestsRead, TopicsRead
from ottla.cluster.store.zookeeper.reading import brokers_in, is_shared_map, topic_of
from ottla.cluster.store.zookeeper.session import Refused, Session
from ottla.cluster.store.zookeeper.writes import Delete
from ottla.cluster.store.zookeeper.znodes import DamagedNode, Znode
from ottla.values import TopicPartition

NOTE_LIFE_MS: Final = 15 * 60 * 1000
AGAIN_AFTER_S: Final = 1.0
STOP_LIMIT_S: Final = 2.0
_NOTES_FOR_ALL: Final = (
    paths.CONFIG_CHANGES,
    paths.ACL_CHANGES,
    paths.ACL_EXTENDED_CHANGES,
    paths.TOKEN_CHANGES,
)
_ALL: Final = "/"
"""Not looked at for itself: it stands for everything that concerns all."""
_CROSSED: Final = "//"
"""Stands for the nodes that must be read again."""
_FOR_ALL: Final = (paths.CONTROLLER, paths.FEATURE, *_NOTES_FOR_ALL)
_FOR_THE_CONTROLLER: Final = (
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.DELETIONS,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
    paths.REASSIGNMENT,
    paths.ELECTION,
)

log = logging.getLogger(__name__)


class Watching:
    """See above. `image` gives the newest image of the store, `known` the nodes that it knows and that concern all."""

    def __init__(
        self,
        session: Session,
        office: Office,
        facts: EventQueue[Fact],
        image: Callable[[], ClusterImage],
        clock: Clock,
        *,
        known: Callable[[], Iterable[str]],
    ) -> None:
        self._session = session
        self._office = office
        self._facts = facts
        self._image = image
        self._clock = clock
        self._known = known
        self._paths: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._seen = dict.fromkeys(_NOTES_FOR_ALL, -1)
        self._controller: Controller | None = None
        self._brokers: tuple[object, ...] | None = None
        self._leads = False
        self._again: list[str] = []
        self._crossed: deque[str] = deque()
        self._thread = threading.Thread(target=self._run, name="ottla-zookeeper-events", daemon=True)
        self._reads: dict[str, Callable[[], None]] = {
            _ALL: self._read_all,
            _CROSSED: self._read_crossed,
            paths.CONTROLLER: self._read_controller,
            paths.FEATURE: self._read_features,
            paths.BROKER_IDS: self._read_brokers,
            paths.TOPICS: self._read_topics,
            paths.DELETIONS: self._read_deletions,
            paths.ISR_CHANGES: self._read_isr_changes,
            paths.LOG_DIR_EVENTS: self._read_log_dirs,
            paths.REASSIGNMENT: lambda: self._read_request(paths.REASSIGNMENT, REASSIGNMENT_ASKED),
            paths.ELECTION: lambda: self._read_request(paths.ELECTION, ELECTION_ASKED),
            **{path: lambda path=path: self._read_notes(path) for path in _NOTES_FOR_ALL},  # type: ignore[misc]
        }

    # --- life ---

    def start(self) -> None:
        """From now on, changes are noticed. Notes that are there already are older than what is read next."""
        for folder in _NOTES_FOR_ALL:
            self._seen[folder] = max(map(paths.sequence_number, self._session.children(folder)), default=-1)
        self.read_again()
        self._thread.start()

    def dead_threads(self) -> tuple[str, ...]:
        """Our thread, when it was started and has ended by itself."""
        has_ended = self._thread.ident is not None and not self._thread.is_alive()
        return (self._thread.name,) if has_ended else ()

    def stop(self) -> None:
        self._paths.put(None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=STOP_LIMIT_S)

    def lead(self, leads: bool) -> None:
        """Watch what concerns the controller, or stop."""
        self._leads = leads
        self._brokers = None
        if leads:
            self.read_again()

    def read_again(self) -> None:
        """Nobody knows what was missed."""
        for path in (*_FOR_ALL, *(_FOR_THE_CONTROLLER if self._leads else ())):
            self.notice(path)

    def read_all(self) -> None:
        """Nobody knows what was missed, and notes of it may be gone."""
        self.notice(_ALL)

    def read_crossed(self, nodes: Iterable[str]) -> None:
        """Nobody knows which of two reads of these was the newer one; any thread may say so."""
        self._crossed.extend(nodes)
        self.notice(_CROSSED)

    def read_requests(self) -> None:
        """Nobody knows which of them still wait; any thread may say so."""
        for path in (paths.DELETIONS, paths.REASSIGNMENT, paths.ELECTION):
            self.notice(path)

    def notice(self, path: str) -> None:
        """Something happened there; any thread may say so."""
        self._paths.put(paths.BROKER_IDS if path.startswith(paths.BROKER_IDS) else path)

    def _run(self) -> None:
        while True:
            noticed = self._take_paths()
            if noticed is None:
                return
            for path in noticed:
                if path in _FOR_THE_CONTROLLER and not self._leads:
                    continue
                try:
                    self._reads[path]()
                except StoreClosed:
                    return
                except (NoSession, ControllerMoved, DamagedNode, Refused) as problem:
                    log.warning("%s in ZooKeeper could not be looked at, it is tried again: %s", path, problem)
                    self._again.append(path)
                except Exception:
                    log.exception("%s in ZooKeeper could not be looked at, it is tried again", path)
                    self._again.append(path)

    def _take_paths(self) -> list[str] | None:
        """All that was noticed, each once; None at the end. What failed comes again after a while: without a look there
        is no watch either."""
        noticed: list[str | None] = []
        try:
            noticed.append(self._paths.get(timeout=AGAIN_AFTER_S if self._again else None))
        except queue.Empty:
            noticed, self._again = list(self._again), []
        while not self._paths.empty():
            noticed.append(self._paths.get())
        return None if None in noticed else list(dict.fromkeys(path for path in noticed if path is not None))

    # --- for everybody ---

    def _read_controller(self) -> None:
        self._session.get(paths.CONTROLLER, watch=True)
        controller = self._office.controller()
        if controller != self._controller:
            self._controller = controller
            self._facts.put(ControllerChanged(controller))

    def _read_features(self) -> None:
        since = self._session.zxid
        found = {paths.FEATURE: self._session.get(paths.FEATURE, watch=True)}
        self._facts.put(NodesRead(found, since, self._session.zxid))

    def _read_all(self) -> None:
        since = self._session.zxid
        known, found = self._known(), read_known_to_all(self._session)
        changed = {*known, *filter(is_shared_map, found)}
        self._facts.put(NodesRead({path: found.get(path) for path in changed}, since, self._session.zxid))

    def _read_crossed(self) -> None:
        """What was read while it was written says nothing: once more."""
        wanted = list(dict.fromkeys(self._crossed))
        self._read_nodes(wanted)
        for path in wanted:
            self._crossed.remove(path)

    def _read_nodes(self, wanted: Sequence[str]) -> None:
        since = self._session.zxid
        found = self._session.get_many(wanted)
        self._facts.put(NodesRead({path: found.get(path) for path in wanted}, since, self._session.zxid))

    def _read_notes(self, folder: str) -> None:
        names = sorted(self._session.children(folder, watch=True), key=paths.sequence_number)
        fresh = [f"{folder}/{name}" for name in names if paths.sequence_number(name) > self._seen[folder]]
        notes = self._session.get_many(fresh)
        changed = [path for note in notes.values() for path in _noted(folder, note)]
        if changed:
            self._read_nodes(changed)
        if fresh:
            self._seen[folder] = paths.sequence_number(fresh[-1])
        self._delete_old([f"{folder}/{name}" for name in names])

    def _delete_old(self, notes: Iterable[str]) -> None:
        for path in notes:
            node = self._session.get(path)
            if node is not None and node.created_ms > self._clock.now_ms() - NOTE_LIFE_MS:
                return
            self._delete([path])

    def _delete(self, notes: Sequence[str]) -> None:
        for path in notes:
            try:
                self._session.make([Delete(path)])
            except Refused:
                log.debug("another broker deleted %s first", path)

    # --- for the controller ---

    def _read_brokers(self) -> None:
        ids = self._session.children(paths.BROKER_IDS, watch=True)
        nodes = self._session.get_many((paths.broker(int(each)) for each in ids), watch=True)
        live = tuple(each.broker for each in brokers_in(nodes))
        if live != self._brokers:
            self._brokers = live
            self._facts.put(BrokersChanged(live))

    def _read_topics(self) -> None:
        since = self._session.zxid
        names, image = self._session.children(paths.TOPICS, watch=True), self._image()
        found = self.read_topics([name for name in names if image.topic(name) is None])
        gone = tuple(sorted({*image.topics()} - {*names}))
        if found or gone:
            self._facts.put(TopicsRead(tuple(topic for topic in found if topic.partitions), gone, since))

    def read_topics(self, names: Sequence[str]) -> list[Topic]:
        """Topics with the states of their partitions, of those names that there are."""
        nodes = self._session.get_many(paths.topic(name) for name in names)
        states = [
            paths.state(name, index)
            for name in names
            if (node := nodes.get(paths.topic(name))) is not None
            for index in range(len(znodes.read_assignment(name, node).partitions))
        ]
        nodes |= self._session.get_many(states)
        return [topic for name in names if (topic := topic_of(name, nodes)) is not None]

    def read_states(self, names: Iterable[str]) -> None:
        """Tell the states of all partitions of these topics; the store drops what is known."""
        topics = self.read_topics(list(dict.fromkeys(names)))
        self._facts.put(
            PartitionStatesChanged(
                tuple(
                    (TopicPartition(topic.name, index), partition)
                    for topic in topics
                    for index, partition in enumerate(topic.partitions)
                )
            )
        )

    def _read_deletions(self) -> None:
        since = self._session.zxid
        names = self._session.children(paths.DELETIONS, watch=True)
        self._facts.put(RequestsRead({deletion_asked(name): "" for name in names}, since))

    def _read_request(self, path: str, key: StoredKey) -> None:
        since = self._session.zxid
        node = self._session.get(path, watch=True)
        if node is not None:
            self._facts.put(RequestsRead({key: (node.data or b"").decode(errors="replace")}, since))

    def _read_isr_changes(self) -> None:
        notes = self._notes(paths.ISR_CHANGES)
        changed = [name for note in notes.values() for name, _ in znodes.read_isr_change(note)]
        if changed:
            self.read_states(changed)
        self._delete(list(notes))

    def _read_log_dirs(self) -> None:
        notes = self._notes(paths.LOG_DIR_EVENTS)
        if notes:
            self._facts.put(LogDirFailed(tuple(sorted({znodes.read_log_dir_event(note) for note in notes.values()}))))
        self._delete(list(notes))

    def _notes(self, folder: str) -> dict[str, Znode]:
        names = self._session.children(folder, watch=True)
        return self._session.get_many(f"{folder}/{name}" for name in names)

    def drop_notes(self) -> None:
        """Notes to earlier controllers: a new one reads everything anyway."""
        for folder in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
            self._delete([f"{folder}/{name}" for name in self._session.children(folder)])


def _noted(folder: str, note: Znode) -> list[str]:
    """Which nodes a note is about."""
    if folder == paths.CONFIG_CHANGES:
        return [paths.entity(znodes.read_config_change(note))]
    if folder == paths.TOKEN_CHANGES:
        return [f"{paths.TOKENS}/{(note.data or b'').decode()}"]
    return [noted_path(folder, note)]
