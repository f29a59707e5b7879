"""What the events say of each value, each offset and each transaction.

Actions that the checker knows (facts at the beginning; and at the end, when it is `ok`):

| action | begins with | ends with |
| --- | --- | --- |
| send | partition, value; txn, key, source, group | offset |
| begin | | its number is the `txn` of others |
| end | txn, wants: commit or abort | |
| assign | a consumer begins anew | |
| poll, final-poll | | records: [partition, offset, value]; isolation, group, generation, txn |
| commit, committed | group, partition; offset, generation | offset |
| ends | isolation | ends: offsets by partition |
| delete-records | partition, before | start |
| topic | | partitions, policy: compact, retention, cut, gone |
| final-read | isolation | starts, ends |
| final-stable | | |
| final-committed | group | offsets |
| pass | | partition, first, following: rotten offsets that a reader left out |
| healed, client-kill | whom | |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ottla.light_dataclasses import dataclass, field
from ottla.simulation.history import Event

POLLS = ("poll", "final-poll")
RAW = "read_uncommitted"
COMMITTED = "read_committed"
Partition: TypeAlias = Any  # a text in runs; anything with an order in tests
Place: TypeAlias = tuple[Partition, int]
Hits: TypeAlias = Mapping[Partition, Sequence[tuple[int, int]]]
NO_HITS: Final[Hits] = MappingProxyType({})


@dataclass
class Send:
    """One value on its way."""

    value: int
    partition: Partition
    client: str
    number: int
    index: int
    txn: int | None = None
    key: str | None = None
    source: Place | None = None
    group: str | None = None
    state: str = "info"
    offset: int | None = None


@dataclass
class Txn:
    """One transaction. `asked_index` is where somebody first asked for it to be committed."""

    number: int
    client: str
    asked_index: int | None = None
    state: str = "aborted"  # until somebody asks for a commit
    sends: list[Send] = field(default_factory=list)


@dataclass
class Poll:
    """Records that a client got; None: it begins anew."""

    index: int
    client: str
    records: list[tuple[Partition, int, int]]
    is_raw: bool
    is_final: bool
    facts: Any


class Facts:
    """See the module."""

    def __init__(self, events: Sequence[Event], hits: Hits = NO_HITS) -> None:
        self.events = events
        self.hits = hits
        self.sends: dict[int, Send] = {}
        self.txns: dict[int, Txn] = {}
        self.polls: list[Poll | str] = []  # a text: this client begins anew
        self.new_lives: list[tuple[int, str]] = []  # clients that were killed, and when
        self.policies: dict[Partition, str] = {}
        self.read: dict[int, int] = {}  # an offset of each value that anybody read
        self.seen: dict[int, int] = {}  # the same for readers of what is committed, and for values without transaction
        self.values_at: dict[Place, dict[int, None]] = defaultdict(dict)
        self.offsets_of: dict[int, dict[Place, None]] = defaultdict(dict)
        self.highest_read: dict[Partition, int] = {}
        self.starts: dict[Partition, int] = {}
        self.final_ends: dict[str, dict[Partition, int]] = {}  # of the last reads, by isolation
        self.healed_s: float | None = None
        self._operations: dict[int, Send | Txn] = {}
        self._isolations: dict[int, str] = {}
        self._wants: dict[int, str] = {}  # commit or abort, by the number of an end
        handlers = {"send": self._send, "end": self._end, "poll": self._poll, "final-poll": self._poll}
        for index, event in enumerate(events):
            if (handler := handlers.get(event.action)) is not None:
                handler(index, event)
            else:
                self._note(index, event)

    def _note(self, index: int, event: Event) -> None:
        action, is_ok = event.action, event.kind == "ok"
        if action == "assign" and event.kind == "invoke":
            self.polls.append(event.client)
        elif action == "begin" and event.kind == "invoke":
            self.txns[event.number] = Txn(event.number, event.client)
        elif action == "topic" and is_ok:
            self.policies.update(dict.fromkeys(event.facts["partitions"], event.facts["policy"]))
        elif action == "final-read" and is_ok:
            self.starts.update(event.facts.get("starts", {}))
            self.final_ends[self._isolations[event.number]] = event.facts.get("ends", {})
        elif action == "final-read" and event.kind == "invoke":
            self._isolations[event.number] = event.facts.get("isolation", COMMITTED)
        elif action == "client-kill" and event.kind == "invoke":
            self.new_lives.append((index, event.facts["whom"]))
        elif action == "healed" and is_ok:
            self.healed_s = event.time_s

    def _send(self, index: int, event: Event) -> None:
        if event.kind == "invoke":
            facts = dict(event.facts)
            source = facts.pop("source", None)
            send = Send(client=event.client, number=event.number, index=index, **facts)
            send.source = None if source is None else (source[0], source[1])
            self._operations[event.number] = self.sends[send.value] = send
            if send.txn is not None:
                self.txns[send.txn].sends.append(send)
            return
        send = self._operations[event.number]  # type: ignore[assignment]
        send.state = event.kind
        if event.kind == "ok" and event.facts["offset"] >= 0:  # the broker had it already, and does not say where: -1
            send.offset = event.facts["offset"]
            self._add_place(send.partition, event.facts["offset"], send.value)

    def _end(self, index: int, event: Event) -> None:
        if event.kind == "invoke":
            txn = self.txns[event.facts["txn"]]
            self._operations[event.number], self._wants[event.number] = txn, event.facts["wants"]
            if event.facts["wants"] == "commit" and txn.asked_index is None:
                txn.state, txn.asked_index = "unknown", index
        elif event.kind == "ok":
            txn = self._operations[event.number]  # type: ignore[assignment]
            txn.state = "committed" if self._wants[event.number] == "commit" else "aborted"
        elif event.kind == "fail":
            self._operations[event.number].state = "aborted"

    def _poll(self, index: int, event: Event) -> None:
        if event.kind != "ok":
            return
        records = [(partition, offset, value) for partition, offset, value in event.facts["records"]]
        is_raw = event.facts.get("isolation") == RAW
        self.polls.append(Poll(index, event.client, records, is_raw, event.action == "final-poll", event.facts))
        for partition, offset, value in records:
            self.read[value] = offset
            send = self.sends.get(value)
            if not is_raw or send is None or send.txn is None:
                self.seen[value] = offset
            self.highest_read[partition] = max(self.highest_read.get(partition, -1), offset)
            self._add_place(partition, offset, value)

    def _add_place(self, partition: Partition, offset: int, value: int) -> None:
        self.values_at[partition, offset][value] = None
        self.offsets_of[value][partition, offset] = None

    def is_hit(self, partition: Partition, offset: int | None) -> bool:
        """Whether what was there rotted, where there is no other copy. A repetition of a batch that rotted is answered
        without an offset, so where that is not known any of them may be meant."""
        if offset is None:
            return bool(self.hits.get(partition))
        return any(first <= offset < following for first, following in self.hits.get(partition, ()))

    def status(self, send: Send) -> str:
        """`committed` or `aborted` when that is certain, `unknown` when it is not."""
        if send.txn is not None:
            return self.txns[send.txn].state
        return {"ok": "committed", "fail": "aborted"}.get(send.state, "unknown")
