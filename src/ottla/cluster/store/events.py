"""What a shared store tells its members: events are values that wait until somebody takes them.

1. Nobody is called back. `EventQueue.put` may be called by any thread; `take` belongs to the owner. The one function
   that is called, `wake`, only says that something waits; an event loop gives its `call_soon_threadsafe` for it.
2. An event says what was found, not what to do. Those about brokers, topics and partitions only come to the member
   that took over as controller, and do not change its image: it decides, and commits or observes what follows.
3. `ConfigChanged` comes to every member, and its changes are in the member's image when it is taken, because nobody
   has to decide anything about them. So are the kept texts of requests, and who is controller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar

from ottla.cluster.changes import Change
from ottla.cluster.model import Broker, Partition, StoredKey, Topic
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class Controller(NamedTuple):
    """The broker that gives orders, and since which election."""

    broker_id: int
    epoch: int


# --- values that an image only keeps, and that ask the controller for something --------------------------------------

DELETION_ASKED: Final = "topic-deletion"
REASSIGNMENT_ASKED: Final = StoredKey("asked", "reassignment")
ELECTION_ASKED: Final = StoredKey("asked", "preferred-election")


def deletion_asked(topic: str) -> StoredKey:
    """The value (an empty text) whose presence says that a topic is to be deleted."""
    return StoredKey(DELETION_ASKED, topic)


# --- to every member --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """Another broker gives orders now; None while nobody does: stand for election."""

    controller: Controller | None


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """Settings, features, quotas, credentials or kept values were changed by another member."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The ensemble gave this member up: its registration is gone, and it is not controller any more."""


@dataclass(frozen=True, slots=True)
class SessionBack:
    """There is a new session. Register again, and look who is controller."""


# --- to the controller ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """These brokers are registered now, by id. One with a larger epoch than the image knows went away and came back."""

    live: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics that the image does not know, and names that it knows and that are gone. A partition of a found topic
    that has no state yet has leader epoch and partition epoch -1 (`NO_STATE`)."""

    found: tuple[Topic, ...]
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletionsAsked:
    """Somebody else wants these topics deleted; the image has `deletion_asked(name)` for each when this is taken."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionStatesChanged:
    """Leaders changed in-sync sets by themselves, or a commit met another state than expected: so they are now."""

    partitions: tuple[tuple[TopicPartition, Partition], ...]


@dataclass(frozen=True, slots=True)
class ReassignmentAsked:
    """Somebody wrote down where replicas should be. When it is done, take REASSIGNMENT_ASKED away."""

    targets: tuple[tuple[TopicPartition, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class ElectionAsked:
    """Somebody wants preferred leaders. When it is done, take ELECTION_ASKED away."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LogDirFailed:
    """A log directory of each of these brokers failed: ask them (LeaderAndIsr) which replicas they still have."""

    broker_ids: tuple[int, ...]


StoreEvent: TypeAlias = (
    ControllerChanged
    | ConfigChanged
    | SessionLost
    | SessionBack
    | BrokersChanged
    | TopicsChanged
    | DeletionsAsked
    | PartitionStatesChanged
    | ReassignmentAsked
    | ElectionAsked
    | LogDirFailed
)

NO_STATE: Final = -1
"""Leader epoch and partition epoch of a partition that is assigned but was never led."""


E = TypeVar("E")


class EventQueue(Generic[E]):
    """Events that nobody has taken yet, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[E] = deque()
        self._wake: Callable[[], None] = lambda: None

    def wake_with(self, wake: Callable[[], None]) -> None:
        """Call this, from any thread, whenever an event comes; at once when some wait already."""
        self._wake = wake
        if self._waiting:
            wake()

    def put(self, *events: E) -> None:
        self._waiting.extend(events)
        if events:
            self._wake()

    @property
    def is_waiting(self) -> bool:
        """Whether there are events that nobody has taken."""
        return bool(self._waiting)

    def wake(self) -> None:
        """Somebody should look again."""
        self._wake()

    def take(self) -> list[E]:
        events: list[E] = []
        while self._waiting:
            events.append(self._waiting.popleft())
        return events
