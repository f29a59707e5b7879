"""One fault as a plain value, and how a seed draws a list of them.

    faults = draw_faults(Random(7), kinds=("kill", "reset"), brokers=3, work_s=30.0, pause_s=2.0)
    run_seed(7, faults=faults[:3])                # any list may be run: dropped one by one, changed, written by hand

1. A fault says everything about itself: when (seconds after the clients began to work), what, which broker, for how
   long, and all that it would have to draw. So one can be left out without changing another.
2. What can only be chosen when it happens (one of the connections that are open then) is a number from 0 up to 1.
3. `line` and `read_fault` are its text: one line of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

from ottla.light_dataclasses import dataclass, replace

Parameter: TypeAlias = float | int | str | bool
Parameters: TypeAlias = tuple[tuple[str, Parameter], ...]

ENSEMBLE: Final = -1  # as the other side of a partition
LEADER: Final = "leader"  # the parameter of a fault that hits whoever leads then; `broker` when nobody does
PEERS: Final[Parameters] = (("from", "peers"),)
TAKES_AWAY: Final = ("kill", "stop", "power", "pause", "isolate")
BIT_ROT: Final = "bit-rot"
# Drawn apart from the others: seeds that became tests keep what they had drawn.
LATER_KINDS: Final = (BIT_ROT,)
CONTROLLER_KINDS: Final = (
    "controller-kill",
    "controller-cut",
    "controller-stop",
    "controller-power",
    "controller-pause",
    "controller-apart",
    "voter-kill",
    "voter-disk",
    "voter-apart",
    "voters-power",
)
"""Of clusters whose truth is the metadata log of controllers."""
LATER_PART: Final = 1 / 12  # of all seeds, for each of them
RECORDS: Final = "records"
ROT_PARTS: Final[Mapping[str, int]] = {  # what rots, see rot.py, and how often each is drawn
    RECORDS: 12,
    "offset-index": 2,
    "time-index": 1,
    "aborted-index": 1,
    "producers": 2,
    "epochs": 1,
    "tables": 2,
    "topic-id": 1,
    "position": 1,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """See the module."""

    at_s: float
    kind: str
    broker: int
    duration_s: float = 0.0
    parameters: Parameters = ()

    @property
    def named(self) -> dict[str, Parameter]:
        return dict(self.parameters)

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self.named.get(name, default))

    def line(self) -> str:
        return json.dumps([self.at_s, self.kind, self.broker, self.duration_s, self.named], sort_keys=True)

    def __str__(self) -> str:
        details = "".join(f" {name}={value}" for name, value in self.parameters)
        lasting = f" for {self.duration_s:g} s" if self.duration_s else ""
        return f"{self.kind} broker {self.broker}{lasting}{details}"


def read_fault(line: str) -> Fault:
    """The fault of a text."""
    at_s, kind, broker, duration_s, named = json.loads(line)
    return Fault(at_s, kind, broker, duration_s, tuple(sorted(named.items())))


def draw_faults(
    random: Random,
    *,
    kinds: Sequence[str],
    brokers: int,
    work_s: float,
    pause_s: float,
    scale: float = 1.0,
    aim: float = 0.0,
    chains: float = 0.0,
    session_s: float = 6.0,
) -> list[Fault]:
    """A fault every `pause_s` on average, for as long as the clients work; with a `scale` of 0.5 each lasts half as
    long. The part `aim` of them hits somebody who leads; the part `chains` begins a chain, see `_chain`."""
    faults: list[Fault] = []
    at_s = 0.0
    leaving_kinds = [kind for kind in kinds if kind in TAKES_AWAY]
    while kinds:
        at_s += pause_s * 2 * random.random()
        if at_s >= work_s:
            break
        if leaving_kinds and brokers > 1 and random.random() < chains:
            chain = _chain(random, at_s, leaving_kinds, brokers, session_s)
            faults += [fault for fault in chain if fault.at_s < work_s]
            at_s = chain[-1].at_s
            continue
        fault = _drawn(random, at_s, random.choice(list(kinds)), random.randrange(brokers), brokers)
        fault = replace(fault, duration_s=round(fault.duration_s * scale, 6))
        faults.append(_aimed(random, fault) if random.random() < aim else fault)
    return faults


def later_kinds(seed: int) -> tuple[str, ...]:
    """What the seed has beside the kinds of faults that were there first."""
    random = Random(f"later kinds {seed}")
    return tuple(kind for kind in LATER_KINDS if random.random() < LATER_PART)


def _chain(random: Random, at_s: float, leaving_kinds: Sequence[str], brokers: int, session_s: float) -> list[Fault]:
    """One broker after the other goes away, each at about the time at which the one before it is back, and for about
    as long as it takes until it is given up: who comes back meets nobody who has what it lacks. One of them may hear
    nothing of its peers meanwhile, and still be elected."""
    order = random.sample(range(brokers), brokers) * 2
    faults = []
    if "isolate" in leaving_kinds and random.random() < 0.5:
        whole_s = session_s * random.uniform(1.0, 5.0)
        faults.append(Fault(round(at_s, 6), "isolate", random.randrange(brokers), round(whole_s, 6), PEERS))
    for broker in order[: random.randint(2, 2 * brokers - 1)]:
        away_s = session_s * random.uniform(0.2, 2.5)
        fault = _drawn(random, at_s, random.choice(list(leaving_kinds)), broker, brokers)
        faults.append(replace(fault, duration_s=round(away_s, 6)))
        at_s += away_s * random.uniform(0.1, 1.1)
    return faults


def _aimed(random: Random, fault: Fault) -> Fault:
    """At the leader, at that time, of one of the partitions."""
    parameters = {**fault.named, LEADER: round(random.random(), 6)}
    return replace(fault, parameters=tuple(sorted(parameters.items())))


def _drawn(random: Random, at_s: float, kind: str, broker: int, brokers: int) -> Fault:
    longest_s = LONGEST_S[kind]
    duration_s = longest_s * random.random() ** 2  # mostly short, sometimes long
    parameters = DRAWN[kind](random, broker, brokers) if kind in DRAWN else {}
    return Fault(round(at_s, 6), kind, broker, round(duration_s, 6), tuple(sorted(parameters.items())))


def _pick(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"pick": round(random.random(), 6)}


def _one_way(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    """One direction between a broker and one other, which may be the ensemble, or all controllers."""
    others = [ENSEMBLE, *(number for number in range(brokers) if number != broker)]
    return {"other": random.choice(others), "is_incoming": random.random() < 0.5}


def _slow(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"weather": random.choice(("delayed", "narrow", "pieces"))}


def _jump(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    """By seconds up to a day, in either direction."""
    return {"jump_ms": round((random.random() - 0.5) * 10.0 ** random.randint(3, 8), 3)}


def _isolate(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    """Peers are the other brokers without the ensemble: such a broker is not given up, and hears of elections."""
    return {"from": random.choice(("peers", "peers", "brokers", "clients", "all"))}


def _strike(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    """Soon, or in the middle of the start that follows another fault."""
    return {"operations": random.randint(1, 10 ** random.randint(0, 3)), "away_s": round(3 * random.random(), 6)}


def _full(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"free_bytes": random.randint(0, 10 ** random.randint(0, 5))}


def _failing(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"operation": random.choice(("write", "sync", "sync_directory", "rename", "read", "open"))}


def _slow_disk(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"slow_s": random.choice((0.2, 1.0, 5.0))}


def _rate(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"rate": random.choice((0.8, 0.99, 1.01, 1.25))}


def _session(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"after_commit": random.random() < 0.5}


def _rot(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    """Which file and which byte of it can only be chosen when it happens."""
    (part,) = random.choices(list(ROT_PARTS), list(ROT_PARTS.values()))
    picks = {name: round(random.random(), 6) for name in ("topic", "file", "place", "byte")}
    how, down = random.choice(("bit", "bit", "byte", "zeros")), random.choice(("no", "no", "stop", "kill"))
    return {"part": part, "how": how, "bit": random.randrange(8), "down": down, **picks}


def _controller_kill(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"alone_s": round(random.choice((0.0, 0.3, 3.0)) * random.random(), 6)}


def _way(random: Random, broker: int, brokers: int) -> Mapping[str, Parameter]:
    return {"way": random.choice(("to", "from", "both", "both"))}


LONGEST_S: Final[Mapping[str, float]] = {
    "kill": 10.0,
    "restart": 0.0,  # killed, and started at once
    "stop": 5.0,
    "kill-at-disk": 10.0,
    "power": 10.0,
    "power-at-disk": 10.0,
    "power-all": 10.0,
    "pause": 15.0,
    "disk-full": 10.0,
    "disk-slow": 10.0,
    "disk-fail": 5.0,
    "wall-clock": 0.0,
    "clock-rate": 20.0,
    "session-loss": 0.0,
    "one-way": 15.0,
    "isolate": 15.0,
    "reset": 0.0,
    "half-open": 0.0,
    "hold": 30.0,
    "slow": 10.0,
    BIT_ROT: 5.0,  # the broker is down, in some of them
    "controller-kill": 8.0,
    "controller-cut": 15.0,
    "controller-stop": 5.0,
    "controller-power": 8.0,
    "controller-pause": 10.0,
    "controller-apart": 15.0,
    "voter-kill": 10.0,
    "voter-disk": 5.0,
    "voter-apart": 15.0,
    "voters-power": 8.0,
}
KINDS: Final = tuple(kind for kind in LONGEST_S if kind not in (*LATER_KINDS, *CONTROLLER_KINDS))
DRAWN: Final[Mapping[str, Callable[[Random, int, int], Mapping[str, Parameter]]]] = {
    "kill-at-disk": _strike,
    "power-at-disk": _strike,
    "disk-full": _full,
    "disk-slow": _slow_disk,
    "disk-fail": _failing,
    "wall-clock": _jump,
    "clock-rate": _rate,
    "session-loss": _session,
    "one-way": _one_way,
    "isolate": _isolate,
    "reset": _pick,
    "half-open": _pick,
    "hold": _pick,
    "slow": _slow,
    BIT_ROT: _rot,
    "controller-kill": _controller_kill,
    "controller-cut": _way,
    "controller-apart": _way,
    "voter-kill": _pick,
    "voter-disk": lambda *drawn: {**_pick(*drawn), **_failing(*drawn)},
    "voter-apart": lambda *drawn: {**_pick(*drawn), **_way(*drawn)},
}
