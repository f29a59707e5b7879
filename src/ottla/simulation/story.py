"""A run told: one line for each thing that happened, in the order of time, node by node.

    for line in story(result): print(line)

1. All faults, elections and changes of in-sync sets are told; appends and what clients asked and heard are told when
   they are about a value or partition that an anomaly names, or about a transaction of such a value.
2. What lies between is one line with its numbers. `is_whole` is_watched everything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ottla.light_tuples import NamedTuple
from ottla.simulation.fault import Fault
from ottla.simulation.history import Event
from ottla.simulation.run import Result

ALWAYS = frozenset({"fault", "undone", "started", "ready", "killed", "power cut", "ended", "leads", "in sync", "cut"})
ENDINGS = {"ok": "", "fail": " was refused", "info": " has an unknown end"}


class Line(NamedTuple):
    """One thing that happened."""

    time_s: float
    node: str
    kind: str
    text: str
    end: str = ""  # ok, fail, info for what a client did

    def line(self) -> str:
        return f"{self.time_s:10.3f} s  {self.node:<22} {self.kind:<12} {self.text}"


def story(result: Result, *, is_whole: bool = False) -> Iterator[str]:
    """The lines."""
    yield result.summary()
    yield from (f"  {anomaly}" for anomaly in result.anomalies)
    yield from (f"  fault at {fault.at_s:.3f} s: {_fault_text(fault)}" for fault in result.faults)
    interest = Interest(result)
    between: Counter[str] = Counter()
    for each in lines_of(result):
        if is_whole or interest.includes(each):
            yield from _folded(between)
            yield each.line()
        else:
            between[each.kind] += 1
    yield from _folded(between)


def _fault_text(fault: Fault) -> str:
    return str(fault).replace(" broker -1", " of a client")


def _folded(between: Counter[str]) -> Iterator[str]:
    if between:
        yield " " * 14 + "... " + ", ".join(f"{count} times {what}" for what, count in sorted(between.items()))
        between.clear()


class Interest:
    """What the anomalies of a run are about."""

    def __init__(self, result: Result) -> None:
        texts = " ".join(anomaly.story for anomaly in result.anomalies)
        self._partitions = set(re.findall(r"\b[a-z][a-z.0-9]*-\d+\b", texts))
        self._values = {int(each) for each in re.findall(r"(?<![-:\w.])\d+\b", texts)}
        sends = [each for each in result.history.events if each.action == "send" and each.kind == "invoke"]
        self._values &= {each.facts["value"] for each in sends}
        ours = [each for each in sends if each.facts["value"] in self._values and self._is_near(each)]
        self._values = {each.facts["value"] for each in ours}
        self._txns = {each.facts["txn"] for each in ours if "txn" in each.facts}

    def _is_near(self, send: Event) -> bool:
        """Offsets and sizes are numbers too: a value counts in the partitions that are named."""
        return not self._partitions or send.facts["partition"] in self._partitions

    def includes(self, each: Line) -> bool:
        if each.kind in ALWAYS:
            return True
        numbers = {int(digits) for digits in re.findall(r"(?<![-:\w.])\d+\b", each.text)}
        if each.kind in ("append", "commits"):
            return each.text.split(" ")[0].rstrip(":") in self._partitions
        is_ours = bool(numbers & (self._values | self._txns))
        return is_ours and each.kind in ("send", "poll", "final-poll", "begin", "end")


def lines_of(result: Result) -> list[Line]:
    """Everything, in the order of time."""
    moments = [Line(each.time_s, each.node, each.kind, each.text) for each in result.timeline.moments]
    return sorted([*moments, *_client_lines(result.history.events)], key=lambda each: each.time_s)


def _client_lines(events: Iterable[Event]) -> Iterator[Line]:
    begun: dict[int, Event] = {}
    for event in events:
        if event.client == "faults":
            if event.action == "healed" and event.kind == "ok":
                yield Line(event.time_s, "everybody", "in sync", "all copies are in sync again")
            elif "whom" in event.facts and event.kind == "invoke":
                yield Line(event.time_s, event.facts["whom"], "fault", event.action)
        elif event.kind == "invoke":
            begun[event.number] = event
            if event.action in ("send", "end"):
                yield Line(event.time_s, event.client, event.action, _asked(event))
        elif event.action != "assign":
            asked = begun.pop(event.number)
            yield Line(event.time_s, event.client, event.action, _heard(asked, event), event.kind)
    for event in begun.values():
        if event.action != "assign":
            yield Line(event.time_s, event.client, event.action, f"{_asked(event)} never ended", "info")


def _asked(event: Event) -> str:
    facts = event.facts
    if event.action == "send":
        txn = f" in transaction {facts['txn']}" if "txn" in facts else ""
        return f"{facts['value']} to {facts['partition']}{txn}"
    if event.action == "end":
        return f"{facts['wants']} transaction {facts['txn']}"
    return " ".join(f"{name}={value}" for name, value in sorted(facts.items()))


def _heard(asked: Event, event: Event) -> str:
    if "records" in event.facts:
        return ", ".join(f"{value} at {partition}:{offset}" for partition, offset, value in event.facts["records"])
    if event.action == "begin":
        return f"transaction {event.number}"
    found = event.facts.get("offset")
    where = f" is at {found}" if found is not None else " done" if event.kind == "ok" else ""
    why = f" ({event.facts['reason']})" if "reason" in event.facts else ""
    return f"{_asked(asked)}{where}{ENDINGS[event.kind]}{why}"
