"""Fetch sessions (KIP-227): what a fetcher has asked for before: a fetch names only what changed, an answer only what
is new.

A session remembers the partitions a consumer or follower fetches, with their positions, and what was answered last. A
request has (session id, epoch):

    id 0, epoch 0       a full fetch that may open a session
    id 0, epoch -1      a full fetch without a session
    id N, epoch 0       close session N, then as "id 0, epoch 0"
    id N, epoch -1      close session N, then as "id 0, epoch -1"
    id N, epoch E > 0   go on with session N; E must be the epoch that follows

1. An answer of a session holds a partition when it has records or an error, or when its high watermark, log start or
   preferred replica is other than what was sent last.
2. A partition that was answered with records goes to the end of the line, so that a limited answer does not always
   favour the same ones.
3. Sessions are bounded: when the cache is full, the least recently used one, idle for EVICT_AFTER_MS, goes;
   otherwise the fetch is answered without a session, and nobody is hurt. Consumers often leave without a word, so a
   session that was not used for FORGET_AFTER_MS goes when another one is opened; whoever comes back opens a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple

EVICT_AFTER_MS: Final = 120_000
FORGET_AFTER_MS: Final = 600_000
SLOTS: Final = 1_000
PARTITION_LIMIT: Final = 100_000
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
INT32_MAX: Final = (1 << 31) - 1


class FetchKey(NamedTuple):
    """A partition as the fetcher names it: by topic id from version 13 on, by name before."""

    topic_id: bytes
    topic: str
    partition: int


class FetchPosition(NamedTuple):
    """What a fetcher wants of one partition."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class LastSent(NamedTuple):
    """What was answered last about a partition. Of an error, or of the epoch where its log parts from ours, a follower
    takes nothing else: it must hear the rest again."""

    high_watermark: int
    log_start_offset: int
    preferred_read_replica: int
    was_refused: bool


@dataclass(slots=True)
class Session:
    id: int
    epoch: int
    uses_topic_ids: bool
    is_follower: bool
    wanted: OrderedDict[FetchKey, FetchPosition]
    last_sent: dict[FetchKey, LastSent]
    last_used_ms: float
    names: dict[bytes, str] = field(default_factory=dict)  # under which its topics are known here, by id
    nameless: set[bytes] = field(default_factory=set)  # ids that nobody knew yet

    def known(self, key: FetchKey) -> FetchKey:
        """The key under which this session has a partition, or will have it: an id has one name, if it has any."""
        if not self.uses_topic_ids:
            return key
        name = self.names.setdefault(key.topic_id, key.topic)
        if name:
            return key if name == key.topic else key._replace(topic=name)
        if key.topic:
            self.name(key.topic_id, key.topic)
        else:
            self.nameless.add(key.topic_id)
        return key

    def name(self, topic_id: bytes, name: str) -> None:
        """A topic that was asked for before anybody knew it has a name now."""
        self.names[topic_id] = name
        self.nameless.discard(topic_id)
        for key in [each for each in self.wanted if each.topic_id == topic_id and not each.topic]:
            self.wanted[key._replace(topic=name)] = self.wanted.pop(key)
            self.last_sent.pop(key, None)


@dataclass(slots=True)
class FetchPlan:
    """What to read for one request, in order, and how to answer."""

    wanted: list[tuple[FetchKey, FetchPosition]]
    session: Session | None  # None: a full answer without session
    is_full: bool  # every partition is answered, changed or not

    @property
    def session_id(self) -> int:
        return self.session.id if self.session is not None else 0

    def is_news(self, key: FetchKey, now: LastSent, size_bytes: int) -> bool:
        """Whether the answer must name this partition; remembers what was sent."""
        if self.session is None:
            return True
        before = self.session.last_sent.get(key)
        # Where to read instead is always sent: a reader that was not sent there before may be now.
        is_sent_away = now.preferred_read_replica >= 0
        news = self.is_full or size_bytes > 0 or now.was_refused or is_sent_away or before != now
        if news and key in self.session.wanted:
            self.session.last_sent[key] = now
            if size_bytes > 0:
                self.session.wanted.move_to_end(key)
        return news


