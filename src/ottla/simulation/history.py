"""What clients asked and what they heard, in order: the only thing that the checker knows of a run.

    history = History(loop.time)
    sending = history.invoke("producer 1", "send", partition=0, value=17)
    sending.ok(offset=4)              # or .fail("too large"): it did not happen; or .info("time-out"): nobody knows

1. An operation begins once (`invoke`) and ends at most once: `ok` it happened, `fail` it did not, `info` nobody knows.
   One that never ends counts as `info`.
2. Values are numbers that no other send of the run has.
3. `text` has one line of JSON for each event; runs of one seed have the same text, byte for byte. `read_history` makes
   a history of it again, so the checker reads those of real processes too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from ottla.light_dataclasses import dataclass

Kind: TypeAlias = Literal["invoke", "ok", "fail", "info"]

EVENTS_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """One line: somebody begins or ends an operation. `number` is the operation's."""

    time_s: float
    client: str
    kind: Kind
    action: str
    number: int
    facts: Mapping[str, Any]

    def line(self) -> str:
        return json.dumps(
            [round(self.time_s, 9), self.client, self.kind, self.action, self.number, self.facts], sort_keys=True
        )


class Operation:
    """One that was begun."""

    def __init__(self, history: History, client: str, action: str, number: int) -> None:
        self._history = history
        self._client = client
        self._action = action
        self.number = number

    def ok(self, **facts: Any) -> None:
        self._end("ok", facts)

    def fail(self, reason: str) -> None:
        self._end("fail", {"reason": reason})

    def info(self, reason: str) -> None:
        self._end("info", {"reason": reason})

    def _end(self, kind: Kind, facts: Mapping[str, Any]) -> None:
        self._history.add(self._client, kind, self._action, self.number, facts)


class History:
    """See the module."""

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._operations = 0
        self.events: list[Event] = []

    def invoke(self, client: str, action: str, **facts: Any) -> Operation:
        self._operations += 1
        self.add(client, "invoke", action, self._operations, facts)
        return Operation(self, client, action, self._operations)

    def note(self, client: str, action: str, **facts: Any) -> int:
        """Something that begins and ends at once; its number."""
        operation = self.invoke(client, action)
        operation.ok(**facts)
        return operation.number

    def add(self, client: str, kind: Kind, action: str, number: int, facts: Mapping[str, Any]) -> None:
        if len(self.events) >= EVENTS_LIMIT:
            raise RuntimeError(f"{EVENTS_LIMIT} events in one history: some client does not end")
        self.events.append(Event(self._now_s(), client, kind, action, number, facts))

    def close(self) -> None:
        """Nothing comes any more; whoever keeps it does not keep the clock of the run."""
        self._now_s = float

    def text(self) -> str:
        return "".join(f"{event.line()}\n" for event in self.events)


def read_history(lines: Iterable[str]) -> list[Event]:
    """The events of a text."""
    return [Event(*json.loads(line)) for line in lines if line.strip()]
