"""Share sessions: which partitions a member fetches from this broker, by what it asked for before.

    epoch 0        begin anew: the session has what this request names
    epoch N        go on: the request names what is new and what is to be forgotten; N must be the epoch that follows
    epoch -1       the end: what the member acquired here is released

1. A session belongs to a member of a group and to the connection it was opened by; with the connection it ends.
2. Sessions are bounded by group.share.max.share.sessions; one more is SHARE_SESSION_LIMIT_REACHED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
INT32_MAX: Final = (1 << 31) - 1


class Place(NamedTuple):
    """A partition as requests name it."""

    topic_id: bytes
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession:
    key: SessionKey
    epoch: int
    connection: object
    wanted: dict[Place, None] = field(default_factory=dict)

    def in_turn(self) -> list[Place]:
        """What it wants, beginning with another one each time, so that no partition is always served first."""
        places = list(self.wanted)
        at = self.epoch % len(places) if places else 0
        return places[at:] + places[:at]


class ShareSessions:
    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(self._sessions.values())

    def count_of(self, group_id: str) -> int:
        """How many members of a group fetch here."""
        return self._by_group[group_id]

    @property
    def partition_count(self) -> int:
        return sum([len(each.wanted) for each in self._sessions.values()])

    def open(self, key: SessionKey, wanted: Iterable[Place], connection: object) -> ShareSession:
        if key not in self._sessions and len(self._sessions) >= self._limit():
            raise ShareSessionLimitReached(f"this broker has {len(self._sessions)} share sessions")
        self.close(key)
        session = self._sessions[key] = ShareSession(key, 1, connection, dict.fromkeys(wanted))
        self._by_group[key.group_id] += 1
        return session

    def go_on(
        self, key: SessionKey, epoch: int, wanted: Iterable[Place] = (), forgotten: Iterable[Place] = ()
    ) -> ShareSession:
        session = self.find(key)
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch(f"the share session expects epoch {session.epoch}, not {epoch}")
        session.wanted.update(dict.fromkeys(wanted))
        for place in forgotten:
            session.wanted.pop(place, None)
        session.epoch = 1 if epoch == INT32_MAX else epoch + 1
        return session

    def find(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(f"member {key.member_id} has no share session here")
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        """Returns the session that ended."""
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self._by_group[key.group_id] -= 1
        if not self._by_group[key.group_id]:
            del self._by_group[key.group_id]
        return session
