"""ZooKeeperStore: a SharedStore whose truth is in ZooKeeper, where Apache Kafka 3.9 would have it.

Who runs what:

    the owner (a broker's loop)    load, observe, begin, finish, take_events: they never wait
    a worker thread                PendingChange.write, commit, register, stand, take_over, ...: they wait for ZooKeeper
    our thread (watching.py)       looks at what changed, puts facts into a queue
    kazoo's threads                put paths into a queue

1. A lock guards the image and the known nodes; nobody holds it while waiting for ZooKeeper.
2. While a commit is being written, facts about nodes wait: what they tell may be the commit itself, seen before it is
   adopted. News of sessions and controllers do not wait.
3. Maps of settings are written with the version they were read with. When somebody else was faster, the map is read
   again, the edit is made on it, and it is written: two members that set different things lose neither.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from ottla.clock import Clock, SystemClock
from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    Change,
    ChangePartition,
    CreateTopic,
    RemoveTopic,
    SetController,
    SetStoredValue,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, StoredKey
from ottla.cluster.store.events import ConfigChanged, Controller, EventQueue, SessionBack, SessionLost, StoreEvent
from ottla.cluster.store.interface import ControllerMoved, StaleImage, StoreClosed
from ottla.cluster.store.requests import requests_in
from ottla.cluster.store.shared import check_partition_epochs, is_for_the_controller, news_for_all, take_in
from ottla.cluster.store.zookeeper import paths, reading, znodes
from ottla.cluster.store.zookeeper.acls import acl_paths
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.cluster.store.zookeeper.election import Office
from ottla.cluster.store.zookeeper.everything import make_cluster, read_all, read_known_to_all, with_topic_ids
from ottla.cluster.store.zookeeper.facts import (
    ONLY_FOR_THE_CONTROLLER,
    Fact,
    NodesRead,
    RequestsRead,
    TopicsRead,
    meaning,
)
from ottla.cluster.store.zookeeper.read_order import ReadOrder
from ottla.cluster.store.zookeeper.session import Refused, Session
from ottla.cluster.store.zookeeper.watching import Watching
from ottla.cluster.store.zookeeper.writes import Check, Create, Delete, SetData, Write, writes_of
from ottla.cluster.store.zookeeper.znodes import Znode

_ATTEMPTS: Final = 10
_ABOUT_NODES: Final = (*ONLY_FOR_THE_CONTROLLER, NodesRead)
log = logging.getLogger(__name__)


class PendingChange:
    """A commit that is decided and not yet written. Only `write` may run in another thread."""

    def __init__(
        self,
        store: ZooKeeperStore,
        before: ClusterImage,
        image: ClusterImage,
        changes: Sequence[Change],
        check: Check | None,
    ) -> None:
        self.before = before
        self.image = image
        self.changes = changes
        self.check = check
        self._store = store

    def write(self) -> None:
        """Write it; raises what `commit` raises."""
        self._store._write(self)


class ZooKeeperStore:
    """See above. A new cluster gets `cluster_id`, or an id of its own."""

    def __init__(
        self,
        connection: Connection,
        *,
        cluster_id: str | None = None,
        clock: Clock | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._clock = clock or SystemClock()
        self._random_bytes = random_bytes
        self._wanted_cluster_id = cluster_id
        self._lock = threading.RLock()
        self._nodes: dict[str, Znode] = {}
        self._image: ClusterImage | None = None
        self._pending: set[PendingChange] = set()
        self._held: list[Fact] = []
        self._order = ReadOrder()
        self._committing = threading.Lock()
        self._closed = False
        self._was_lost = False
        self._leads = False
        self._facts: EventQueue[Fact] = EventQueue()
        self._session = Session(connection, self._watch_fired, self._state_changed)
        self._office = Office(self._session, self._clock)
        self._watching = Watching(
            self._session, self._office, self._facts, self.load, self._clock, known=self._known_to_all
        )
        self.membership = self
        self.election = self

    # --- life ---

    def start(self) -> ClusterImage:
        """Open the session, make the cluster if there is none, read what concerns everybody; waits."""
        self._session.start()
        cluster_id = make_cluster(self._session, self._wanted_cluster_id, self._random_bytes)
        self._image = ClusterImage(cluster_id)
        self._watching.start()
        nodes = read_known_to_all(self._session)
        with self._lock:
            self._nodes = {path: node for path, node in nodes.items() if _is_remembered(path)}
            self._observe(list(reading.known_to_all(nodes)))
        return self.load()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._session.close()
            self._watching.stop()

    def _watch_fired(self, path: str) -> None:
        self._watching.notice(path)

    def _state_changed(self, is_connected: bool, is_lost: bool) -> None:
        """Called by kazoo: says what happened, and does nothing."""
        if self._closed:
            return
        if is_lost:
            self._was_lost, self._leads = True, False
            self._office.dismiss()
            self._watching.lead(False)
            self._facts.put(SessionLost())
        elif is_connected and self._image is not None:
            if self._was_lost:
                self._was_lost = False
                self._facts.put(SessionBack())
                self._watching.read_all()
            self._watching.read_again()

    # --- reading ---

    def load(self) -> ClusterImage:
        """The newest image; the first call starts the store."""
        if self._closed and self._image is None:
            raise StoreClosed
        return self.start() if self._image is None else self._image

    # --- changing ---

    def commit(self, changes: Sequence[Change], *, controller_epoch: int | None = None) -> ClusterImage:
        with self._committing:
            pending = self.begin(changes, controller_epoch=controller_epoch)
            pending.write()
            return self.finish(pending)

    def begin(self, changes: Sequence[Change], *, controller_epoch: int | None = None) -> PendingChange:
        """Decide. Several may be under way, of the controller and of others: settings and topics do not meet."""
        if self._closed:
            raise StoreClosed
        is_fenced = controller_epoch is not None or any(map(is_for_the_controller, changes))
        check = self._office.check(controller_epoch) if is_fenced else None
        with self._lock:
            before = self.load()
            check_partition_epochs(before, changes)
            pending = PendingChange(self, before, take_in(before, changes), changes, check)
            self._pending.add(pending)
        return pending

    def finish(self, pending: PendingChange) -> ClusterImage:
        """The commit is written: make it true."""
        with self._lock:
            known = self.load()
            image = self._image = pending.image if known is pending.before else take_in(known, pending.changes)
        self._ended(pending)
        return image

    def observe(self, changes: Sequence[Change]) -> ClusterImage:
        with self._lock:
            self._observe(changes)
        return self.load()

    def _observe(self, changes: Sequence[Change]) -> None:
        self._image = take_in(self.load(), changes)

    def _ended(self, pending: PendingChange) -> None:
        with self._lock:
            self._pending.discard(pending)
        self._facts.wake()

    def _write(self, pending: PendingChange) -> None:
        try:
            self._write_until_made(pending)
        except BaseException:
            self._ended(pending)
            raise

    def _write_until_made(self, pending: PendingChange) -> None:
        epoch = (
            pending.image.controller_epoch if self._office.elected is None else self._office.elected.controller.epoch
        )
        for _ in range(_ATTEMPTS):
            with self._lock:
                nodes = dict(self._nodes)
            writes = writes_of(pending.before, pending.changes, nodes, epoch)
            try:
                versions = self._session.make(writes, check=pending.check)
            except Refused as refused:
                self._after_refusal(refused, pending)
                continue
            self._remember(writes, versions, self._created(writes))
            return
        raise StaleImage("somebody else changes the same settings all the time")

    def _after_refusal(self, refused: Refused, pending: PendingChange) -> None:
        """Returns when it can be tried again, else raises what is wrong and has the truth read."""
        path = refused.write.path
        if path == paths.CONTROLLER_EPOCH:
            self._office.dismiss()
            raise ControllerMoved(f"the controller epoch has moved on: {refused}") from refused
        if reading.is_shared_map(path):
            self._read_again({path, *acl_paths(pending.changes)})
            return
        if path == paths.PRODUCER_IDS:
            self._take_producer_ids()
        if (key := reading.request_key(path)) is not None:
            self._take_request(key, path)
        self._watching.read_states(_topics_in(pending))
        self._watching.notice(paths.TOPICS)
        raise StaleImage(f"somebody else changed what this commit changes: {refused}") from refused

    def _read_again(self, wanted: Collection[str]) -> None:
        since = self._session.zxid
        found = self._session.get_many(wanted)
        with self._lock:
            for path in wanted:
                self._nodes.pop(path, None)
            self._nodes |= found
        self._facts.put(NodesRead({path: found.get(path) for path in wanted}, since, self._session.zxid))

    def _take_producer_ids(self) -> None:
        node = self._session.get(paths.PRODUCER_IDS)
        with self._lock:
            if node is not None and (following := znodes.read_next_producer_id(node)) > self.load().next_producer_id:
                self._nodes[paths.PRODUCER_IDS] = node
                self._observe([AllocateProducerIds(-1, -1, following)])

    def _take_request(self, key: StoredKey, path: str) -> None:
        """Somebody wrote or removed it, and nobody tells of a removal."""
        node = self._session.get(path)
        text = None if node is None else (node.data or b"").decode(errors="replace")
        with self._lock:
            self._observe([SetStoredValue(key, text)])

    def _created(self, writes: Sequence[Write]) -> Mapping[str, Znode]:
        """Nodes that we made and that may go and come again: which of their lives it is, only a look at them tells."""
        made = [each.path for each in writes if isinstance(each, Create) and not each.sequential]
        wanted = [path for path in made if reading.is_shared_map(path) and not path.startswith(paths.entity("topics/"))]
        return self._session.get_many(wanted) if wanted else {}

    def _remember(self, writes: Sequence[Write], versions: Mapping[str, int], created: Mapping[str, Znode]) -> None:
        zxid = self._session.zxid
        with self._lock:
            for write in writes:
                if _is_ordered(write.path):
                    self._order.note(write.path, zxid)
                if not _is_remembered(write.path):
                    continue
                if isinstance(write, Create | SetData) and write.path in versions:
                    life = created.get(write.path) or self._nodes.get(write.path) or Znode(None)
                    self._nodes[write.path] = Znode(write.data, versions[write.path], life.czxid)
                elif isinstance(write, Delete):
                    self._nodes.pop(write.path, None)

    # --- living together ---

    @property
    def _opened(self) -> Office:
        """The office, of a store that has a session."""
        self.load()
        return self._office

    def register(self, broker: Broker) -> Broker:
        return self._opened.register(broker)

    def leave(self, broker_id: int) -> None:
        self._opened.leave(broker_id)

    @property
    def session_timeout_ms(self) -> float:
        return self._session.timeout_ms

    def dead_threads(self) -> tuple[str, ...]:
        if self._closed:
            return ()
        return (*self._session.dead_threads(), *self._watching.dead_threads())

    def holder_of(self, broker_id: int) -> str | None:
        return self._opened.holder_of(broker_id)

    def registered_brokers(self) -> tuple[Broker, ...]:
        return self._opened.registered_brokers()

    def topic_names(self) -> frozenset[str]:
        self.load()
        below = self._session.children_of([paths.TOPICS, paths.DELETIONS])
        return frozenset(below[paths.TOPICS]) - frozenset(below[paths.DELETIONS])

    def next_broker_id(self, reserved_max_id: int = 1_000) -> int:
        return self._opened.next_broker_id(reserved_max_id)

    def stand(self, broker_id: int) -> Controller:
        controller = self._opened.stand(broker_id)
        self.observe([SetController(*controller)])
        return controller

    def resign(self, broker_id: int) -> None:
        self._leads = False
        self._watching.lead(False)
        self._office.resign(broker_id)

    def controller(self) -> Controller | None:
        return self._opened.controller()

    def take_over(self) -> ClusterImage:
        """Drop notes, read everything, then look at everything with watches: what happened in between is found by that,
        because a look compares with the image."""
        check = self._opened.check()
        self._watching.drop_notes()
        nodes = with_topic_ids(self._session, read_all(self._session), check, self._random_bytes)
        with self._lock:
            before = self.load()
            image = reading.image_of(nodes, change_number=before.change_number + 1)
            self._image = image
            self._nodes = {path: node for path, node in nodes.items() if _is_remembered(path)}
            self._leads = True
        if news := tuple(news_for_all(before, image)):  # their notes mean nothing any more, because the image has them
            self._facts.put(ConfigChanged(news))
        self._facts.put(*requests_in(image))
        self._watching.lead(True)
        return image

    def read_topic_settings(self, names: Iterable[str]) -> tuple[Change, ...]:
        wanted = [paths.entity(f"topics/{name}") for name in names]
        since = self._session.zxid
        found = self._session.get_many(wanted)
        with self._lock:
            fact = NodesRead({path: found.get(path) for path in wanted}, since, self._session.zxid)
            self._accept(fact)
            changes = meaning(fact, self.load(), self._nodes).changes
            self._observe(changes)
        return changes

    def announce_failed_directory(self, broker_id: int) -> None:
        note = Create(paths.LOG_DIR_EVENT, znodes.log_dir_event_json(broker_id), sequential=True)
        self._session.make([note])

    # --- events ---

    def wake_with(self, wake: Callable[[], None]) -> None:
        self._facts.wake_with(wake)

    def take_events(self) -> list[StoreEvent]:
        events: list[StoreEvent] = []
        with self._lock:
            for fact in self._take_facts():
                if isinstance(fact, ONLY_FOR_THE_CONTROLLER) and not self._leads:
                    continue
                changes, found = meaning(self._accepted(fact), self.load(), self._nodes)
                self._observe(changes)
                events += found
        return events

    def _known_to_all(self) -> list[str]:
        with self._lock:
            return [path for path in self._nodes if reading.is_shared_map(path)]

    def _take_facts(self) -> list[Fact]:
        facts = [*self._held, *self._facts.take()]
        self._held = [fact for fact in facts if self._pending and isinstance(fact, _ABOUT_NODES)]
        return [fact for fact in facts if not (self._pending and isinstance(fact, _ABOUT_NODES))]

    def _accepted(self, fact: Fact) -> Fact:
        """Without what may have been read before we wrote it ourselves: that is read again."""
        match fact:
            case NodesRead():
                self._accept(fact)
            case RequestsRead(texts, since):
                waiting = {key: text for key, text in texts.items() if not self._is_old(reading.kept_path(key), since)}
                if len(waiting) < len(texts):
                    self._watching.read_requests()
                return RequestsRead(waiting, since)
            case TopicsRead(found, gone, since):
                there = tuple(topic for topic in found if not self._is_old(paths.topic(topic.name), since))
                missing = tuple(name for name in gone if not self._is_old(paths.topic(name), since))
                if (there, missing) != (found, gone):
                    self._watching.notice(paths.TOPICS)
                return TopicsRead(there, missing, since)
        return fact

    def _is_old(self, path: str | None, since: int) -> bool:
        return path is not None and self._order.is_old(path, since)

    def _accept(self, fact: NodesRead) -> None:
        """Remember what was read, unless something newer is known; what may be older is read again."""
        crossed = [path for path in fact.nodes if self._order.is_old(path, fact.since)]
        if crossed:
            self._watching.read_crossed(crossed)
        for path, node in fact.nodes.items():
            if path in crossed:
                continue
            self._order.note(path, fact.until)
            known = self._nodes.get(path)
            if node is None:
                self._nodes.pop(path, None)
            elif known is None or _is_newer(node, known):
                self._nodes[path] = node


def _is_newer(node: Znode, known: Znode) -> bool:
    """Not older than what is known; a node that was deleted and made again begins anew with version 0."""
    if node.czxid and known.czxid and node.czxid != known.czxid:
        return node.czxid > known.czxid
    return node.version >= known.version


def _is_remembered(path: str) -> bool:
    """Whether a node is written with the version it was read with."""
    return path in (paths.FEATURE, paths.PRODUCER_IDS) or reading.is_shared_map(path)


def _is_ordered(path: str) -> bool:
    """Whether looks at a node are compared with what we wrote: of topics and requests only whether they are there."""
    is_topic = path.rpartition("/")[0] == paths.TOPICS
    return is_topic or reading.request_key(path) is not None or _is_remembered(path)


def _topics_in(pending: PendingChange) -> list[str]:
    """The names of the topics that a commit is about, as far as they were known before."""
    ids = [
        change.topic_id
        for change in pending.changes
        if isinstance(change, ChangePartition | AddPartitions | RemoveTopic)
    ]
    created = [change.topic.name for change in pending.changes if isinstance(change, CreateTopic)]
    return created + [name for topic_id in ids if (name := pending.before.names_by_id.get(topic_id)) is not None]