class FetchSessions:
    def __init__(
        self,
        random_id: Callable[[], int],
        *,
        slots: int = SLOTS,
        evict_after_ms: int = EVICT_AFTER_MS,
    ) -> None:
        """`random_id` returns numbers from 1 to 2^31 - 1."""
        self._random_id = random_id
        self._slots = slots
        self._evict_after_ms = evict_after_ms
        self._sessions: OrderedDict[int, Session] = OrderedDict()  # least recently used first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """How many partitions all sessions together remember."""
        return sum(len(each.wanted) for each in self._sessions.values())

    def plan(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[tuple[FetchKey, FetchPosition]],
        forgotten: Iterable[FetchKey],
        *,
        uses_topic_ids: bool,
        is_follower: bool,
        now_ms: float,
        name_of: Callable[[bytes], str] = lambda _: "",
    ) -> FetchPlan:
        """Raises FetchSessionIdNotFound, InvalidFetchSessionEpoch or FetchSessionTopicIdError. `name_of` returns the
        name of a topic id, or nothing."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            asked = list(dict(wanted).items())  # a partition that is named twice counts once, with its last position
            session = None
            if epoch == INITIAL_EPOCH and asked:
                session = self._open(asked, uses_topic_ids, is_follower, now_ms)
            return FetchPlan(asked, session, is_full=True)
        return self._go_on(session_id, epoch, wanted, forgotten, uses_topic_ids, now_ms, name_of)

    def going_on(self, session_id: int, epoch: int) -> Session | None:
        """The session that goes on with this epoch and knows its topics by their ids; None when there is more to say
        about it, which `plan` does."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or not session.uses_topic_ids or session.nameless:
            return None
        return session

    def go_on_with(self, session: Session, named: Mapping[FetchKey, FetchPosition], now_ms: float) -> None:
        """Its next request names these partitions, which it has already."""
        session.wanted.update(named)
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)

    def size_of(self, session_id: int) -> int:
        """How many partitions a session remembers; 0 when there is none."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session.wanted)

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _go_on(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[tuple[FetchKey, FetchPosition]],
        forgotten: Iterable[FetchKey],
        uses_topic_ids: bool,
        now_ms: float,
        name_of: Callable[[bytes], str],
    ) -> FetchPlan:
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"session {session_id}")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"session {session_id} expects epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"session {session_id}")
        for topic_id in list(session.nameless):
            if name := name_of(topic_id):
                session.name(topic_id, name)
        for named, position in wanted:
            key = session.known(named)
            if key in session.wanted or len(session.wanted) < PARTITION_LIMIT:
                session.wanted[key] = position
        for named in forgotten:
            key = session.known(named)
            session.wanted.pop(key, None)
            session.last_sent.pop(key, None)
        session.epoch = 1 if epoch == INT32_MAX else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return FetchPlan(list(session.wanted.items()), session, is_full=False)

    def _open(
        self, asked: list[tuple[FetchKey, FetchPosition]], uses_topic_ids: bool, is_follower: bool, now_ms: float
    ) -> Session | None:
        if len(asked) > PARTITION_LIMIT or not self._make_room(is_follower, now_ms):
            return None
        session_id = self._random_id()
        while session_id in self._sessions:
            session_id = self._random_id()
        session = Session(session_id, 1, uses_topic_ids, is_follower, OrderedDict(asked), {}, now_ms)
        for key, _ in asked:
            session.known(key)
        self._sessions[session_id] = session
        return session

    def _forget_deserted(self, now_ms: float) -> None:
        while self._sessions:
            session_id, oldest = next(iter(self._sessions.items()))
            if now_ms - oldest.last_used_ms <= FORGET_AFTER_MS:
                return
            del self._sessions[session_id]
            self.evictions += 1

    def _make_room(self, is_follower: bool, now_ms: float) -> bool:
        self._forget_deserted(now_ms)
        if len(self._sessions) < self._slots:
            return True
        for session_id, session in self._sessions.items():
            idle = now_ms - session.last_used_ms > self._evict_after_ms
            if idle or (is_follower and not session.is_follower):
                del self._sessions[session_id]
                self.evictions += 1
                return True
            if not is_follower:
                return False  # the oldest is still in use, and so are the others
        return False
