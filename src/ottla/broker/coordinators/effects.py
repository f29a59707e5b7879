"""What a coordinator shard may ask for: the effects that the runtime carries out.

A shard is the state machine behind one partition of an internal topic. It is plain code: a call comes in, a list of
effects goes out, and the runtime carries them out.

1. State that must survive changes only in `replay`. A method that wants to change it returns a Write; the runtime
   appends the records, replays them at once, and sends the replies when the records are committed. So the state after
   a crash is the state before it, minus what was never answered.
2. Soft state (members that are joining, timers) may change anywhere; losing it costs a retry by the client, never data.
3. A token names one waiting request. Every token gets exactly one Reply in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, TypeAlias

from ottla.errors import BrokerError
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import Message

Token: TypeAlias = int


class StoredRecord(NamedTuple):
    """A key and a value of an internal topic; a value of None is a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0


class Reply(NamedTuple):
    """The answer to one waiting request."""

    token: Token
    response: Message


class Write(NamedTuple):
    """Append the records as one batch and replay them; reply when they are committed.

    `failure` returns the replies when the append is refused; nothing is replayed then.
    `producer_id` and `producer_epoch` are set for records that belong to a transaction (TxnOffsetCommit).
    """

    records: tuple[StoredRecord, ...]
    replies: tuple[Reply, ...]
    failure: Callable[[BrokerError], tuple[Reply, ...]]
    producer_id: int = -1
    producer_epoch: int = -1


class SetTimer(NamedTuple):
    """Call timer_fired(key) when so much time has gone by as is left until then; replaces a timer with the same key. A
    wall clock that jumps meanwhile changes nothing."""

    key: Hashable
    at_ms: int


class CancelTimer(NamedTuple):
    key: Hashable


Effect: TypeAlias = Reply | Write | SetTimer | CancelTimer


class ClusterView(Protocol):
    """What a shard may know of the cluster."""

    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def partition_count(self, name: str) -> int | None: ...
    def topics(self) -> Iterable[str]: ...


class Shard(Protocol):
    """What the runtime needs of every coordinator shard; the methods per API come on top.

    Effects are those above, and whatever further kinds the coordinator of the shard carries out itself.
    """

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None: ...
    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None: ...
    def loaded(self, now_ms: int) -> Iterable[Sequence[object]]:
        """What is to do after a load, in pieces: others may go first between them."""

    def timer_fired(self, key: Hashable, now_ms: int) -> Sequence[object]: ...
    def unload(self) -> Sequence[object]: ...
