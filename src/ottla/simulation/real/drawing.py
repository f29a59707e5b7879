"""Which faults a seed draws for brokers in real time: the simulation's Fault values, with kinds that a proxy can do.

    faults = draw_real_faults(Random("faults 7"), kinds=("kill", "cut"), brokers=3, seconds=10.0)

| kind | what happens to the broker | parameters |
| --- | --- | --- |
| kill, restart | kill -9, and started again after a while, or at once | |
| stop | SIGTERM, as in a rolling restart | |
| pause | SIGSTOP, SIGCONT | |
| isolate | no bytes between it and the others, in both directions | from: brokers, clients, all |
| one-way | the same in one direction | from; is_incoming |
| slow | bytes are late, few, or in tiny pieces | weather: delayed, narrow, pieces |
| cut | one connection is reset after so many more bytes in one direction | pick, after_bytes, is_incoming |
| reset | one connection is reset now | pick |
| half-open | only one end of a connection learns that it is gone | pick, is_incoming |
| hold | one connection stalls in one direction | pick, is_incoming |

1. A fault says everything about itself, so a list of them may be shortened or written by hand (fault.py).
2. They are shorter than those of virtual time: somebody waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from ottla.simulation.fault import Fault, Parameter

PAUSE_S: Final = 1.0
SIDES: Final = ("brokers", "clients", "all")
LONGEST_S: Final[Mapping[str, float]] = {
    "kill": 3.0,
    "restart": 0.0,
    "stop": 2.0,
    "pause": 5.0,
    "isolate": 5.0,
    "one-way": 5.0,
    "slow": 4.0,
    "cut": 3.0,
    "reset": 0.0,
    "half-open": 0.0,
    "hold": 4.0,
}
REAL_KINDS: Final = tuple(LONGEST_S)


def draw_real_faults(
    random: Random, *, kinds: Sequence[str], brokers: int, seconds: float, pause_s: float = PAUSE_S
) -> list[Fault]:
    """A fault every `pause_s` on average, for so many seconds."""
    faults: list[Fault] = []
    at_s = 0.0
    while kinds:
        at_s += pause_s * 2 * random.random()
        if at_s >= seconds:
            break
        kind = random.choice(list(kinds))
        broker = random.randrange(brokers)
        duration_s = round(LONGEST_S[kind] * random.random() ** 2, 6)  # mostly short, sometimes long
        faults.append(Fault(round(at_s, 6), kind, broker, duration_s, _parameters(random, kind)))
    return faults


def _parameters(random: Random, kind: str) -> tuple[tuple[str, Parameter], ...]:
    drawn: dict[str, Parameter] = {name: DRAWN[name](random) for name in HAS.get(kind, ())}
    return tuple(sorted(drawn.items()))


DRAWN: Final[Mapping[str, Callable[[Random], Parameter]]] = {
    "pick": lambda random: round(random.random(), 6),
    "is_incoming": lambda random: random.random() < 0.5,
    "from": lambda random: random.choice(SIDES),
    "weather": lambda random: random.choice(("delayed", "narrow", "pieces")),
    "after_bytes": lambda random: random.randrange(10 ** random.randint(1, 5)),
}
HAS: Final[Mapping[str, Sequence[str]]] = {
    "isolate": ("from",),
    "one-way": ("from", "is_incoming"),
    "slow": ("weather",),
    "cut": ("pick", "after_bytes", "is_incoming"),
    "reset": ("pick",),
    "half-open": ("pick", "is_incoming"),
    "hold": ("pick", "is_incoming"),
}
