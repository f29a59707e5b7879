"""MetadataStore: where the truth about the cluster is kept, whoever keeps it.

1. `commit` takes a list of changes and makes all of them durable, or none; when it returns, they survive a crash.
2. A store that failed once refuses every further commit, because it cannot know what the disk has. Reading goes on.
3. An OwnStore belongs to a single broker, which is the controller. A SharedStore is ZooKeeper, which several brokers
   share: there `membership` and `election` say who is there, and who is controller.
4. A SharedStore is one member's hand in a truth that others change too. Its image is what this member knows; it moves
   by what the member commits, observes, or takes over, never behind its back (only ConfigChanged is in it when it is
   taken). What others did comes as events (events.py).
5. Only the controller changes brokers, topics and partitions. The store remembers which election its member won, and
   every such commit is fenced by it: after another election it is ControllerMoved, and nothing is written. Settings,
   quotas, credentials and kept values may be changed by every member.
6. A commit meets a partition that somebody else changed: StaleImage, nothing is written, and PartitionStatesChanged
   tells what is true. A commit that was cut off by a lost connection is looked at again, not made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker
from ottla.cluster.raft.log import LogState, MetadataLog
from ottla.cluster.store.events import Controller as Controller
from ottla.cluster.store.events import StoreEvent
from ottla.errors import DuplicateBrokerRegistration, KafkaStorageError, NotController, OttlaError


class StaleImage(OttlaError):
    """The metadata changed since it was read, so the change was not made. Read it again and decide again."""

    retriable = True


class StoreFailed(KafkaStorageError):
    """The metadata could not be written, so no change is accepted any more.
    Look at the disk of the first log directory, then restart the broker."""


class StoreClosed(KafkaStorageError):
    """The metadata store is closed; the broker is going down."""


class ControllerMoved(NotController):
    """Another broker was elected controller, so this one may not change the cluster; nothing was written.
    It resigns and follows the new one."""


class BrokerIdTaken(DuplicateBrokerRegistration):
    """A broker with this id is registered by another session. If it is this broker before a restart, the session ends
    within its time-out, and registering again will do; else give every broker its own broker.id."""


class NoSession(KafkaStorageError):
    """There is no session with the ensemble, so nothing can be changed. It is tried again when there is one."""

    retriable = True


class Membership(Protocol):
    """Live registration: a broker is known for as long as it lives."""

    def register(self, broker: Broker) -> Broker:
        """Make the broker known; gives it back with the epoch of this registration. Who is registered by this session
        already keeps its epoch, and what it says of itself is renewed."""

    def leave(self, broker_id: int) -> None:
        """Say that the broker goes, without waiting for somebody to notice."""


class Election(Protocol):
    """Who is controller."""

    def stand(self, broker_id: int) -> Controller:
        """Try to become controller; gives who is, which may be another one."""

    def resign(self, broker_id: int) -> None:
        """Stop being controller, if that is what the broker is."""


class MetadataStore(Protocol):
    """See above."""

    def load(self) -> ClusterImage:
        """The newest image. The first call reads what is kept, or makes a new cluster."""

    def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Make the changes; gives the image after them, when they are durable."""

    @property
    def membership(self) -> Membership: ...

    @property
    def election(self) -> Election: ...

    def close(self) -> None:
        """Stop; closing again does nothing."""


class PendingChange(Protocol):
    """A commit that was begun, and is written on another thread."""

    def write(self) -> None: ...


class OwnStore(MetadataStore, Protocol):
    """The store of a broker that is a cluster of its own."""

    def begin(self, changes: Sequence[Change]) -> PendingChange:
        """Decide a commit; only its `write` waits for the disk. No other may come before its `finish`."""

    def finish(self, pending: Any) -> ClusterImage:
        """What `begin` gave is written: make it true."""

    @property
    def has_failed(self) -> bool:
        """Whether a write failed: nothing is changed any more until the next start."""

    @property
    def directory_id(self) -> bytes:
        """Of the log directory that it is in; zeros when it is in none."""

    @property
    def stopped_in_order(self) -> bool:
        """Whether the last life of the broker ended so; everything that it led is as it left it."""

    def log_state(self) -> LogState | None:
        """Of the metadata log; None where there is none."""

    @property
    def metadata_log(self) -> MetadataLog | None:
        """That log itself, to be read."""

    @property
    def upkeep_is_due(self) -> bool:
        """Whether there is enough in it to be put together."""

    def upkeep(self) -> Iterator[None]:
        """Put it together, in steps; no commit may come between them."""

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether this cluster deleted the topic not long ago. False says nothing: the oldest are forgotten."""


class SharedStore(MetadataStore, Protocol):
    """One member's store; see 4 to 6. Calls wait for a network, so they belong on a worker thread, one at a time;
    `take_events`, `load` and `observe` never wait."""

    def commit(self, changes: Sequence[Change], *, controller_epoch: int | None = None) -> ClusterImage:
        """As MetadataStore.commit. With `controller_epoch` it is ControllerMoved also when the member was elected again
        in the meantime: what was decided under one election is not written under another."""

    def observe(self, changes: Sequence[Change]) -> ClusterImage:
        """Take into the image what is true already (an event told so); writes nothing."""

    def take_over(self) -> ClusterImage:
        """What a newly elected controller does first: watch everything, drop notes to earlier controllers, read
        everything. From now on the controller's events come; requests that wait in the truth come as events too."""

    def read_topic_settings(self, names: Iterable[str]) -> tuple[Change, ...]:
        """Read the settings of these topics anew; gives what was not known, and it is in the image. Nobody tells the
        settings that a topic is created with: a broker asks before it makes its first replica of one."""

    def controller(self) -> Controller | None:
        """Who is controller, asked now."""

    def next_broker_id(self, reserved_max_id: int = 1_000) -> int:
        """An id that no other broker gets, above the reserved ones."""

    def announce_failed_directory(self, broker_id: int) -> None:
        """Tell the controller that a log directory of the broker failed."""

    @property
    def session_timeout_ms(self) -> float:
        """How long the registration of a member that is gone may stay."""

    def holder_of(self, broker_id: int) -> str | None:
        """Which other session this broker id is registered by, in words; None when it is free or registered by us."""

    def registered_brokers(self) -> tuple[Broker, ...]:
        """Who is registered, asked now."""

    def topic_names(self) -> frozenset[str]:
        """The topics there are and that nobody is deleting, asked now."""

    def dead_threads(self) -> tuple[str, ...]:
        """Threads of the store that have ended though it is open: it will hear of nothing any more."""

    def wake_with(self, wake: Callable[[], None]) -> None:
        """Call this, from any thread, whenever events wait."""

    def take_events(self) -> list[StoreEvent]:
        """What happened since the last time, oldest first; only the owner takes."""
